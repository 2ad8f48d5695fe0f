r"""Test of the accuracy where audits come from two strata with different chances.

Audits are drawn often where sets may be sent and seldom elsewhere. A new calibrator mixes both
above its threshold: a share :math:`w` of these documents comes from the thin stratum. In the rich
one auditors find errors with probability :math:`D` and miss them with :math:`M`, of which a second
reading shows :math:`r`; in the thin one all agreements are read again, and a share :math:`e` is
wrong. The hypothesis is "at least a share :math:`q` is wrong for some :math:`w` in
:math:`[w_0, w_1]`",

.. math:: \max_{w \in \{w_0, w_1\}} (1 - w)(D + M) + w e \ge q.

**Theorem.** Let :math:`S` rise in all three counts :math:`(k_D, k_M, k_e)` and :math:`s` be its
observed value. The supremum of :math:`P(S \le s)` over the :math:`(D, M, e)` at which the maximum
is :math:`q` is a p-value.

*Proof.* The hypothesis is an upper set: lower :math:`D`, then :math:`M`, then :math:`e`, until the
maximum is :math:`q`. Couple the samples audit by audit, as in `setwise.models.guarantees.joint`: no
count grows, so :math:`S` does not, and :math:`P(S \le s)` only rises. ∎ On that surface the upper
end of the weights counts where :math:`e \ge q`, the lower one where :math:`e \le q`, so it has two
parameters, :math:`e` and :math:`M`. For :math:`e \in [e_0, e_1]` and :math:`M \in [a, b]` the
probability is at most that at the least of :math:`e`, :math:`M` and :math:`D`; boxes are halved
where this bound is too coarse.

:math:`S` is the signed root of the likelihood ratio between the hypothesis and all
:math:`(D, M, e)`. *It rises in each count*: the derivative of the ratio is a difference of
logarithms of odds, at the best point of the hypothesis and at the best of all points, and at the
former no share of errors is lower. The weighted estimate would be valid too, and has less power.

*The weights.* Of :math:`N` documents above the threshold, :math:`N_e` lie in the thin stratum. They
are independent of what audits find, so :math:`[w_0, w_1]` is Clopper and Pearson's interval, and it
spends a hundredth of the risk. With :math:`N_e / N` itself in place of :math:`w` the test would
reject true hypotheses more often than the risk allows.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from setwise.models.guarantees.binomial import lower_bound, upper_bound
from setwise.models.guarantees.joint import Sample, accuracy_bound, best_found
from setwise.models.results import SequenceStep

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

OF_THE_WEIGHTS = 0.01
"""Part of the risk that the interval of the weights spends."""

_BOXES = 6  # along each parameter, to begin with
_ROUNDS = 9  # of halving; then the bound is taken as it is, and stays valid
_MOST_BOXES = 4_000  # at a time
_HALVINGS = 40  # of where the best point may be
_TOUCHES = 1e-9  # a part of the share that is 0 but for rounding; with misses it is far larger
_NONE = 1e-300  # in place of a part that is 0
_NEARLY_ALL = 1.0 - 1e-9  # in place of a weight of 1, which leaves the rich stratum's share open
_TIE = 1e-7  # equal values of the statistic differ by the search's error only


class ThinSample(NamedTuple):
    """Audits of the thin stratum, all agreements read again.

    Attributes
    ----------
    n, wrong : int
        Audits, and errors found among them.
    documents, of : int
        Documents above the threshold in the thin stratum, and in both.
    """

    n: int
    wrong: int
    documents: int
    of: int

    def weights(self, risk: float) -> tuple[float, float]:
        """Return an interval of the stratum's share, missed with at most this probability."""
        return (
            float(lower_bound(self.documents, self.of, risk / 2.0)),
            float(upper_bound(self.documents, self.of, risk / 2.0)),
        )

    def accuracy(self, rich: Sample) -> float:
        """Return the estimated share that is right in both strata, in [0, 1]."""
        weight = self.documents / max(self.of, 1)
        return (1.0 - weight) * rich.accuracy + weight * (1.0 - self.wrong / max(self.n, 1))

    def accuracy_bound(self, rich: Sample, risk: float) -> float:
        """Return a lower bound of that share: simple, and lower than the test's."""
        low = accuracy_bound(rich, risk / 2.0)
        thin = float(lower_bound(self.n - self.wrong, self.n, risk / 2.0))
        return min((1.0 - w) * low + w * thin for w in self.weights(OF_THE_WEIGHTS * risk))


