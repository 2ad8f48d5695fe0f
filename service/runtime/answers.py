"""From a model's arrays to what the service says of each document, as JSON and as objects.

Each document has dozens of numbers and names, so that this can take longer than their computation.
The JSON, which is stored and sent, is written for all documents in compiled passes. The objects
say the same; hardly anybody asks for them, and they are made only then.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from setwise.models.predictor import SetPredictions, likely_columns
from setwise.models.sets.candidates import RaggedSets, gather
from setwise.service.domain.columns import Rows
from setwise.service.domain.predictions import Candidate, Marginal, ScoredSet
from setwise.service.runtime.compiled_json import Sets, Shares, Words, write_answers
from setwise.service.runtime.json_numbers import JsonNumbers
from setwise.service.stores.written import compact_json

MOST_MARGINALS = 50
NEGLIGIBLE = 0.005
"""Marginals below this are not stored: a large vocabulary would fill the answer with them."""

_Member = TypeVar("_Member")


class Answers:
    """Words what a model with these labels predicts.

    Parameters
    ----------
    label_names : sequence of str
        In the order of the model's columns.
    """

    def __init__(self, label_names: Sequence[str]) -> None:
        self._names = label_names
        self._words = Words([compact_json(name) for name in label_names])

    def __call__(
        self,
        predictions: SetPredictions,
        confidences: NDArray[np.float64],
        *,
        model_version: str,
        calibrator_version: str,
    ) -> Rows[ScoredSet]:
        """Return one answer for each document; labels and confidences are columns of their own.

        Parameters
        ----------
        predictions : SetPredictions
            Of some documents.
        confidences : float64 ndarray of shape (n_sets,)
            Of their candidates: the model's own ones, or others that replace them.

        Raises
        ------
        ValueError
            If a number is not finite, which JSON could not hold.
        """
        sets = predictions.candidates
        ends = np.ascontiguousarray(sets.doc_indptr, dtype=np.int64)
        bounds = np.ascontiguousarray(sets.set_indptr, dtype=np.int64)
        labels = np.ascontiguousarray(sets.labels, dtype=np.int32)
        scores = JsonNumbers.rounded(np.minimum(np.exp(sets.log_score), 1.0))
        told, shares = JsonNumbers.exact(confidences), self._told(predictions.marginals)
        written = write_answers(self._words, Sets(ends, bounds, labels, told, scores), shares)
        names, probabilities = self._names, shares.probabilities.values

        def candidate(place: int) -> Candidate:
            own = labels[bounds[place] : bounds[place + 1]].tolist()
            named = tuple([names[label] for label in own])
            return Candidate(named, told.values.item(place), scores.values.item(place))

        def marginal(place: int) -> Marginal:
            return Marginal(names[shares.labels.item(place)], probabilities.item(place))

        # What everybody asks of the first candidate, put together for all documents at once.
        firsts = ends[:-1]
        first_bounds, first_labels = gather(RaggedSets(bounds, labels), firsts)
        first_names = tuple([names[label] for label in first_labels.tolist()])
        surest = [first_names[a:b] for a, b in pairwise(first_bounds.tolist())]
        sureness = confidences[firsts].tolist()
        begins, share_begins = ends.tolist(), shares.indptr.tolist()

        def candidates(document: int) -> Deferred[Candidate]:
            score = scores.values.item(begins[document])
            first = Candidate(surest[document], sureness[document], score)
            return Deferred(candidate, begins[document], begins[document + 1], first)

        def marginals(document: int) -> Deferred[Marginal]:
            return Deferred(marginal, share_begins[document], share_begins[document + 1])

        count = len(surest)
        replaced: list[tuple[float, ...] | None] = [None] * count
        if confidences is not predictions.confidence:
            own = predictions.confidence.tolist()
            replaced = [tuple(own[first:last]) for first, last in pairwise(begins)]
        return Rows(
            ScoredSet,
            candidates=Deferred(candidates, 0, count),
            marginals=Deferred(marginals, 0, count),
            out_of_domain=(predictions.known_features == 0).tolist(),
            model_version=[model_version] * count,
            calibrator_version=[calibrator_version] * count,
            replaced=replaced,
            written=written,
            labels=surest,
            confidence=sureness,
        )

    @staticmethod
    def _told(marginals: NDArray[np.float64]) -> Shares:
        """Return each document's marginals that are worth telling."""
        indptr, labels, probabilities = likely_columns(marginals, MOST_MARGINALS, NEGLIGIBLE)
        return Shares(indptr, labels, JsonNumbers.rounded(probabilities))


class Deferred(Sequence[_Member], Generic[_Member]):
    """What stands at some places of arrays; a member is made when it is asked for.

    A first one that is made already is ``kept``. It equals the tuple of its members.
    """

    __slots__ = ("_first", "_kept", "_last", "_make")

    def __init__(
        self,
        make: Callable[[int], _Member],
        first: int,
        last: int,
        kept: _Member | None = None,
    ) -> None:
        self._make = make
        self._first = first
        self._last = last
        self._kept = kept

    def __len__(self) -> int:
        return self._last - self._first

    @overload
    def __getitem__(self, place: int) -> _Member: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[_Member, ...]: ...
    def __getitem__(self, place: int | slice) -> _Member | tuple[_Member, ...]:
        if place == 0 and self._kept is not None:
            return self._kept
        places = range(self._first, self._last)[place]
        if not isinstance(places, int):
            return tuple(map(self._make, places))
        return self._make(places)

    def __iter__(self) -> Iterator[_Member]:
        return map(self._make, range(self._first, self._last))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, Deferred) else other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
