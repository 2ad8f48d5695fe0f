"""How honest a calibrator's confidences are, beside those of the one that served before."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from setwise.models.figures.chart import Axis, ChartFrame, chart, percent_ticks, round_ticks
from setwise.models.figures.marks import Band, Diagonal, LineMark, Mark
from setwise.models.figures.numerals import chance, plural
from setwise.models.results import ReliabilityCurve
from setwise.service.domain.recalibration.report import CalibrationReport
from setwise.service.pages.figures.table import Figure, FigureColumn, Kind, Value

NAME = "reliability"
_WHEN = ("before", "after")


def reliability(report: CalibrationReport) -> Figure:
    """Return the reliability diagram before and after, from a calibration's report."""
    halves = {"before": report.before.reliability, "after": report.after.reliability}
    curves = {when: curve for when, curve in halves.items() if curve is not None}
    needed = plural(report.after.needed or 0, "reviewed document")
    figure = Figure(
        NAME,
        "Is confidence calibrated?",
        "It is not known yet whether either calibrator is calibrated.",
        [
            FigureColumn("calibrator", Kind.TEXT),
            *(FigureColumn(name, Kind.SHARE) for name in ("confidence", "accuracy", "low", "high")),
        ],
        [row for when, curve in curves.items() for row in _rows(when, curve)],
        empty=f"It needs at least {needed}; there were {report.after.n:,}.",
        terms=("confidence", "calibrator"),
        legend=(
            ("waiting stroke", "before"),
            ("link stroke", "after"),
            ("link span", "where calibrated confidence would lie, after"),
        ),
        whole=True,
    )
    if not curves:
        return figure
    says = " ".join(_verdicts(curves))
    method = f"{_method(curves)} {_rows_say(report)}"
    frame = ChartFrame(
        Axis(0, 1, round_ticks(0, 1), "confidence"),
        Axis(0, 1, percent_ticks(0, 1), "share that is right"),
        width=760,
        height=380,
    )
    svg = chart(figure.name, figure.title, says, frame, _marks(curves))
    return replace(figure, says=says, method=method, svg=svg)


def _marks(curves: Mapping[str, ReliabilityCurve]) -> list[Mark]:
    marks: list[Mark] = [Diagonal()]
    if (after := curves.get("after")) is not None:
        marks.append(Band(after.confidence, after.low, after.high, "link"))
    for when, tone in zip(_WHEN, ("waiting", "link"), strict=True):
        if (curve := curves.get(when)) is not None:
            marks.append(LineMark([*zip(curve.confidence, curve.accuracy, strict=True)], tone))
    return marks


def _rows(when: str, curve: ReliabilityCurve) -> list[list[Value]]:
    places = zip(curve.confidence, curve.accuracy, curve.low, curve.high, strict=True)
    return [[when, *place] for place in places]


def _calibrated(curve: ReliabilityCurve) -> bool:
    """Return whether chance explains how far the curve strays from the diagonal."""
    return curve.p_value >= 1.0 - curve.level


def _verdicts(curves: Mapping[str, ReliabilityCurve]) -> Iterator[str]:
    for when, curve in curves.items():
        verdict = "yes, as far as these documents tell" if _calibrated(curve) else "no"
        yield f"{when.capitalize()}: {verdict}."


def _method(curves: Mapping[str, ReliabilityCurve]) -> str:
    sentences = []
    for when, curve in curves.items():
        how = (
            "stays where calibrated confidence would lie"
            if _calibrated(curve)
            else "strays further from the diagonal than chance explains: below it, sets are right "
            "less often than their confidence says; above it, more often"
        )
        sentences.append(f"{when.capitalize()}, the curve {how} (p {chance(curve.p_value)}).")
    return " ".join(sentences)


def _rows_say(report: CalibrationReport) -> str:
    """Say what the curves are drawn from, and whether that flatters the previous calibrator."""
    rows, unseen = report.after.n, report.comparison.n
    basis = f"Drawn from {plural(rows, 'document')}, each judged by a fit that has not seen it"
    if unseen < rows:
        return (
            f"{basis}; the previous calibrator was trained on {rows - unseen:,} of them, which "
            "flatters it."
        )
    return f"{basis}."
