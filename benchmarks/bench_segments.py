"""Thresholds by segment in simulation: how often any is wrong, how much is sent.

    python -m benchmarks.bench_segments [RUNS] [SEED]

The defaults are 1,000 runs and seed 0. 250 audits come a week for 24 weeks, from 2 to 20 segments
whose sizes fall like 1/k; they appear in random order. One segment, at random, is bad: its sets are
right with .8 times their confidence, those of the others with their confidence, from
Beta(2.2, .75). The target is .90 at the risk .10 for all segments together; attempts follow the
service's schedule. *At the edge*, each set of each segment is right with the target's probability,
less a thousandth, so that every certificate is wrong.

A *violation* is a run in which any attempt of any segment, or of the pool, certifies a threshold
above which the segment, or the pool's segments together, miss the target. The script exits with
an error where they exceed the risk by more than three standard errors.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from math import ceil, log, pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.rival_thresholds import first_step
from setwise.models.guarantees.audit_tests import count_above
from setwise.models.guarantees.binomial import upper_tail
from setwise.models.guarantees.certificates import risk_of_attempt
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


class Sharing(NamedTuple):
    """How a risk is shared: a segment's part by its place of appearance from 0, the pool's."""

    segment: Callable[[int, int], float]
    pool: float = 0.0


SHARINGS: Mapping[str, Sharing] = {
    "equal among at most 20": Sharing(lambda *_: RISK / MOST),
    "equal, limit set to their number": Sharing(lambda _, n: RISK / n),
    "6 / (π² k²) for the k-th": Sharing(lambda place, _: RISK * 6 / (pi * (place + 1)) ** 2),
    "1 / (k (k + 1)) for the k-th": Sharing(lambda place, _: risk_of_attempt(RISK, place + 1)),
    "1 / k, of at most 20": Sharing(
        lambda place, _: RISK / (place + 1) / sum(1 / k for k in range(1, MOST + 1))
    ),
    "equal among at most 20, and a pool": Sharing(lambda *_: RISK / (MOST + 1), RISK / (MOST + 1)),
    "equal, limit set to their number, and a pool": Sharing(lambda _, n: RISK / (n + 1), -1.0),
    "half to the pool, the rest equal": Sharing(lambda *_: RISK / 2 / MOST, RISK / 2),
}


class Outcome(NamedTuple):
    """Whether any certificate was wrong, what is sent in the end, and of it the bad segment's."""

    violated: bool
    sent: float
    bad_sent: float
    misled: bool = False  # what is sent under the pool's proof misses the target


def _fewest(risk: float, attempt: int) -> int:
    return ceil(ROOM * ceil(log(risk_of_attempt(risk, attempt)) / log(TARGET)))


def _misses(run: Run, members: list[int], step: int) -> bool:
    above = sum(run.size[one] * run.laws[one].above[step] for one in members)
    right = sum(run.size[one] * run.laws[one].right[step] for one in members)
    return bool(right < TARGET * above)


class Unit:
    """Attempts of one segment or of the pool."""

    def __init__(self, risk: float) -> None:
        self.risk, self.attempts, self.tried = risk, 0, 0
        self.proved: int | None = None
        self.members: frozenset[int] = frozenset()

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


def by_segment(run: Run, sharing: Sharing, *, failed_stay: bool = False) -> Outcome:
    """Let every segment, and the pool if there is one, try by the schedule."""
    n_segments = len(run.size)
    order = list(dict.fromkeys(run.segment.tolist()))
    order += [one for one in range(n_segments) if one not in order]
    units = {one: Unit(sharing.segment(place, n_segments)) for place, one in enumerate(order)}
    part = RISK / (n_segments + 1) if sharing.pool < 0.0 else sharing.pool
    pool, violated, misled = Unit(part), False, False
    for week in range(1, WEEKS + 1):
        so_far = np.arange(len(run.segment)) < week * A_WEEK
        numbers = np.bincount(run.segment[so_far], minlength=n_segments)
        for one, unit in units.items():
            violated |= _tried(run, unit, frozenset([one]), so_far, numbers)
        members = frozenset(one for one, unit in units.items() if _pooled(unit, failed_stay))
        if not part or not members:
            continue
        if not pool.members <= members and not failed_stay:
            pool.proved, pool.tried = None, 0
        violated |= _tried(run, pool, members, so_far, numbers)
        if pool.proved is not None and pool.members & members:
            misled |= _misses(run, sorted(pool.members & members), pool.proved)
    in_force = {one: unit.proved for one, unit in units.items()}
    for one, unit in units.items():
        if part and pool.proved is not None and one in pool.members and _pooled(unit, failed_stay):
            in_force[one] = pool.proved
    return Outcome(violated, *_sent(run, in_force), misled)


