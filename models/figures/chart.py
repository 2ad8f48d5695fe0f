"""Charts as SVG, from plain numbers: the same numbers always give the same marks.

A chart is a `ChartFrame` with `models.figures.marks` in it, later ones on top. Colours come from
the page's style sheet by class, so that they follow its scheme and no style stands in the markup.
The axes upwards are separate pictures over the chart: where it is wider than its box and scrolls,
the style sheet keeps them in sight. A screen reader reads its title, its description, and the table
beside it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup, escape

from setwise.models.figures.marks import Mark, Scale, element, number, path, text
from setwise.models.figures.numerals import on_axis

Tick = tuple[float, str]

PER_CHARACTER = 6.6
"""Width of a label's character, for labels that should not meet."""


_TITLED, _UNTITLED = 28, 18
"""Where an axis upwards ends: below its title, if it has one."""

_APART = 6
"""Between an axis upwards and the strip with its numbers: half of a number below fits in."""

_LEAST_SCALE = 0.96
"""A chart is shown no smaller: its words, of 11.5 pixels, would be too small to read."""


@dataclass(frozen=True)
class Axis:
    """What lies along one side: numbers from ``low`` to ``high``, and which of them are written."""

    low: float
    high: float
    ticks: Sequence[Tick]
    title: str = ""
    """What is measured, and in which unit."""


@dataclass(frozen=True)
class ChartFrame:
    """The axes and the size of a chart."""

    x: Axis
    y: Axis
    right: Axis | None = None
    """A second axis upwards, for marks in a layer of their own."""
    width: int = 640
    height: int = 260
    left: int = 52
    """Room for what is written on the left."""


