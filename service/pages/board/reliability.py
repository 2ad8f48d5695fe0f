"""How honest a calibrator's confidences are, beside those of the one that served before."""

from collections.abc import Mapping
from dataclasses import replace

from setwise.models.figures.chart import Axis, ChartFrame, chart, percent_ticks, round_ticks
from setwise.models.figures.marks import Band, Diagonal, LineMark, Mark
from setwise.models.figures.numerals import chance, plural
from setwise.service.pages.figures.table import Figure, FigureColumn, Kind, Value
from setwise.service.services.analysis.reliability import Curve

NAME = "reliability"
_WHEN = ("before", "after")


def reliability(report: Mapping[str, object]) -> Figure:
    """Return the reliability diagram before and after, from a calibration's report."""
    halves = {when: _curve(report.get(when)) for when in _WHEN}
    curves = {when: curve for when, curve in halves.items() if curve is not None}
    figure = Figure(
        NAME,
        "Is confidence calibrated?",
        "It is not known yet whether either calibrator is calibrated.",
        [
            FigureColumn("calibrator", Kind.TEXT),
            *(FigureColumn(name, Kind.SHARE) for name in ("confidence", "accuracy", "low", "high")),
        ],
        [row for when, curve in curves.items() for row in _rows(when, curve)],
        empty=_missing(report),
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
    says = f"{_says(curves)} {_rows_say(report, curves)}"
    frame = ChartFrame(
        Axis(0, 1, round_ticks(0, 1), "confidence"),
        Axis(0, 1, percent_ticks(0, 1), "share that is right"),
        width=760,
        height=380,
    )
    svg = chart(figure.name, figure.title, says, frame, _marks(curves))
    return replace(figure, says=says, svg=svg)


def _curve(half: object) -> Curve | None:
    """Return the curve in one half of a report; None where it has none.

    >>> _curve({"n": 12, "needed": 200}) is None
    True
    """
    reliability = half.get("reliability") if isinstance(half, Mapping) else None
    if not isinstance(half, Mapping) or not isinstance(reliability, Mapping):
        return None
    names = ("confidence", "accuracy", "low", "high")
    confidence, accuracy, low, high = (tuple(reliability[name]) for name in names)
    return Curve(
        confidence, accuracy, low, high, reliability["level"], reliability["p_value"], half["n"]
    )


def _marks(curves: Mapping[str, Curve]) -> list[Mark]:
    marks: list[Mark] = [Diagonal()]
    if (after := curves.get("after")) is not None:
        marks.append(Band(after.confidence, after.low, after.high, "link"))
    for when, tone in zip(_WHEN, ("waiting", "link"), strict=True):
        if (curve := curves.get(when)) is not None:
            marks.append(LineMark([*zip(curve.confidence, curve.accuracy, strict=True)], tone))
    return marks


def _rows(when: str, curve: Curve) -> list[list[Value]]:
    places = zip(curve.confidence, curve.accuracy, curve.low, curve.high, strict=True)
    return [[when, *place] for place in places]


def _says(curves: Mapping[str, Curve]) -> str:
    sentences = []
    for when, curve in curves.items():
        how = (
            "stays where calibrated confidence would lie"
            if curve.p_value >= 1.0 - curve.level  # as chance explains
            else "strays further from the diagonal than chance explains: below it, sets are right "
            "less often than their confidence says; above it, more often"
        )
        sentences.append(f"{when.capitalize()}, the curve {how} (p {chance(curve.p_value)}).")
    return " ".join(sentences)


def _rows_say(report: Mapping[str, object], curves: Mapping[str, Curve]) -> str:
    """Say what the curves are drawn from, and whether that flatters the previous calibrator."""
    rows = max(curve.checked for curve in curves.values())
    compared = report.get("comparison")
    unseen = compared.get("n") if isinstance(compared, Mapping) else None
    basis = f"Drawn from {plural(rows, 'document')}, each judged by a fit that has not seen it"
    if isinstance(unseen, int) and unseen < rows:
        return (
            f"{basis}; the previous calibrator was trained on {rows - unseen:,} of them, which "
            "flatters it."
        )
    return f"{basis}."


def _missing(report: Mapping[str, object]) -> str:
    """Say why there is nothing to draw.

    >>> _missing({"after": {"n": 12, "needed": 200}})
    'It needs at least 200 reviewed documents; there were 12.'
    """
    half = report.get("after")
    n, needed = (half.get(name) if isinstance(half, Mapping) else None for name in ("n", "needed"))
    if isinstance(n, int) and isinstance(needed, int):
        return f"It needs at least {plural(needed, 'reviewed document')}; there were {n:,}."
    return "This calibrator was stored without a reliability curve."
