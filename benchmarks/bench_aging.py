"""Whether a certificate speaks of the present, where the accuracy changes while audits are drawn.

    python -m benchmarks.bench_aging [--runs 300] [--seed 62] [--record]

Of 500 documents a week .3 are audited in the first six
weeks, then .04. All have one confidence. The first attempt, at a target of .90 and a risk of .05,
comes at the end. Shares of runs in which it certifies:

- all: all audits count alike.
- thinned: audits of the first weeks are thinned to the later rate.
- detector: as *all*, unless the breaker's statistic ends above 15 / (1 - target).
- line: as *all*, unless a line through the audits, in time, ends below the target. It is shipped.
"""

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Figure, record
from setwise.models.guarantees.drift import drift_statistic
from setwise.models.guarantees.joint import Sample, p_value
from setwise.models.guarantees.trend import recent_accuracy

TARGET, RISK = 0.9, 0.05
DOCUMENTS, RAMP_UP_WEEKS, OFTEN, SELDOM = 500, 6, 0.3, 0.04
DRIFTING = 15.0
RULES = ("all", "thinned", "detector", "line")

Floats = NDArray[np.float64]


class AgingWorld(NamedTuple):
    """How accurate sets are in each week, and when the attempt comes."""

    name: str
    accuracy: Callable[[Floats], Floats]
    weeks: int


def _stays(at: float) -> Callable[[Floats], Floats]:
    return lambda week: np.full(len(week), at)


def _falls(by: float, weeks: int, since: int = 0) -> Callable[[Floats], Floats]:
    return lambda week: 0.95 - by * np.clip((week - since) / weeks, 0.0, 1.0)


def _drops(week_of_drop: int) -> Callable[[Floats], Floats]:
    return lambda week: np.where(week < week_of_drop, 0.95, 0.87)


WORLDS = (
    AgingWorld("falls by .1 in 32 weeks: .887 after 20", _falls(0.1, 32), 20),
    AgingWorld("the same: .850 after 32", _falls(0.1, 32), 32),
    AgingWorld("falls to .86 in 20 weeks", _falls(0.09, 20), 20),
    AgingWorld("falls to .88 in the last 10 of 20", _falls(0.07, 10, since=10), 20),
    AgingWorld("drops to .87 for the last 8 of 20", _drops(12), 20),
    AgingWorld("drops to .87 for the last 4 of 20", _drops(16), 20),
    AgingWorld("stays at .92, 20 weeks", _stays(0.92), 20),
    AgingWorld("stays at .93, 20 weeks", _stays(0.93), 20),
    AgingWorld("stays at .95, 20 weeks", _stays(0.95), 20),
    AgingWorld("stays at .93, 6 weeks", _stays(0.93), 6),
    AgingWorld("stays at .92, 40 weeks", _stays(0.92), 40),
    AgingWorld("stays at .93, 40 weeks", _stays(0.93), 40),
)


def certifies(world: AgingWorld, rng: np.random.Generator) -> tuple[bool, ...]:
    """Return which rules certify in one run."""
    rates = np.where(np.arange(world.weeks) < RAMP_UP_WEEKS, OFTEN, SELDOM)
    counts = rng.poisson(rates * DOCUMENTS)
    week = np.repeat(np.arange(world.weeks), counts) + rng.random(counts.sum())
    week.sort()
    wrong = rng.random(len(week)) >= world.accuracy(week)
    stays = rng.random(len(week)) < np.where(week < RAMP_UP_WEEKS, rates.min() / OFTEN, 1.0)
    proved, thinned = (_proves(errors) for errors in (wrong, wrong[stays]))
    evidence = drift_statistic(~wrong, TARGET)[-1]
    sure = np.ones(len(week))
    (by_now,) = recent_accuracy(np.array([0.5]), sure, wrong.astype(float), week, TARGET)
    fine = evidence * (1.0 - TARGET) < DRIFTING
    return proved, thinned, proved and bool(fine), proved and bool(by_now >= TARGET)


def _proves(wrong: NDArray[np.bool_]) -> bool:
    sample = Sample(len(wrong), int(wrong.sum()), 0, 1.0)
    return p_value(sample, 1.0 - TARGET, RISK) <= RISK


def main() -> None:
    """Print a line for each world."""
    parser = argparse.ArgumentParser(description="Certificates where the accuracy changes.")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=62)
    parser.add_argument("--record", action="store_true", help="write rows to results/aging.jsonl")
    given = parser.parse_args()
    print(f"{'':40}" + "".join(f"{rule:>10}" for rule in RULES), flush=True)
    for place, world in enumerate(WORLDS):
        rng = np.random.default_rng([given.seed, place])
        shares = np.mean([certifies(world, rng) for _ in range(given.runs)], axis=0)
        print(f"{world.name:40}" + "".join(f"{share:10.3f}" for share in shares), flush=True)
        if given.record:
            figures: dict[str, Figure] = dict(zip(RULES, shares.round(3).tolist(), strict=True))
            record(
                "aging", world.name, figures, seed=given.seed, code=["models/guarantees/trend.py"]
            )


if __name__ == "__main__":
    main()