def two_strata_p_value(rich: Sample, thin: ThinSample, wrong: float, risk: float) -> float:
    """Return a p-value of "at least a share ``wrong`` of the sets is wrong".

    Parameters
    ----------
    rich : Sample
    thin : ThinSample
    wrong : float
        Share of wrong sets, in (0, 1).
    risk : float
        The p-value is sharp only as far as needed to compare it with this number. What the weights
        spend of it is included.

    Examples
    --------
    >>> thin = ThinSample(20, 0, 200, 1_000)
    >>> round(two_strata_p_value(Sample(80, 2, 0, 1.0), thin, 0.1, 0.1), 2)
    0.01
    >>> two_strata_p_value(Sample(80, 2, 0, 1.0), ThinSample(0, 0, 200, 1_000), 0.1, 0.1)
    1.0
    """
    for_weights = OF_THE_WEIGHTS * risk
    least, largest = thin.weights(for_weights)
    surface = _Surface(wrong, least, min(largest, _NEARLY_ALL), rich.reread_rate)
    observed = surface.root(
        rich,
        thin.n,
        *(np.array([float(count)]) for count in (rich.found_wrong, rich.missed, thin.wrong)),
    )
    if not observed[0] < 0.0:
        return 1.0
    most = surface.most_found(rich, thin.n, float(observed[0]) + _TIE)
    bound = surface.supremum(rich.n, thin.n, most, risk - for_weights)
    return min(bound + for_weights, 1.0)


class _Counts(NamedTuple):
    """Sizes of the rich and the thin sample, and triples of counts."""

    n: int
    m: int
    found: Floats
    missed: Floats
    errors: Floats


