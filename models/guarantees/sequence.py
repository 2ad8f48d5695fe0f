"""Fixed-sequence testing: thresholds in a label-free order until one fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # loads its parts when they are first used; `stats` takes a second
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.audit_tests import AUDITS_OF_A_CONFIDENCE, Tested
from setwise.models.guarantees.certificates import (
    Certificate,
    CertificateRefusal,
    Certification,
    RefusalReason,
)
from setwise.models.guarantees.checked import checked_confidences
from setwise.models.guarantees.strata import accuracy_of, bound_of
from setwise.models.results import SequenceStep

Floats = NDArray[np.float64]

N_THRESHOLDS = 150
"""Number of hypotheses of a sequence. More refine the threshold without extra risk."""

ASSUMED_ERRORS = (1.0, 1.5)
"""Errors that the choice of the first test expects, as multiples of those that confidences promise.

Where confidences are too high, a start that takes them at their word fails at once.
"""

PLANNED_POWER = 0.8
"""Probability of success for which further audits are planned."""

# Number of thresholds, spread over the sequence, for which a refusal plans audits.
_PLANNED_THRESHOLDS = 12
_BLOCK = 8  # hypotheses tested at a time
_ROUNDING = 1e-12  # of sums of weights


@dataclass(frozen=True, eq=False)
class ThresholdSequence:
    """Thresholds in the order of testing, independent of labels.

    Attributes
    ----------
    thresholds : float64 ndarray of shape (m,)
        Falling.
    share : float64 ndarray of shape (m,)
        Share of predictions at or above each threshold, in (0, 1].
    confidence : float64 ndarray of shape (m,)
        Mean confidence of these predictions.
    """

    thresholds: Floats
    share: Floats
    confidence: Floats

    def start(self, test: Tested, target: float) -> int:
        """Return the index of the first test, chosen before any outcome.

        It is where the test would have the highest power, on average over confidences that are
        right and that promise too few errors (`ASSUMED_ERRORS`): higher thresholds have too few
        audits, lower ones too little accuracy. Other confidences give a poor start, not a wrong
        certificate. Thresholds before it are never tested, those after it until one fails.
        """
        powers = [
            test.start_power(1.0 - np.minimum(worse * (1.0 - self.confidence), 1.0), target)
            for worse in ASSUMED_ERRORS
        ]
        return int(np.sum(powers, axis=0).argmax())


def plan_sequence(
    predicted: ArrayLike, weights: ArrayLike | None = None, *, n_thresholds: int = N_THRESHOLDS
) -> ThresholdSequence:
    """Return quantiles of the predicted confidences as thresholds.

    Parameters
    ----------
    predicted : array-like of shape (n_predictions,)
        Confidences of predictions other than the audits, in [0, 1]; at least one.
    weights : array-like of shape (n_predictions,), optional
        Positive: how many predictions each one stands for.
    n_thresholds : int, default=150

    Raises
    ------
    ValueError
        If a confidence is out of range or there is none.

    Examples
    --------
    >>> sequence = plan_sequence([0.99] * 50 + [0.6] * 50, n_thresholds=10)
    >>> sequence.thresholds, sequence.share
    (array([0.99, 0.6 ]), array([0.5, 1. ]))
    """
    pool = _Pool.of(predicted, weights)
    if len(pool.confidence) == 0:
        raise ValueError("predicted confidences must not be empty")
    levels = np.linspace(0.0, 1.0, n_thresholds + 1)[1:] * pool.mass[-1]
    rows = np.searchsorted(pool.mass, levels * (1.0 - _ROUNDING), side="left")
    return pool.sequence(np.unique(pool.confidence[rows])[::-1])


def ordered_sequence(
    order: ArrayLike, predicted: ArrayLike, weights: ArrayLike | None = None
) -> ThresholdSequence:
    """Return these falling thresholds, with the predictions' shares and means above them.

    Raises
    ------
    ValueError
        If there is no threshold, one is out of range, or they do not fall.
    """
    thresholds = checked_confidences("order", order)
    if len(thresholds) == 0 or (np.diff(thresholds) >= 0.0).any():
        raise ValueError("order must hold falling thresholds")
    return _Pool.of(predicted, weights).sequence(thresholds)


class _Pool(NamedTuple):
    """Confidences, falling, with the mass down to each and its product with them."""

    confidence: Floats
    mass: Floats
    product: Floats

    @classmethod
    def of(cls, predicted: ArrayLike, weights: ArrayLike | None) -> "_Pool":
        values = checked_confidences("predicted", predicted)
        order = np.argsort(-values, kind="stable")
        each = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
        confidence, mass = values[order], each[order]
        return cls(confidence, np.cumsum(mass), np.cumsum(mass * confidence))

    def sequence(self, thresholds: Floats) -> ThresholdSequence:
        above = np.searchsorted(-self.confidence, -thresholds, side="right")
        mass, product = (np.append(0.0, sums)[above] for sums in (self.mass, self.product))
        # Correct for rounding: a mean is never below its least value.
        mean = np.divide(product, mass, out=thresholds.copy(), where=mass > 0.0)
        share = np.minimum(mass / self.mass[-1], 1.0) if len(self.mass) else np.zeros(len(mass))
        return ThresholdSequence(thresholds, share, np.clip(mean, thresholds, 1.0))


class Claim(NamedTuple):
    """The claim to prove and its data; fields as in `Evidence`."""

    target: float
    risk: float
    test_risk: float
    n_audits: int
    n_predictions: int
    excluded: Mapping[str, int]
    looks: tuple[int, ...] | None = None
    order: tuple[float, ...] = ()


def walk(
    claim: Claim,
    sequence: ThresholdSequence,
    test: Tested,
    start: int,
) -> Certification:
    """Test thresholds in order and certify the last that passed and stands.

    Parameters
    ----------
    claim : Claim
    sequence : ThresholdSequence
    test : Tested
        Test of the same thresholds.
    start : int
        Index of the first test.
    """
    tested: list[float] = []
    end = len(sequence.thresholds)
    while start + len(tested) < end:  # in blocks: most sequences stop early
        first = start + len(tested)
        steps = np.arange(first, min(first + _BLOCK, end))
        found = test.p_values(steps, claim.target)
        failed = np.flatnonzero(~(found <= claim.test_risk))
        tested += found[: failed[0] + 1 if len(failed) else None].tolist()
        if len(failed):
            break
    passed = len(tested) - (not tested[-1] <= claim.test_risk)
    tests = np.arange(start, start + len(tested))
    recent = test.recent(sequence.thresholds[tests], claim.target)
    rows = tuple(
        SequenceStep(
            float(sequence.thresholds[step]),
            float(sequence.share[step]),
            int(test.n_above[step]),
            int(test.n_good[step]),
            test.sample(step).missed,
            float(test.reread_rate[step]),
            tested[place],
            None if recent is None else float(recent[place]),
            *(test.thin(step) or (0, 0, 0, 0)),
            *(test.once(step) or (None, None, None)),
        )
        for place, step in enumerate(tests.tolist())
    )
    standing = [place for place in range(passed) if not rows[place].drifting(claim.target)]
    if not standing:
        if passed:
            return CertificateRefusal(**claim._asdict(), steps=rows, reason=RefusalReason.DRIFTING)
        return _refuse(claim, sequence, test, rows, start)
    lowest = rows[standing[-1]]
    below = _spread(sequence)
    further = _plan_audits(claim, sequence, test, below[below >= start + passed])
    return Certificate(
        **claim._asdict(),
        steps=rows,
        threshold=lowest.threshold,
        coverage=lowest.coverage,
        n_above=lowest.n_audits,
        n_good=lowest.n_good,
        p_value=lowest.p_value,
        accuracy=accuracy_of(lowest),
        accuracy_bound=max(claim.target, bound_of(lowest, claim.test_risk)),
        next_audits=further.further,
        next_coverage=further.coverage,
    )


def _refuse(
    claim: Claim,
    sequence: ThresholdSequence,
    test: Tested,
    steps: tuple[SequenceStep, ...],
    start: int,
) -> CertificateRefusal:
    plan = _plan_audits(claim, sequence, test, _spread(sequence))
    return CertificateRefusal(
        **claim._asdict(),
        steps=steps,
        reason=_reason(claim, sequence, test, start, hopeful=plan.further is not None),
        further_audits=plan.further,
        further_if_all_good=plan.if_all_good,
        planned_threshold=plan.threshold,
    )


def _spread(sequence: ThresholdSequence) -> NDArray[np.int64]:
    """Return steps spread over the sequence, including the last."""
    last = len(sequence.thresholds) - 1
    return np.unique(np.linspace(0, last, _PLANNED_THRESHOLDS).astype(np.int64))


class _Plan(NamedTuple):
    further: int | None = None
    if_all_good: int | None = None
    threshold: float | None = None
    coverage: float | None = None


def _plan_audits(
    claim: Claim, sequence: ThresholdSequence, test: Tested, chosen: NDArray[np.int64]
) -> _Plan:
    """Estimate the fewest further audits that prove one of these thresholds."""
    if len(chosen) == 0:
        return _Plan()
    # Of further audits, as many lie above as of those before: they need not be uniform.
    n, worth = claim.n_audits, AUDITS_OF_A_CONFIDENCE
    share = (test.n_above[chosen] + worth * sequence.share[chosen]) / (n + worth)
    # Split the power between the test and the number of audits above the threshold.
    part = PLANNED_POWER**0.5
    above, all_good = test.needed(chosen, sequence.confidence[chosen], claim.target, part)
    above = np.where(above == 0, 1, above)  # passes alone, but the sequence did not reach it
    some = np.maximum(share, _ROUNDING)
    audits = np.where(above < 0, np.inf, above + scipy.stats.nbinom.ppf(part, np.abs(above), some))
    best = int(audits.argmin())
    if not np.isfinite(audits[best]):
        return _Plan()
    return _Plan(
        int(audits[best]),
        int(np.ceil(max(int(all_good[best]), 1) / some[best])),
        float(sequence.thresholds[chosen[best]]),
        float(sequence.share[chosen[best]]),
    )


def _reason(
    claim: Claim, sequence: ThresholdSequence, test: Tested, start: int, *, hopeful: bool
) -> RefusalReason:
    if claim.n_audits == 0:
        return RefusalReason.NO_AUDITS
    steps = _spread(sequence)
    below = test.p_values(steps[steps > start], claim.target)
    if (below <= claim.test_risk).any():
        return RefusalReason.BLOCKED_AT_TOP
    return RefusalReason.TOO_FEW_AUDITS if hopeful else RefusalReason.BELOW_TARGET