def chart(
    name: str,
    title: str,
    description: str,
    frame: ChartFrame,
    marks: Sequence[Mark],
    *,
    on_right: Sequence[Mark] = (),
) -> Markup:
    """Return a chart.

    ``name``: Distinct on its page; ids begin with it.
    ``title``, ``description``: For screen readers.
    ``on_right``: Marks whose heights are measured on the right axis.
    """
    inside, left, right = contents(frame, marks, on_right)
    drawn = element(
        "svg",
        element("title", escape(title), id=f"{name}-title"),
        element("desc", escape(description), id=f"{name}-desc"),
        *inside,
        class_="chart",
        viewBox=f"0 0 {frame.width} {frame.height}",
        width=f"{frame.width * _LEAST_SCALE:.0f}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
    axes = [
        *([_beside(frame, 0, left.edge - _APART, left.words, "left")] if left.words else []),
        *(
            [_beside(frame, right.edge + _APART, frame.width, right.words, "right")]
            if right.words
            else []
        ),
    ]
    laid_upon = [element("div", *axes, class_="axes")] if axes else []
    return element("div", drawn, *laid_upon, class_="plot")


class AxisWords(NamedTuple):
    """What is written beside an axis upwards, and where the chart's area ends."""

    edge: float
    words: list[Markup]


class ChartContents(NamedTuple):
    """The elements inside a chart's picture, and what its axes upwards say."""

    inside: list[Markup]
    left: AxisWords
    right: AxisWords


def contents(
    frame: ChartFrame, marks: Sequence[Mark], on_right: Sequence[Mark] = ()
) -> ChartContents:
    """Return what a chart is made of, at its places."""
    right = 52 if frame.right else 14
    bottom = 44 if frame.x.title else 26
    x = Scale(frame.x.low, frame.x.high, frame.left, frame.width - right)
    titled = frame.y.title or (frame.right is not None and frame.right.title)
    top = _TITLED if titled else _UNTITLED
    y = Scale(frame.y.low, frame.y.high, frame.height - bottom, top)
    inside: list[Markup] = [*_grid(frame, x, y)]
    for mark in marks:
        inside += mark.draw(x, y)
    words: list[Markup] = []
    if frame.right is not None:
        other = Scale(frame.right.low, frame.right.high, y.start, y.end)
        words = _right_words(frame, frame.right, x, other)
        for mark in on_right:
            inside += mark.draw(x, other)
    return ChartContents(
        inside, AxisWords(x.start, _left_words(frame, x, y)), AxisWords(x.end, words)
    )


def _grid(frame: ChartFrame, x: Scale, y: Scale) -> Iterator[Markup]:
    for value, _ in frame.y.ticks:
        line = path([(x.start, y(value)), (x.end, y(value))])
        yield element("path", d=line, class_="grid")
    for value, label in _spaced(frame.x.ticks, x):
        # Within the picture, and not below the strip of the axis.
        half = len(label) * PER_CHARACTER / 2
        place = max(min(x(value), frame.width - half), x.start - _APART + half)
        yield text(label, place, y.start + 16, "middle")
    yield element("path", d=path([(x.start, y.start), (x.end, y.start)]), class_="base")
    if frame.x.title:
        yield text(frame.x.title, (x.start + x.end) / 2, frame.height - 6, "middle", "axis")


def _left_words(frame: ChartFrame, x: Scale, y: Scale) -> list[Markup]:
    words = [text(label, x.start - 8, y(value) + 4, "end") for value, label in frame.y.ticks]
    if frame.y.title:
        words.append(text(frame.y.title, 0, 10, "start", "axis"))
    return words


def _right_words(frame: ChartFrame, axis: Axis, x: Scale, y: Scale) -> list[Markup]:
    words = [text(label, x.end + 8, y(value) + 4, "start") for value, label in axis.ticks]
    if axis.title:
        words.append(text(axis.title, frame.width, 10, "end", "axis"))
    return words


def _beside(
    frame: ChartFrame, start: float, end: float, words: Sequence[Markup], side: str
) -> Markup:
    """Return a strip of the chart with words, to be laid over it at the same scale."""
    width = end - start
    return element(
        "svg",
        *words,
        class_=f"chart beside {side}",
        viewBox=f"{number(start)} 0 {number(width)} {frame.height}",
        width=f"{100 * width / frame.width:.4f}%",
        aria_hidden="true",
    )


def _spaced(ticks: Sequence[Tick], x: Scale) -> Iterator[Tick]:
    """Yield the ticks whose labels have room; the last one has it always."""
    shown: list[Tick] = []
    free = float("inf")
    for value, label in reversed(ticks):
        half = len(label) * PER_CHARACTER / 2
        if x(value) + half < free:
            shown.append((value, label))
            free = x(value) - half - 6
    yield from reversed(shown)


def percent_ticks(low: float, high: float) -> list[Tick]:
    """Return round shares from ``low`` to ``high``.

    >>> percent_ticks(0.9, 1)
    [(0.9, '90 %'), (0.92, '92 %'), (0.94, '94 %'), (0.96, '96 %'), (0.98, '98 %'), (1.0, '100 %')]
    """
    return [(value, f"{on_axis(100 * value)} %") for value, _ in round_ticks(low, high)]


def round_ticks(low: float, high: float, most: int = 6) -> list[Tick]:
    """Return round numbers from ``low`` to ``high``, at most ``most`` steps apart.

    >>> round_ticks(0, 7)
    [(0, '0'), (2, '2'), (4, '4'), (6, '6')]
    """
    step = round_step((high - low) / most)
    # For floats 0.3 / 0.1 is less than 3, and 3 * 0.1 is more than 0.3.
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    values = [round(n * step, 10) for n in range(first, last + 1)]
    return [(value, on_axis(value)) for value in values]


def count_ticks(high: float, most: int = 5) -> list[Tick]:
    """Return round whole numbers from 0 to ``high``.

    >>> [[label for _, label in count_ticks(high)] for high in (1, 3, 90)]
    [['0', '1'], ['0', '1', '2', '3'], ['0', '20', '40', '60', '80']]
    """
    return [tick for tick in round_ticks(0, high, most) if float(tick[0]).is_integer()]


def round_step(least: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is no less than ``least``.

    >>> [round_step(x) for x in (0.017, 3, 60, 0)]
    [0.02, 5, 100, 1]
    """
    if least <= 0:
        return 1
    power = 1.0
    while power > least:
        power /= 10
    while power * 10 <= least:
        power *= 10
    step = next(each for each in (1, 2, 5, 10) if each * power >= least * (1 - 1e-9)) * power
    return round(step, 10) if step < 1 else round(step)
