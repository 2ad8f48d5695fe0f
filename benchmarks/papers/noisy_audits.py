"""Thresholds from answers that no lead has checked, with known error rates.

Adjudicated audits prove more with fewer answers; see `benchmarks.bench_trust`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy import special

from benchmarks.papers.rival_thresholds import first_step, last_passed
from setwise.models.guarantees.audit_tests import count_above
from setwise.models.guarantees.checked import checked_confidences
from setwise.models.guarantees.noise import NoiseRates
from setwise.models.guarantees.sequence import plan_sequence

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Stakes of the bets, as shares of the largest stake without ruin. The best stake is the excess over
# the target divided by the variance of an answer, which spans this range.
_STAKES = np.geomspace(0.015, 0.75, 8)

# Range of a binomial around its mean. By Bernstein's inequality the probability outside it is below
# 1e-15.
_DEVIATIONS, _BEYOND = 8.0, 30


def certify_noisy(
    predicted: ArrayLike,
    confidence: ArrayLike,
    agreed: ArrayLike,
    group: ArrayLike,
    rates: Sequence[NoiseRates],
    *,
    random_assignment: bool,
    target: float,
    risk: float,
) -> float | None:
    """Return the lowest threshold that noisy audits prove, if any.

    Agreement is tested against what the target maps to, ``(1 - alpha) t + beta (1 - t)``, group by
    group. That is exact if documents were assigned to groups at random. Otherwise (an expert
    gets the easy cases, for example) only betting on unbiased single answers is valid; it needs
    more audits.

    Parameters
    ----------
    predicted : array-like of shape (n_predictions,)
        Confidences of predictions that were not audited, in [0, 1].
    confidence : array-like of shape (n_audits,)
        In the order in which the audits were drawn.
    agreed : array-like of shape (n_audits,)
        1 where the reviewer's blind set equals the predicted one, else 0.
    group : array-like of int, shape (n_audits,)
        Index into ``rates``.
    rates : sequence of NoiseRates
        Each with a positive `NoiseRates.separation`.
    random_assignment : bool
        Whether documents were given to groups at random.
    target, risk : float
        In (0, 1).
    """
    values = checked_confidences("confidence", confidence)
    answers, groups = np.asarray(agreed, dtype=bool), np.asarray(group, dtype=np.int64)
    sequence = plan_sequence(predicted)
    kind = MixtureTest if random_assignment else BettingTest
    test = kind(sequence.thresholds, values, answers, groups, rates)
    usual = mean_rate(rates, np.bincount(groups, minlength=len(rates)))
    null, likely = usual.at(target), usual.at(sequence.confidence)
    start = first_step(sequence, len(values), null, likely, risk)
    steps = range(start, len(sequence.thresholds))
    return last_passed(
        sequence.thresholds[start:], (test.p_value(step, target) <= risk for step in steps)
    )


class Rate(NamedTuple):
    """Rate of agreement at accuracy p: ``floor + slope p``."""

    floor: float
    slope: float

    def at(self, accuracy: ArrayLike) -> Floats:
        """Return the rate at these accuracies, in [0, 1]."""
        line = self.floor + self.slope * np.asarray(accuracy, dtype=np.float64)
        return np.asarray(np.clip(line, 0.0, 1.0))


class MixtureTest:
    r"""Test for noisy audits by several groups, assigned at random.

    Given how many audits of each group lie above a threshold, the number of agreements is a sum of
    binomials with the rates :math:`\beta_g + (1 - \alpha_g - \beta_g) p`. With one group this is
    the binomial test of the agreement at the mapped target.
    """

    def __init__(
        self,
        thresholds: Floats,
        confidence: Floats,
        agreed: Bools,
        group: Counts,
        rates: Sequence[NoiseRates],
    ) -> None:
        self._rates = rates
        self._n_by_group = np.stack(
            [count_above(thresholds, confidence[group == code]) for code in range(len(rates))]
        )
        self._n_good = count_above(thresholds, confidence[agreed])

    def p_value(self, step: int, accuracy: float) -> float:
        """Return the tail probability of a sum of binomials."""
        chance = [rate.agreement(accuracy) for rate in self._rates]
        return binomial_sum_tail(int(self._n_good[step]), self._n_by_group[:, step], chance)


def mean_rate(rates: Sequence[NoiseRates], counts: ArrayLike) -> Rate:
    """Return the rate of agreement over audits of several groups.

    Parameters
    ----------
    rates : sequence of NoiseRates, one a group
    counts : array-like of shape (n_groups,)
        Audits by each group; without any audit, groups have equal weight.
    """
    weight = np.asarray(counts, dtype=np.float64)
    share = weight / weight.sum() if weight.sum() else np.full(len(weight), 1.0 / len(weight))
    floor, slope = share @ np.array([(rate.beta, rate.separation) for rate in rates])
    return Rate(float(floor), float(slope))


def binomial_sum_tail(successes: int, trials: ArrayLike, rates: ArrayLike) -> float:
    """Return P(sum of independent Bin(trials_g, rates_g) >= successes).

    Each distribution is convolved over a range that leaves out less than 1e-15.

    Parameters
    ----------
    successes : int
    trials : array-like of int, shape (n_groups,)
    rates : array-like of shape (n_groups,)
        In [0, 1].

    Examples
    --------
    >>> round(binomial_sum_tail(2, [1, 1], [0.5, 0.9]), 12)
    0.45
    """
    mass, least = np.ones(1), 0
    for n, rate in zip(np.asarray(trials).tolist(), np.asarray(rates).tolist(), strict=True):
        reach = _DEVIATIONS * np.sqrt(n * rate * (1.0 - rate)) + _BEYOND
        low, high = max(int(n * rate - reach), 0), min(int(n * rate + reach) + 1, n)
        mass = np.convolve(mass, _binomial_mass(np.arange(low, high + 1), n, rate))
        least += low
    return float(min(mass[max(successes - least, 0) :].sum(), 1.0))


def _binomial_mass(successes: Counts, trials: int, rate: float) -> Floats:
    """Return P(Bin(trials, rate) = successes) without argument checks."""
    k, rest = successes, trials - successes
    ways = special.gammaln(trials + 1) - special.gammaln(k + 1) - special.gammaln(rest + 1)
    return np.asarray(np.exp(ways + special.xlogy(k, rate) + special.xlog1py(rest, -rate)))


class BettingTest:
    r"""Test for noisy audits by several groups, whatever the assignment.

    The answer :math:`\tilde v` of a reviewer of group :math:`g` is transformed to
    :math:`Z = (\tilde v - \beta_g) / (1 - \alpha_g - \beta_g)`, whose expectation is the accuracy
    whatever the assignment. The capital from staking :math:`\lambda` on each :math:`Z > t` is a
    supermartingale under the hypothesis, so it ever reaches ``1 / p`` with probability at most
    ``p`` (Ville). The capital here is the mean over a few fixed stakes; audits count in the order
    in which they were drawn.

    References
    ----------
    .. [1] I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by
       betting", Journal of the Royal Statistical Society B 86, 2024: capital processes.
    """

    def __init__(
        self,
        thresholds: Floats,
        confidence: Floats,
        agreed: Bools,
        group: Counts,
        rates: Sequence[NoiseRates],
    ) -> None:
        self._thresholds, self._confidence = thresholds, confidence
        beta = np.array([rate.beta for rate in rates])
        separation = np.array([rate.separation for rate in rates])
        self._values = (agreed - beta[group]) / separation[group]
        self._lowest = float((-beta / separation).min())

    def p_value(self, step: int, accuracy: float) -> float:
        """Return the inverse of the largest capital."""
        factors = _bets(self._values, accuracy, self._lowest)
        return float(_inverse_capital(factors, self._confidence >= self._thresholds[step]))


def _bets(values: Floats, mean: float, lowest: float) -> Floats:
    """Return each value's factor on each capital, shape (n, n_stakes)."""
    span = mean - lowest
    if not span > 0:
        raise ValueError(f"the mean {mean} must lie above the least possible value {lowest}")
    return 1.0 + (values[:, None] - mean) * (_STAKES / span)


@njit(cache=True, nogil=True)
def _inverse_capital(factors: Floats, chosen: Bools) -> float:  # pragma: no cover - compiled
    """Return the inverse of the largest mean capital, at most 1."""
    n, n_stakes = factors.shape
    capital = np.ones(n_stakes)
    largest = 1.0
    for i in range(n):
        if not chosen[i]:
            continue
        total = 0.0
        for j in range(n_stakes):
            capital[j] *= factors[i, j]
            total += capital[j]
        largest = max(largest, total / n_stakes)
    return 1.0 / largest
