"""The figure of page Start: how often models of people's answers are right, against the answers."""

from dataclasses import replace

from setwise.models.figures.chart import Axis, ChartFrame, chart, count_ticks, percent_ticks
from setwise.models.figures.marks import Intervals, LineMark, Mark
from setwise.models.figures.numerals import percent, plural
from setwise.service.domain.retraining import Gain, Learning, Measured
from setwise.service.pages.figures.table import Figure, FigureColumn, Kind

LITTLE = 0.015
"""A rise of the share of right sets that hardly pays for the next answers."""


def learning_curve(learning: Learning) -> Figure:
    """Return how often each model so far is right on marked documents."""
    points = [(each.answers, each.right / each.marked, each) for each in learning.curve]
    figure = Figure(
        "learning",
        "Right sets, against answers",
        "",
        [
            *map(FigureColumn, ("answers", "marked", "right")),
            *(FigureColumn(name, Kind.SHARE) for name in ("accuracy", "low", "high")),
        ],
        [
            [each.answers, each.marked, each.right, share, each.low, each.high]
            for _, share, each in points
        ],
        empty=_empty(learning),
        legend=(("link stroke", "right, with exact 95 % bounds"),),
        end_first=True,
    )
    if not points:
        return figure
    newest = points[-1][2]
    says = f"{says_of(newest)} {_foretold(learning.gain)}".strip()
    most = max(answers for answers, *_ in points)
    frame = ChartFrame(
        Axis(0, most, count_ticks(most), "answers"),
        Axis(0, 1, percent_ticks(0, 1), "share that is right"),
    )
    marks: list[Mark] = [
        Intervals(
            [(x, y, each.low, each.high) for x, y, each in points],
            "link",
            [f"{each.answers:,} answers: {percent(y)}" for _, y, each in points],
        ),
        LineMark([(x, y) for x, y, _ in points], "link"),
    ]
    return replace(figure, says=says, svg=chart(figure.name, figure.title, says, frame, marks))


def says_of(measured: Measured) -> str:
    """Say how good a model is."""
    return (
        f"The newest model learnt from {plural(measured.answers, 'answer')} and is right in "
        f"{measured.right:,} of {measured.marked:,} documents drawn at random, "
        f"{percent(measured.right / measured.marked)}, so between {percent(measured.low)} and "
        f"{percent(measured.high)}."
    )


def _foretold(gain: Gain | None) -> str:
    if gain is None:
        return ""
    if gain.high < LITTLE:
        return (
            f"The next {gain.answers} answers will probably bring less than "
            f"{100 * LITTLE:g} points: you may stop."
        )
    return (
        f"The next {gain.answers} answers will probably bring {100 * gain.low:.1f} to "
        f"{100 * gain.high:.1f} points."
    )


def _empty(learning: Learning) -> str:
    if learning.next_at is None:
        return "No model of the answers alone has been trained."
    if learning.answers < learning.next_at:
        left = learning.next_at - learning.answers
        return f"After {plural(left, 'more answer')} a model is trained by itself."
    return "A model is being trained."
