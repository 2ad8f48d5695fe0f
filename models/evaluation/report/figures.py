"""The report's charts, each with its sentence."""

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from setwise.models.evaluation.report.findings import ModelFindings, SizeAccuracy
from setwise.models.figures.chart import (
    Axis,
    ChartFrame,
    chart,
    count_ticks,
    percent_ticks,
    round_ticks,
)
from setwise.models.figures.marks import (
    Band,
    Bar,
    Bars,
    Diagonal,
    Intervals,
    LineMark,
    Mark,
    RuleMark,
)
from setwise.models.figures.numerals import chance, confidence, percent, plural
from setwise.models.guarantees.binomial import lower_bound, upper_bound
from setwise.models.guarantees.certificates import Certificate

N_BINS = 20
N_GROUPS = 10
"""Groups of documents with similar confidences, of equal number."""

_WIDTH, _HEIGHT = 324, 270
"""The size of a chart: whole on a phone, and three beside each other on a desk."""

_RISK = 0.05  # of each bound
_FEWEST = 20  # documents sent, below which the accuracy is not drawn
_MOST_POINTS = 200


@dataclass(frozen=True)
class ReportFigure:
    """A chart, its heading and what it means; ``legend`` has classes and words."""

    title: str
    says: str
    svg: Markup
    legend: tuple[tuple[str, str], ...] = ()


def reliability(findings: ModelFindings, name: str) -> ReportFigure | None:
    """Return the reliability diagram; None without a curve."""
    curve = findings.curve
    if curve is None:
        return None
    order = np.argsort(findings.confidence, kind="stable")
    rows, says = [], []
    for group in np.array_split(order, N_GROUPS):
        n, right = len(group), int(findings.right[group].sum())
        mean = float(findings.confidence[group].mean())
        low, high = (float(bound(right, n, _RISK)) for bound in (lower_bound, upper_bound))
        rows.append((mean, right / n, low, high))
        says.append(
            f"{plural(n, 'document')} at a confidence of {confidence(mean)}: {percent(right / n)} "
            f"right, between {percent(low)} and {percent(high)}"
        )
    honest = curve.p_value >= 1.0 - curve.level
    sentence = (
        "The confidence is what it says: chance alone explains where the line leaves the diagonal"
        if honest
        else "The line strays further from the diagonal than chance explains: below it, sets are "
        "right less often than their confidence says, above it more often"
    )
    marks: list[Mark] = [
        Diagonal(),
        Band(curve.confidence, curve.low, curve.high, "link"),
        LineMark([*zip(curve.confidence, curve.accuracy, strict=True)], "link"),
        Intervals(rows, "waiting", says),
    ]
    return _figure(
        name,
        "Is the confidence calibrated?",
        f"{sentence} (p {chance(curve.p_value)}).",
        ChartFrame(
            Axis(0, 1, round_ticks(0, 1), "confidence"),
            Axis(0, 1, percent_ticks(0, 1), "share that is right"),
            width=_WIDTH,
            height=_HEIGHT,
        ),
        marks,
        legend=(
            ("link stroke", "share that is right"),
            ("link span", "where honest confidences would lie"),
            ("waiting", f"tenths of the documents, with {percent(1 - 2 * _RISK, 0)} bounds"),
        ),
    )


