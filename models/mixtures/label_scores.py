"""Label scores by classifiers and neighbours, as features for a mixture.

A gate over thousands of words overfits before it learns which labels go together. Two numbers per
label hold most of the information in the words: the log-odds of an independent classifier, and the
share of the nearest documents that carry it. Scores of training documents are cross-fitted: they
come from classifiers and documents outside their own fold.
"""

from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from setwise.models.data.rows import SparseRows
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.scaling import as_rows
from setwise.models.mixtures.mixture_storage import restored_sets
from setwise.models.mixtures.support.mixture_support import distinct_sets
from setwise.models.parameters import check_parameters
from setwise.models.storage.fields import StoredArray, StoredPiece, stored_ragged
from setwise.models.storage.state import Lengths, StoredPart
from setwise.models.voters.neighbours import NeighbourVotes

# Log-odds beyond this only mean that a label is certain.
_MOST_LOGIT = 7.0

# Added to a label's share of the votes before taking logarithms: less than one vote of thirty.
_LEAST_SHARE = 0.02

# Scores with a small deviation, as of rare labels, are not scaled up: the difference between the
# folds' classifiers and the final ones is larger.
_LEAST_DEVIATION = 0.5

# Votes on label sets are dense; this bounds their memory.
_VOTES_AT_ONCE = 256


