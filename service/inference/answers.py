"""From a model's arrays to what the service says of each document, as JSON and as objects.

Each document has dozens of numbers and names, so that this can take longer than their computation.
The JSON, which is stored and sent, is written for all documents in one compiled pass. The objects
say the same; hardly anybody asks for more than the first, and the others are made only then.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from pydantic_core import to_json

from service.domain.predictions import Candidate, Marginal, ScoredSet, WrittenScores
from service.use_cases.written import compact_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from models.predictor import SetPredictions

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
        from service.inference.compiled_json import Words  # noqa: PLC0415 -- as the model's store

        self._names = label_names
        self._words = Words([compact_json(name) for name in label_names])

    def __call__(
        self,
        predictions: "SetPredictions",
        confidences: "NDArray[np.float64]",
        *,
        model_version: str,
        calibrator_version: str,
    ) -> list[ScoredSet]:
        """Return one answer for each document.

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
        own = predictions.confidence
        said = None if own is confidences else own.tolist()
        candidates = self._candidates(predictions, confidences)
        marginals = self._marginals(predictions)
        known = (predictions.known_features > 0).tolist()
        ends = predictions.candidates.doc_indptr.tolist()
        return [
            ScoredSet(
                candidates=sets,
                marginals=shares,
                out_of_domain=not is_known,
                model_version=model_version,
                calibrator_version=calibrator_version,
                replaced=None if said is None else tuple(said[first:last]),
                written=WrittenScores(sets_json.decode(), shares_json.decode()),
            )
            for (first, last), (sets, sets_json), (shares, shares_json), is_known in zip(
                pairwise(ends), candidates, marginals, known, strict=True
            )
        ]

    def _candidates(
        self, predictions: "SetPredictions", confidences: "NDArray[np.float64]"
    ) -> list[tuple["Deferred[Candidate]", bytes]]:
        """Return each document's candidates."""
        import numpy as np  # noqa: PLC0415 -- see `FolderOrObjectStore`

        from service.inference.compiled_json import write_sets  # noqa: PLC0415 -- as above

        sets = predictions.candidates
        scores = np.exp(sets.log_score)
        said, weighed = _finite(confidences), _finite(scores)
        written = write_sets(
            self._words,
            sets.doc_indptr.astype(np.int64),
            sets.set_indptr.astype(np.int64),
            sets.labels.astype(np.int64),
            to_json(said),
            to_json(weighed),
        )
        names, bounds = self._names, sets.set_indptr

        def candidate(place: int) -> Candidate:
            labels = sets.labels[bounds[place] : bounds[place + 1]].tolist()
            return Candidate(tuple([names[label] for label in labels]), said[place], weighed[place])

        return [
            (Deferred(candidate, first, last), text)
            for (first, last), text in zip(pairwise(sets.doc_indptr.tolist()), written, strict=True)
        ]

    def _marginals(self, predictions: "SetPredictions") -> list[tuple["Deferred[Marginal]", bytes]]:
        """Return each document's marginals that are worth telling."""
        import numpy as np  # noqa: PLC0415 -- as above

        from models.predictor import most_likely  # noqa: PLC0415 -- as above
        from service.inference.compiled_json import write_shares  # noqa: PLC0415 -- as above

        order = most_likely(predictions.marginals, MOST_MARGINALS)
        likely = np.take_along_axis(predictions.marginals, order, axis=1)
        told = likely >= NEGLIGIBLE
        columns, probabilities = order[told], _finite(likely[told])
        ends = np.concatenate([[0], np.cumsum(told.sum(axis=1))]).astype(np.int64)
        written = write_shares(self._words, ends, columns, to_json(probabilities))
        names = self._names

        def marginal(place: int) -> Marginal:
            return Marginal(names[columns[place]], probabilities[place])

        return [
            (Deferred(marginal, first, last), text)
            for (first, last), text in zip(pairwise(ends.tolist()), written, strict=True)
        ]


class Deferred(Sequence[_Member], Generic[_Member]):
    """What stands at some places of arrays; a member is made when it is asked for.

    The first one, which everybody asks for, is kept. It equals the tuple of its members.
    """

    __slots__ = ("_first", "_kept", "_last", "_make")

    def __init__(self, make: Callable[[int], _Member], first: int, last: int) -> None:
        self._make = make
        self._first = first
        self._last = last
        self._kept: _Member | None = None

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
        made = self._make(places)
        if place == 0:
            self._kept = made
        return made

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, Deferred) else other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def _finite(values: "NDArray[np.float64]") -> list[float]:
    """Return numbers that JSON can hold; raises ValueError for others."""
    import numpy as np  # noqa: PLC0415 -- as above

    if not np.isfinite(values).all():
        raise ValueError("a model gave a number that is not finite")
    listed: list[float] = values.tolist()
    return listed
