"""Thresholds by segment in simulation: how often any is wrong, how much is sent.

    python -m benchmarks.bench_segments [RUNS] [SEED]

The defaults are 1,000 runs and seed 0. 250 audits come a week for 24 weeks, from 2 to 20 segments
whose sizes fall like 1/k; they appear in random order. One segment, at random, is bad: its sets are
right with .8 times their confidence, those of the others with their confidence, from
Beta(2.2, .75). The target is .90 at the risk .10 for all segments together; attempts follow the
service's schedule. *At the edge*, each set of each segment is right with the target's probability,
less a thousandth, so that every certificate is wrong.

A *violation* is a run in which any attempt of any segment certifies a threshold above which the
segment misses the target. The script exits with an error where they exceed the risk by more than
three standard errors.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from math import ceil, log, pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.rival_thresholds import first_step
from setwise.models.guarantees.audit_tests import count_above
from setwise.models.guarantees.binomial import upper_tail
from setwise.models.guarantees.sequence import ThresholdSequence, plan_sequence

TARGET, RISK = 0.9, 0.1
WEEKS, A_WEEK = 24, 250
MOST = 20
ROOM, GROWTH = 12.0, 1.5  # of the service's schedule
BAD = 0.8

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SEQUENCE: ThresholdSequence = plan_sequence(
    np.random.default_rng(987).beta(2.2, 0.75, 5_000), n_thresholds=60
)
THRESHOLDS = SEQUENCE.thresholds


class Law(NamedTuple):
    """How much lies above each threshold, and how much of that is right, in a segment."""

    above: Floats
    right: Floats


class World(NamedTuple):
    """How often a set is right in good segments and in the bad one."""

    good: Callable[[Floats], Floats]
    bad: Callable[[Floats], Floats]

    def laws(self, n_segments: int, bad: int) -> list[Law]:
        """Return the law of each segment."""
        return [_law(self.bad if place == bad else self.good) for place in range(n_segments)]


@cache
def _law(chance: Callable[[Floats], Floats]) -> Law:
    levels = np.random.default_rng(988).beta(2.2, 0.75, 1_000_000)
    right = chance(levels)
    above = [levels >= threshold for threshold in THRESHOLDS]
    return Law(
        np.array([one.mean() for one in above]), np.array([right[one].sum() for one in above]) / 1e6
    )


def honest(confidence: Floats) -> Floats:
    return confidence


def too_high(confidence: Floats) -> Floats:
    return BAD * confidence


def at_the_edge(confidence: Floats) -> Floats:
    return np.full(len(confidence), TARGET - 0.001)


ONE_BAD, EDGE = World(honest, too_high), World(at_the_edge, at_the_edge)


@cache
def start(n: int, risk: float) -> int:
    return first_step(SEQUENCE, n, TARGET, SEQUENCE.confidence, risk)


def lowest_proved(confidence: Floats, right: Bools, risk: float) -> int | None:
    """Return the place of the lowest threshold that the fixed sequence proves."""
    first = start(len(confidence), risk)
    above = count_above(THRESHOLDS[first:], confidence)
    good = count_above(THRESHOLDS[first:], confidence[right])
    passed = np.logical_and.accumulate(upper_tail(good, above, TARGET) <= risk)
    return first + int(passed.sum()) - 1 if passed[0] else None


class Run(NamedTuple):
    """One stream: audits in order, with the segment of each, sizes, and the order of appearance."""

    segment: NDArray[np.int64]
    confidence: Floats
    right: Bools
    size: Floats
    laws: list[Law]
    bad: int


def stream(n_segments: int, world: World, rng: np.random.Generator) -> Run:
    size = rng.permutation(1.0 / np.arange(1, n_segments + 1))
    size /= size.sum()
    bad = int(rng.integers(n_segments))
    segment = rng.choice(n_segments, WEEKS * A_WEEK, p=size)
    confidence = rng.beta(2.2, 0.75, len(segment))
    chance = np.where(segment == bad, world.bad(confidence), world.good(confidence))
    return Run(
        segment,
        confidence,
        rng.random(len(segment)) < chance,
        size,
        world.laws(n_segments, bad),
        bad,
    )


def risk_of_attempt(risk: float, attempt: int) -> float:
    """Return the share of one of several attempts, as if they looked at different data."""
    return risk / (attempt * (attempt + 1))


Sharing = Callable[[int, int], float]
"""A segment's part of the risk, by its place of appearance from 0 and the number of segments."""

SHARINGS: Mapping[str, Sharing] = {
    "equal among at most 20": lambda *_: RISK / MOST,
    "equal, limit set to their number": lambda _, n: RISK / n,
    "6 / (π² k²) for the k-th": lambda place, _: RISK * 6 / (pi * (place + 1)) ** 2,
    "1 / (k (k + 1)) for the k-th": lambda place, _: risk_of_attempt(RISK, place + 1),
    "1 / k, of at most 20": lambda place, _: (
        RISK / (place + 1) / sum(1 / k for k in range(1, MOST + 1))
    ),
}