class LabelScores(StoredPart, BaseEstimator):
    """Standardised log-odds of classifiers and votes of near documents.

    Parameters
    ----------
    alpha : "auto", float or array-like of shape (n_labels,)
        Penalty of the classifiers, see `BinaryRelevance`.
    l1_ratio : float, default 0.7
        Share of the L1 norm in it.
    n_folds : int, default 5
        Folds of the cross-fitting, at least 2; fewer if there are fewer documents.
    n_jobs : int, optional
        Threads; by default every usable core. The result does not depend on it.
    random_state : int, default 0
        Seed of the folds.

    Examples
    --------
    >>> X = sp.csr_array(np.repeat(np.eye(2, dtype=np.float32), 20, axis=0))
    >>> Y = sp.csr_array(np.repeat([[1, 0], [1, 1]], [20, 20], axis=0).astype(np.uint8))
    >>> scores = LabelScores(alpha=1e-2)
    >>> scores.fit_transform(X, Y).shape
    (40, 4)
    >>> one, other = scores.transform(X[[0, 39]]).toarray()
    >>> bool(one[1] < 0 < other[1]), bool(one[3] < 0 < other[3])
    (True, True)
    """

    classifiers_: BinaryRelevance  # fitted on all documents
    neighbours_: NeighbourVotes  # all documents
    sets_: sp.csr_array  # (n_sets, n_labels) label sets that documents vote for
    # (2 * n_labels,) centre_ and deviation_: mean and deviation of the cross-fitted scores; the
    # deviation is at least a half.
    centre_: NDArray[np.float64]
    deviation_: NDArray[np.float64]
    stored = (
        StoredPiece(
            "classifiers_",
            BinaryRelevance,
            "classifier_",
            "classifiers",
            {"features": "features", "labels": "labels"},
        ),
        *stored_ragged("set_indptr", "set_labels", "sets_", "indices", "sets"),
        StoredPiece(
            "neighbours_",
            NeighbourVotes,
            "neighbour_",
            "neighbours",
            {"features": "features", "sets": "sets"},
        ),
        StoredArray("centre", "centre_", np.float64, ("labels*2",)),
        StoredArray("deviation", "deviation_", np.float64, ("labels*2",), low=_LEAST_DEVIATION),
    )

    def __init__(
        self,
        alpha: Literal["auto"] | float | NDArray[np.float64] = "auto",
        *,
        l1_ratio: float = 0.7,
        n_folds: int = 5,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit_transform(self, X: sp.csr_array, Y: sp.csr_array) -> sp.csr_array:
        """Fit on all documents and return their cross-fitted scores.

        Parameters
        ----------
        X : csr_array of shape (n_samples, n_features), float32
        Y : csr_array of shape (n_samples, n_labels), uint8
            Zeros and ones, sorted indices.

        Returns
        -------
        csr_array of shape (n_samples, 2 * n_labels), float32
            First the log-odds of the labels, then their votes; every entry is stored.

        Raises
        ------
        ValueError
            If there is a single document, or ``n_folds`` is below 2.
        """
        check_parameters(self)
        n = X.shape[0]
        if n < 2:
            raise ValueError(f"n_samples={n}: give at least 2 documents")
        every = BinaryRelevance(
            alpha=self.alpha,
            l1_ratio=self.l1_ratio,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
        self.classifiers_ = every.fit(X, Y)
        alike = clone(every).set_params(alpha=self.classifiers_.alpha_)
        folds = np.random.default_rng(self.random_state).permutation(n) % min(self.n_folds, n)
        self.sets_ = distinct_sets(Y)
        self.neighbours_ = NeighbourVotes(random_state=self.random_state)
        vote = self.neighbours_.fit_folds(
            X, _set_numbers(Y, self.sets_), self.sets_.shape[0], folds
        )
        scores = np.empty((n, 2 * Y.shape[1]))
        for fold in range(int(folds.max()) + 1):
            inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            fitted = clone(alike).fit(X[outside], Y[outside])
            for first in range(0, len(inside), _VOTES_AT_ONCE):
                part = inside[first : first + _VOTES_AT_ONCE]
                scores[part] = self._scores(fitted.decision_function(X[part]), vote(part))
        self.centre_ = scores.mean(axis=0)
        self.deviation_ = np.maximum(scores.std(axis=0), _LEAST_DEVIATION)
        return self._standardise(scores)

    def transform(self, X: sp.csr_array) -> sp.csr_array:
        """Return the scores of other documents, (n_samples, 2 * n_labels)."""
        if not hasattr(self, "centre_"):
            raise NotFittedError("LabelScores must be fitted before it transforms")
        parts = [np.empty((0, len(self.centre_)))]
        for first in range(0, X.shape[0], _VOTES_AT_ONCE):
            rows = X[first : first + _VOTES_AT_ONCE]
            logits = self.classifiers_.decision_function(rows)
            parts.append(self._scores(logits, self.neighbours_.vote(SparseRows.of(as_rows(rows)))))
        return self._standardise(np.concatenate(parts))

    def _scores(
        self, logits: NDArray[np.float64], votes: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        shares = np.asarray(votes.astype(np.float64) @ self.sets_, dtype=np.float64)
        clipped = np.clip(logits, -_MOST_LOGIT, _MOST_LOGIT)
        return np.concatenate([clipped, np.log(shares + _LEAST_SHARE)], axis=1)

    def _standardise(self, scores: NDArray[np.float64]) -> sp.csr_array:
        described = ((scores - self.centre_) / self.deviation_).astype(np.float32)
        n, d = described.shape
        columns = np.tile(np.arange(d, dtype=np.int32), n)
        indptr = np.arange(0, n * d + 1, d, dtype=np.int32)
        return sp.csr_array((described.ravel(), columns, indptr), shape=(n, d))

    @classmethod
    def restored(cls, found: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted scores."""
        scores = cls()
        scores.classifiers_, scores.neighbours_ = found["classifiers_"], found["neighbours_"]
        scores.centre_, scores.deviation_ = found["centre"], found["deviation"]
        scores.sets_ = restored_sets(found["set_indptr"], found["set_labels"], lengths["labels"])
        return scores


def _set_numbers(Y: sp.csr_array, sets: sp.csr_array) -> NDArray[np.int32]:
    """Return the index of each row's distinct set."""
    number = {tuple(row.tolist()): s for s, row in enumerate(_rows(sets))}
    return np.array([number[tuple(row.tolist())] for row in _rows(Y)], dtype=np.int32)


def _rows(Y: sp.csr_array) -> list[NDArray[np.int32]]:
    return np.split(Y.indices, Y.indptr[1:-1])
