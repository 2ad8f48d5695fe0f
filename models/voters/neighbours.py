"""Voters based on the most similar training documents."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.models.compilation import njit
from setwise.models.data.rows import SparseRows
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.parameters import check_parameters
from setwise.models.storage.fields import (
    StoredArray,
    StoredParameters,
    StoredPiece,
    StoredSetting,
)
from setwise.models.storage.state import Lengths, StoredPart
from setwise.models.voters.block_ridge import HoldOut
from setwise.models.voters.similarity import (
    TILE,
    Postings,
    UnitRows,
    fill_similarities,
    index_rows,
    restored_postings,
    stored_postings,
)

_NO_FOLDS = np.empty(0, dtype=np.int64)


class Neighbourhood(NamedTuple):
    """Indexed training documents and their label sets, for compiled code."""

    postings: Postings
    set_of: NDArray[np.int32]  # (n,) number of the seen set, -1 for none
    folds: NDArray[np.int64]  # (n,) fold of each document; (0,) where there are none
    n_neighbours: int
    n_sets: int


class NeighbourVotes(StoredPart, Estimator):
    r"""Each of the nearest training documents votes for its own label set.

    A neighbour at cosine :math:`c` weighs :math:`c^2`; the weights of all neighbours sum to one.
    Neighbours are found exactly, through the features they share with the document.

    Parameters
    ----------
    n_neighbours : int, default 30
    max_documents : int, default 16384
        Maximum number of indexed documents, which bounds search time and memory; more training
        documents are sampled at random.
    random_state : int, default 0
        Seed of the sample.
    """

    space_: UnitRows
    neighbourhood_: Neighbourhood
    stored = (
        StoredParameters("parameters", {"n_neighbours": (1, np.inf)}),
        StoredPiece("space_", UnitRows, shares={"features": "features"}),
        *stored_postings("posting_", "neighbourhood_.postings", "features", "documents"),
        StoredArray(
            "set_of", "neighbourhood_.set_of", np.int32, ("documents",), picks="sets", low=-1
        ),
        StoredSetting("n_sets", "neighbourhood_.n_sets", int, low=0, length="sets"),
    )

    def __init__(
        self, n_neighbours: int = 30, *, max_documents: int = 16_384, random_state: int = 0
    ) -> None:
        self.n_neighbours = n_neighbours
        self.max_documents = max_documents
        self.random_state = random_state

    def fit_folds(
        self,
        X: csr_array,
        set_of: NDArray[np.int32],
        n_sets: int,
        folds: NDArray[np.int64],
    ) -> HoldOut:
        """Index all rows and return a function for out-of-fold votes.

        Parameters
        ----------
        X : csr_array of shape (n_documents, n_features)
        set_of : int32 ndarray of shape (n_documents,)
            Number of each document's label set, -1 for a set without a number.
        n_sets : int
        folds : int64 ndarray of shape (n_documents,)

        Returns
        -------
        callable
            Maps numbers of rows of one fold to the weights of all sets, (n_rows, n_sets), float32.
            Feature weights come from all rows, because they do not depend on labels.

        Raises
        ------
        ValueError
            If a parameter is out of range.
        """
        check_parameters(self)
        self.space_ = UnitRows().fit(X)
        rows = self.space_.transform(X)
        indexed = np.arange(rows.shape[0])
        if len(indexed) > self.max_documents:
            draw = np.random.default_rng(self.random_state).permutation(len(indexed))
            indexed = np.sort(draw[: self.max_documents])
        near = Neighbourhood(
            index_rows(rows[indexed]),
            set_of[indexed].astype(np.int32),
            _NO_FOLDS,
            self.n_neighbours,
            n_sets,
        )
        self.neighbourhood_ = near
        apart = near._replace(folds=folds[indexed])
        return lambda part: vote_rows(SparseRows.of(rows[part]), apart, int(folds[part[0]]))

    def vote(self, rows: SparseRows) -> NDArray[np.float32]:
        """Return the weights of all sets for each document, shape (n_documents, n_sets)."""
        check_fitted(self, "neighbourhood_")
        return vote_rows(self.space_.transform_rows(rows), self.neighbourhood_, -1)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted voter."""
        voter = cls(**fields["parameters"])
        voter.space_ = fields["space_"]
        voter.neighbourhood_ = Neighbourhood(
            restored_postings(fields, "posting_", lengths["documents"]),
            fields["set_of"],
            _NO_FOLDS,
            voter.n_neighbours,
            lengths["sets"],
        )
        return voter


class NearestVotes(NeighbourVotes):
    """Votes of the very nearest documents.

    A set is likely if all of them carry it.

    Parameters
    ----------
    n_neighbours : int, default 3
    max_documents, random_state : int
        As for `NeighbourVotes`.
    """

    def __init__(
        self, n_neighbours: int = 3, *, max_documents: int = 16_384, random_state: int = 0
    ) -> None:
        super().__init__(n_neighbours, max_documents=max_documents, random_state=random_state)


@njit(cache=True, nogil=True)
def _fill_neighbour_votes(
    similarity: NDArray[np.float32], near: Neighbourhood, fold: int, out: NDArray[np.float32]
) -> None:  # pragma: no cover - compiled
    """Fill ``out`` (n_sets,) with the weights for one row of similarities."""
    room = min(near.n_neighbours, len(similarity))
    place = np.empty(room, dtype=np.int64)
    held = 0
    for j in range(len(similarity)):
        value = similarity[j]
        if value <= 0.0 or (held == room and value <= similarity[place[held - 1]]):
            continue
        if len(near.folds) and near.folds[j] == fold:
            continue
        if held < room:
            held += 1
        slot = held - 1
        while slot > 0 and similarity[place[slot - 1]] < value:
            place[slot] = place[slot - 1]
            slot -= 1
        place[slot] = j
    out[:] = 0.0
    total = 0.0
    for slot in range(held):
        total += np.float64(similarity[place[slot]]) ** 2
    for slot in range(held):
        s = near.set_of[place[slot]]
        if s >= 0:
            out[s] += np.float64(similarity[place[slot]]) ** 2 / total


@njit(cache=True, nogil=True)
def vote_rows(
    rows: SparseRows, near: Neighbourhood, fold: int
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return the votes (n_rows, n_sets) of documents outside ``fold``.

    The rows must have unit length.
    """
    n = len(rows.indptr) - 1
    out = np.empty((n, near.n_sets), dtype=np.float32)
    similarity = np.empty((min(n, TILE), len(near.set_of)), dtype=np.float32)
    for first in range(0, n, TILE):
        tile = similarity[: min(TILE, n - first)]
        fill_similarities(near.postings, rows, first, tile)
        for r in range(len(tile)):
            _fill_neighbour_votes(tile[r], near, fold, out[first + r])
    return out
