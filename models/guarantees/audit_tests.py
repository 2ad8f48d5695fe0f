"""Tests of the accuracy of sent predictions, one per kind of audit."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy import special

from setwise.models.guarantees.binomial import upper_tail
from setwise.models.guarantees.noise import NoiseRates

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Stakes of the bets, as shares of the largest stake without ruin. The best stake is the excess over
# the target divided by the variance of an answer, which spans this range.
_STAKES = np.geomspace(0.015, 0.75, 8)


# Range of a binomial around its mean. By Bernstein's inequality the probability outside it is below
# 1e-15.
_DEVIATIONS, _BEYOND = 8.0, 30


class Rate(NamedTuple):
    """Rate of favourable audits at accuracy p: ``floor + slope p``.

    For error-free audits the rate is ``p``.
    """

    floor: float = 0.0
    slope: float = 1.0

    def at(self, accuracy: ArrayLike) -> Floats:
        """Return the rate at these accuracies, in [0, 1]."""
        line = self.floor + self.slope * np.asarray(accuracy, dtype=np.float64)
        return np.asarray(np.clip(line, 0.0, 1.0))

    def accuracy(self, rate: ArrayLike) -> Floats:
        """Return the accuracies, in [0, 1], at these rates."""
        line = (np.asarray(rate, dtype=np.float64) - self.floor) / self.slope
        return np.asarray(np.clip(line, 0.0, 1.0))


class AuditTest(Protocol):
    """Audits along a sequence of thresholds, with a test of each.

    Attributes
    ----------
    rate : Rate
        Used for planning.
    n_above, n_good : int64 ndarray of shape (m,)
        Audits at or above each threshold, and those of them in favour of the model.
    """

    rate: Rate
    n_above: Counts
    n_good: Counts

    def p_values(self, steps: NDArray[np.integer], accuracy: float) -> Floats:
        """Return each step's p-value of "the accuracy above is at most this"."""

    def estimate(self, step: int) -> float:
        """Return the estimated accuracy above threshold ``step``, in [0, 1]."""


def count_above(thresholds: Floats, confidence: Floats, good: Bools) -> Counts:
    """Return counts (2, m) of audits and good audits per threshold."""

    def count(values: Floats) -> Counts:
        return len(values) - np.searchsorted(np.sort(values), thresholds, side="left")

    return np.stack([count(confidence), count(confidence[good])])


class BinomialTest:
    """Test for identically distributed audits: the good ones are binomial."""

    def __init__(
        self,
        thresholds: Floats,
        confidence: Floats,
        good: Bools,
        rate: Rate = Rate(),  # noqa: B008  # immutable
    ) -> None:
        self.rate = rate
        self.n_above, self.n_good = count_above(thresholds, confidence, good)

    def p_values(self, steps: NDArray[np.integer], accuracy: float) -> Floats:
        """Return binomial tail probabilities."""
        return upper_tail(self.n_good[steps], self.n_above[steps], self.rate.at(accuracy))

    def estimate(self, step: int) -> float:
        """Return the accuracy at the observed rate."""
        return float(self.rate.accuracy(self.n_good[step] / max(self.n_above[step], 1)))


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
        by_group = [
            count_above(thresholds, confidence[group == code], agreed[group == code])
            for code in range(len(rates))
        ]
        self._n_by_group = np.stack([counts[0] for counts in by_group])
        self.n_above = self._n_by_group.sum(axis=0)
        self.n_good = np.sum([counts[1] for counts in by_group], axis=0)
        self.rate = mean_rate(rates, np.bincount(group, minlength=len(rates)))

    def p_values(self, steps: NDArray[np.integer], accuracy: float) -> Floats:
        """Return tail probabilities of sums of binomials."""
        chance = [rate.agreement(accuracy) for rate in self._rates]
        tails = [
            binomial_sum_tail(int(self.n_good[step]), self._n_by_group[:, step], chance)
            for step in steps
        ]
        return np.array(tails)

    def estimate(self, step: int) -> float:
        """Return the accuracy at which the observed agreement is expected."""
        rate = mean_rate(self._rates, self._n_by_group[:, step])
        return float(rate.accuracy(self.n_good[step] / max(self.n_above[step], 1)))


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
        self.n_above, self.n_good = count_above(thresholds, confidence, agreed)
        self._thresholds, self._confidence = thresholds, confidence
        beta = np.array([rate.beta for rate in rates])
        separation = np.array([rate.separation for rate in rates])
        self._values = (agreed - beta[group]) / separation[group]
        self._lowest = float((-beta / separation).min())
        self.rate = mean_rate(rates, np.bincount(group, minlength=len(rates)))

    def p_values(self, steps: NDArray[np.integer], accuracy: float) -> Floats:
        """Return the inverses of the largest capitals."""
        factors = _bets(self._values, accuracy, self._lowest)
        above = [self._confidence >= self._thresholds[step] for step in steps]
        return np.array([_inverse_capital(factors, chosen) for chosen in above])

    def estimate(self, step: int) -> float:
        """Return the mean of the unbiased values, clipped to [0, 1]."""
        above = self._confidence >= self._thresholds[step]
        return float(np.clip(self._values[above].mean(), 0.0, 1.0)) if above.any() else 0.0


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
