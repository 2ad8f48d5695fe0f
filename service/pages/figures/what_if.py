"""The figure on another policy: what each threshold would send, and how right that would be."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from setwise.models.figures.chart import Axis, ChartFrame, percent_ticks, round_ticks
from setwise.models.figures.marks import Band, LineMark, Mark, RuleMark
from setwise.models.figures.numerals import (
    confidence,
    exactly,
    percent,
    plain,
    plural,
    working_time,
)
from setwise.service.pages.figures.effort import working_axis
from setwise.service.pages.figures.table import Figure, FigureColumn, Kind
from setwise.service.pages.figures.work import SHARE, WIDE, bounded, drawn
from setwise.service.services.analysis.advice import verdict
from setwise.service.services.analysis.forecast import Forecast
from setwise.service.services.analysis.what_if import STEPS, WhatIf

_LEGEND = (
    ("leased stroke", "would be sent"),
    ("sent stroke", "accuracy of what would be sent, with its bounds"),
    ("waiting stroke", "reviewing per day (right axis)"),
)

_ROWS = 2
"""Every other threshold of the curve has a row in the table: 0.01 from one to the next."""


@dataclass(frozen=True)
class WhatIfRow:
    """One number of both policies."""

    name: str
    now: str
    then: str


@dataclass(frozen=True)
class ShownWhatIf:
    """What a page shows of the answer."""

    figure: Figure
    rows: Sequence[WhatIfRow]
    """Both policies side by side; empty while only one is looked at."""
    sentences: str
    """What each threshold would do, as a JSON array, while the slider moves."""
    threshold: str
    """The place of the slider: the threshold that is looked at, or 0.9."""
    step: float = 1 / STEPS


def show(answer: WhatIf) -> ShownWhatIf:
    """Return the figure, and what stands beside it."""
    looked_at = answer.then.threshold
    return ShownWhatIf(
        _figure(answer),
        _rows(answer),
        json.dumps([_sentence(each, answer) for each in answer.curve], ensure_ascii=False),
        f"{0.9 if looked_at is None else looked_at:.3f}",
    )


def _hours_a_day(forecast: Forecast, answer: WhatIf) -> float | None:
    """Return how long reviewers would work a day; None while their pace is unknown."""
    return None if answer.seconds is None else forecast.reviews_a_day * answer.seconds / 3600


def _figure(answer: WhatIf) -> Figure:
    curve = answer.curve
    hours = [_hours_a_day(each, answer) for each in curve]
    figure = Figure(
        "what-if",
        "What if the policy changed?",
        _says(answer),
        [
            FigureColumn("threshold", Kind.CONFIDENCE),
            FigureColumn("sent", SHARE),
            *(FigureColumn(name, SHARE) for name in ("accuracy", "low", "high")),
            FigureColumn("checked"),
            FigureColumn("reviews_a_day", Kind.NUMBER),
            FigureColumn("hours_a_day", Kind.HOURS, "Reviewing per day"),
        ],
        [
            [
                each.threshold,
                each.coverage,
                *bounded(each.accuracy),
                each.accuracy.checked,
                each.reviews_a_day,
                worked,
            ]
            for each, worked in [*zip(curve, hours, strict=True)][::_ROWS]
            if answer.now.documents
        ],
        empty="There are no documents yet to try a policy on.",
        terms=("threshold", "sent automatically", "accuracy"),
        method=answer.then.accuracy.correction,
        legend=_LEGEND if answer.seconds is not None else _LEGEND[:2],
        whole=True,
        end_first=True,
    )
    if not answer.now.documents:
        return figure
    known = [each for each in curve if each.accuracy.value is not None]
    places = [each.threshold or 0.0 for each in known]
    accuracy = [each.accuracy.value or 0.0 for each in known]
    target = answer.after.target_accuracy
    marks: list[Mark] = [
        RuleMark(target, "quiet", f"target {exactly(target)}", level=True, left=True, below=True),
        Band(
            places,
            [each.accuracy.low or 0.0 for each in known],
            [each.accuracy.high or 0.0 for each in known],
            "sent",
        ),
        LineMark([*zip(places, accuracy, strict=True)], "sent"),
        LineMark([(each.threshold or 0.0, each.coverage) for each in curve], "leased"),
    ]
    if answer.now.threshold is not None:
        marks.append(
            RuleMark(
                answer.now.threshold, "quiet", f"current {confidence(answer.now.threshold)}", row=2
            )
        )
    if answer.tried and answer.then.threshold is not None:
        marks.append(
            RuleMark(
                answer.then.threshold, "bad", f"tried {confidence(answer.then.threshold)}", row=3
            )
        )
    work = [
        (each.threshold or 0.0, worked)
        for each, worked in zip(curve, hours, strict=True)
        if worked is not None
    ]
    unit, right = working_axis(max((worked for _, worked in work), default=0.0), "day")
    shares = percent_ticks(0, 1)
    frame = ChartFrame(
        Axis(0, 1, round_ticks(0, 1), "threshold"),
        Axis(0, 1, shares),
        right if work else None,
        width=WIDE,
        height=190,
    )
    line = LineMark([(at, worked / unit) for at, worked in work], "waiting dashed")
    return drawn(figure, frame, marks, on_right=[line])


def _says(answer: WhatIf) -> str:
    forecast, advice = answer.then, answer.advice
    if not forecast.documents:
        return "Try a threshold once there are documents."
    first = answer.warning or (advice.sentence if advice is not None else "")
    if not forecast.sent and forecast.threshold is None:
        return first or "Nothing is sent at the moment. Try a threshold to see its effect."
    newest = "the only document" if forecast.documents == 1 else f"the newest {_many(forecast)}"
    sends = f"would send {percent(forecast.coverage)} of {newest} (audits included)"
    left = f"would leave {_a_day(forecast)} per day to reviewers."
    if advice is not None and advice.threshold is not None:
        return f"{first} It {sends} and {left}"
    subject = (
        "The policy"
        if forecast.threshold is None
        else f"A threshold of {confidence(forecast.threshold)}"
    )
    right = (
        f"of which {percent(forecast.accuracy.value)} are right (between "
        f"{percent(forecast.accuracy.low)} and {percent(forecast.accuracy.high)})"
        if forecast.accuracy.value is not None
        else "of which an unknown share is right, as too few were audited"
    )
    return f"{first} {subject} {sends}, {right}, and {left}".strip()


def _many(forecast: Forecast) -> str:
    return plural(forecast.documents, "document")


def _a_day(forecast: Forecast) -> str:
    return plain(forecast.reviews_a_day, 3 if forecast.reviews_a_day >= 10 else 2)


def _rows(answer: WhatIf) -> list[WhatIfRow]:
    if not (answer.tried and answer.now.documents):
        return []
    now = _described(answer.now, answer, answer.before.target_accuracy)
    then = _described(answer.then, answer, answer.after.target_accuracy)
    return [WhatIfRow(name, now[name], then[name]) for name in now]


def _described(forecast: Forecast, answer: WhatIf, target: float) -> dict[str, str]:
    accuracy, worked = forecast.accuracy, _hours_a_day(forecast, answer)
    expected = forecast.expected_accuracy
    none = "by segment" if answer.by_segment or forecast.sent else "none"
    return {
        "Threshold": none if forecast.threshold is None else confidence(forecast.threshold),
        # Not what was sent in a period, which audits, the breaker and earlier policies held back.
        f"Would be sent of the newest {_many(forecast)}, audits included": (
            f"{forecast.sent:,} ({percent(forecast.coverage)})"
        ),
        "Accuracy of what is sent": (
            f"{percent(accuracy.value)} ({percent(accuracy.low)} to {percent(accuracy.high)})"
            if accuracy.value is not None
            else "unknown"
        ),
        "Target": f"{exactly(target)}: {verdict(forecast, target)}",
        "Checks of what is sent": f"{accuracy.checked:,}",
        "Mean confidence of what is sent": "none" if expected is None else percent(expected),
        "Reviews per day": _a_day(forecast),
        "Reviewing per day": "unknown" if worked is None else working_time(3600 * worked),
    }


def _sentence(forecast: Forecast, answer: WhatIf) -> str:
    accuracy, worked = forecast.accuracy, _hours_a_day(forecast, answer)
    right = (
        "accuracy unknown"
        if accuracy.value is None
        else f"{percent(accuracy.value)} right ({percent(accuracy.low)} to "
        f"{percent(accuracy.high)})"
    )
    work = (
        f"{_a_day(forecast)} reviews per day"
        if worked is None
        else f"{working_time(3600 * worked)} of reviewing per day"
    )
    sent = f"{percent(forecast.coverage)} would be sent"
    target = answer.after.target_accuracy
    aim = f"target of {exactly(target)} {verdict(forecast, target)}"
    return f"{forecast.threshold or 0.0:.3f}: {sent}, {right}, {aim}, {work}"
