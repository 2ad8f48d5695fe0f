"""The cockpit's figures on the work: what came in, was right, waits, and how sure it was.

Each takes the numbers and gives a figure, even where there is nothing to draw yet.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from setwise.models.figures.chart import (
    Axis,
    ChartFrame,
    Tick,
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
from setwise.models.figures.numerals import (
    chance,
    confidence,
    exactly,
    percent,
    plain,
    plural,
    span,
)
from setwise.service.domain.reports import FEW, UNDECIDED, Share
from setwise.service.pages.figures.table import Figure, FigureColumn, Kind, Value
from setwise.service.services.analysis.cockpit import Bin, Cockpit, Glance
from setwise.service.services.analysis.over_time import Granularity, PeriodCounts
from setwise.service.services.analysis.reliability import LEAST_CHECKED

SHARE, TEXT = Kind.SHARE, Kind.TEXT
ROUTES = (
    ("sent", "sent automatically"),
    ("audited", "held for an audit"),
    ("waiting", "to a reviewer"),
)
WIDE, HALF = 920, 560
LOW = 160
"""Height of a chart of the cockpit's first page, which fits one screen."""
FORECAST_DAYS = 7


def volume(seen: Glance) -> Figure:
    """Return how many documents went which way, by day or week."""
    figure = Figure(
        "volume",
        "Documents",
        _volume_says(seen),
        [
            FigureColumn(seen.pace.value, TEXT),
            *map(FigureColumn, ("sent", "audited", "reviewed")),
            FigureColumn("share_sent", SHARE),
        ],
        [
            [iso(row), row.sent, row.audited, row.reviewed, ratio(row.sent, row.documents)]
            for row in seen.rows
        ],
        empty="There were no documents in this period. Post one, or choose a longer period.",
        terms=("sent automatically", "audit"),
        legend=ROUTES,
        end_first=True,
    )
    if not seen.documents:
        return figure
    most = max(row.documents for row in seen.rows)
    bars = [
        _routes(place, place + 1, row, period_name(row, seen.pace))
        for place, row in enumerate(seen.rows)
    ]
    frame = ChartFrame(
        Axis(0, len(seen.rows), dates(seen.rows)),
        Axis(0, most, count_ticks(most), f"documents per {seen.pace}"),
        width=HALF,
        height=LOW,
    )
    return drawn(figure, frame, [Bars(bars)])


def _routes(start: float, end: float, counts: PeriodCounts | Bin, name: str) -> Bar:
    """Return the bar of documents by where they went."""
    parts = (counts.sent, "sent"), (counts.audited, "audited"), (counts.reviewed, "waiting")
    words = f"{counts.sent:,} sent, {counts.audited:,} audited, {counts.reviewed:,} to reviewers"
    return Bar(start, end, parts, f"{name}: {words}")


def _volume_says(seen: Glance) -> str:
    if not seen.documents:
        return "No documents yet."
    audited = sum(row.audited for row in seen.rows)
    reviewed = seen.documents - seen.sent - audited
    return (
        f"{plural(seen.documents, 'document')} received: {seen.sent:,} sent automatically "
        f"({percent(ratio(seen.sent, seen.documents))}), {reviewed:,} left to reviewers, and "
        f"{audited:,} confident enough to be sent but held for an audit."
    )


def accuracy(seen: Glance) -> Figure:
    """Return how right the confident sets were, by weeks."""
    known = [week for week in enumerate(seen.weeks) if week[1].accuracy.value is not None]
    figure = Figure(
        "accuracy",
        "Accuracy of what was sent",
        _accuracy_says(seen),
        [
            FigureColumn("week", TEXT),
            *map(FigureColumn, ("checked", "right", "agreed", "reread", "overlooked")),
            *(FigureColumn(name, SHARE) for name in ("accuracy", "low", "high", "promised")),
        ],
        [
            [
                iso(row),
                row.accuracy.checked,
                row.accuracy.right,
                row.accuracy.agreed,
                row.accuracy.reread,
                row.accuracy.overlooked,
                *bounded(row.accuracy),
                row.promised,
            ]
            for row in seen.weeks
        ],
        method=_accuracy_method(seen),
        empty=_accuracy_empty(seen),
        terms=("accuracy", "audit", "checked"),
        legend=(
            ("sent", "accuracy, with its bounds"),
            *FEW_CHECKS,
            ("link stroke", "what the confidences promise"),
            ("warn stroke", "target"),
        ),
        end_first=True,
    )
    if not known:
        return figure
    target = seen.policy.target_accuracy
    promises = [
        (place, row.promised) for place, row in enumerate(seen.weeks) if row.promised is not None
    ]
    least = min(*(row.accuracy.low or 0.0 for _, row in known), *(y for _, y in promises), target)
    floor = max(0.0, least - 0.05)
    marks: list[Mark] = [
        *intervals(
            [
                (place + 0.5, period_name(row, Granularity.WEEK), row.accuracy)
                for place, row in known
            ],
            "sent",
        ),
        *(LineMark([(place + 0.15, y), (place + 0.85, y)], "link") for place, y in promises),
        # On top, where its label can be read, and away from the newest week.
        RuleMark(target, "warn", f"target {exactly(target)}", level=True, left=True, below=True),
    ]
    frame = ChartFrame(
        Axis(0, len(seen.weeks), dates(seen.weeks), "week from"),
        Axis(floor, 1.0, percent_ticks(floor, 1.0)),
        width=HALF,
        height=LOW,
    )
    return drawn(figure, frame, marks)


