"""The cockpit's figures on what goes wrong: labels, sources, sizes; and on what watches."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from setwise.models.figures.chart import (
    Axis,
    ChartFrame,
    count_ticks,
    percent_ticks,
    round_ticks,
)
from setwise.models.figures.marks import Intervals, LineMark, Mark, RowsMark, RuleMark
from setwise.models.figures.numerals import on_axis, percent, plain, plural
from setwise.service.domain.breaker import BreakerState, Position
from setwise.service.pages.figures.table import Figure, FigureColumn, Kind
from setwise.service.pages.figures.work import (
    FEW_CHECKS,
    HALF,
    SHARE,
    TEXT,
    bounded,
    drawn,
    intervals,
)
from setwise.service.services.analysis.cockpit import Cockpit
from setwise.service.services.analysis.mistakes import GroupErrors
from setwise.service.services.analysis.noise import GroupReport

_ROW = 24
"""Height of a row of a lying chart, in units of the picture."""

_PAIR_ROW = 38
"""The same where the name stands above its bar."""

_LONGEST_NAME, _LONGEST_PAIR = 32, 80

_UNCHECKED = "No document in this period has been checked yet."


def labels(seen: Cockpit) -> Figure:
    """Return the labels with most errors."""
    mistakes = seen.mistakes
    figure = Figure(
        "labels",
        "Labels with the most errors",
        _labels_says(seen),
        [FigureColumn("label", TEXT), *map(FigureColumn, ("missed", "added", "documents_with_it"))],
        [[label.label, label.missing, label.extra, label.n_either] for label in mistakes.labels],
        empty=_no_errors(seen),
        legend=(("waiting", "missed"), ("skipped", "added wrongly")),
    )
    if not mistakes.labels:
        return figure
    most = max(label.missing + label.extra for label in mistakes.labels)
    rows = RowsMark(
        [_cut(label.label) for label in mistakes.labels],
        [((label.missing, "waiting"), (label.extra, "skipped")) for label in mistakes.labels],
        [
            f"{label.label}: missed {label.missing}, added wrongly {label.extra}, of "
            f"{plural(label.n_either, 'document')} with it"
            for label in mistakes.labels
        ],
    )
    axis = Axis(0, most, count_ticks(most), "checked documents")
    return drawn(figure, _lying(axis, [label.label for label in mistakes.labels]), [rows])


def _lying(axis: Axis, names: Sequence[str]) -> ChartFrame:
    """Return the frame of a lying chart with a row for each name."""
    n, room = len(names), 16 + round(6.4 * max(len(_cut(name)) for name in names))
    return ChartFrame(axis, Axis(n, 0, ()), width=HALF, height=n * _ROW + 62, left=room)


def _labels_says(seen: Cockpit) -> str:
    mistakes = seen.mistakes
    if not mistakes.checked:
        return _UNCHECKED
    if not mistakes.labels:
        return "No label was wrong in the checked documents."
    first = mistakes.labels[0]
    return (
        f"Of the documents checked most recently ({mistakes.checked:,}), {mistakes.wrong:,} had a "
        f"wrong set. “{first.label}” was wrong most often: missed "
        f"{plural(first.missing, 'time')}, added {plural(first.extra, 'time')}."
    )


def pairs(seen: Cockpit) -> Figure:
    """Return which label was given in place of which."""
    pairs = seen.mistakes.pairs
    figure = Figure(
        "pairs",
        "Labels confused with each other",
        _UNCHECKED
        if not seen.mistakes.checked
        else "No label was given instead of another."
        if not pairs
        else f"“{pairs[0].predicted}” was given where “{pairs[0].right}” was right in "
        f"{plural(pairs[0].documents, 'document')}; pairs that are confused often may need clearer "
        "guidance, or more examples.",
        [
            FigureColumn("predicted", TEXT),
            FigureColumn("right_instead", TEXT),
            FigureColumn("documents"),
        ],
        [[pair.predicted, pair.right, pair.documents] for pair in pairs],
        empty=_no_errors(seen),
        legend=(("skipped", "documents with the first instead of the second"),),
    )
    if not pairs:
        return figure
    names = [f"{pair.predicted} → {pair.right}" for pair in pairs]
    most, n = max(pair.documents for pair in pairs), len(pairs)
    rows = RowsMark(
        [_cut(name, _LONGEST_PAIR) for name in names],
        [((pair.documents, "skipped"),) for pair in pairs],
        [
            f"{name}: {plural(pair.documents, 'document')}"
            for name, pair in zip(names, pairs, strict=True)
        ],
        above=True,
    )
    frame = ChartFrame(
        Axis(0, most, count_ticks(most), "checked documents"),
        Axis(n, 0, ()),
        width=HALF,
        height=n * _PAIR_ROW + 62,
        left=8,
    )
    return drawn(figure, frame, [rows])


def sources(seen: Cockpit) -> Figure:
    """Return how right the machine is by client and by what documents carry along."""
    return _by_group(seen, "Sources", "sources", seen.mistakes.sources, _source)


def sizes(seen: Cockpit) -> Figure:
    """Return how right the machine is by how many labels it gives."""
    return _by_group(seen, "Size of the label set", "sizes", seen.mistakes.sizes, _size)


_GROUP_COLUMNS = [
    FigureColumn("value", TEXT),
    FigureColumn("field", TEXT),
    *map(FigureColumn, ("checked", "right")),
    *(FigureColumn(name, SHARE) for name in ("accuracy", "low", "high")),
]


def _source(group: GroupErrors) -> str:
    return f"{group.field}: {group.value}"


def _size(group: GroupErrors) -> str:
    return plural(int(group.value), "label")


def _groups_says(groups: Sequence[GroupErrors], name_of: Callable[[GroupErrors], str]) -> str:
    known = [group for group in groups if group.accuracy.value is not None]
    if not known:
        return _UNCHECKED
    if len(known) == 1:
        share = known[0].accuracy
        return (
            f"All checked documents are “{name_of(known[0])}”: {percent(share.value)} of their "
            f"sets are right (between {percent(share.low)} and {percent(share.high)})."
        )
    worst = _worst(known)
    best = max(known, key=lambda group: group.accuracy.low or 0.0)
    share = worst.accuracy
    apart = (share.high or 1.0) < (best.accuracy.low or 0.0)
    return (
        f"Accuracy is lowest for “{name_of(worst)}”: {percent(share.value)} (between "
        f"{percent(share.low)} and {percent(share.high)}). "
        + (
            f"This is below the bounds of “{name_of(best)}”, so look into it; a rule of "
            "the policy can hold such documents back."
            if apart
            else "The bounds overlap: chance alone may explain the differences."
        )
    )


def _worst(known: Sequence[GroupErrors]) -> GroupErrors:
    return min(known, key=lambda group: group.accuracy.value or 0.0)


def _by_group(
    seen: Cockpit,
    heading: str,
    name: str,
    groups: Sequence[GroupErrors],
    named: Callable[[GroupErrors], str],
) -> Figure:
    figure = Figure(
        name,
        heading,
        _groups_says(groups, named),
        _GROUP_COLUMNS,
        [
            [
                group.value,
                group.field,
                group.accuracy.checked,
                group.accuracy.right,
                *bounded(group.accuracy),
            ]
            for group in groups
        ],
        empty=_no_errors(seen),
        terms=("accuracy", "checked"),
        legend=(("completed", "accuracy before corrections, with its bounds"), *FEW_CHECKS),
    )
    known = [group for group in groups if group.accuracy.value is not None]
    if not known:
        return figure
    figure = replace(figure, method=_worst(known).accuracy.correction)
    names = [named(group) for group in known]
    marks: list[Mark] = [
        _only_names(names),
        *intervals(
            [
                (place + 0.5, name, group.accuracy)
                for place, (name, group) in enumerate(zip(names, known, strict=True))
            ],
            "completed",
            lying=True,
        ),
    ]
    axis = Axis(0, 1, percent_ticks(0, 1), "share of sets that is right")
    return drawn(figure, _lying(axis, names), marks)


def _only_names(names: Sequence[str]) -> RowsMark:
    return RowsMark([_cut(name) for name in names], [()] * len(names), [""] * len(names))


def breaker(state: BreakerState) -> Figure:
    """Return what the breaker watches: how much speaks against the target."""
    watch = state.watch
    figure = Figure(
        "breaker",
        "Breaker",
        _breaker_says(state),
        [FigureColumn("audit"), FigureColumn("right", TEXT), FigureColumn("evidence", Kind.NUMBER)],
        [
            [place + 1, {True: "yes", False: "no", None: "not finished"}[audit.right], value]
            for place, (audit, value) in enumerate(zip(watch.audits, watch.path, strict=True))
        ],
        empty="No audit of what is sent has been completed yet; the breaker watches them all.",
        terms=("breaker", "audit"),
        legend=(("completed stroke", "evidence against the target"), ("bad stroke", "alarm")),
    )
    if not watch.path:
        return figure
    # Evidence multiplies; what lies below 0.01 is as good as none.
    heights = [math.log10(max(value, 0.01)) for value in watch.path]
    alarm = math.log10(watch.run_length)
    n = len(heights)
    frame = ChartFrame(
        Axis(0, n, round_ticks(0, n), "audits, in the order of the documents"),
        Axis(
            -2,
            alarm + 0.4,
            [(power, on_axis(10.0**power)) for power in range(-2, math.floor(alarm) + 1)],
            "evidence against the target",
        ),
        width=HALF,
        left=64,
    )
    marks: list[Mark] = [
        RuleMark(alarm, "bad", f"alarm at {plain(watch.run_length)}", level=True),
        LineMark([(place + 1, height) for place, height in enumerate(heights)], "completed"),
    ]
    return drawn(figure, frame, marks)


def _breaker_says(state: BreakerState) -> str:
    watch = state.watch
    counts = watch.counts()
    if not counts.audits and watch.position is not Position.TRIPPED:
        return (
            "Nothing is sent automatically, so there is nothing to watch."
            if watch.position is Position.IDLE
            else "Sending is on. No audit has been completed since the breaker was last reset."
        )
    seen = (
        f"Audits since the last reset: {counts.right:,} right, {counts.wrong:,} wrong, "
        f"{counts.unfinished:,} incomplete."
    )
    match watch.position:
        case Position.TRIPPED:
            cause = state.trip.cause.value if state.trip else "drift"
            return (
                f"Automatic sending has stopped ({cause}). {seen} An administrator can resume it "
                "once new audits confirm the target."
            )
        case Position.IDLE:
            return f"Nothing is sent automatically, so there is nothing to watch. {seen}"
        case Position.WATCHING:
            return (
                f"Sending is on. {seen} The probability of a false alarm among them is at most "
                f"{percent(state.false_alarm_bound)}."
            )


def noise(groups: Sequence[GroupReport]) -> Figure:
    """Return how often the answers of each group are wrong, as far as leads have decided."""
    rates = [
        (name, rate, meaning, share)
        for name, group in _estimates(groups)
        if group.estimate is not None
        for rate, meaning, share in (
            ("alpha", "right rejected", group.estimate.alpha),
            ("beta", "wrong accepted", group.estimate.beta),
        )
    ]
    figure = Figure(
        "noise",
        "Reviewers' error rates",
        _noise_says(groups),
        [
            FigureColumn("group", TEXT),
            FigureColumn("rate", TEXT),
            *(FigureColumn(name, SHARE) for name in ("estimate", "low", "high")),
            FigureColumn("decided_by_leads"),
        ],
        [
            [group, name, rate.estimate, rate.low, rate.high, rate.n]
            for group, name, _, rate in rates
        ],
        empty=(
            "No lead has decided an audit yet. Audits, and the share of them that is read "
            "again, are set in the policy."
        ),
        terms=("audit", "checked"),
        legend=(("leased", "estimate, with its interval"),),
    )
    if not rates:
        return figure
    names = [f"{group}: {meaning}" for group, _, meaning, _ in rates]
    marks: list[Mark] = [
        _only_names(names),
        Intervals(
            [(k + 0.5, rate.estimate, rate.low, rate.high) for k, (*_, rate) in enumerate(rates)],
            "leased",
            [
                f"{name}: {percent(rate.estimate)}, between {percent(rate.low)} and "
                f"{percent(rate.high)}, from {plural(rate.n, 'decision')}"
                for name, (*_, rate) in zip(names, rates, strict=True)
            ],
            lying=True,
        ),
    ]
    most = min(1.0, 1.1 * max(rate.high for *_, rate in rates))
    axis = Axis(0, most, percent_ticks(0, most), "share of answers")
    return drawn(figure, _lying(axis, names), marks)


def _estimates(groups: Sequence[GroupReport]) -> list[tuple[str, GroupReport]]:
    """Return a report for each estimate, with the names of all groups that it describes."""
    name_of = {group.group.id: group.group.name for group in groups}
    first = {
        group.estimate.pooled: group for group in reversed(groups) if group.estimate is not None
    }
    return [
        (" and ".join(name_of.get(each, each) for each in pooled), group)
        for pooled, group in reversed(first.items())
    ]


def _noise_says(groups: Sequence[GroupReport]) -> str:
    known = [group for group in groups if group.estimate is not None]
    if not known:
        return "Reviewers' error rates are not known yet."
    estimates = [
        (name, rate.estimate) for name, rate in _estimates(groups) if rate.estimate is not None
    ]
    decided = sum(estimate.alpha.n + estimate.beta.n for _, estimate in estimates)
    together = [name for name, estimate in estimates if len(estimate.pooled) > 1]
    blocked = [group.group.name for group in known if any(each.blocking for each in group.findings)]
    return (
        f"From {plural(decided, 'blind answer')} that leads have decided. Rates are of groups, "
        "never of one person: they show how far answers can be trusted when the calibrator is "
        "trained on them. "
        + "".join(
            f"Too little is known of each of {name}, so their rates are of all of them together. "
            for name in together
        )
        + (
            f"Answers of {', '.join(blocked)} are not used yet, as too little is known of them."
            if blocked
            else "Enough is known of every group to use its answers."
        )
    )


def _no_errors(seen: Cockpit) -> str:
    if not seen.mistakes.checked:
        return "No document was checked in this period; reviews and audits fill this in."
    return f"No errors in {plural(seen.mistakes.checked, 'checked document')}."


def _cut(name: str, longest: int = _LONGEST_NAME) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