class Outcome(NamedTuple):
    """Whether any certificate was wrong, what is sent in the end, and of it the bad segment's."""

    violated: bool
    sent: float
    bad_sent: float


def _fewest(risk: float, attempt: int) -> int:
    return ceil(ROOM * ceil(log(risk_of_attempt(risk, attempt)) / log(TARGET)))


def _misses(run: Run, segments: Iterable[int], step: int) -> bool:
    above = sum(run.size[segment] * run.laws[segment].above[step] for segment in segments)
    right = sum(run.size[segment] * run.laws[segment].right[step] for segment in segments)
    return bool(right < TARGET * above)


class Gate:
    """Attempts of one segment, or of all documents."""

    def __init__(self, risk: float) -> None:
        self.risk, self.attempts, self.tried = risk, 0, 0
        self.proved: int | None = None

    def due(self, n: int) -> bool:
        """Return whether the schedule asks for an attempt with so many audits."""
        if self.proved is not None:
            return False
        least = _fewest(self.risk, self.attempts + 1)
        return n >= (ceil(GROWTH * self.tried) if self.tried else least)

    def attempt(self, run: Run, chosen: Bools) -> None:
        """Test the chosen audits."""
        self.attempts, self.tried = self.attempts + 1, int(chosen.sum())
        risk = risk_of_attempt(self.risk, self.attempts)
        self.proved = lowest_proved(run.confidence[chosen], run.right[chosen], risk)


def by_segment(run: Run, sharing: Sharing) -> Outcome:
    """Let every segment try by the schedule."""
    n_segments, violated = len(run.size), False
    order = list(dict.fromkeys([*run.segment.tolist(), *range(n_segments)]))
    gates = {segment: Gate(sharing(place, n_segments)) for place, segment in enumerate(order)}
    for week in range(1, WEEKS + 1):
        so_far = np.arange(len(run.segment)) < week * A_WEEK
        numbers = np.bincount(run.segment[so_far], minlength=n_segments)
        for segment, gate in gates.items():
            if gate.due(numbers[segment]):
                gate.attempt(run, so_far & (run.segment == segment))
                violated |= gate.proved is not None and _misses(run, [segment], gate.proved)
    return Outcome(violated, *_sent(run, {segment: gate.proved for segment, gate in gates.items()}))


def together(run: Run) -> Outcome:
    """Try with one certificate for all documents."""
    gate, segments = Gate(RISK), range(len(run.size))
    for week in range(1, WEEKS + 1):
        if gate.due(week * A_WEEK):
            gate.attempt(run, np.arange(len(run.segment)) < week * A_WEEK)
    wrong = gate.proved is not None and _misses(run, segments, gate.proved)
    return Outcome(wrong, *_sent(run, dict.fromkeys(segments, gate.proved)))


def _sent(run: Run, in_force: Mapping[int, int | None]) -> tuple[float, float]:
    sent = bad = 0.0
    for segment, step in in_force.items():
        if step is not None:
            above = run.size[segment] * run.laws[segment].above[step]
            sent += above
            bad += above * (segment == run.bad)
    return sent, bad


def measure(runs: list[Run], method: Callable[[Run], Outcome]) -> str:
    outcomes = [method(run) for run in runs]
    rate = float(np.mean([outcome.violated for outcome in outcomes]))
    if rate > RISK + 3 * sqrt(RISK * (1 - RISK) / len(runs)):
        sys.exit(f"violations {rate:.3f} exceed the risk {RISK}")
    sent = np.mean([outcome.sent for outcome in outcomes])
    bad = np.mean([of.bad_sent / run.size[run.bad] for of, run in zip(outcomes, runs, strict=True)])
    return f"{rate:.3f} / {sent:.3f} / {bad:.3f}"


def main(n_runs: int = 1_000, seed: int = 0) -> None:
    """Print violations / share sent / share of the bad segment that is sent."""
    counts = (2, 5, 10, 20)
    print("| | " + " | ".join(f"{n} segments" for n in counts) + " |")
    print("|---" * (len(counts) + 1) + "|")
    worlds = {
        n: [stream(n, ONE_BAD, np.random.default_rng([seed, n, i])) for i in range(n_runs)]
        for n in counts
    }

    def row(name: str, method: Callable[[Run], Outcome]) -> None:
        cells = [measure(worlds[n], method) for n in counts]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)

    row("one certificate for all", together)
    for name, sharing in SHARINGS.items():
        row(name, lambda run, sharing=sharing: by_segment(run, sharing))  # type: ignore[misc]
    for n in counts:
        worlds[n] = [stream(n, EDGE, np.random.default_rng([seed, n, i])) for i in range(n_runs)]
    print("At the edge:")
    equal = "equal, limit set to their number"
    row(equal, lambda run: by_segment(run, SHARINGS[equal]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