def undecided(seen: Glance) -> str:
    """Say how many contradictions wait for a lead, and how they count."""
    if not seen.undecided:
        return ""
    waits = plural(seen.undecided, "contradiction")
    counts = "counts" if seen.undecided == 1 else "count"
    return f"; {waits} that a lead has yet to decide {counts} as wrong"


def _accuracy_empty(seen: Glance) -> str:
    audits = seen.asked.audits
    if audits.certification_rate or audits.training_rate:
        return (
            "None of the sets that were confident enough to be sent has been checked. Audits are "
            "drawn; their results appear here once a reviewer has submitted one."
        )
    return (
        "None of the sets that were confident enough to be sent has been checked. Ask an "
        "administrator to draw audits in the policy; certification audits of 5 % are a good start."
    )


def right_enough(seen: Glance) -> str:
    """Say whether what was sent meets the target, and how far checks can tell."""
    target, share = exactly(seen.policy.target_accuracy), seen.accuracy
    if share.value is None:
        return "Unknown: no audit has been completed."
    answer = {
        True: f"Yes: even the lower bound meets the target of {target}.",
        False: f"No: even the upper bound misses the target of {target}.",
        None: f"Cannot tell yet: the target of {target} lies between the bounds.",
    }[seen.met]
    basis = "" if seen.drawn else " Outcomes are not drawn at random."
    return f"{answer}{basis}{few_checks(share)}"


def promise(seen: Glance) -> str:
    """Say which accuracy the confidences promise, and whether checks contradict it."""
    if seen.promised is None:
        return ""
    says = f"The confidences promise {percent(seen.promised)}"
    if seen.promise_holds is not False:
        return f"{says}."
    than = "more" if seen.promised > (seen.accuracy.high or 0.0) else "less"
    return f"{says}, {than} than the checks allow."


def few_checks(share: Share) -> str:
    """Say so if an estimate rests on few checks; otherwise return nothing."""
    return f" Only {plural(share.checked, 'check')}: the bounds are wide." if share.few else ""


def _accuracy_says(seen: Glance) -> str:
    share = seen.accuracy
    if share.value is None:
        return (
            "Nothing was sent in this period."
            if not seen.sent
            else "What was sent has not been checked, so its accuracy is unknown."
        )
    return (
        f"{percent(share.value)} of the sets that were confident enough to be sent are right, at "
        f"least {percent(share.low)}.{few_checks(share)}"
    )


def _accuracy_method(seen: Glance) -> str:
    share = seen.accuracy
    if share.value is None:
        return ""
    basis = (
        f"By {plural(share.checked, 'audit')} drawn at random, each counted for the documents that "
        "it represents"
        if seen.drawn
        else f"By {plural(share.checked, 'reported outcome')}, not drawn at random"
    )
    return (
        f"{basis}. The true share lies above {percent(share.low)} and below "
        f"{percent(share.high)}, each with {exactly(1 - seen.asked.risk)} confidence. Unchecked "
        f"sets do not count. {promise(seen)}"
        + (f" {share.correction}" if share.correction else "")
        + (f" {UNDECIDED} Waiting for a lead: {seen.undecided:,}." if seen.undecided else "")
    )


