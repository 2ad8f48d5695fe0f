"""A loaded model, which scores the service's documents and says what it cannot read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from setwise.models.calibration.calibrators import AgreementSets
from setwise.models.data.answer_parsing import parse_answer
from setwise.models.data.document_error import DocumentError, UnknownNames
from setwise.models.data.documents import PredictionInput
from setwise.models.evaluation.answer_explanation import weigh_answer
from setwise.models.evaluation.explanation import weigh_terms
from setwise.models.predictions import SetPredictions, likely_columns
from setwise.models.predictor import SetPredictor
from setwise.models.storage.recalibrations import StoredRecalibration
from setwise.service.domain import errors
from setwise.service.domain.predictions import (
    Candidate,
    Document,
    Marginal,
    Refused,
    ScoredSet,
    TermWeight,
)
from setwise.service.domain.text import MOST_HINTED, hints, nearest, question
from setwise.spelling import escaped

MOST_NAMED = 20
"""Unknown labels of a document that an error points at."""

MOST_MARGINALS = 50
NEGLIGIBLE = 0.005
"""Marginals below this are not stored, because a large vocabulary has very many of them."""

_DIGITS = 6
"""Significant digits of scores and marginals, which no decision uses."""

_REHEARSED = 20
"""Features of the document that a model predicts before it serves."""


class LoadedPredictor:
    """A fitted model as a `Predictor` for the services."""

    def __init__(
        self, predictor: SetPredictor, calibrator: StoredRecalibration | None = None
    ) -> None:
        self._predictor = predictor
        self._calibrator = calibrator
        self.version = predictor.version
        self.own_calibrator_version = predictor.calibrator_version
        self.calibrator_version = calibrator.version if calibrator else self.own_calibrator_version
        self.labels: Sequence[str] = predictor.label_names
        self.external = predictor.kind == "external"

    def calibrated(self, calibrator: StoredRecalibration | None) -> "LoadedPredictor":
        """Return the model with another calibrator; None means its own.

        Raises `CalibrationDamaged` if the calibrator was learnt for another model.
        """
        if calibrator is not None and (calibrator.model_version, calibrator.own_version) != (
            self._predictor.version,
            self._predictor.calibrator_version,
        ):
            raise errors.CalibrationDamaged(
                f"The calibrator {calibrator.version} was learnt for model "
                f"{calibrator.model_version}, not for {self._predictor.version}."
            )
        if calibrator is not None:
            known = len(calibrator.recalibration.label_weights)
            if known != len(self._predictor.label_names):
                raise errors.CalibrationDamaged(
                    f"The calibrator {calibrator.version} has {known} labels."
                )
        return LoadedPredictor(self._predictor, calibrator)

    def score(self, documents: Sequence[Document]) -> Sequence[ScoredSet | Refused]:
        """Score documents together; return the result of each, in order."""
        if not documents:
            return []
        try:
            return self._score(documents)
        except Exception as error:  # noqa: BLE001 -- the result of the document that it is about
            if len(documents) == 1:
                return [Refused(error)]
        # The model refuses all of them if it cannot read one.
        return [result for document in documents for result in self.score([document])]

    def _score(self, documents: Sequence[Document]) -> list[ScoredSet]:
        """Score documents together; raises `InvalidRequest` if one cannot be read."""
        with _refusing(documents, self._predictor.label_names):
            predictions = self._predictor.score(self._inputs(documents))
        shown, own = predictions, None
        if self._calibrator is not None:
            own = predictions.confidence
            shown = predictions.with_confidence(
                self._calibrator.recalibration.correct(predictions.candidates, own)
            )
        return scored_sets(
            shown,
            own,
            model_version=self.version,
            calibrator_version=self.calibrator_version,
            uncalibrated=own is None and isinstance(self._predictor.calibrator, AgreementSets),
        )

    def _inputs(self, documents: Sequence[Document]) -> list[PredictionInput]:
        """Return documents for the model; raises `DocumentError` if an answer is malformed."""
        return [
            PredictionInput(
                document.text,
                document.features,
                parse_answer({**document.answer, "metadata": document.metadata}, place)
                if self.external and document.answer is not None
                else None,
            )
            for place, document in enumerate(documents)
        ]

    def explain(self, document: Document, labels: Sequence[str]) -> list[tuple[TermWeight, ...]]:
        """Return the weights of the document's terms for each label, largest first.

        An external model weighs what the other model answered instead. Raises `InvalidRequest`.
        """
        known = set(self.labels)
        meant = hints((label for label in labels if label not in known), known)
        faults = [
            errors.FieldFault(
                f"/labels/{place}", f"{label!r} is not a label of the model{meant.get(label, '')}"
            )
            for place, label in enumerate(labels)
            if label not in known
        ]
        if faults:
            raise errors.InvalidRequest("These labels cannot be explained.", faults)
        with _refusing([document], self._predictor.label_names):
            read = self._predictor.read(self._inputs([document]))
        if self.external:
            weighed = weigh_answer(self._predictor, read, labels)
        else:
            weighed = weigh_terms(self._predictor, read.rows.to_matrix(), labels)
        return [tuple(TermWeight(term.name, term.weight) for term in terms) for terms in weighed]

    def warm_up(self) -> None:
        """Predict a document of the model's own features.

        The first client does not wait for compilation then, and a model that cannot predict never
        serves.
        """
        known = self._predictor.feature_names[:_REHEARSED]
        document = (
            # Not ASCII, because such texts take an extra step.
            Document(text=f"{' '.join(known)} \u00b7")
            if self._predictor.vectorizer is not None
            else Document(features=dict.fromkeys(known, 1.0))
        )
        if self.external:
            scores = getattr(self._predictor.base, "reads_scores_", False)
            answer = {"scores": {self.labels[0]: 0.5}} if scores else {"labels": self.labels[:1]}
            document = document._replace(answer=answer)
        self._score([document])


@contextmanager
def _refusing(documents: Sequence[Document], labels: tuple[str, ...]) -> Iterator[None]:
    """Raise `InvalidRequest` in place of what the model says of a document."""
    try:
        yield
    except DocumentError as error:
        raise errors.InvalidRequest(
            f"The document cannot be read: {error.fault}; {error.cure}.",
            _faults(error, documents[error.document], labels),
        ) from error


def _faults(
    error: DocumentError, document: Document, labels: tuple[str, ...]
) -> list[errors.FieldFault]:
    # Metadata stands beside the document in a request.
    path = error.path if error.path.startswith("/metadata") else f"/document{error.path}"
    if not isinstance(error, UnknownNames):
        return [errors.FieldFault(path, f"{error.fault}; {error.cure}")]
    named = error.names[:MOST_NAMED]
    likely = named[:MOST_HINTED] if error.noun == "label" else ()
    meant = {name: _hint(name, labels) for name in likely}
    faults = [
        errors.FieldFault(
            f"{path}/{_place(error.path, name, document)}",
            f"is not a {error.noun} of the active model{meant.get(name, '')}",
        )
        for name in named
    ]
    if len(error.names) > len(named):
        more = f"has {len(error.names) - len(named)} more {error.noun}s that the active model lacks"
        faults.append(errors.FieldFault(path, more))
    return faults


@lru_cache(maxsize=1_000)  # a file may misspell one label in every line
def _hint(label: str, labels: tuple[str, ...]) -> str:
    return question(nearest(label, labels))


def _place(path: str, name: str, document: Document) -> str:
    """Return where a name stands: itself in an object, its number in a set."""
    answer = document.answer or {}
    if path in ("/scores", "/features"):
        return escaped(name)
    if path == "/labels":
        return str(list(answer["labels"]).index(name))
    number = int(path.split("/")[2])
    return str(list(answer["candidates"][number]["labels"]).index(name))


def scored_sets(
    predictions: SetPredictions,
    own_confidences: NDArray[np.float64] | None = None,
    *,
    model_version: str,
    calibrator_version: str,
    uncalibrated: bool = False,
) -> list[ScoredSet]:
    """Return a scored set for each document.

    Raises `ValueError` if a number is not finite, which JSON cannot represent.

    ``predictions``: Predictions of the documents, with the confidences to show.
    ``own_confidences``: The model's own confidences, if a calibrator learnt from reviews replaced
    them.
    ``uncalibrated``: Nothing has taught the model how sure to be.
    """
    sets = predictions.candidates
    scores = np.minimum(np.exp(sets.log_score), 1.0)
    if not (np.isfinite(scores).all() and np.isfinite(predictions.confidence).all()):
        raise ValueError("the model gave a number that is not finite")
    names = predictions.label_names
    labels = [names[label] for label in sets.labels.tolist()]
    candidates = [
        Candidate(tuple(labels[first:last]), confidence, score)
        for (first, last), confidence, score in zip(
            pairwise(sets.set_indptr.tolist()),
            predictions.confidence.tolist(),
            _rounded(scores),
            strict=True,
        )
    ]
    share_ends, columns, probabilities = likely_columns(
        predictions.marginals, MOST_MARGINALS, NEGLIGIBLE
    )
    marginals = [
        Marginal(names[column], probability)
        for column, probability in zip(columns.tolist(), _rounded(probabilities), strict=True)
    ]
    own = None if own_confidences is None else own_confidences.tolist()
    return [
        ScoredSet(
            candidates=tuple(candidates[first:last]),
            marginals=tuple(marginals[first_share:last_share]),
            out_of_domain=not supported,
            model_version=model_version,
            calibrator_version=calibrator_version,
            uncalibrated=uncalibrated,
            replaced=None if own is None else tuple(own[first:last]),
        )
        for (first, last), (first_share, last_share), supported in zip(
            pairwise(sets.doc_indptr.tolist()),
            pairwise(share_ends.tolist()),
            predictions.supported.tolist(),
            strict=True,
        )
    ]


def _rounded(probabilities: NDArray[np.float64]) -> list[float]:
    """Return probabilities with six significant digits.

    >>> _rounded(np.array([2 / 3, 1.23456789e-30]))
    [0.666667, 1.23457e-30]
    """
    return [float(f"{probability:.{_DIGITS}g}") for probability in probabilities.tolist()]
