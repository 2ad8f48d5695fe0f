"""PD-Sparse: L1-regularised max-margin label scores, by block-coordinate Frank-Wolfe steps."""

import numpy as np
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from benchmarks.papers.baselines.method import Floats, beside
from benchmarks.papers.baselines.thresholded import Thresholded

_CURVATURE = 2.0  # squared length of a row


class SparseMargins(Thresholded):
    r"""Separation ranking loss with an elastic-net penalty, minimised in its dual.

    .. math:: \min_W \lambda \|W\|_1 + \tfrac12 \|W\|^2
              + C \sum_i \max_{n \notin y_i,\, p \in y_i} (1 + z_{in} - z_{ip})_+, \quad z = X W

    In the dual, each document spends up to C on its labels and as much on others. In turn, each
    adds the highest-scored label without weight to its active ones, and takes a projected gradient
    step on these; labels that lose their weight leave. Rows are scaled to unit length, with a
    constant column. Weights are dense here: hashing would change time and memory only.

    Parameters
    ----------
    l1 : float
        :math:`\lambda`.
    C : float
        Weight of the loss.
    n_passes : int
        Passes over the documents.

    References
    ----------
    .. [1] I. E. H. Yen et al., "PD-Sparse: A Primal and Dual Sparse Approach to Extreme Multiclass
       and Multilabel Classification", ICML 2016, Algorithms 1-3; column "PDS" of C. Li et al., ECML
       2019, Table 4.
    """

    def __init__(
        self, l1: float = 0.1, *, C: float = 1.0, n_passes: int = 20, random_state: int = 0
    ) -> None:
        self.l1 = l1
        self.C = C
        self.n_passes = n_passes
        self.random_state = random_state

    def learn(self, X: csr_array, Y: csr_array) -> None:
        """Take the steps of all passes, documents in random order."""
        rng = np.random.default_rng(self.random_state)
        X, n_labels = _unit_rows(X), Y.shape[1]
        sums = np.zeros((X.shape[1], n_labels))  # X' alpha
        self.coef_ = np.zeros_like(sums)
        self.dual_ = np.zeros(Y.shape)
        size = np.diff(Y.indptr)
        usable = np.flatnonzero((size > 0) & (size < n_labels))
        for _ in range(self.n_passes):
            for i in rng.permutation(usable):
                row = slice(X.indptr[i], X.indptr[i + 1])
                features, values = X.indices[row], X.data[row]
                labels = Y.indices[Y.indptr[i] : Y.indptr[i + 1]]
                z, alpha = values @ self.coef_[features], self.dual_[i]
                rank = np.where(alpha < 0.0, -np.inf, z)
                rank[labels] = -np.inf
                others = np.flatnonzero(alpha < 0.0)
                if rank.max() > -1.0:  # else no label without weight is within the margin
                    others = np.append(others, rank.argmax())
                if len(others) == 0:
                    continue
                spent, gained = bi_simplex(
                    (1.0 + z[others]) / _CURVATURE - alpha[others],
                    alpha[labels] - z[labels] / _CURVATURE,
                    self.C,
                )
                active = np.concatenate([others, labels])
                change = np.concatenate([-spent, gained]) - alpha[active]
                alpha[active] += change
                alpha[others[spent == 0.0]] = 0.0
                place = np.ix_(features, active)
                sums[place] += np.outer(values, change)
                self.coef_[place] = _shrunk(sums[place], self.l1)

    def measure(self, X: csr_array) -> Floats:
        """Return the scores z."""
        return np.asarray(_unit_rows(X) @ self.coef_)


def _unit_rows(X: csr_array) -> csr_array:
    """Return rows of length one and a constant column."""
    return csr_array(beside(normalize(X.astype(np.float64)), np.ones((X.shape[0], 1))))


def bi_simplex(b: Floats, c: Floats, most: float) -> tuple[Floats, Floats]:
    """Return the nearest non-negative vectors to b and c of equal sums, at most `most`."""
    breaks = np.sort(np.concatenate([b, -c]))
    surplus = _above(b, breaks).sum(axis=1) - _above(c, -breaks).sum(axis=1)
    shift = float(np.interp(0.0, surplus[::-1], breaks[::-1]))
    x, y = np.maximum(b - shift, 0.0), np.maximum(c + shift, 0.0)
    return (x, y) if x.sum() <= most else (_simplex(b, most), _simplex(c, most))


def _simplex(b: Floats, total: float) -> Floats:
    """Return the nearest non-negative vector of a given sum."""
    falling = np.sort(b)[::-1]
    shifts = (falling.cumsum() - total) / np.arange(1, len(b) + 1)
    return np.asarray(np.maximum(b - shifts[np.flatnonzero(falling > shifts)[-1]], 0.0))


def _above(b: Floats, shifts: Floats) -> Floats:
    return np.asarray(np.maximum(b - shifts[:, None], 0.0))


def _shrunk(v: Floats, by: float) -> Floats:
    return np.asarray(np.sign(v) * np.maximum(np.abs(v) - by, 0.0))
