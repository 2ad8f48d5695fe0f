"""The cockpit's figure on another threshold: what it would send, and how right that would be."""

import json
from dataclasses import dataclass

from setwise.service.pages.figures.chart import Axis, Frame, percent_ticks, round_ticks
from setwise.service.pages.figures.marks import Band, Line, Mark, Rule
from setwise.service.pages.figures.numerals import (
    confidence,
    exactly,
    percent,
    plain,
    plural,
    working_time,
)
from setwise.service.pages.figures.table import Column, Figure, Kind
from setwise.service.pages.figures.work import SHARE, WIDE, bounded, drawn
from setwise.service.services.analysis.cockpit import Cockpit
from setwise.service.services.analysis.forecast import Forecast

_LEGEND = (
    ("leased stroke", "sent automatically"),
    ("sent stroke", "accuracy of what is sent, with its bounds"),
    ("waiting stroke", "reviewing per day (right axis)"),
)

_ROWS = 2
"""Every other threshold of the curve has a row in the table: 0.01 from one to the next."""


@dataclass(frozen=True)
class Comparison:
    """One line of the comparison between the policy in force and the one that is looked at."""

    name: str
    now: str
    then: str


def hours_a_day(one: Forecast, seen: Cockpit) -> float | None:
    """Return how long reviewers would work a day; None while their pace is unknown."""
    return None if seen.seconds is None else one.reviews_a_day * seen.seconds / 3600


def what_if(seen: Cockpit) -> Figure:
    """Return what each threshold would do."""
    hours = [hours_a_day(one, seen) for one in seen.curve]
    figure = Figure(
        "what-if",
        "What if the threshold changed?",
        _says(seen),
        [
            Column("threshold", Kind.CONFIDENCE),
            Column("sent", SHARE),
            *(Column(name, SHARE) for name in ("accuracy", "low", "high")),
            Column("checked"),
            Column("reviews_a_day", Kind.NUMBER),
            Column("hours_a_day", Kind.HOURS, "Reviewing per day"),
        ],
        [
            [
                one.threshold,
                one.coverage,
                *bounded(one.accuracy),
                one.accuracy.checked,
                one.reviews_a_day,
                worked,
            ]
            for one, worked in [*zip(seen.curve, hours, strict=True)][::_ROWS]
        ],
        empty="There were no documents in this period to try a threshold on.",
        terms=("threshold", "sent automatically", "accuracy"),
        legend=_LEGEND if seen.seconds is not None else _LEGEND[:2],
        whole=True,
        end_first=True,
    )
    if not seen.documents:
        return figure
    known = [one for one in seen.curve if one.accuracy.value is not None]
    places = [one.threshold or 0.0 for one in known]
    accuracy = [one.accuracy.value or 0.0 for one in known]
    target = seen.policy.target_accuracy
    marks: list[Mark] = [
        Rule(target, "quiet", f"target {exactly(target)}", level=True, left=True, below=True),
        Band(
            places,
            [one.accuracy.low or 0.0 for one in known],
            [one.accuracy.high or 0.0 for one in known],
            "sent",
        ),
        Line([*zip(places, accuracy, strict=True)], "sent"),
        Line([(one.threshold or 0.0, one.coverage) for one in seen.curve], "leased"),
    ]
    if seen.now.threshold is not None:
        marks.append(
            Rule(seen.now.threshold, "quiet", f"current {confidence(seen.now.threshold)}", row=2)
        )
    if seen.then is not None and seen.then.threshold is not None:
        marks.append(
            Rule(seen.then.threshold, "bad", f"tried {confidence(seen.then.threshold)}", row=3)
        )
    work = [
        (one.threshold or 0.0, worked)
        for one, worked in zip(seen.curve, hours, strict=True)
        if worked is not None
    ]
    unit, right = _working_axis(max((worked for _, worked in work), default=0.0))
    shares = percent_ticks(0, 1)
    frame = Frame(
        Axis(0, 1, round_ticks(0, 1), "threshold"),
        Axis(0, 1, shares),
        right if work else None,
        width=WIDE,
        height=290,
    )
    line = Line([(at, worked / unit) for at, worked in work], "waiting dashed")
    return drawn(figure, frame, marks, on_right=[line])


