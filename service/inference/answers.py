"""From a model's arrays to what the service says of each document, as JSON and as objects.

Each document has dozens of numbers and names, so that this can take longer than their computation.
The JSON, which is stored and sent, is written for all documents in compiled passes. The objects
say the same; hardly anybody asks for more than the first, and the others are made only then.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, overload

from pydantic_core import to_json

from service.domain.predictions import Candidate, Marginal, ScoredSet, WrittenScores
from service.use_cases.written import compact_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from models.predictor import SetPredictions
    from models.sets.candidates import CandidateSets

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
        import numpy as np  # noqa: PLC0415 -- see `FolderOrObjectStore`

        own = predictions.confidence
        said = None if own is confidences else own.tolist()
        sets, shares = predictions.candidates, self._told(predictions.marginals)
        scores = np.exp(sets.log_score)
        confidences_told, scores_told = _finite(confidences), _finite(scores)
        texts = self._written(sets, confidences_told, scores_told, shares)
        names, labels, bounds = self._names, sets.labels, sets.set_indptr

        def candidate(place: int) -> Candidate:
            own = labels[bounds[place] : bounds[place + 1]].tolist()
            named = tuple([names[label] for label in own])
            return Candidate(named, confidences_told[place], scores_told[place])

        def marginal(place: int) -> Marginal:
            return Marginal(names[shares.labels[place]], shares.probabilities[place])

        known = (predictions.known_features > 0).tolist()
        ends, share_ends = sets.doc_indptr.tolist(), shares.indptr.tolist()
        return [
            ScoredSet(
                candidates=Deferred(candidate, first, last),
                marginals=Deferred(marginal, first_share, last_share),
                out_of_domain=not is_known,
                model_version=model_version,
                calibrator_version=calibrator_version,
                replaced=None if said is None else tuple(said[first:last]),
                written=text,
            )
            for (first, last), (first_share, last_share), is_known, text in zip(
                pairwise(ends), pairwise(share_ends), known, texts, strict=True
            )
        ]

    @staticmethod
    def _told(marginals: "NDArray[np.float64]") -> "_Shares":
        """Return each document's marginals that are worth telling."""
        import numpy as np  # noqa: PLC0415 -- as above

        from models.predictor import most_likely  # noqa: PLC0415 -- as above

        order = most_likely(marginals, MOST_MARGINALS)
        likely = np.take_along_axis(marginals, order, axis=1)
        told = likely >= NEGLIGIBLE
        ends = np.concatenate([[0], np.cumsum(told.sum(axis=1))]).astype(np.int64)
        return _Shares(ends, order[told].astype(np.int64), _finite(likely[told]))

    def _written(
        self,
        sets: "CandidateSets",
        confidences: list[float],
        scores: list[float],
        shares: "_Shares",
    ) -> list[WrittenScores]:
        """Return each document's answer as JSON."""
        import numpy as np  # noqa: PLC0415 -- as above

        from service.inference.compiled_json import (  # noqa: PLC0415 -- as above
            write_sets,
            write_shares,
            write_stored,
        )

        indptrs = sets.doc_indptr.astype(np.int64), sets.set_indptr.astype(np.int64)
        of_sets = *indptrs, sets.labels.astype(np.int64), to_json(confidences), to_json(scores)
        of_shares = shares.indptr, shares.labels, to_json(shares.probabilities)
        stored_sets, stored_shares = write_stored(self._words, *of_sets, *of_shares)
        return [
            WrittenScores(a.decode(), b.decode(), c.decode(), d.decode())
            for a, b, c, d in zip(
                write_sets(self._words, *of_sets),
                write_shares(self._words, *of_shares),
                stored_sets,
                stored_shares,
                strict=True,
            )
        ]


class _Shares(NamedTuple):
    """Marginals that are told: where each document's begin, and their labels and probabilities."""

    indptr: "NDArray[np.int64]"
    labels: "NDArray[np.int64]"
    probabilities: list[float]


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
