"""Certified thresholds in simulation: how often they fail, how much they send.

    python benchmarks/bench_trust.py [RUNS] [SEED] [METHOD…]

The defaults are 1,000 runs, seed 0 and all methods. A stream has confidences from Beta(2.2, 0.75).
They are either true or too high: the accuracy is then sigmoid(.75 logit(c) - .35). Each run draws n
audits from the whole stream, and 5,000 other predictions without labels. The target is .90 at the
risk .10.

A *violation* is a threshold above which the accuracy of the endless stream is below the target. The
*oracle* knows the stream and sends as much as it may. Violations must stay below the risk up to
Monte-Carlo error (three standard errors); otherwise, for a method that claims a guarantee, the
script exits with an error.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from setwise.models.guarantees.certificates import Certificate, Certification
from setwise.models.guarantees.noise import NoiseRates
from setwise.models.guarantees.thresholds import certify, certify_adjudicated
from setwise.models.research.noisy_audits import certify_noisy
from setwise.models.research.rival_thresholds import plugin_threshold, sgr_threshold

TARGET, RISK = 0.9, 0.1
SIZES = (200, 1000, 5000)
N_PREDICTIONS = 5000
N_STREAM = 1_000_000
REREAD = 0.5  # share of the agreements that a lead reads again
EVERY = 5  # the unfair assignment is played in one run of so many
GROUPS = (NoiseRates(0.1, 0.02), NoiseRates(0.3, 0.02), NoiseRates(0.5, 0.02))

Floats = NDArray[np.float64]


def true_chance(confidence: Floats) -> Floats:
    return confidence


def lower_chance(confidence: Floats) -> Floats:
    return np.asarray(expit(0.75 * logit(np.clip(confidence, 1e-12, 1 - 1e-12)) - 0.35))


class Stream(NamedTuple):
    """The endless stream: sorted confidences, and the accuracy of what lies above each."""

    chance: Callable[[Floats], Floats]
    confidence: Floats  # rising
    accuracy: Floats  # of the highest 1, 2, ...

    @classmethod
    def make(cls, chance: Callable[[Floats], Floats]) -> "Stream":
        """Draw so many confidences that what they say of accuracies is exact to a thousandth."""
        levels = np.sort(np.random.default_rng(987).beta(2.2, 0.75, N_STREAM))
        accuracy = np.cumsum(chance(levels[::-1])) / np.arange(1, N_STREAM + 1)
        return cls(chance, levels, accuracy)

    def judge(self, threshold: float | None) -> tuple[bool, float]:
        """Return whether a threshold misses the target, and the share that it sends."""
        if threshold is None:
            return False, 0.0
        sent = N_STREAM - int(np.searchsorted(self.confidence, threshold, side="left"))
        return sent > 0 and bool(self.accuracy[sent - 1] < TARGET), sent / N_STREAM

    @property
    def oracle(self) -> float:
        """The largest share that may be sent."""
        return (int(np.flatnonzero(self.accuracy >= TARGET)[-1]) + 1) / N_STREAM


class Audits(NamedTuple):
    """One run: predictions without labels, audits, truth, and what reviewers said."""

    predicted: Floats
    confidence: Floats
    right: NDArray[np.bool_]
    group: NDArray[np.int64]
    agreed: NDArray[np.bool_]
    draw: Floats


def draw_audits(stream: Stream, n: int, rng: np.random.Generator, *, informative: bool) -> Audits:
    predicted, confidence = rng.beta(2.2, 0.75, N_PREDICTIONS), rng.beta(2.2, 0.75, n)
    right = rng.random(n) < stream.chance(confidence)
    group = rng.integers(0, len(GROUPS), n)
    if informative:
        # Experts, group 0, get the easy documents, that is more of those predicted rightly.
        odds = np.where(right[:, None], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]).cumsum(axis=1)
        group = (rng.random((n, 1)) > odds).sum(axis=1)
    alpha = np.array([rates.alpha for rates in GROUPS])[group]
    beta = np.array([rates.beta for rates in GROUPS])[group]
    agreed = np.where(right, rng.random(n) >= alpha, rng.random(n) < beta)
    return Audits(predicted, confidence, right, group, agreed, rng.random(n))


def threshold_of(found: Certification) -> float | None:
    return found.threshold if isinstance(found, Certificate) else None


def clean(a: Audits) -> float | None:
    return threshold_of(certify(a.predicted, a.confidence, a.right, target=TARGET, risk=RISK))


def sgr(a: Audits) -> float | None:
    return sgr_threshold(a.confidence, a.right, TARGET, RISK)


def plugin(a: Audits) -> float | None:
    return plugin_threshold(a.predicted, TARGET)


def plugin_mean(a: Audits) -> float | None:
    return plugin_threshold(a.predicted, TARGET, "mean")


def adjudicated(a: Audits) -> float | None:
    found = certify_adjudicated(
        a.predicted,
        a.confidence,
        ~a.agreed & ~a.right,
        a.agreed & ~a.right & (a.draw < REREAD),
        REREAD,
        a.draw,
        target=TARGET,
        risk=RISK,
    )
    return threshold_of(found)


def noisy(a: Audits) -> float | None:
    return _noisy(a, random_assignment=True)


def betting(a: Audits) -> float | None:
    return _noisy(a, random_assignment=False)


def _noisy(a: Audits, *, random_assignment: bool) -> float | None:
    return certify_noisy(
        a.predicted,
        a.confidence,
        a.agreed,
        a.group,
        GROUPS,
        random_assignment=random_assignment,
        target=TARGET,
        risk=RISK,
    )


class Method(NamedTuple):
    """A way to choose a threshold; whether it claims a guarantee, and whom it meets."""

    name: str
    choose: Callable[[Audits], float | None]
    guaranteed: bool
    informative: bool = False


ALL_METHODS = (
    Method("fixed sequence", clean, guaranteed=True),
    Method("SGR", sgr, guaranteed=True),
    Method("plug-in c >= target", plugin, guaranteed=False),
    Method("plug-in mean c >= target", plugin_mean, guaranteed=False),
    Method("adjudicated", adjudicated, guaranteed=True),
    Method("noise .1/.3/.5, random", noisy, guaranteed=True),
    Method("noise .1/.3/.5, betting", betting, guaranteed=True),
    Method("easy ones to experts: mixture", noisy, guaranteed=False, informative=True),
    Method("easy ones to experts: betting", betting, guaranteed=True, informative=True),
)


def simulate(
    stream: Stream, methods: Sequence[Method], runs: int, seed: int
) -> dict[str, list[tuple[float, float]]]:
    """Return violations and automation of every method, one pair for each number of audits."""
    table: dict[str, list[tuple[float, float]]] = {method.name: [] for method in methods}
    for n in SIZES:
        outcomes: dict[str, list[tuple[bool, float]]] = {method.name: [] for method in methods}
        for run in range(runs):
            for informative in (False, True) if run % EVERY == 0 else (False,):
                audits = draw_audits(
                    stream, n, np.random.default_rng([seed, n, run]), informative=informative
                )
                for method in methods:
                    if method.informative is informative:
                        outcomes[method.name].append(stream.judge(method.choose(audits)))
        for name, found in outcomes.items():
            table[name].append(
                (float(np.mean([o[0] for o in found])), float(np.mean([o[1] for o in found])))
            )
    return table


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    methods = [m for m in ALL_METHODS if m.name in sys.argv[3:]] or list(ALL_METHODS)
    faults = []
    for title, chance in (("true confidences", true_chance), ("too high", lower_chance)):
        stream = Stream.make(chance)
        table = simulate(stream, methods, runs, seed)
        print(f"\n{title}: the oracle sends {stream.oracle:.3f}; violations / sent")
        print(f"{'':32}" + "".join(f"{f'n = {n}':>16}" for n in SIZES))
        for method in methods:
            cells = "".join(f"{f'{bad:.3f} / {sent:.3f}':>16}" for bad, sent in table[method.name])
            print(f"{method.name:32}{cells}")
            played = runs / EVERY if method.informative else runs
            allowed = RISK + 3 * np.sqrt(RISK * (1 - RISK) / played)
            if method.guaranteed and max(bad for bad, _ in table[method.name]) > allowed:
                faults.append(f"{method.name} violates more often than {allowed:.3f}, {title}")
        if not {"fixed sequence", "SGR"} <= table.keys():
            continue
        ours, theirs = table["fixed sequence"], table["SGR"]
        if any(mine[1] <= other[1] for mine, other in zip(ours, theirs, strict=True)):
            faults.append(f"SGR sends as much, {title}")
        share = ours[-1][1] / stream.oracle
        print(f"the fixed sequence sends {share:.1%} of the oracle's at n = {SIZES[-1]}")
        if chance is true_chance and share < 0.9:
            faults.append("less than nine tenths of the oracle's are sent")
    if faults:
        sys.exit("\n".join(faults))
    print(f"\n{runs} runs, seed {seed}: every guarantee held up to three standard errors")


if __name__ == "__main__":
    main()
