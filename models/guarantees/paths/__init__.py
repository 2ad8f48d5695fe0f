r"""Tests of the accuracy at several looks at the same growing audits.

Looks at :math:`n_1 < n_2 < \dots` audits above a threshold share one risk: :math:`a_k` of it is
spent by look :math:`k`. Look :math:`k` rejects "at least a share :math:`q` of the sets is wrong" if
the statistic :math:`S_k` of `setwise.models.guarantees.joint` is at most :math:`c_k`. The limits
are chosen one after the other, each as large as

.. math:: \sup_{0 \le M \le q} P_{D = q - M,\, M}(S_i \le c_i \text{ for some } i \le k) \le a_k

allows. They follow from the sizes of the looks alone, never from what was found.

**Theorem.** If the sizes do not depend on what audits find, the probability that any look by
:math:`k` rejects a true hypothesis is at most :math:`a_k`.

*Proof.* As in `joint`, lower :math:`D`, then :math:`M`, until their sum is :math:`q`, and couple
the samples audit by audit. No count at any look grows, each :math:`S_i` rises in its counts, so
every look that rejects before still rejects. So the probability under the hypothesis is at most the
supremum on :math:`D + M = q`. ∎ The share of errors that auditors miss may change from one audit to
the next: the simulations of the tests find no worse case than a constant one.

The same coupling bounds the supremum by finitely many numbers: for :math:`M \in [a, b]` the
probability is at most that at :math:`(q - b, a)`. Intervals are halved where this is too coarse.

The law of the path is a recursion over cumulative counts: add a block of audits, leave out the
counts that were rejected. It is needed for one pair :math:`(D, M)` only: given the counts at a
look, those at earlier looks are hypergeometric whatever the probabilities, so that each pair's law
is the same numbers of paths with other weights.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from setwise.models.guarantees.joint import Sample, p_value, signed_root

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOST_COUNTS = 12_000
"""Pairs of counts up to which a path is followed; beyond it a look spends its own share alone."""

_INTERVALS = 16  # of the misses' share, to begin with
_ROUNDS = 7  # of halving; then the bound is taken as it is, and stays valid
_SHARP = 0.9  # intervals are halved whose bound is above this part of what may be spent
_TIE = 1e-9  # equal values of the statistic differ by rounding errors only
_VANISHED = 1e-280  # a probability from which on numbers lose digits


class Look(NamedTuple):
    """The size of a look.

    Attributes
    ----------
    n : int
        Audits above the threshold.
    spent : float
        Part of the risk, in (0, 1), that is spent by the end of the look.
    """

    n: int
    spent: float


def path_p_value(sample: Sample, earlier: Sequence[Look], wrong: float, spent: float) -> float:
    """Return the part of the risk that a rejection at the newest look takes.

    The look rejects if this is at most ``spent`` less what the looks before it have spent.

    Parameters
    ----------
    sample : Sample
        The counts at the newest look.
    earlier : sequence of Look
        The looks before it, with as many second readings.
    wrong : float
        Share of wrong sets, in (0, 1).
    spent : float
        What is spent by the end of the newest look. The result is sharp only as far as needed to
        compare it.

    Examples
    --------
    >>> alone = path_p_value(Sample(100, 5, 0, 1.0), [], 0.1, 0.1)
    >>> after = path_p_value(Sample(100, 5, 0, 1.0), [Look(60, 0.05)], 0.1, 0.1)
    >>> 0.1 - 0.05 > alone > after > 0.0  # most paths that end here were rejected before
    False
    """
    before = earlier[-1].spent if earlier else 0.0
    alone = p_value(sample, wrong, spent - before)
    if alone <= spent - before or not earlier:
        return alone
    if p_value(sample, wrong, spent) > spent:
        return alone
    looks = [look for look in earlier if 0 < look.n < sample.n]
    if not looks:
        return alone
    if sample.reread_rate >= 1.0:
        total = _binomial_path(looks, sample.n, sample.found_wrong + sample.missed, wrong)
    else:
        total = _joint_path(looks, sample, wrong, spent)
    return min(alone, max(total - before, 0.0))


def _binomial_path(looks: Sequence[Look], n: int, errors: int, wrong: float) -> float:
    """Return the probability of a rejection before, or of at most so many errors now."""
    most = int(np.ceil(n * wrong))  # no look rejects with as many errors
    law, size, rejected = np.ones(1), 0, 0.0
    for look in looks:
        law = _later(law, look.n - size, wrong, most)
        size = look.n
        total = rejected + np.cumsum(law)
        limit = int(np.searchsorted(total, look.spent + _TIE * look.spent, side="right"))
        limit = min(limit, int(np.ceil(size * wrong)))
        rejected = float(total[limit - 1]) if limit else rejected
        law[:limit] = 0.0
    return rejected + float(_later(law, n - size, wrong, most)[: errors + 1].sum())


def _later(law: Floats, more: int, wrong: float, most: int) -> Floats:
    """Return the law of the errors, at most ``most``, after more audits."""
    block = np.arange(min(more, most) + 1.0)
    ways = (
        special.gammaln(more + 1) - special.gammaln(block + 1) - special.gammaln(more - block + 1)
    )
    chance = np.exp(ways + special.xlogy(block, wrong) + special.xlog1py(more - block, -wrong))
    return np.asarray(np.convolve(law, chance)[: most + 1])


class _Region(NamedTuple):
    """Counts with which a look rejects: logarithms of their numbers of paths."""

    n: int
    found: Floats
    missed: Floats
    ways: Floats

    def chances(self, found: Floats, misses: Floats) -> Floats:
        """Return the probability of each pair of counts, a row for each pair of cells."""
        rest = self.n - self.found - self.missed
        return np.exp(
            self.ways
            + special.xlogy(self.found, found[:, None])
            + special.xlogy(self.missed, misses[:, None])
            + special.xlog1py(rest, -(found + misses)[:, None])
        )


def _joint_path(looks: Sequence[Look], sample: Sample, wrong: float, spent: float) -> float:
    """Return a bound of the probability of a rejection before, or of such counts now."""
    n, rate = sample.n, sample.reread_rate
    table = np.array([np.ceil(n * wrong), np.ceil(n * wrong * rate)]).astype(int) + 1
    if table.prod() > MOST_COUNTS:
        return np.inf
    found, missed = (np.arange(float(size)) for size in table)
    found, missed = np.meshgrid(found, missed, indexing="ij")
    cells = (wrong / 2.0, rate * wrong / 2.0)  # any pair will do
    law, size = np.zeros(table), 0
    law[0, 0] = 1.0
    before: list[_Region] = []
    for look in [*looks, Look(n, spent)]:
        law = _with_block(law, look.n - size, cells, table)
        size = look.n
        possible = (found + missed / rate < size * wrong) & (found + missed <= size)
        root = signed_root(size, found[possible], missed[possible], rate, wrong)
        order = np.argsort(root, kind="stable")
        states = _Region(
            size,
            found[possible][order],
            missed[possible][order],
            _ways(size, found[possible], missed[possible], law[possible], cells)[order],
        )
        curve = _Curve(before, states, root[order], rate, wrong)
        if look.n == n:
            observed = signed_root(
                n,
                np.array([float(sample.found_wrong)]),
                np.array([float(sample.missed)]),
                rate,
                wrong,
            )[0]
            return curve.at(float(observed), spent)
        limit = curve.limit(look.spent)
        before.append(
            _Region(size, states.found[:limit], states.missed[:limit], states.ways[:limit])
        )
        law[states.found[:limit].astype(int), states.missed[:limit].astype(int)] = 0.0
    raise AssertionError("the newest look is the last")


def _with_block(law: Floats, more: int, cells: tuple[float, float], table: Counts) -> Floats:
    """Return the law of both counts, within the table, after more audits."""
    found, missed = np.meshgrid(*(np.arange(float(size)) for size in table), indexing="ij")
    fits = found + missed <= more
    chance = np.zeros(law.shape)
    region = _Region(more, found[fits], missed[fits], np.zeros(int(fits.sum())))
    ways = _multinomial(more, found[fits], missed[fits])
    chance[fits] = region._replace(ways=ways).chances(*(np.array([cell]) for cell in cells))[0]
    from setwise.models.guarantees.paths.counts import add_block  # noqa: PLC0415 -- numba loads slowly

    return np.asarray(add_block(law, chance))


def _multinomial(n: int, found: Floats, missed: Floats) -> Floats:
    """Return the logarithm of the number of samples with these counts."""
    return np.asarray(
        special.gammaln(n + 1.0)
        - special.gammaln(found + 1.0)
        - special.gammaln(missed + 1.0)
        - special.gammaln(n - found - missed + 1.0)
    )


def _ways(n: int, found: Floats, missed: Floats, law: Floats, cells: tuple[float, float]) -> Floats:
    """Return the logarithm of the number of paths to each pair of counts.

    Where the law has vanished, all paths count: that is more than there are.
    """
    every = _multinomial(n, found, missed)
    weight = (
        found * np.log(cells[0])
        + missed * np.log(cells[1])
        + (n - found - missed) * np.log1p(-sum(cells))
    )
    sound = law > _VANISHED
    paths = np.log(np.where(sound, law, 1.0)) - weight
    none = (law <= 0.0) & (every + weight > np.log(_VANISHED))
    return np.asarray(np.where(none, -np.inf, np.where(sound, paths, every)))


class _Curve:
    """Bounds of the probability of a rejection by a look, for every limit of its statistic."""

    def __init__(
        self, before: list[_Region], states: _Region, root: Floats, rate: float, wrong: float
    ) -> None:
        self._before, self._states, self._root = before, states, root
        self._rate, self._wrong = rate, wrong
        edges = np.linspace(0.0, wrong, _INTERVALS + 1)
        self._low, self._high = edges[:-1], edges[1:]
        self._rows = self._bounds(self._low, self._high)

    def limit(self, spent: float) -> int:
        """Return how many pairs of counts may be rejected."""
        fits = 0
        for _ in range(_ROUNDS):
            most = self._rows.max(axis=0)
            fits = self._whole(int(np.searchsorted(np.maximum.accumulate(most), spent, "right")))
            if fits == len(self._root):
                break
            if not self._halve(min(fits, len(self._root) - 1), _SHARP * spent):
                break
        most = np.maximum.accumulate(self._rows.max(axis=0))
        return self._whole(int(np.searchsorted(most, spent, "right")))

    def at(self, root: float, spent: float) -> float:
        """Return the bound for what was observed."""
        place = int(np.searchsorted(self._root, root + _TIE, "right")) - 1
        if place < 0:
            return float(np.max(self._base(self._low, self._high), initial=0.0))
        for _ in range(_ROUNDS):
            if self._rows[:, place].max() <= spent or not self._halve(place, spent):
                break
        return float(self._rows[:, place].max())

    def _whole(self, fits: int) -> int:
        """Return the number of pairs without a part of those with equal statistics."""
        while 0 < fits < len(self._root) and self._root[fits] - self._root[fits - 1] < _TIE:
            fits -= 1
        return fits

    def _halve(self, place: int, above: float) -> bool:
        """Halve the intervals whose bound at a place is too high; return whether there is one."""
        wide = self._rows[:, place] > above
        if not wide.any():
            return False
        low, high = self._low[wide], self._high[wide]
        middle = (low + high) / 2.0
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        self._low = np.concatenate([self._low[~wide], low])
        self._high = np.concatenate([self._high[~wide], high])
        self._rows = np.concatenate([self._rows[~wide], self._bounds(low, high)])
        return True

    def _base(self, low: Floats, high: Floats) -> Floats:
        cells = self._wrong - high, self._rate * low
        return np.asarray(
            np.sum([region.chances(*cells).sum(axis=1) for region in self._before], axis=0)
            if self._before
            else np.zeros(len(low))
        )

    def _bounds(self, low: Floats, high: Floats) -> Floats:
        rows = self._states.chances(self._wrong - high, self._rate * low)
        return np.asarray(self._base(low, high)[:, None] + np.cumsum(rows, axis=1))
