"""Estimates shares with intervals from weighted or related samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    """

    estimate: float
    low: float
    high: float
    level: float
    n: int
    effective: float

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


class Weights(NamedTuple):
    """The least and the greatest inverse inclusion probability of some rows."""

    least: float
    most: float


def selected_bounds(
    hits: int, others: int, hit: Weights, other: Weights, risk: float
) -> tuple[float, float]:
    r"""Return exact bounds of a share from rows selected by their outcome.

    If hits are included with probability :math:`a` and other rows with :math:`b`, each included
    row is a hit with probability :math:`\theta = a s / (a s + b (1 - s))`, where :math:`s` is the
    share. So bounds of :math:`\theta` are bounds of :math:`s = b \theta / (b \theta + a (1 -
    \theta))`. If the inclusion probabilities vary, each bound takes the worst of them, since
    the number of hits only grows with each row's :math:`\theta`.

    Parameters
    ----------
    hits, others : int
    hit, other : Weights
        Their inverse inclusion probabilities.
    risk : float
        In (0, 1); of each bound.

    Examples
    --------
    >>> once = Weights(1.0, 1.0)
    >>> [round(bound, 3) for bound in selected_bounds(2, 20, Weights(5.0, 5.0), once, 0.05)]
    [0.077, 0.637]
    """
    n = hits + others
    low, high = float(lower_bound(hits, n, risk)), float(upper_bound(hits, n, risk))
    return (
        low * hit.least / (low * hit.least + (1.0 - low) * other.most),
        high * hit.most / (high * hit.most + (1.0 - high) * other.least),
    )


class StratumCounts(NamedTuple):
    """Rows of a stratum that were selected by their outcome; see `selected_bounds`."""

    hits: int
    others: int
    hit: Weights
    other: Weights


def stratified_bounds(strata: Sequence[StratumCounts], risk: float) -> tuple[float, float]:
    """Return bounds of a share from strata with other inclusion probabilities.

    Each stratum has exact bounds; those of their weighted sum are put together by the distances
    from the estimates [1]_, with the variance of the strata's estimated sizes, as if one more row
    of the largest weight were in each. A single stratum keeps its exact bounds.

    Parameters
    ----------
    strata : sequence of StratumCounts
        At least one row in all.
    risk : float
        In (0, 1); of each bound.

    References
    ----------
    .. [1] G. Zou and A. Donner, "Construction of confidence limits about effect measures: a general
       approach", Statistics in Medicine 27, 2008.

    Examples
    --------
    >>> once, often = Weights(1.0, 1.0), Weights(50.0, 50.0)
    >>> strata = [StratumCounts(30, 90, once, once), StratumCounts(30, 3, once, often)]
    >>> [round(bound, 3) for bound in stratified_bounds(strata, 0.05)]
    [0.132, 0.365]
    """
    some = [part for part in strata if part.hits + part.others]
    exact = np.array([selected_bounds(*part, risk) for part in some])
    if len(some) == 1:
        return float(exact[0, 0]), float(exact[0, 1])
    hits = np.array([part.hits * _middle(part.hit) for part in some])
    sizes = hits + np.array([part.others * _middle(part.other) for part in some])
    share, total = hits / sizes, sizes.sum()
    estimate = float(hits.sum() / total)
    spread = np.array(
        [
            part.hits * part.hit.most**2
            + part.others * part.other.most**2
            + max(part.hit.most, part.other.most) ** 2
            for part in some
        ]
    )
    of_sizes = scipy.stats.norm.isf(risk) ** 2 * (((share - estimate) / total) ** 2 @ spread)
    distances = sizes[:, None] / total * (exact - share[:, None])
    below, above = np.sqrt((distances**2).sum(axis=0) + of_sizes)
    return max(estimate - float(below), 0.0), min(estimate + float(above), 1.0)


def _middle(weights: Weights) -> float:
    return float((weights.least * weights.most) ** 0.5)


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
