"""The picture of a certificate: which thresholds were tested, and what each test showed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from setwise.models.figures.chart import Axis, ChartFrame, Tick, percent_ticks
from setwise.models.figures.marks import Intervals, Mark, RuleMark
from setwise.models.figures.numerals import confidence, exactly, percent
from setwise.models.figures.picture import Picture, picture
from setwise.models.guarantees.strata import accuracy_of, bound_of
from setwise.models.results import SequenceStep

_MOST_STEPS = 30
"""Tests that are drawn of a long sequence."""

_MOST_TICKS = 6
_HEIGHT = 340
_HEADROOM = 0.1  # above 100 %, for the label of the threshold


class _Kind(NamedTuple):
    """How the tests of one outcome are drawn, and what the legend says of them."""

    tone: str
    words: str


_PROVED = _Kind("sent", "proved: the bound reaches the target")
_DRIFTING = _Kind("waiting", "proved, but newer checks speak against it")
_NOT_PROVED = _Kind("skipped", "not proved: the sequence ends")


class Tests(NamedTuple):
    """The tests of an attempt, and what they say in words."""

    steps: Sequence[SequenceStep]
    target: float
    risk: float
    """That of the attempt."""
    sentences: Sequence[str]


def draw_certificate(tests: Tests) -> Picture:
    """Return the tests in their order, by the share that each threshold would send.

    A dot is the share of right answers among the checked ones, and the line below it ends at the
    lower bound that the test proves.
    """
    steps = _spread(tests.steps, _MOST_STEPS)
    bounds = [_bound(step, tests) for step in steps]
    outcomes = [_outcome(step, tests) for step in steps]
    marks: list[Mark] = []
    for kind in (_PROVED, _DRIFTING, _NOT_PROVED):
        rows = [place for place, outcome in enumerate(outcomes) if outcome is kind]
        marks.append(
            Intervals(
                [
                    (steps[k].coverage, accuracy_of(steps[k]), bounds[k], accuracy_of(steps[k]))
                    for k in rows
                ],
                kind.tone,
                [_says(steps[k], bounds[k]) for k in rows],
            )
        )
    target = f"target {exactly(tests.target)}"
    marks.append(RuleMark(tests.target, "link", target, level=True, left=True, below=True))
    proved = [step for step in tests.steps if _outcome(step, tests) is _PROVED]
    if proved:
        lowest = proved[-1]
        label = f"from {confidence(lowest.threshold)} up: {percent(lowest.coverage)}"
        marks.append(RuleMark(lowest.coverage, "sent", label))
    low = max(0.0, min([tests.target, *bounds]) - 0.05)
    high = 1.0 + _HEADROOM * (1.0 - low)
    return picture(
        "Which thresholds are proved?",
        tests.sentences,
        ChartFrame(
            _across(tests.steps),
            Axis(low, high, percent_ticks(low, 1.0), "share of the checked answers that is right"),
            height=_HEIGHT,
        ),
        marks,
        [
            *(kind for kind in (_PROVED, _DRIFTING, _NOT_PROVED) if kind in outcomes),
            ("link", target),
        ],
    )


def _across(steps: Sequence[SequenceStep]) -> Axis:
    """Return the axis of the shares that were tested, with their thresholds."""
    title = "confidence from which answers are sent, and their share"
    if not steps:
        return Axis(0.0, 1.0, (), title)
    low, high = steps[0].coverage, steps[-1].coverage
    margin = max(0.08 * (high - low), 0.02)
    ticks: list[Tick] = [
        (step.coverage, f"{confidence(step.threshold)}: {percent(step.coverage, 0)}")
        for step in _spread(steps, _MOST_TICKS)
    ]
    return Axis(low - margin, high + margin, ticks, title)


def _outcome(step: SequenceStep, tests: Tests) -> _Kind:
    if not step.p_value <= tests.risk:
        return _NOT_PROVED
    return _DRIFTING if step.drifting(tests.target) else _PROVED


def _bound(step: SequenceStep, tests: Tests) -> float:
    """Return the bound of a step; a proof that rests on more than it gives the target."""
    bound = bound_of(step, tests.risk)
    return max(bound, tests.target) if step.p_value <= tests.risk else bound


def _says(step: SequenceStep, bound: float) -> str:
    return (
        f"From {confidence(step.threshold)} up, {percent(step.coverage)} of the answers: "
        f"{step.n_good:,} of {step.n_audits:,} checked ones were found right, at least "
        f"{percent(bound)} of all"
    )


def _spread(steps: Sequence[SequenceStep], most: int) -> list[SequenceStep]:
    """Return some steps in even distances, with the last two: they show where it ends."""
    if len(steps) <= most:
        return [*steps]
    places = np.linspace(0, len(steps) - 1, most - 1).astype(int).tolist()
    return [steps[place] for place in sorted({*places, len(steps) - 2})]
