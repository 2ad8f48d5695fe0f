"""What charts are made of: lines, bands, bars and intervals, as elements of SVG."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Protocol

from markupsafe import Markup, escape

Point = tuple[float, float]

_LINE = 15
"""From one line of words to the next."""


@dataclass(frozen=True)
class Scale:
    """Places on the page for the numbers of an axis."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a number; what lies outside stays at the edge.

        >>> [Scale(0, 1, 10, 110)(x) for x in (0, 0.5, 2)]
        [10.0, 60.0, 110.0]
        """
        (place,) = self.places((value,))
        return place

    def places(self, values: Iterable[float]) -> list[float]:
        """Return the places of many numbers."""
        low, start, span, length = self.low, self.start, self.high - self.low, self.end - self.start
        if not span:
            return [start + 0.5 * length for _ in values]
        return [start + min(max((value - low) / span, 0.0), 1.0) * length for value in values]


class Mark(Protocol):
    """Something drawn in a frame."""

    def draw(self, x: Scale, y: Scale) -> Iterator[Markup]:
        """Yield elements."""


@dataclass(frozen=True)
class LineMark:
    """A line through points; ``tone`` is a class of the style sheet."""

    points: Sequence[Point]
    tone: str
    stepped: bool = False

    def draw(self, x: Scale, y: Scale) -> Iterator[Markup]:
        """Yield the line."""
        xs, ys = zip(*self.points, strict=True) if self.points else ((), ())
        places = list(zip(x.places(xs), y.places(ys), strict=True))
        if self.stepped:
            places = [p for (a, b), (c, d) in pairwise(places) for p in ((a, b), (c, b), (c, d))]
        if places:
            yield element("path", d=path(places), class_=f"line {self.tone}")


@dataclass(frozen=True)
class Band:
    """What lies between two lines over the same places."""

    places: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    tone: str

    def draw(self, x: Scale, y: Scale) -> Iterator[Markup]:
        """Yield the band."""
        across = x.places(self.places)
        above = list(zip(across, y.places(self.high), strict=True))
        below = list(zip(across, y.places(self.low), strict=True))
        if above:
            yield element("path", d=path([*above, *below[::-1]]) + "Z", class_=f"band {self.tone}")


@dataclass(frozen=True)
class Bar:
    """One bar: from ``start`` to ``end`` along x, its parts from the bottom up."""

    start: float
    end: float
    parts: Sequence[tuple[float, str]]
    """Length and tone of each part."""
    says: str
    """Its tooltip."""


@dataclass(frozen=True)
class Bars:
    """Stacked bars."""

    bars: Sequence[Bar]
    gap: float = 0.15

    def draw(self, x: Scale, y: Scale) -> Iterator[Markup]:
        """Yield the bars; parts of no length are left out."""
        for bar in self.bars:
            left, right = x(bar.start), x(bar.end)
            space = (right - left) * self.gap / 2
            inside, bottom = [], y.low
            for length, tone in bar.parts:
                top = bottom + length
                if length > 0:
                    place = {"x": left + space, "y": y(top), "width": right - left - 2 * space}
                    height = max(y(bottom) - y(top), 0.75)
                    inside.append(element("rect", **place, height=height, class_=f"piece {tone}"))
                bottom = top
            if inside:
                yield element("g", tooltip(bar.says), *inside)


@dataclass(frozen=True)
class RowsMark:
    """Bars that lie, one a row from the top down, each with its name."""

    names: Sequence[str]
    bars: Sequence[Sequence[tuple[float, str]]]
    says: Sequence[str]
    above: bool = False
    """Names stand above their bars, which leaves long ones room, and not beside them."""

    def draw(self, x: Scale, y: Scale) -> Iterator[Markup]:
        """Yield the bars and names."""
        for row, (name, parts, says) in enumerate(
            zip(self.names, self.bars, self.says, strict=True)
        ):
            top, bottom = y(row + (0.5 if self.above else 0.15)), y(row + 0.85)
            at, inside = x.low, []
            for length, tone in parts:
                if length > 0:
                    place = {"x": x(at), "y": top, "width": max(x(at + length) - x(at), 0.75)}
                    inside.append(
                        element("rect", **place, height=bottom - top, class_=f"piece {tone}")
                    )
                at += length
            yield element("g", tooltip(says), *inside)
            if self.above:
                yield text(name, x.start, top - 4, "start")
            else:
                yield text(name, x.start - 8, (top + bottom) / 2 + 4, "end")


@dataclass(frozen=True)
class Intervals:
    """Estimates with bounds: a dot and a line through it each."""

    rows: Sequence[tuple[float, float, float, float]]
    """Place, estimate, low and high."""
    tone: str
    says: Sequence[str]
    lying: bool = False
    """Places run down the page and estimates across it."""

    def draw(self, x: Scale, y: Scale) -> Iterator[Markup]:
        """Yield the intervals."""
        for (place, value, low, high), says in zip(self.rows, self.says, strict=True):
            if self.lying:
                line = path([(x(low), y(place)), (x(high), y(place))])
                dot = {"cx": x(value), "cy": y(place)}
            else:
                line = path([(x(place), y(low)), (x(place), y(high))])
                dot = {"cx": x(place), "cy": y(value)}
            yield element(
                "g",
                tooltip(says),
                element("path", d=line, class_=f"whisker {self.tone}"),
                element("circle", **dot, r=3.5, class_=f"dot {self.tone}"),
            )


@dataclass(frozen=True)
class RuleMark:
    """A straight line at one number of an axis, with a label."""

    at: float
    tone: str
    label: str = ""
    level: bool = False
    """It lies; its label stands at the right end, or at the left, above it or below."""
    left: bool = False
    below: bool = False
    row: int = 0
    """In which line from the top the label of an upright one stands, so that near ones do not cover
    each other's.
    """

    def draw(self, x: Scale, y: Scale) -> Iterator[Markup]:
        """Yield the line and its label."""
        if self.level:
            place = y(self.at)
            yield element(
                "path", d=path([(x.start, place), (x.end, place)]), class_=f"rule {self.tone}"
            )
            end, anchor = (x.start + 4, "start") if self.left else (x.end - 4, "end")
            height = place + 14 if self.below else place - 5
            yield text(self.label, end, height, anchor, f"label {self.tone}")
        else:
            place = x(self.at)
            yield element(
                "path", d=path([(place, y.start), (place, y.end)]), class_=f"rule {self.tone}"
            )
            left = place > (x.start + x.end) / 2
            yield text(
                self.label,
                place - 5 if left else place + 5,
                y.end + 11 + self.row * _LINE,
                "end" if left else "start",
                f"label {self.tone}",
            )


@dataclass(frozen=True)
class Diagonal:
    """Where both axes agree."""

    tone: str = "quiet"

    def draw(self, x: Scale, y: Scale) -> Iterator[Markup]:
        """Yield the line."""
        low, high = max(x.low, y.low), min(x.high, y.high)
        yield element(
            "path", d=path([(x(low), y(low)), (x(high), y(high))]), class_=f"rule {self.tone}"
        )


def path(places: Sequence[Point]) -> str:
    """Return the data of a path through places."""
    return "M" + "L".join(f"{number(a)} {number(b)}" for a, b in places)


def text(words: str, x: float, y: float, anchor: str, tone: str = "tick") -> Markup:
    """Return words at a place."""
    return element("text", escape(words), x=x, y=y, text_anchor=anchor, class_=tone)


def tooltip(words: str) -> Markup:
    """Return the tooltip of the element around it."""
    return element("title", escape(words))


def element(name: str, *inside: Markup, **attributes: str | float) -> Markup:
    """Return an element; an underscore in an attribute's name stands for a hyphen."""
    written = "".join(
        f' {_attribute(key)}="{escape(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
    )
    content = "".join(inside)
    return Markup(f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>")  # noqa: S704 -- all of it is escaped


@cache
def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def number(value: float) -> str:
    """Return a number as short as a picture needs it."""
    return f"{value:.1f}".removesuffix(".0")
