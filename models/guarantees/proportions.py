"""Estimates shares with intervals from weighted or related samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy  # loads its parts when they are first used; `stats` takes a second
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.binomial import lower_bound, upper_bound

Floats = NDArray[np.float64]

# Prior mean of the logarithm of the number of trials that the common rate is worth. It decides if
# few annotators leave that number undetermined.
_LOG_STRENGTH = float(np.log(20.0))
_LOG_STRENGTH_SPREAD = 1.5


@dataclass(frozen=True)
class Proportion:
    """A share of a population, estimated from a sample.

    Attributes
    ----------
    estimate, low, high : float
        In [0, 1]; without a sample .5, 0 and 1.
    level : float
        Confidence of the interval from ``low`` to ``high``.
    n : int
        Rows of the sample.
    effective : float
        Rows of an unweighted sample with the same information.
    possible : tuple of float
        Ends of a wider interval, outside which the share is impossible; the whole range by default.
    """

    estimate: float
    low: float
    high: float
    level: float
    n: int
    effective: float
    possible: tuple[float, float] = (0.0, 1.0)

    @property
    def standard_error(self) -> float:
        """Standard error, with half a row added to each outcome."""
        n = self.effective + 1.0
        share = (self.effective * self.estimate + 0.5) / n
        return float(np.sqrt(share * (1.0 - share) / n))

    def quantile(self, probability: float) -> float:
        """Return a quantile of the posterior under Jeffreys' prior."""
        hits = self.effective * self.estimate
        return float(scipy.stats.beta.ppf(probability, hits + 0.5, self.effective - hits + 0.5))

    def bounds(self, risk: float) -> tuple[float, float]:
        """Return a lower and an upper bound, each at this risk."""
        hits = self.effective * self.estimate
        return (
            float(lower_bound(hits, self.effective, risk)),
            float(upper_bound(hits, self.effective, risk)),
        )


def weighted_proportion(
    hit: ArrayLike, weight: ArrayLike | None = None, *, level: float = 0.9
) -> Proportion:
    """Estimate a share from rows with weights.

    Parameters
    ----------
    hit : array-like of shape (n,)
        0 or 1.
    weight : array-like of shape (n,), optional
        Positive, for example inverse inclusion probabilities.
    level : float, default=0.9
        Level of the two-sided interval, in (0, 1).

    Raises
    ------
    ValueError
        If lengths differ or a value is out of range.

    References
    ----------
    .. [1] E. Korn and B. Graubard, "Confidence intervals for proportions with small expected
       number of positive counts estimated from survey data", Survey Methodology 24, 1998: the
       exact interval at the effective sample size. Without weights it is Clopper and Pearson's.

    Examples
    --------
    >>> found = weighted_proportion([1, 0, 0, 0], [1, 1, 4, 4])
    >>> found.estimate, found.n
    (0.1, 4)
    """
    x = np.asarray(hit, dtype=np.float64)
    w = np.ones(len(x)) if weight is None else np.asarray(weight, dtype=np.float64)
    if x.ndim != 1 or x.shape != w.shape:
        raise ValueError(f"hits and weights must have one length, not {x.shape} and {w.shape}")
    if not np.all((x == 0) | (x == 1)) or not np.all((w > 0) & np.isfinite(w)):
        raise ValueError("a hit is 0 or 1 and a weight positive and finite")
    if len(x) == 0:
        return Proportion(0.5, 0.0, 1.0, level, 0, 0.0)
    total = w.sum()
    share = float(w @ x / total)
    variance = float(w**2 @ (x - share) ** 2) / total**2
    kish = float(total**2 / (w @ w))
    # Rows never count for more than themselves, even where rare outcomes have small weights.
    effective = min(share * (1.0 - share) / variance, len(x)) if variance > 0 else kish
    hits, side = float(effective) * share, (1.0 - level) / 2.0
    low, high = lower_bound(hits, effective, side), upper_bound(hits, effective, side)
    return Proportion(share, float(low), float(high), level, len(x), float(effective))


class WeightSums(NamedTuple):
    """Sums over rows, each weighted by the inverse of the probability that it was included.

    Attributes
    ----------
    total, squares : float
        Of the weights, and of their squares.
    largest : float
        The largest weight that a further row might have.
    """

    total: float
    squares: float
    largest: float

    @classmethod
    def of(cls, weights: Floats, largest: float) -> Self:
        """Return the sums of these weights."""
        return cls(float(weights.sum()), float(weights @ weights), largest)

    def plus(self, n: int) -> Self:
        """Return the sums with n rows of the largest weight."""
        return self._replace(
            total=self.total + n * self.largest, squares=self.squares + n * self.largest**2
        )

    @property
    def freedom(self) -> float:
        """Degrees of freedom: twice the number of equal rows that vary as much."""
        return 2.0 * self.total**2 / self.squares