def _tried(
    run: Run, unit: Unit, members: frozenset[int], so_far: Bools, numbers: NDArray[np.int64]
) -> bool:
    """Make an attempt if it is due; return whether it certifies a threshold that is wrong."""
    if not unit.due(sum(numbers[one] for one in members)):
        return False
    unit.members = members
    unit.attempt(run, so_far & np.isin(run.segment, sorted(members)))
    return unit.proved is not None and _misses(run, sorted(members), unit.proved)


def _pooled(unit: Unit, failed_stay: bool) -> bool:
    return unit.proved is None if failed_stay else unit.attempts == 0


def together(run: Run) -> Outcome:
    """Try with one certificate for all documents."""
    unit, everyone = Unit(RISK), list(range(len(run.size)))
    for week in range(1, WEEKS + 1):
        if unit.due(week * A_WEEK):
            unit.attempt(run, np.arange(len(run.segment)) < week * A_WEEK)
    wrong = unit.proved is not None and _misses(run, everyone, unit.proved)
    return Outcome(wrong, *_sent(run, dict.fromkeys(everyone, unit.proved)))


def _sent(run: Run, in_force: Mapping[int, int | None]) -> tuple[float, float]:
    sent = bad = 0.0
    for one, step in in_force.items():
        if step is not None:
            sent += run.size[one] * run.laws[one].above[step]
            bad += run.size[one] * run.laws[one].above[step] * (one == run.bad)
    return sent, bad


def measure(runs: list[Run], method: Callable[[Run], Outcome], *, valid: bool = True) -> str:
    found = [method(run) for run in runs]
    rate = float(np.mean([one.violated for one in found]))
    if valid and rate > RISK + 3 * sqrt(RISK * (1 - RISK) / len(runs)):
        sys.exit(f"violations {rate:.3f} exceed the risk {RISK}")
    sent = np.mean([one.sent for one in found])
    bad = np.mean([one.bad_sent / run.size[run.bad] for one, run in zip(found, runs, strict=True)])
    misled = float(np.mean([one.misled for one in found]))
    return f"{rate:.3f} / {sent:.3f} / {bad:.3f}" + (f" ({misled:.3f})" if misled else "")


def main(n_runs: int = 1_000, seed: int = 0) -> None:
    """Print violations / share sent / share of the bad segment that is sent."""
    counts = (2, 5, 10, 20)
    print("| | " + " | ".join(f"{n} segments" for n in counts) + " |")
    print("|---" * (len(counts) + 1) + "|")
    worlds = {
        n: [stream(n, ONE_BAD, np.random.default_rng([seed, n, i])) for i in range(n_runs)]
        for n in counts
    }

    def row(name: str, method: Callable[[Run], Outcome], *, valid: bool = True) -> None:
        cells = [measure(worlds[n], method, valid=valid) for n in counts]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)

    row("one certificate for all", together)
    for name, sharing in SHARINGS.items():
        row(name, lambda run, sharing=sharing: by_segment(run, sharing))  # type: ignore[misc]
    pooled = SHARINGS["equal among at most 20, and a pool"]
    row("the same, failed stay in the pool", lambda run: by_segment(run, pooled, failed_stay=True))
    for n in counts:
        worlds[n] = [stream(n, EDGE, np.random.default_rng([seed, n, i])) for i in range(n_runs)]
    print("At the edge:")
    for name in (
        "equal, limit set to their number",
        "equal, limit set to their number, and a pool",
    ):
        row(name, lambda run, name=name: by_segment(run, SHARINGS[name]))  # type: ignore[misc]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
