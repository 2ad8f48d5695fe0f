"""From a model's arrays to what the service says of each document, as objects and as JSON.

Each document has dozens of numbers and names, so that this can take longer than their computation:
what can be done once for all documents, or once for all time, is not done for each of them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from service.domain.predictions import Candidate, Marginal, ScoredSet, Written, WrittenScores
from service.use_cases.written import compact_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from models.predictor import SetPredictions

MOST_MARGINALS = 50
NEGLIGIBLE = 0.005
"""Marginals below this are not stored: a large vocabulary would fill the answer with them."""

# As calling the classes, which for named tuples is a call in Python.
_candidate: Any = partial(tuple.__new__, Candidate)  # Any: mypy sees a bare tuple
_marginal: Any = partial(tuple.__new__, Marginal)  # Any: as above


class Answers:
    """Words what a model with these labels predicts.

    Parameters
    ----------
    label_names : sequence of str
        In the order of the model's columns.
    """

    def __init__(self, label_names: Sequence[str]) -> None:
        self._names = label_names
        self._quoted = [compact_json(name) for name in label_names]

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
        ends = predictions.candidates.doc_indptr.tolist()
        said = None if own is confidences else own.tolist()
        known = (predictions.known_features > 0).tolist()
        parts = zip(
            pairwise(ends),
            self._candidates(predictions, confidences),
            self._marginals(predictions),
            known,
            strict=True,
        )
        return [
            ScoredSet(
                candidates=candidates,
                marginals=marginals,
                out_of_domain=not is_known,
                model_version=model_version,
                calibrator_version=calibrator_version,
                replaced=None if said is None else tuple(said[first:last]),
                written=WrittenScores(sets, shares),
            )
            for (first, last), (candidates, sets), (marginals, shares), is_known in parts
        ]

    def _candidates(
        self, predictions: "SetPredictions", confidences: "NDArray[np.float64]"
    ) -> Iterator[tuple[tuple[Candidate, ...], Written]]:
        """Yield each document's candidates."""
        import numpy as np  # noqa: PLC0415 -- see `FolderOrObjectStore`

        sets = predictions.candidates
        columns = sets.labels.tolist()
        names = [self._names[column] for column in columns]
        quoted = [self._quoted[column] for column in columns]
        bounds = list(pairwise(sets.set_indptr.tolist()))
        scores = np.exp(sets.log_score)
        objects = [
            _candidate((tuple(names[first:last]), confidence, score))
            for (first, last), confidence, score in zip(
                bounds, confidences.tolist(), scores.tolist(), strict=True
            )
        ]
        written = [
            f'{{"labels":[{",".join(quoted[first:last])}],"confidence":{confidence},"score":{score}}}'
            for (first, last), confidence, score in zip(
                bounds, _numbers(confidences), _numbers(scores), strict=True
            )
        ]
        for first, last in pairwise(sets.doc_indptr.tolist()):
            yield tuple(objects[first:last]), _array(written[first:last])

    def _marginals(
        self, predictions: "SetPredictions"
    ) -> Iterator[tuple[tuple[Marginal, ...], Written]]:
        """Yield each document's marginals that are worth telling."""
        import numpy as np  # noqa: PLC0415 -- as above

        from models.predictor import most_likely  # noqa: PLC0415 -- as above

        order = most_likely(predictions.marginals, MOST_MARGINALS)
        likely = np.take_along_axis(predictions.marginals, order, axis=1)
        told = likely >= NEGLIGIBLE
        columns = order[told].tolist()
        probabilities = likely[told]
        names = [self._names[column] for column in columns]
        objects = list(map(_marginal, zip(names, probabilities.tolist(), strict=True)))
        written = [
            f'{{"label":{self._quoted[column]},"probability":{probability}}}'
            for column, probability in zip(columns, _numbers(probabilities), strict=True)
        ]
        for first, last in pairwise(accumulate(told.sum(axis=1).tolist(), initial=0)):
            yield tuple(objects[first:last]), _array(written[first:last])


def _numbers(values: "NDArray[np.float64]") -> list[str]:
    """Return each number as JSON; in one call, which takes a third of the time of ``repr``."""
    import numpy as np  # noqa: PLC0415 -- as above

    if not np.isfinite(values).all():
        raise ValueError("a model gave a number that is not finite")
    return to_json(values.tolist())[1:-1].decode().split(",") if len(values) else []


def _array(members: Sequence[str]) -> Written:
    return Written(f"[{','.join(members)}]")