class _Surface(NamedTuple):
    """Where the hypothesis is just true."""

    wrong: float
    least: float
    largest: float
    rate: float

    def rich(self, thin: Floats) -> Floats:
        """Return the rich stratum's share of errors, from the thin one's."""
        weight = np.where(thin >= self.wrong, self.largest, self.least)
        part = np.maximum(1.0 - weight, _NONE)
        return np.clip((self.wrong - weight * thin) / part, 0.0, 1.0)

    @property
    def most_thin(self) -> float:
        """The largest share of errors of the thin stratum."""
        return min(1.0, self.wrong / max(self.largest, _NONE))

    def root(self, sample: Sample, n: int, found: Floats, missed: Floats, errors: Floats) -> Floats:
        """Return the signed root of the likelihood ratio; 0 under the hypothesis."""
        found, missed, errors = np.broadcast_arrays(found, missed, errors)
        seen = (found + missed / self.rate) / sample.n if sample.n else np.zeros(found.shape)
        ratio = errors / n if n else np.zeros(found.shape)
        under = np.maximum(
            (1.0 - self.least) * seen + self.least * ratio,
            (1.0 - self.largest) * seen + self.largest * ratio,
        )
        if self.rate >= 1.0:
            found, missed = found + missed, np.zeros(found.shape)
        free = _free(sample.n, found, missed) + _binomial(n, errors, ratio)
        counts = _Counts(sample.n, n, found, missed, errors)
        best = self._best(counts)
        return np.where(under < self.wrong, -np.sqrt(2.0 * np.maximum(free - best, 0.0)), 0.0)

    def _best(self, counts: _Counts) -> Floats:
        """Return the largest logarithm of the likelihood on the surface."""
        # Two concave parts, searched together along the first axis. With few errors of the thin
        # stratum, even a rich one that is all wrong may be too good for the hypothesis.
        least_thin = max(0.0, self.wrong - 1.0 + self.least) / max(self.least, _NONE)
        ends = np.array([[least_thin, self.wrong], [self.wrong, self.most_thin]])
        parts = (-1, *[1] * counts.found.ndim)
        weight = np.array([self.least, self.largest]).reshape(parts)
        lower, upper = (
            np.broadcast_to(ends[:, place].reshape(parts), (2, *counts.found.shape))
            for place in (0, 1)
        )
        others = counts.m - counts.errors

        def rich(thin: Floats) -> Floats:
            return np.asarray((self.wrong - weight * thin) / np.maximum(1.0 - weight, _NONE))

        for _ in range(_HALVINGS):
            thin = (lower + upper) / 2.0
            slope = (1.0 - weight) * _slope(counts.errors, others, thin)
            rises = slope > weight * _rich_slope(counts, rich(thin), self.rate)
            lower, upper = np.where(rises, thin, lower), np.where(rises, upper, thin)
        likelihoods = [
            _likelihood(counts, np.clip(rich(thin), 0.0, 1.0), self.rate)
            + _binomial(counts.m, counts.errors, thin)
            for thin in (lower, upper)
        ]
        return np.asarray(np.maximum(*likelihoods).max(axis=0))

    def most_found(self, sample: Sample, n: int, limit: float) -> Counts:
        """Return the most errors found that fit, by errors of the thin stratum and by misses.

        -1 where none fits. A triple of counts fits if its statistic is at most the limit.
        """
        share = min(1.0, self.wrong / max(1.0 - self.least, _NONE))
        most_missed = 0 if self.rate >= 1.0 else np.ceil(sample.n * self.rate * share) + 1.0
        errors, missed = np.meshgrid(
            np.arange(min(n, np.ceil(n * self.most_thin)) + 1.0),
            np.arange(min(sample.n, most_missed) + 1.0),
            indexing="ij",
        )
        fits = self.root(sample, n, np.zeros(errors.shape), missed, errors) <= limit
        rows = int(fits.any(axis=1).sum())
        columns = int(fits.any(axis=0).sum())
        errors, missed = errors[:rows, :columns], missed[:rows, :columns]
        fits = fits[:rows, :columns]
        low, high = np.where(fits, 0.0, -1.0), np.where(fits, sample.n - missed, -1.0)
        while (low < high).any():  # the statistic rises in each count
            middle = np.ceil((low + high) / 2.0)
            below = self.root(sample, n, np.maximum(middle, 0.0), missed, errors) <= limit
            below |= low == high
            low, high = np.where(below, middle, low), np.where(below, high, middle - 1.0)
        return low.astype(np.int64)

    def supremum(self, n: int, m: int, most: Counts, risk: float) -> float:
        """Return a bound of the largest probability of the counts that fit."""
        edges = np.concatenate(
            [
                np.linspace(0.0, self.wrong, _BOXES + 1)[:-1],
                np.linspace(self.wrong, self.most_thin, _BOXES + 1),
            ]
        )
        shares = np.linspace(0.0, 1.0, _BOXES + 1) if self.rate < 1.0 else np.array([0.0, 0.0])
        boxes = np.array(
            [(e0, e1, m0, m1) for e0, e1 in pairwise(edges) for m0, m1 in pairwise(shares)]
        )
        settled = 0.0
        for halving in range(_ROUNDS + 1):
            bounds = self._bounds(n, m, most, boxes)
            open_ = bounds > risk
            settled = max(settled, float(bounds[~open_].max(initial=0.0)))
            boxes, bounds = boxes[open_], bounds[open_]
            if not len(boxes):
                return settled
            if halving == _ROUNDS or len(boxes) > _MOST_BOXES:
                break
            middle = np.column_stack(
                [boxes[:, :2].mean(axis=1)] * 2 + [boxes[:, 2:].mean(axis=1)] * 2
            )
            if (self._bounds(n, m, most, middle) > risk).any():
                break
            boxes = _halved(boxes, middle, both=self.rate < 1.0)
        return max(settled, float(bounds.max()))

    def _bounds(self, n: int, m: int, most: Counts, boxes: Floats) -> Floats:
        """Return the probability at the lower corner of each box."""
        e0, e1, m0, m1 = boxes.T
        # Above the hypothesis' share the surface follows the largest weight, below it the least.
        above = e0 >= self.wrong
        weight = np.where(above, self.largest, self.least)
        part = np.maximum(1.0 - weight, _NONE)
        low = np.clip((self.wrong - weight * e1) / part, 0.0, 1.0)
        return _chance((n, m), most, ((1.0 - m1) * low, self.rate * m0 * low, e0))


def _halved(boxes: Floats, middle: Floats, *, both: bool) -> Floats:
    left, right = boxes.copy(), boxes.copy()
    left[:, 1] = right[:, 0] = middle[:, 0]
    parts = [left, right]
    if both:
        parts = []
        for box in (left, right):
            lower, upper = box.copy(), box.copy()
            lower[:, 3] = upper[:, 2] = middle[:, 2]
            parts += [lower, upper]
    return np.concatenate(parts)


def _binomial(n: int, errors: Floats, share: Floats) -> Floats:
    return np.asarray(special.xlogy(errors, share) + special.xlog1py(n - errors, -share))