def selected_bounds(hits: WeightSums, others: WeightSums, risk: float) -> tuple[float, float]:
    r"""Return bounds of a share from rows whose inclusion depends on their outcome.

    Both sums are nearly scaled gamma variables, so their ratio, the odds of the share, is bounded
    by quantiles of F, with one more row of the largest weight on the side that a bound must not
    underrate [1]_. With one weight for hits and one for other rows these are the bounds of Clopper
    and Pearson; else they are a little too wide.

    Parameters
    ----------
    hits, others : WeightSums
    risk : float
        In (0, 1); of each bound.

    References
    ----------
    .. [1] M. Fay, "Approximate confidence intervals for rate ratios from directly standardized
       rates with sparse data", Communications in Statistics: Theory and Methods 28, 1999.

    Examples
    --------
    >>> hits, others = WeightSums(10.0, 50.0, 5.0), WeightSums(20.0, 20.0, 1.0)  # 2 of 5, 20 of 1
    >>> [round(bound, 3) for bound in selected_bounds(hits, others, 0.05)]
    [0.077, 0.637]
    """
    low, high = 0.0, 1.0
    if hits.total > 0.0:
        odds = _odds(hits, others.plus(1), risk)
        low = odds / (1.0 + odds)
    if others.total > 0.0:
        odds = _odds(hits.plus(1), others, 1.0 - risk)
        high = odds / (1.0 + odds)
    return low, high


def _odds(hits: WeightSums, others: WeightSums, probability: float) -> float:
    quantile = scipy.stats.f.ppf(probability, hits.freedom, others.freedom)
    return float(quantile * hits.total / others.total)


def shrink_proportions(found: Sequence[Proportion], *, level: float = 0.9) -> list[Proportion]:
    """Shrink the rates of several sources towards each other.

    Sources with less data are shrunk more. Rates are taken as draws from a Beta distribution whose
    mean and strength are fitted to all sources together; each estimate is the mean of one source's
    posterior. The distribution is worth at most the trials of the other sources, and the interval
    is that of Clopper and Pearson with its trials added. So no interval is narrower than if all
    trials were of one source.

    Parameters
    ----------
    found : sequence of Proportion
    level : float, default=0.9
        Level of the intervals.

    Returns
    -------
    list of Proportion
        In the same order; ``effective`` includes the information from the other sources.

    References
    ----------
    .. [1] B. Efron and C. Morris, "Data Analysis Using Stein's Estimator and its Generalizations",
       JASA 70, 1975; here with binomial counts and a Beta prior.
    """
    trials = np.array([one.effective for one in found])
    hits = trials * np.array([one.estimate for one in found])
    if trials.sum() == 0:
        return list(found)
    pooled = (hits.sum() + 0.5) / (trials.sum() + 1.0)

    def negative_log_posterior(parameters: Floats) -> float:
        a, b = _beta(parameters)
        likelihood = scipy.special.betaln(a + hits, b + trials - hits) - scipy.special.betaln(a, b)
        surprise = (parameters[1] - _LOG_STRENGTH) / _LOG_STRENGTH_SPREAD
        return float(-likelihood.sum() + 0.5 * surprise**2)

    start = np.array([scipy.special.logit(pooled), _LOG_STRENGTH])
    bounds = [(-8.0, 8.0), (0.0, 10.0)]
    fitted = scipy.optimize.minimize(
        negative_log_posterior, start, method="L-BFGS-B", bounds=bounds
    )
    prior, strength = np.array(_beta(fitted.x)), np.exp(fitted.x[1])
    side = (1.0 - level) / 2.0
    shrunk = []
    for source, k, n in zip(found, hits.tolist(), trials.tolist(), strict=True):
        a, b = prior * min(1.0, (trials.sum() - n) / strength)
        successes, worth = float(a + k), float(a + b + n)
        low, high = lower_bound(successes, worth, side), upper_bound(successes, worth, side)
        estimate = successes / worth
        shrunk.append(Proportion(estimate, float(low), float(high), level, source.n, worth))
    return shrunk


def _beta(parameters: Floats) -> tuple[float, float]:
    """Return Beta parameters from logit mean and log strength."""
    mean, strength = scipy.special.expit(parameters[0]), np.exp(parameters[1])
    return float(mean * strength), float((1.0 - mean) * strength)
