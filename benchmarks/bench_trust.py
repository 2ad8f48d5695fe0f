"""Certified thresholds in simulation: how often they fail, how much they send.

    python -m benchmarks.bench_trust [RUNS] [SEED] [PART…]

The defaults are 1,000 runs, seed 0 and all parts: methods, fewer, misses, moments, retests. A
stream has confidences from Beta(2.2, 0.75). They are either true or too high: the accuracy is then
sigmoid(.75 logit(c) - .35). Each run draws n audits from the whole stream, and 5,000 other
predictions without labels. The target is .90 at the risk .10.

A *violation* is a threshold above which the accuracy of the endless stream is below the target. The
*oracle* knows the stream and sends as much as it may. Violations must stay below the risk up to
Monte-Carlo error (three standard errors); otherwise, for a method that claims a guarantee, the
script exits with an error.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from benchmarks.papers.noisy_audits import certify_noisy
from benchmarks.papers.rival_thresholds import (
    bonferroni_threshold,
    certify_clean,
    first_step,
    plugin_threshold,
    pooled_threshold,
    sgr_threshold,
    strict_threshold,
)
from benchmarks.papers.weighted_audits import weighted_threshold
from setwise.models.guarantees.certificates import Certificate, Certification
from setwise.models.guarantees.drift import bet_factors
from setwise.models.guarantees.noise import NoiseRates
from setwise.models.guarantees.retest import RUN_LENGTH
from setwise.models.guarantees.sequence import plan_sequence
from setwise.models.guarantees.thresholds import certify_adjudicated

TARGET, RISK = 0.9, 0.1
SIZES = (250, 1000, 5000)
N_PREDICTIONS = 5000
N_STREAM = 1_000_000
LARGE = 5  # the slow tests on the largest samples are run once in so many runs
GROUPS = (NoiseRates(0.1, 0.02), NoiseRates(0.3, 0.02), NoiseRates(0.5, 0.02))

STAKES = np.geomspace(0.015, 0.75, 8)  # shares of the largest stake that cannot ruin

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def true_chance(confidence: Floats) -> Floats:
    return confidence


def lower_chance(confidence: Floats) -> Floats:
    return np.asarray(expit(0.75 * logit(np.clip(confidence, 1e-12, 1 - 1e-12)) - 0.35))


def rising(most: float) -> Callable[[Floats], Floats]:
    """Return miss rates that rise from .02 to ``most`` above a confidence of .6."""
    return lambda c: 0.02 + (most - 0.02) * np.clip((c - 0.6) / 0.35, 0.0, 1.0)


def always(rate: float) -> Callable[[Floats], Floats]:
    return lambda c: np.full(len(c), rate)


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

    def judge(self, threshold: float | None, target: float = TARGET) -> tuple[bool, float]:
        """Return whether a threshold misses the target, and the share that it sends."""
        if threshold is None:
            return False, 0.0
        sent = N_STREAM - int(np.searchsorted(self.confidence, threshold, side="left"))
        return sent > 0 and bool(self.accuracy[sent - 1] < target), sent / N_STREAM

    @property
    def oracle(self) -> float:
        """The largest share that may be sent."""
        return (int(np.flatnonzero(self.accuracy >= TARGET)[-1]) + 1) / N_STREAM


class Audits(NamedTuple):
    """One run: predictions without labels, audits, truth, and draws of second readings."""

    predicted: Floats
    confidence: Floats
    right: Bools
    overlooked: Bools
    draw: Floats
    rng: np.random.Generator
    chance: Callable[[Floats], Floats]


def draw_audits(
    stream: Stream, n: int, seed: list[int], misses: Callable[[Floats], Floats]
) -> Audits:
    rng = np.random.default_rng(seed)
    predicted, confidence = rng.beta(2.2, 0.75, N_PREDICTIONS), rng.beta(2.2, 0.75, n)
    right = rng.random(n) < stream.chance(confidence)
    overlooked = rng.random(n) < misses(confidence)
    return Audits(predicted, confidence, right, overlooked, rng.random(n), rng, stream.chance)


def threshold_of(found: Certification) -> float | None:
    return found.threshold if isinstance(found, Certificate) else None


def clean(a: Audits) -> float | None:
    return threshold_of(certify_clean(a.predicted, a.confidence, a.right, target=TARGET, risk=RISK))


def adjudicated(a: Audits, rate: float | Floats) -> float | None:
    found = certify_adjudicated(
        a.predicted,
        a.confidence,
        ~a.right & ~a.overlooked,
        ~a.right & a.overlooked & (a.draw < rate),
        rate,
        a.draw,
        target=TARGET,
        risk=RISK,
    )
    return threshold_of(found)


def focused(a: Audits) -> float | None:
    """Read all agreements again where the confidence makes sending plausible, others never."""
    plausible = plugin_threshold(a.predicted, TARGET - 0.05, "mean") or 0.0
    return adjudicated(a, np.where(a.confidence >= plausible, 0.5, 0.0))


def pooled(a: Audits, rate: float) -> float | None:
    again = a.draw < rate
    found = ~a.right & (~a.overlooked | again)
    missed = int((~a.right & a.overlooked & again).sum()), int((~a.right & again).sum())
    return pooled_threshold(a.predicted, a.confidence, found, missed, rate, TARGET, RISK)


def noisy(a: Audits, *, random_assignment: bool, easy_to_experts: bool = False) -> float | None:
    """Certify from answers of three groups of known error rates, without a lead."""
    n, rng = len(a.right), a.rng
    group = rng.integers(0, len(GROUPS), n)
    if easy_to_experts:  # that is, more of those predicted rightly
        odds = np.where(a.right[:, None], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]).cumsum(axis=1)
        group = (rng.random((n, 1)) > odds).sum(axis=1)
    alpha = np.array([rates.alpha for rates in GROUPS])[group]
    beta = np.array([rates.beta for rates in GROUPS])[group]
    agreed = np.where(a.right, rng.random(n) >= alpha, rng.random(n) < beta)
    return certify_noisy(
        a.predicted,
        a.confidence,
        agreed,
        group,
        GROUPS,
        random_assignment=random_assignment,
        target=TARGET,
        risk=RISK,
    )


def powered(a: Audits, test: Literal["bets", "normal"]) -> float | None:
    """Let confidences foretell answers, as prediction-powered estimates do."""
    return weighted_threshold(*a[:3], TARGET, RISK, foretold=1.0, test=test)


def by_importance(a: Audits, test: Literal["bets", "normal"]) -> float | None:
    """Audit as many documents, in proportion to the root of the error that is expected."""
    pool = a.rng.beta(2.2, 0.75, 6 * len(a.right))
    often = np.sqrt(1.02 - pool)
    confidence = a.rng.choice(pool, len(a.right), replace=False, p=often / often.sum())
    right = a.rng.random(len(confidence)) < a.chance(confidence)
    weight = 1.0 / np.sqrt(1.02 - confidence)
    return weighted_threshold(
        a.predicted, confidence, right, TARGET, RISK, weight=weight, test=test
    )


class Method(NamedTuple):
    """A way to choose a threshold, and whether it claims a guarantee."""

    name: str
    choose: Callable[[Audits], float | None]
    guaranteed: bool = True
    slow: bool = False


METHODS = (
    Method("fixed sequence", clean),
    Method("fixed sequence from the top", lambda a: strict_threshold(*a[:3], TARGET, RISK)),
    Method("Bonferroni", lambda a: bonferroni_threshold(*a[:3], TARGET, RISK)),
    Method("SGR", lambda a: sgr_threshold(a.confidence, a.right, TARGET, RISK)),
    Method("plug-in c >= target", lambda a: plugin_threshold(a.predicted, TARGET), False),
    Method(
        "plug-in mean c >= target", lambda a: plugin_threshold(a.predicted, TARGET, "mean"), False
    ),
    Method("adjudicated, re-read .1", lambda a: adjudicated(a, 0.1), slow=True),
    Method("adjudicated, re-read .5", lambda a: adjudicated(a, 0.5), slow=True),
    Method("adjudicated, re-read .5 near the top", focused, slow=True),
    Method("noise known, random", lambda a: noisy(a, random_assignment=True), slow=True),
    Method("noise known, betting", lambda a: noisy(a, random_assignment=False), slow=True),
    Method(
        "easy ones to experts: mixture",
        lambda a: noisy(a, random_assignment=True, easy_to_experts=True),
        guaranteed=False,
        slow=True,
    ),
    Method(
        "easy ones to experts: betting",
        lambda a: noisy(a, random_assignment=False, easy_to_experts=True),
        slow=True,
    ),
)


FEWER = (
    Method("exact", clean),
    Method("bets", lambda a: weighted_threshold(*a[:3], TARGET, RISK)),
    Method("prediction-powered, bets", lambda a: powered(a, "bets")),
    Method("importance audits, bets", lambda a: by_importance(a, "bets")),
    Method("normal", lambda a: weighted_threshold(*a[:3], TARGET, RISK, test="normal"), False),
    Method("prediction-powered, normal", lambda a: powered(a, "normal"), False),
    Method("importance audits, normal", lambda a: by_importance(a, "normal"), False),
)


def rate_of_violations(  # noqa: PLR0917 -- one cell of a table
    stream: Stream, method: Method, n: int, runs: int, seed: int, misses: Callable[[Floats], Floats]
) -> tuple[float, float]:
    """Return violations and automation."""
    outcomes = [
        stream.judge(method.choose(draw_audits(stream, n, [seed, n, run], misses)))
        for run in range(runs)
    ]
    return float(np.mean([bad for bad, _ in outcomes])), float(np.mean([o[1] for o in outcomes]))


def allowed(runs: int) -> float:
    return float(RISK + 3 * np.sqrt(RISK * (1 - RISK) / runs))


def compare_fewer(runs: int, seed: int) -> list[str]:
    return compare_methods(runs, seed, FEWER)


def compare_methods(runs: int, seed: int, methods: Sequence[Method] = METHODS) -> list[str]:
    faults = []
    for title, chance in (("true confidences", true_chance), ("too high", lower_chance)):
        stream = Stream.make(chance)
        print(f"\n{title}: the oracle sends {stream.oracle:.3f}; violations / sent")
        print(f"{'':38}" + "".join(f"{f'n = {n}':>16}" for n in SIZES), flush=True)
        for method in methods:
            cells = ""
            for n in SIZES:
                played = max(runs // LARGE, 1) if method.slow and n == SIZES[-1] else runs
                bad, sent = rate_of_violations(stream, method, n, played, seed, always(0.02))
                cells += f"{f'{bad:.3f} / {sent:.3f}':>16}"
                if method.guaranteed and bad > allowed(played):
                    faults.append(f"{method.name} violates in {bad:.3f} of the runs, {title}")
            print(f"{method.name:38}{cells}", flush=True)
    return faults


def compare_misses(runs: int, seed: int, n: int = 4000, rate: float = 0.1) -> list[str]:
    """Let auditors miss errors in ways that one pooled rate cannot describe."""
    faults = []
    settings = (
        ("misses .02", always(0.02)),
        ("misses .02 to .5, rising", rising(0.5)),
        ("misses .02 to .8, rising", rising(0.8)),
        ("misses .3", always(0.3)),
        ("misses .99", always(0.99)),
    )
    print(f"\nn = {n}, re-read {rate}; violations / sent")
    print(f"{'':32}{'pooled':>16}{'joint':>16}{'pooled':>16}{'joint':>16}  (true; too high)")
    streams = [Stream.make(chance) for chance in (true_chance, lower_chance)]
    for title, misses in settings:
        cells = ""
        for stream in streams:
            for method in (
                Method("pooled", lambda a: pooled(a, rate), guaranteed=False),
                Method("joint", lambda a: adjudicated(a, rate)),
            ):
                bad, sent = rate_of_violations(stream, method, n, runs, seed, misses)
                cells += f"{f'{bad:.3f} / {sent:.3f}':>16}"
                if method.guaranteed and bad > allowed(runs):
                    faults.append(f"{title}: {method.name} violates in {bad:.3f} of the runs")
        print(f"{title:32}{cells}", flush=True)
    return faults


def risk_of_attempt(risk: float, attempt: int) -> float:
    """Return the share of one of several attempts, as if they looked at different data."""
    return risk / (attempt * (attempt + 1))


def compare_moments(runs: int, seed: int) -> list[str]:
    """Count audits until the first certificate: a schedule of attempts, or bets at every audit."""
    stream, most = Stream.make(true_chance), 40_000
    print("\naudits of the whole stream until the first certificate, median (90 %), and violations")
    for target in (0.9, 0.95):
        first = int(np.ceil(12 * np.ceil(np.log(RISK / 2) / np.log(target))))
        ends: dict[str, list[tuple[int, bool]]] = {"schedule": [], "bets": []}
        for run in range(max(runs // 2, 1)):
            a = draw_audits(stream, most, [seed, most, run], always(0.0))
            n, attempt, threshold = first, 1, None
            while threshold is None and n <= most:
                risk = risk_of_attempt(RISK, attempt)
                threshold = threshold_of(
                    certify_clean(
                        a.predicted, a.confidence[:n], a.right[:n], target=target, risk=risk
                    )
                )
                n, attempt = int(np.ceil(1.5 * n)), attempt + 1
            ends["schedule"].append((int(n / 1.5), stream.judge(threshold, target)[0]))
            sequence = plan_sequence(a.predicted)
            step = first_step(sequence, first, target, sequence.confidence, RISK / 2)
            start = sequence.thresholds[step]
            rows = np.flatnonzero(a.confidence >= start)
            factors = 1 + STAKES * (a.right[rows, None] - target) / target
            capital = np.exp(np.cumsum(np.log(factors), axis=0)).mean(axis=1)
            passed = np.flatnonzero(capital >= 1 / RISK)
            found = len(passed) > 0
            end = int(rows[passed[0]]) + 1 if found else most
            ends["bets"].append((end, found and stream.judge(float(start), target)[0]))
        for name, found_at in ends.items():
            at, false = [one for one, _ in found_at], np.mean([bad for _, bad in found_at])
            print(
                f"target {target}, {name}: {np.median(at):.0f} ({np.quantile(at, 0.9):.0f}); "
                f"{false:.3f}",
                flush=True,
            )
    return []


def compare_retests(runs: int, seed: int) -> list[str]:
    """Let the accuracy drop, and count audits until the certificate's threshold is given up."""
    rng, factors = np.random.default_rng(seed), bet_factors(TARGET)

    def times(before: float, after: float, n: int, alarm: float) -> NDArray[np.int64]:
        accuracy = np.repeat([before, after], [300, n])
        capital = np.zeros((runs, factors.shape[1]))
        first = np.zeros(runs, dtype=np.int64)
        for i, chance in enumerate(accuracy):
            capital = (capital + 1) * factors[(rng.random(runs) < chance).astype(int)]
            first[(first == 0) & (capital.mean(axis=1) >= alarm)] = i + 1
        return first

    print("\naudits above the threshold until an alarm, median (90 %)")
    for alarm in (200.0, RUN_LENGTH, 1000.0, 5000.0):
        cells = []
        for after in (0.88, 0.85):
            found = times(0.92, after, 2500, alarm)
            late = np.where(found > 300, found - 300, 10**6)[(found == 0) | (found > 300)]
            cells.append(f"to {after}: {np.median(late):.0f} ({np.quantile(late, 0.9):.0f})")
        false = [np.mean(times(p, p, 700, alarm) > 0) for p in (0.92, 0.93)]
        print(f"run length {alarm:.0f}: {'; '.join(cells)}; false in 1,000 at .92, .93: {false}")
    return []


PARTS = {
    "methods": compare_methods,
    "fewer": compare_fewer,
    "misses": compare_misses,
    "moments": compare_moments,
    "retests": compare_retests,
}


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    faults = []
    for part in sys.argv[3:] or PARTS:
        faults += PARTS[part](runs, seed)
    if faults:
        sys.exit("\n".join(faults))
    print(f"\n{runs} runs, seed {seed}: every guarantee held up to three standard errors")


if __name__ == "__main__":
    main()
