"""The cockpit's figure on another threshold: what it would send, and how right that would be."""

import json
from dataclasses import dataclass

from service.dashboard.charts import Axis, Frame, percent_ticks, round_ticks
from service.dashboard.cockpit_figures import SHARE, WIDE, drawn
from service.dashboard.figures import Column, Figure, Kind, percent, plural
from service.dashboard.marks import Band, Line, Mark, Rule
from service.use_cases.cockpit import Cockpit
from service.use_cases.forecast import Forecast


@dataclass(frozen=True)
class Comparison:
    """One line of the comparison between the policy in force and the one that is looked at."""

    name: str
    now: str
    then: str


def hours_a_day(one: Forecast, seen: Cockpit) -> float | None:
    """Return how long reviewers would work a day; None while nobody knows how fast they are."""
    return None if seen.seconds is None else one.reviews_a_day * seen.seconds / 3600


def what_if(seen: Cockpit) -> Figure:
    """Return what each threshold would do."""
    hours = [hours_a_day(one, seen) for one in seen.curve]
    figure = Figure(
        "what-if",
        "What if the threshold were another one?",
        _says(seen),
        [
            Column("threshold", Kind.NUMBER),
            Column("sent", SHARE),
            *(Column(name, SHARE) for name in ("accuracy", "low", "high")),
            Column("checked"),
            Column("reviews_a_day", Kind.NUMBER),
            Column("hours_a_day", Kind.NUMBER),
        ],
        [
            [
                one.threshold,
                one.coverage,
                one.accuracy.value,
                one.accuracy.low,
                one.accuracy.high,
                one.accuracy.checked,
                one.reviews_a_day,
                worked,
            ]
            for one, worked in zip(seen.curve, hours, strict=True)
        ],
        empty="No document came in during this time, so there is nothing to try a threshold on.",
        terms=("threshold", "target", "coverage", "set accuracy"),
        legend=(
            ("leased stroke", "sent automatically"),
            ("sent stroke", "accuracy of what is sent, with exact bounds"),
            ("waiting stroke", "reviewer hours a day (right)"),
        ),
        whole=True,
    )
    if not seen.documents:
        return figure
    known = [one for one in seen.curve if one.accuracy.value is not None]
    places = [one.threshold or 0.0 for one in known]
    accuracy = [one.accuracy.value or 0.0 for one in known]
    target = seen.policy.target_accuracy
    marks: list[Mark] = [
        Rule(target, "quiet", f"target {100 * target:g} %", level=True, left=True),
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
        marks.append(Rule(seen.now.threshold, "quiet", f"in force {seen.now.threshold:.3g}"))
    if seen.then is not None and seen.then.threshold is not None:
        marks.append(Rule(seen.then.threshold, "bad", f"looked at {seen.then.threshold:.3g}"))
    worked_most = max((each for each in hours if each is not None), default=0.0) or 1.0
    right = Axis(0, worked_most, round_ticks(0, worked_most, 5), "reviewer hours a day")
    shares = percent_ticks(0, 1)
    frame = Frame(
        Axis(0, 1, round_ticks(0, 1), "threshold"),
        Axis(0, 1, shares),
        right,
        width=WIDE,
        height=290,
    )
    work = [
        (one.threshold or 0.0, worked)
        for one, worked in zip(seen.curve, hours, strict=True)
        if worked is not None
    ]
    return drawn(figure, frame, marks, on_right=[Line(work, "waiting dashed")])


def _says(seen: Cockpit) -> str:
    one = seen.then or seen.now
    verb = "would send" if seen.then else "sends"
    if not seen.documents:
        return "Move the slider once documents have come in."
    if one.threshold is None:
        return (
            "No threshold would have met this target on these documents."
            if seen.then
            else "Nothing is sent at present. Move the slider to see what a threshold would do."
        )
    right = (
        f"of which {percent(one.accuracy.value)} are right (between {percent(one.accuracy.low)} "
        f"and {percent(one.accuracy.high)})"
        if one.accuracy.value is not None
        else "and nobody knows how many of these are right, as too few were audited"
    )
    return (
        f"A threshold of {one.threshold:.3g} {verb} {percent(one.coverage)} of the documents of "
        f"this time, {right}, and leaves {one.reviews_a_day:.3g} a day to people. What a rule held "
        "back stays held back."
    )


def compared(seen: Cockpit) -> list[Comparison]:
    """Return both policies side by side; empty while only one is looked at."""
    if seen.then is None:
        return []
    now, then = _described(seen.now, seen), _described(seen.then, seen)
    return [Comparison(name, now[name], then[name]) for name in now]


def _described(one: Forecast, seen: Cockpit) -> dict[str, str]:
    accuracy, worked = one.accuracy, hours_a_day(one, seen)
    return {
        "Threshold": "none" if one.threshold is None else f"{one.threshold:.3g}",
        "Sent automatically": percent(one.coverage),
        "Accuracy of what is sent": (
            f"{percent(accuracy.value)} ({percent(accuracy.low)} to {percent(accuracy.high)}, "
            f"{plural(accuracy.checked, 'check')})"
            if accuracy.value is not None
            else "unknown"
        ),
        "Reviews a day": f"{one.reviews_a_day:.3g}",
        "Reviewer hours a day": "unknown" if worked is None else f"{worked:.2g}",
    }


def for_script(seen: Cockpit) -> str:
    """Return the curve for the slider: rows of numbers as JSON, rounded to what is shown."""
    rows = [
        [
            one.threshold,
            round(one.coverage, 4),
            *(
                None if each is None else round(each, 4)
                for each in (one.accuracy.value, one.accuracy.low, one.accuracy.high)
            ),
            round(one.reviews_a_day, 2),
            None if (worked := hours_a_day(one, seen)) is None else round(worked, 3),
        ]
        for one in seen.curve
    ]
    return json.dumps(rows, separators=(",", ":"))