def backlog(seen: Cockpit) -> Figure:
    """Return how many tasks waited, and how it will go on."""
    figure = Figure(
        "queue",
        "Queue",
        _queue_says(seen),
        [
            FigureColumn(seen.pace.value, TEXT),
            *map(FigureColumn, ("arrived", "submitted", "waiting")),
        ],
        [[iso(row), row.arrived, row.completed, row.backlog] for row in seen.rows],
        empty="Nothing has waited for a reviewer in this period.",
        legend=(("waiting stroke", "waiting at the end"), ("quiet stroke", "forecast")),
        end_first=True,
    )
    if not any(row.backlog or row.arrived for row in seen.rows):
        return figure
    n, last = len(seen.rows), seen.rows[-1].backlog
    step = (seen.queue.arriving - seen.queue.completing) * seen.pace.days
    ahead = max(1, FORECAST_DAYS // seen.pace.days)
    future = [(n - 0.5 + k, max(0.0, last + k * step)) for k in range(ahead + 1)]
    points = [(place + 0.5, float(row.backlog)) for place, row in enumerate(seen.rows)]
    most = max(height for _, height in [*points, *future]) or 1.0
    marks: list[Mark] = [
        Band([x for x, _ in points], [0.0] * n, [height for _, height in points], "waiting"),
        LineMark(points, "waiting"),
        LineMark(future, "quiet dashed"),
        RuleMark(n - 0.5, "quiet", "now"),
    ]
    frame = ChartFrame(
        Axis(0, n + ahead, dates(seen.rows)),
        Axis(0, most, count_ticks(most), "tasks waiting"),
        width=HALF,
    )
    return drawn(figure, frame, marks)


def _queue_says(seen: Cockpit) -> str:
    queue = seen.queue
    if not queue.waiting:
        return "The queue is empty."
    waits = plural(queue.waiting, "task waits", "tasks wait")
    waits = f"{waits}, the oldest for {span(queue.oldest_s)}."
    if not queue.arriving and not queue.completing:
        return (
            f"{waits} In the {queue.over} days before today no tasks arrived and none were "
            "submitted, so there is no forecast."
        )
    pace = (
        f"In the {queue.over} days before today, {plain(queue.arriving)} per day arrived and "
        f"{plain(queue.completing)} per day were submitted"
    )
    empty = queue.empty_in_days
    end = (
        "so the queue does not shrink unless more people review."
        if empty is None
        else f"so the queue is empty in about {plural(max(1, round(empty)), 'day')}."
    )
    return f"{waits} {pace}, {end}"


def _retrained(seen: Cockpit) -> str:
    """Say whether retraining helps, as far as the paired test knows."""
    if seen.calibrator is None:
        return "Retrain the calibrator: a paired test then says whether it is better."
    return f"The newest calibrator, compared with the one before it, is {seen.calibrator}."


def reliability(seen: Cockpit) -> Figure:
    """Return how well confidence agrees with being right."""
    curve = seen.reliability
    figure = Figure(
        "reliability",
        "Is confidence calibrated?",
        "Too few documents have been checked to tell whether confidence is calibrated.",
        [FigureColumn(name, SHARE) for name in ("confidence", "accuracy", "low", "high")],
        [],
        empty=(
            f"{plural(seen.checked, 'document')} checked so far; the curve needs at least "
            f"{LEAST_CHECKED}. Reviews, audits and reported outcomes all count."
        ),
        terms=("confidence", "calibrator"),
        legend=(
            ("link stroke", "accuracy at each confidence"),
            ("link span", "where calibrated confidence would lie"),
        ),
    )
    if curve is None:
        return figure
    agrees = curve.p_value >= 1.0 - curve.level
    p = f"(p {chance(curve.p_value)})"
    says = f"The curve is drawn from {plural(curve.checked, 'checked document')}. " + (
        f"It stays where calibrated confidence would lie {p}: at 90 %, nine in ten are right."
        if agrees
        else f"It leaves the band by more than chance explains {p}: where it runs below the "
        f"diagonal, sets are right less often than their confidence says. {_retrained(seen)}"
    )
    says = " ".join(filter(None, (curve.judgement, says)))
    rows: list[list[Value]] = [
        [*row] for row in zip(curve.confidence, curve.accuracy, curve.low, curve.high, strict=True)
    ]
    shares = percent_ticks(0, 1)
    frame = ChartFrame(
        Axis(0, 1, round_ticks(0, 1), "confidence"),
        Axis(0, 1, shares, "share that is right"),
        width=HALF,
        height=340,
    )
    marks: list[Mark] = [
        Diagonal(),
        Band(curve.confidence, curve.low, curve.high, "link"),
        LineMark([*zip(curve.confidence, curve.accuracy, strict=True)], "link"),
    ]
    return drawn(replace(figure, says=says, rows=rows), frame, marks)


def histogram(seen: Cockpit) -> Figure:
    """Return how many documents had which confidence, and where they went."""
    figure = Figure(
        "confidence",
        "Confidence",
        _histogram_says(seen),
        [
            FigureColumn("from", Kind.CONFIDENCE, "Confidence from"),
            FigureColumn("to", Kind.CONFIDENCE, "up to"),
            *map(FigureColumn, ("sent", "audited", "reviewed")),
        ],
        [[step.low, step.high, step.sent, step.audited, step.reviewed] for step in seen.histogram],
        empty="There were no documents in this period.",
        terms=("confidence", "threshold"),
        legend=ROUTES,
        end_first=True,
    )
    if not seen.documents:
        return figure
    most = max(step.sent + step.audited + step.reviewed for step in seen.histogram)
    bars = [
        _routes(step.low, step.high, step, f"confidence {step.low:g} to {step.high:g}")
        for step in seen.histogram
    ]
    marks: list[Mark] = [Bars(bars, gap=0.08)]
    if seen.threshold is not None:
        marks.append(RuleMark(seen.threshold, "link", f"threshold {confidence(seen.threshold)}"))
    frame = ChartFrame(
        Axis(0, 1, round_ticks(0, 1), "confidence"),
        # The label of the threshold stands above the bars.
        Axis(0, 1.1 * most, count_ticks(most), "documents"),
        width=HALF,
        height=340,
    )
    return drawn(figure, frame, marks)


def _histogram_says(seen: Cockpit) -> str:
    if not seen.documents:
        return "No documents yet."
    sure = sum(
        step.sent + step.audited + step.reviewed
        for step in seen.histogram
        if step.low >= 0.9 - 1e-9
    )
    unsure = sum(
        step.sent + step.audited + step.reviewed
        for step in seen.histogram
        if step.high <= 0.5 + 1e-9
    )
    says = (
        f"The model was at least 90 % confident on {percent(ratio(sure, seen.documents), 0)} of "
        f"the documents and less than 50 % confident on {percent(ratio(unsure, seen.documents), 0)}"
    )
    return f"{says}: these need reviewers most." if unsure else f"{says}."


# What the figures share


def drawn(
    figure: Figure, frame: ChartFrame, marks: Sequence[Mark], *, on_right: Sequence[Mark] = ()
) -> Figure:
    """Return the figure with its chart."""
    svg = chart(figure.name, figure.title, figure.says, frame, marks, on_right=on_right)
    return replace(figure, svg=svg)


FEW_CHECKS = (("quiet", f"the same from fewer than {FEW} checks"),)
"""Legend of what `intervals` draws in grey."""


def intervals(
    rows: Sequence[tuple[float, str, Share]], tone: str, *, lying: bool = False
) -> list[Mark]:
    """Return estimates with their bounds, in grey where few checks are behind them.

    ``rows``: Place, name and estimate, which is known.
    """
    return [
        Intervals(
            [
                (place, row.value or 0.0, row.low or 0.0, 1.0 if row.high is None else row.high)
                for place, _, row in rows
                if row.few is few
            ],
            "quiet" if few else tone,
            [
                f"{name}: {percent(row.value)}, between {percent(row.low)} and "
                f"{percent(row.high)}; {row.right} of {plural(row.checked, 'check')} right, "
                f"{plural(row.reread, 'agreement')} read again"
                for _, name, row in rows
                if row.few is few
            ],
            lying,
        )
        for few in (True, False)
    ]


def ratio(part: int, whole: int) -> float | None:
    """Return a share; None of nothing."""
    return part / whole if whole else None


def bounded(share: Share) -> tuple[float | None, float | None, float | None]:
    """Return an estimate with its bounds."""
    return share.value, share.low, share.high


def iso(row: PeriodCounts) -> str:
    """Return the first day of a row."""
    return row.start.isoformat()


def period_name(row: PeriodCounts, pace: Granularity) -> str:
    """Name the days of a row."""
    return _short(row.start) if pace is Granularity.DAY else f"week from {_short(row.start)}"


def _short(day: date) -> str:
    return f"{day.day} {day:%b}"


def dates(rows: Sequence[PeriodCounts]) -> list[Tick]:
    """Return the first days of rows on an axis."""
    return [(place + 0.5, _short(row.start)) for place, row in enumerate(rows)]