def _likelihood(counts: _Counts, share: Floats, rate: float) -> Floats:
    """Return the largest logarithm of the rich stratum's likelihood with this share of errors."""
    n, found, missed = counts.n, counts.found, counts.missed
    if rate >= 1.0:
        return _binomial(n, found, share)
    best = best_found(n, found, missed, rate, share)
    misses = rate * (share - best)
    return np.asarray(
        special.xlogy(found, best)
        + special.xlogy(missed, misses)
        + special.xlogy(n - found - missed, np.maximum(1.0 - best - misses, 0.0))
    )


def _slope(found: Floats, others: Floats, share: Floats) -> Floats:
    """Return the derivative of a binomial likelihood's logarithm by its share."""
    return np.asarray(found / np.maximum(share, _NONE) - others / np.maximum(1.0 - share, _NONE))


def _rich_slope(counts: _Counts, share: Floats, rate: float) -> Floats:
    """Return the derivative of `_likelihood` by the share of errors."""
    n, found, missed = counts.n, counts.found, counts.missed
    unseen = n - found - missed
    if rate >= 1.0:
        return _slope(found, unseen, share)
    # Where the best D is inside its range, it adds nothing to the derivative; where it is as large
    # as the share itself, it grows with it.
    best = best_found(n, found, missed, rate, share)
    hidden = share - best
    inside = missed / np.maximum(hidden, _NONE) - unseen * rate / np.maximum(
        1.0 - best - rate * hidden, _NONE
    )
    return np.where(hidden > _TOUCHES * share, inside, _slope(found, unseen, share))


def _free(n: int, found: Floats, missed: Floats) -> Floats:
    """Return the largest logarithm of the likelihood of all."""
    unseen, size = n - found - missed, max(n, 1)
    return np.asarray(
        special.xlogy(found, found / size)
        + special.xlogy(missed, missed / size)
        + special.xlogy(unseen, unseen / size)
    )


def _chance(sizes: tuple[int, int], most: Counts, cells: tuple[Floats, Floats, Floats]) -> Floats:
    """Return the probability of the counts that fit, for each triple of cells."""
    (n, m), (found, misses, thin), (rows, columns) = sizes, cells, most.shape
    errors, j = np.arange(float(rows)), np.arange(float(columns))
    of_thin = np.exp(_choices(m, errors) + _binomial(m, errors, thin[:, None]))
    of_missed = np.exp(_choices(n, j) + _binomial(n, j, misses[:, None]))
    rate = np.minimum(found / np.maximum(1.0 - misses, _NONE), 1.0)
    fits = most >= 0
    rest = np.where(fits, n - j - most, 1.0)
    tail = np.where(
        fits & (rest > 0),
        special.betainc(np.maximum(rest, 1.0), most + 1.0, 1.0 - rate[:, None, None]),
        np.where(fits, 1.0, 0.0),
    )
    return np.asarray(np.einsum("be,bj,bej->b", of_thin, of_missed, tail))


def _choices(n: int, count: Floats) -> Floats:
    return np.asarray(
        special.gammaln(n + 1.0) - special.gammaln(count + 1.0) - special.gammaln(n - count + 1.0)
    )


def counts_of(step: SequenceStep) -> Sample:
    """Return a step's counts, as `models.guarantees.joint` reads them, without thin audits."""
    found_wrong = step.n_audits - step.n_good - step.n_missed - step.thin_wrong
    return Sample(step.n_audits - step.thin_audits, found_wrong, step.n_missed, step.reread_rate)


def thin_of(step: SequenceStep) -> ThinSample | None:
    """Return the audits that were drawn at a lower rate; None with one rate."""
    if step.documents == 0:
        return None
    return ThinSample(step.thin_audits, step.thin_wrong, step.thin_documents, step.documents)


def accuracy_of(step: SequenceStep) -> float:
    """Return the estimated accuracy of what is sent from a step's threshold up, in [0, 1]."""
    rich, thin = counts_of(step), thin_of(step)
    return rich.accuracy if thin is None else thin.accuracy(rich)


def bound_of(step: SequenceStep, risk: float) -> float:
    """Return a lower confidence bound of that accuracy, in [0, 1]."""
    rich, thin = counts_of(step), thin_of(step)
    return accuracy_bound(rich, risk) if thin is None else thin.accuracy_bound(rich, risk)
