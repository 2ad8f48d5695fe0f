r"""Tests of the accuracy from audits with second readings.

Let an auditor contradict a prediction, rightly, with probability :math:`D`, and agree with a wrong
one, a *miss*, with probability :math:`M`. A lead reads contradictions, and of the agreements those
whose keyed draw lies below the known probability :math:`r`. So of :math:`n` audits the errors found
by the auditor and by the second reading, :math:`(k_D, k_M)`, are multinomial with the cell
probabilities :math:`D` and :math:`rM`. Misses may be correlated with anything: with the confidence,
the document, the auditor.

**Theorem.** Let :math:`S(k_D, k_M)` rise in both arguments, :math:`s` be its observed value, and

.. math:: p = \sup_{0 \le M \le q} P_{D = q - M,\, M}(S \le s).

Then :math:`p` is a p-value of "at least a share :math:`q` of the sets is wrong".

*Proof.* If :math:`D + M \ge q`, lower :math:`D`, then :math:`M`, until the sum is :math:`q`.
Each unit of probability that leaves an error's cell goes to the cell of what was not found wrong.
Couple the two samples audit by audit: neither count grows, so :math:`S` does not, and
:math:`P(S \le s)` only rises. So it is at most :math:`p` computed at :math:`s`, and a tail
probability at the observed value is a p-value. ∎

The same coupling bounds the supremum by finitely many numbers: for :math:`M \in [a, b]`,
:math:`P_{q - M, M}(S \le s) \le P_{q - b, a}(S \le s)`. Intervals are halved where this bound is
too coarse.

:math:`S` is the signed root of the likelihood ratio between :math:`D + M = q` and all
:math:`(D, M)`. *It rises in both counts:* its derivative with respect to :math:`k_D` is, up to a
positive factor, the difference of the logarithms of :math:`D / (1 - D - rM)` at the constrained
and at the free optimum, and the Lagrange condition of the constraint gives it the right sign;
also for :math:`k_M`. At :math:`r = 1` it is a function of :math:`k_D + k_M`, and the test is
the binomial one.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy  # loads its parts when they are first used; `stats` takes a second
from numpy.typing import ArrayLike, NDArray
from scipy import special

from setwise.models.guarantees.binomial import (
    fewest,
    lower_bound,
    required_successes,
    upper_tail,
)

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_INTERVALS = 8  # of the misses' share, to begin with
_HALVINGS = 12  # then the bound is taken as it is; it stays valid
_BISECTIONS = 15  # of an accuracy, to a few parts in a million
_RARE = 1e-10  # probabilities that need no tail of their own
_NEVER = 1e-12  # a rate at which no number of audits is enough
_TIE = 1e-9  # equal values of the statistic differ by rounding errors only


class Sample(NamedTuple):
    """Audits with second readings.

    Attributes
    ----------
    n : int
        Audits.
    found_wrong, missed : int
        Errors found by auditors, and by second readings where the auditor agreed.
    reread_rate : float
        Probability, in [0, 1], of a second reading where the auditor agreed.
    """

    n: int
    found_wrong: int
    missed: int
    reread_rate: float

    @property
    def wrong(self) -> float:
        """Estimated number of wrong sets; infinite if misses cannot be found."""
        if self.reread_rate <= 0.0:
            return np.inf
        return self.found_wrong + self.missed / self.reread_rate

    @property
    def accuracy(self) -> float:
        """Estimated share that is right, in [0, 1]; each miss counts for those not read again."""
        return float(max(1.0 - self.wrong / max(self.n, 1), 0.0))


def p_value(sample: Sample, wrong: float, risk: float) -> float:
    """Return a p-value of "at least a share ``wrong`` of the sets is wrong".

    Parameters
    ----------
    sample : Sample
    wrong : float
        Share of wrong sets, in (0, 1).
    risk : float
        The p-value is sharp only as far as needed to compare it with this number.

    Examples
    --------
    >>> round(p_value(Sample(22, 0, 0, 1.0), 0.1, 0.1), 4)  # 0.9 ** 22
    0.0985
    >>> round(p_value(Sample(100, 2, 0, 0.5), 0.1, 0.05), 3)
    0.022
    """
    n, rate = sample.n, sample.reread_rate
    if rate >= 1.0:
        return float(upper_tail(n - sample.wrong, n, 1.0 - wrong))
    if sample.wrong >= n * wrong:
        return 1.0
    most = _most_found(sample, wrong)
    return _supremum(
        lambda middle: _chance(n, most, wrong - middle, rate * middle),
        lambda low, high: _chance(n, most, wrong - high, rate * low),
        wrong,
        risk,
    )


def accuracy_bound(sample: Sample, risk: float, *, least: float = 0.0) -> float:
    """Return the lower confidence bound of the accuracy: the highest that the test rejects.

    Parameters
    ----------
    sample : Sample
    risk : float
        Probability, in (0, 1), that the bound may lie above the accuracy.
    least : float, default=0
        An accuracy that is rejected, from which on the bound is searched.

    Examples
    --------
    >>> round(accuracy_bound(Sample(22, 0, 0, 1.0), 0.1), 4)  # 0.1 ** (1 / 22)
    0.9006
    >>> 0.88 < accuracy_bound(Sample(100, 2, 0, 0.5), 0.1) < 0.95
    True
    """
    if sample.reread_rate >= 1.0:
        return max(least, float(lower_bound(sample.n - sample.wrong, sample.n, risk)))
    low, high = least, max(least, sample.accuracy)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if p_value(sample, 1.0 - middle, risk) <= risk:
            low = middle
        else:
            high = middle
    return low


PLANNED_MISSES = 0.05
"""Share of the errors that planning expects auditors to miss."""


class Samples(NamedTuple):
    """Columns of several `Sample`, broadcastable."""

    n: ArrayLike
    found_wrong: ArrayLike
    missed: ArrayLike
    reread_rate: ArrayLike


def planned_power(
    further: ArrayLike, wrong: ArrayLike, before: Samples, most_wrong: float, risk: float
) -> Floats:
    r"""Return the approximate power of further audits.

    A proof must rule out that all errors are found, and that the errors beyond those found were
    missed: with :math:`j` misses, :math:`n r (q - k_D / n)` must reach the Poisson mean at which
    so few have the probability ``risk``.

    Parameters
    ----------
    further : array-like of int, broadcastable
    wrong : array-like
        Share of wrong sets, in [0, 1].
    before : Samples
        Earlier audits, which count too, and the rate of second readings.
    most_wrong : float
        Share to reject, in (0, 1).
    risk : float

    Examples
    --------
    >>> blank = Samples(0, 0, 0, [1.0, 1.0, 0.5])
    >>> planned_power([21, 22, 40], 0.0, blank, 0.1, 0.1).tolist()
    [0.0, 1.0, 0.0]
    """
    more, error, n, found, missed, rate = (
        np.asarray(column, dtype=np.float64) for column in (further, wrong, *before)
    )
    total, rate = more + n, np.maximum(rate, _NEVER)
    unread = np.where(rate < 1.0, PLANNED_MISSES, 0.0)  # at 1 all misses are found
    misses = missed + np.rint(more * rate * error * unread)
    if_all_found = total - required_successes(total, 1.0 - most_wrong, risk) - misses
    unseen = special.gammainccinv(misses + 1.0, risk) / rate
    if_missed = np.where(rate < 1.0, np.floor(total * most_wrong - unseen), np.inf)
    most = np.minimum(if_all_found, if_missed) - found
    chance = scipy.stats.binom.cdf(most, more, error * (1.0 - unread))
    return np.asarray(np.where(most >= 0, chance, 0.0))


def fewest_further(
    before: Samples, wrong: Floats, most_wrong: float, risk: float, power: float
) -> Counts:
    """Return the fewest further audits with a `planned_power`, or -1.

    -1 means that a million is not enough.
    """
    rows = Samples(*(np.asarray(column)[:, None] for column in before))
    return fewest(lambda sizes: planned_power(sizes, wrong[:, None], rows, most_wrong, risk), power)


def _supremum(
    at: Callable[[Floats], Floats],
    within: Callable[[Floats, Floats], Floats],
    wrong: float,
    risk: float,
) -> float:
    """Return an upper bound of the largest probability.

    Parameters
    ----------
    at : callable
        Probabilities at some shares of misses.
    within : callable
        Bounds of the probabilities between lower and upper shares.
    wrong : float
        The largest share.
    risk : float
        Intervals are halved until their bounds are below it, or some probability is above it.
    """
    edges = np.linspace(0.0, wrong, _INTERVALS + 1)
    low, high = edges[:-1], edges[1:]
    bounds = within(low, high)
    settled = 0.0
    for _ in range(_HALVINGS):
        open_ = bounds > risk
        settled = max(settled, float(bounds[~open_].max(initial=0.0)))
        low, high, bounds = low[open_], high[open_], bounds[open_]
        if len(low) == 0:
            break
        middle = (low + high) / 2
        if (at(middle) > risk).any():
            break
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        bounds = within(low, high)
    return min(max(settled, float(bounds.max(initial=0.0))), 1.0)


def signed_root(n: int, found: Floats, missed: Floats, reread_rate: float, wrong: float) -> Floats:
    """Return the signed root of the likelihood ratio, negative below ``wrong``."""
    unseen = n - found - missed
    upheld = best_found(n, found, missed, reread_rate, wrong)
    misses = reread_rate * (wrong - upheld)
    ratio = (
        special.xlogy(found, found / n)
        - special.xlogy(found, upheld)
        + special.xlogy(missed, missed / n)
        - special.xlogy(missed, misses)
        + special.xlogy(unseen, unseen / n)
        - special.xlogy(unseen, np.maximum(1.0 - upheld - misses, 0.0))
    )
    sign = np.sign(found + missed / reread_rate - n * wrong)
    return np.asarray(sign * np.sqrt(2.0 * np.maximum(ratio, 0.0)))


def best_found(
    n: int, found: Floats, missed: Floats, reread_rate: float, wrong: Floats | float
) -> Floats:
    """Return the likeliest D where D + M is ``wrong``."""
    # The root of the derivative of the likelihood along D + M = wrong, a quadratic equation in D.
    share, unseen = 1.0 - reread_rate, n - found - missed
    a, fine = share * n, 1.0 - reread_rate * wrong
    b = found * (fine + share * wrong) + missed * fine + unseen * share * wrong
    c = found * wrong * fine
    root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
    upheld = np.divide(2.0 * c, b + root, out=np.zeros_like(b), where=b > 0)
    return np.asarray(np.clip(upheld, 0.0, wrong))


def _most_found(sample: Sample, wrong: float) -> Counts:
    """Return, by number of misses, the most errors that fit.

    A pair of counts fits if its statistic is at most the observed one. The result ends before the
    first number of misses that does not fit even without errors found.
    """
    n = sample.n

    def statistic(found: Floats, misses: Floats) -> Floats:
        return signed_root(n, found, misses, sample.reread_rate, wrong)

    # Below the hypothesis the statistic is negative, so that few misses are possible.
    most_missed = min(n, int(np.ceil(n * wrong * sample.reread_rate)) + 1)
    misses = np.arange(most_missed + 1, dtype=np.float64)
    found, missed = (np.array([float(one)]) for one in (sample.found_wrong, sample.missed))
    limit = float(statistic(found, missed)[0]) + _TIE
    fits = statistic(np.zeros(len(misses)), misses) <= limit
    misses = misses[: int(fits.argmin()) if not fits.all() else None]
    low, high = np.zeros(len(misses)), n - misses
    while (low < high).any():  # the statistic rises in both counts
        middle = np.ceil((low + high) / 2)
        below = statistic(middle, misses) <= limit
        low, high = np.where(below, middle, low), np.where(below, high, middle - 1)
    return low.astype(np.int64)


def _chance(n: int, most: Counts, found: Floats, misses: Floats) -> Floats:
    """Return the probability of at most ``most[j]`` errors found with j missed.

    Parameters
    ----------
    found, misses : float64 ndarray of shape (m,)
        Probabilities of the two cells; their sum is below 1.
    """
    if len(most) == 0:
        return np.zeros(len(found))
    j = np.arange(len(most), dtype=np.float64)
    ways = special.gammaln(n + 1) - special.gammaln(j + 1) - special.gammaln(n - j + 1)
    cell = misses[:, None]
    mass = np.exp(ways + special.xlogy(j, cell) + special.xlog1py(n - j, -cell))
    rest = np.broadcast_to((n - j) - most, mass.shape)
    # A tail counts as 1 where so few misses are rare: its bound is one too.
    often = (mass > _RARE) & (rest > 0)
    rate = np.broadcast_to((found / (1.0 - misses))[:, None], mass.shape)
    limit = np.broadcast_to(most + 1.0, mass.shape)
    tail = np.ones(mass.shape)
    tail[often] = special.betainc(rest[often], limit[often], 1.0 - rate[often])
    return np.asarray((mass * tail).sum(axis=1))