def sending(findings: ModelFindings, name: str, target: float) -> ReportFigure:
    """Return how right the sets are if only the most confident are sent."""
    order = np.argsort(-findings.confidence, kind="stable")
    right = np.cumsum(findings.right[order])
    # A threshold sends all documents of one confidence.
    ends = np.append(np.diff(findings.confidence[order]) != 0, True)
    sent = np.flatnonzero(ends) + 1
    shown = sent[sent >= _FEWEST] if (sent >= _FEWEST).any() else sent[-1:]
    shown = shown[np.unique(np.linspace(0, len(shown) - 1, _MOST_POINTS).astype(int))]
    share, accuracy = shown / len(order), right[shown - 1] / shown
    low = lower_bound(right[shown - 1], shown, _RISK)
    high = upper_bound(right[shown - 1], shown, _RISK)
    bottom = max(0.0, min(float(low.min()), target) - 0.05)
    marks: list[Mark] = [
        Band(share.tolist(), low.tolist(), high.tolist(), "link"),
        LineMark([*zip(share.tolist(), accuracy.tolist(), strict=True)], "link"),
        RuleMark(target, "good", f"target {percent(target)}", level=True, left=True),
    ]
    proof = findings.proof
    if isinstance(proof, Certificate):
        marks.append(RuleMark(proof.coverage, "good", f"from {confidence(proof.threshold)} up"))
    return _figure(
        name,
        "How much can be sent?",
        " ".join(str(proof).split("\n")),
        ChartFrame(
            Axis(0, 1, percent_ticks(0, 1), "share of the documents that is sent"),
            Axis(bottom, 1, percent_ticks(bottom, 1), "share of them that is right"),
            width=_WIDTH,
            height=_HEIGHT,
        ),
        marks,
        legend=(
            ("link stroke", "share that is right"),
            ("link span", f"{percent(1 - 2 * _RISK, 0)} bounds, point by point"),
            ("good stroke", "target, and what is proved to reach it"),
        ),
    )


def histogram(findings: ModelFindings, name: str) -> ReportFigure:
    """Return how many sets of each confidence are right and wrong."""
    place = np.minimum((findings.confidence * N_BINS).astype(int), N_BINS - 1)
    right = np.bincount(place, weights=findings.right, minlength=N_BINS).astype(int)
    wrong = np.bincount(place, minlength=N_BINS) - right
    most = int((right + wrong).max())
    bars = [
        Bar(
            k / N_BINS,
            (k + 1) / N_BINS,
            ((good, "sent"), (bad, "skipped")),
            f"{confidence(k / N_BINS)} to {confidence((k + 1) / N_BINS)}: {good:,} right, "
            f"{bad:,} wrong",
        )
        for k, (good, bad) in enumerate(zip(right.tolist(), wrong.tolist(), strict=True))
    ]
    return _figure(
        name,
        "Which confidences occur?",
        str(findings.metrics.judgement),
        ChartFrame(
            Axis(0, 1, round_ticks(0, 1), "confidence"),
            Axis(0, most, count_ticks(most), "documents"),
            width=_WIDTH,
            height=_HEIGHT,
        ),
        [Bars(bars)],
        legend=(("sent", "right"), ("skipped", "wrong")),
    )


def sizes(findings: ModelFindings, name: str) -> ReportFigure:
    """Return how right sets are by how many labels they have."""
    known = findings.sizes
    rows = [
        (
            each.size,
            each.n_right / each.n,
            float(lower_bound(each.n_right, each.n, _RISK)),
            float(upper_bound(each.n_right, each.n, _RISK)),
        )
        for each in known
    ]
    commonest = max(known, key=_n)
    return _figure(
        name,
        "Does the size of a set matter?",
        f"Most sets have {plural(commonest.size, 'label')} ({commonest.n:,} of "
        f"{findings.metrics.n:,}); {percent(commonest.n_right / commonest.n)} of these are right.",
        ChartFrame(
            Axis(
                known[0].size - 0.5,
                known[-1].size + 0.5,
                [(each.size, str(each.size)) for each in known],
                "predicted labels",
            ),
            Axis(0, 1, percent_ticks(0, 1), "share that is right"),
            width=_WIDTH,
            height=_HEIGHT,
        ),
        [
            Intervals(
                rows,
                "completed",
                [
                    f"{plural(each.size, 'label')}: {each.n_right:,} of {each.n:,} right, between "
                    f"{percent(low)} and {percent(high)}"
                    for each, (_, _, low, high) in zip(known, rows, strict=True)
                ],
            )
        ],
        legend=(("completed", f"share that is right, with {percent(1 - 2 * _RISK, 0)} bounds"),),
    )


def _n(each: SizeAccuracy) -> int:
    return each.n


def _figure(
    name: str,
    title: str,
    says: str,
    frame: ChartFrame,
    marks: list[Mark],
    *,
    legend: tuple[tuple[str, str], ...],
) -> ReportFigure:
    return ReportFigure(title, says, chart(name, title, says, frame, marks), legend)