_UNITS = (("hours", 1.0), ("minutes", 1 / 60), ("seconds", 1 / 3600))


def _working_axis(most: float) -> tuple[float, Axis]:
    """Return a unit in hours in which so many hours are a number to read, and its axis.

    >>> unit, axis = _working_axis(0.2)
    >>> 60 * unit, axis.title, axis.ticks[-1]
    (1.0, 'reviewer minutes per day', (10, '10'))
    """
    name, unit = next((each for each in _UNITS if most >= 1.5 * each[1]), _UNITS[-1])
    highest = most / unit or 1.0
    return unit, Axis(0, highest, round_ticks(0, highest, 5), f"reviewer {name} per day")


def _says(seen: Cockpit) -> str:
    one = seen.then or seen.now
    verb, leaves = ("would send", "would leave") if seen.then else ("sends", "leaves")
    if not seen.documents:
        return "Move the slider once there are documents."
    if one.threshold is None:
        if seen.advice is not None:
            return seen.advice.sentence
        return "Nothing is sent at the moment. Move the slider to see the effect of a threshold."
    right = (
        f"of which {percent(one.accuracy.value)} are right (between {percent(one.accuracy.low)} "
        f"and {percent(one.accuracy.high)})"
        if one.accuracy.value is not None
        else "of which an unknown share is right, as too few were audited"
    )
    first = seen.warning or (seen.advice.sentence if seen.advice is not None else "")
    return (
        f"{first} A threshold of {confidence(one.threshold)} {verb} {percent(one.coverage)} of the "
        f"documents in this period, {right}, and {leaves} {_a_day(one)} per day to "
        f"reviewers. Documents held back by a rule stay held back. {one.accuracy.correction}"
    ).strip()


def _a_day(one: Forecast) -> str:
    return plain(one.reviews_a_day, 3 if one.reviews_a_day >= 10 else 2)


def compared(seen: Cockpit) -> list[Comparison]:
    """Return both policies side by side; empty while only one is looked at."""
    if seen.then is None:
        return []
    now, then = _described(seen.now, seen), _described(seen.then, seen)
    return [Comparison(name, now[name], then[name]) for name in now]


def _described(one: Forecast, seen: Cockpit) -> dict[str, str]:
    accuracy, worked = one.accuracy, hours_a_day(one, seen)
    return {
        "Threshold": "none" if one.threshold is None else confidence(one.threshold),
        "Sent automatically": percent(one.coverage),
        "Accuracy of what is sent": (
            f"{percent(accuracy.value)} ({percent(accuracy.low)} to {percent(accuracy.high)}, "
            f"{plural(accuracy.checked, 'check')}, "
            f"{plural(accuracy.reread, 'agreement')} read again)"
            if accuracy.value is not None
            else "unknown"
        ),
        "Reviews per day": _a_day(one),
        "Reviewing per day": "unknown" if worked is None else working_time(3600 * worked),
    }


def for_script(seen: Cockpit) -> str:
    """Return the curve for the slider: rows of numbers as JSON, rounded below what is shown."""
    rows = [
        [
            one.threshold,
            _rounded(one.coverage),
            *(None if each is None else _rounded(each) for each in bounded(one.accuracy)),
            round(one.reviews_a_day, 2),
            None if (worked := hours_a_day(one, seen)) is None else float(f"{worked:.3g}"),
        ]
        for one in seen.curve
    ]
    return json.dumps(rows, separators=(",", ":"))


def _rounded(share: float) -> float:
    """Round a share, but never to nothing or to all.

    >>> [_rounded(share) for share in (0.0, 0.00001, 0.51234, 0.99999, 1.0)]
    [0.0, 0.0001, 0.5123, 0.9999, 1.0]
    """
    return share if share in {0.0, 1.0} else min(max(round(share, 4), 0.0001), 0.9999)
