"""A fitted model that turns documents into ranked label sets with confidences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from setwise.models.calibration.announced_curve import AnnouncedCurve
from setwise.models.calibration.calibration_rows import CalibrationRows
from setwise.models.calibration.calibrators import SetCalibrator
from setwise.models.compilation import njit
from setwise.models.data.answers import ModelAnswers
from setwise.models.data.datasets import Kind
from setwise.models.data.document_error import DocumentError, UnknownNames
from setwise.models.data.documents import PredictionInput
from setwise.models.data.rows import SparseRows
from setwise.models.data.scaler import FeatureScaler
from setwise.models.data.support import Support
from setwise.models.data.text import TextVectorizer
from setwise.models.display import one_line, summary_of, table
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.given_scores import GivenScores
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.labels.scaling import as_rows, no_features
from setwise.models.predictions import SetPredictions
from setwise.models.sets.candidates import concatenate
from setwise.models.sets.coherence import coherent_confidence
from setwise.models.sets.decider import Decider
from setwise.models.sets.evidence import CandidateSource, DocumentEvidence
from setwise.models.sets.features import SetFeatures
from setwise.models.sets.reranker import SetReranker
from setwise.models.voters.voters import SetVoters
from setwise.spelling import escaped, spelled, spelled_keys

# Votes are dense; this bounds their memory to a few megabytes.
_ROWS_AT_ONCE = 256

_LARGEST = float(np.finfo(np.float32).max)


class ReadDocuments(NamedTuple):
    """Documents as the fitted parts of a model read them."""

    rows: SparseRows  # of features; empty rows if the model reads answers only
    answers: ModelAnswers | None = None  # if the model is external
    texts: Sequence[str] | None = None  # if the model has a vectorizer


@dataclass(frozen=True, eq=False, repr=False)
class SetPredictor:
    """All fitted parts that turn a document into ranked label sets.

    Created by `training.train` or `storage.artifacts.load`. Predictions change no state, so threads
    can share an instance.

    Attributes
    ----------
    kind : {"text", "vectors", "external"}
        What it reads: texts, vectors, or what another model says (`predict_answers`).
    label_names : tuple of str
    feature_names : tuple of str
        Columns of the input matrix: terms of a text model, features of a vector model. Empty if an
        external model reads answers only.
    vectorizer : TextVectorizer or None
        Set if the model reads texts, alone or beside answers.
    trained_features : bool ndarray of shape (n_features,)
        Whether the feature occurred in a training document; never for n-grams, since parts of
        unknown words are no knowledge.
    support : Support
        Which documents are like those of the training.
    base : BinaryRelevance or GivenScores
        The latter if the model is external.
    label_calibrator : LabelCalibrator
    source : CandidateSource
    reranker : SetReranker
    scaler : FeatureScaler or None
        Set if features are measurements, which are scaled before anything else.
    voters : SetVoters or None
        Set if candidates or features use votes of the training documents' label sets.
    curve : AnnouncedCurve or None
        Corrects the confidence in announced sets; None without history.
    decider : Decider or None
        Chooses the set to announce if the objective is not set accuracy.
    calibration_rows : CalibrationRows or None
        Rows that the set calibrator was fitted on, kept for recalibration; predictions ignore
        them.
    manifest : mapping
        JSON record of training: settings, data, cross-fitted metrics, library versions.
    version : str
        Digest of everything that affects predictions except the set calibrator and its curve: 12
        hexadecimal digits, from `training.train` or the artifact.
    calibrator_version : str
        Digest of the set calibrator and its curve, in the same form.
    """

    kind: Kind
    label_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    vectorizer: TextVectorizer | None
    trained_features: NDArray[np.bool_]
    support: Support
    base: BinaryRelevance | GivenScores
    label_calibrator: LabelCalibrator
    source: CandidateSource
    reranker: SetReranker
    scaler: FeatureScaler | None = None
    voters: SetVoters | None = None
    curve: AnnouncedCurve | None = None
    decider: Decider | None = None
    calibration_rows: CalibrationRows | None = None
    manifest: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
    calibrator_version: str = ""

    def __repr__(self) -> str:
        return one_line(type(self).__name__, self._summary)

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self._summary, self.label_names)

    @property
    def _summary(self) -> dict[str, str]:
        return summary_of(self.kind, self.label_names, self.version, self.manifest)

    @property
    def features(self) -> SetFeatures:
        """The set features."""
        return self.reranker.features

    @property
    def calibrator(self) -> SetCalibrator:
        """The set calibrator."""
        return self.reranker.calibrator

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the metadata whose numbers an external model reads."""
        return self.features.numbers

    def evidence(
        self, X: ArrayLike | csr_array, answers: ModelAnswers | None = None
    ) -> DocumentEvidence:
        """Return label scores and votes for documents (n_documents, n_features)."""
        return self._evidence(self._scaled(self._checked(X)), answers)

    def scaled(self, X: ArrayLike | csr_array) -> csr_array:
        """Return documents (n_documents, n_features) as the fitted parts read them, float32."""
        return self._scaled(self._checked(X)).to_matrix()

    def _scaled(self, rows: SparseRows) -> SparseRows:
        return rows if self.scaler is None else self.scaler.scale_rows(rows)

    def _evidence(self, rows: SparseRows, answers: ModelAnswers | None) -> DocumentEvidence:
        if isinstance(self.base, BinaryRelevance):
            logits = self.base.score_rows(rows)
        elif answers is None:
            raise ValueError("this model reads what another model says: send its answers")
        else:
            logits = self.base.decision_function(answers)
        marginals = self.label_calibrator.transform(logits)
        evidence = DocumentEvidence(rows, logits, marginals, answers=answers)
        if self.voters is None:
            return evidence
        return replace(evidence, votes=self.voters.vote(evidence))

    def predict(self, X: ArrayLike | csr_array) -> SetPredictions:
        """Rank label sets for documents given as feature rows.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_documents, n_features)
            Columns as in `feature_names`; a text model takes the output of its vectorizer.

        Raises
        ------
        ValueError
            If the number of columns is wrong or a value is not finite.
        """
        return self.rank(ReadDocuments(self._checked(X)))

    def rank(self, documents: ReadDocuments) -> SetPredictions:
        """Rank label sets for documents that `read` returned."""
        rows, answers, texts = documents
        n = rows.n_rows
        share = None
        if self.vectorizer is not None and texts is not None:
            share = self.vectorizer.known_share(texts)
        if n <= _ROWS_AT_ONCE:
            return self._rank_block(rows, answers, share)
        blocks = [
            self._rank_block(
                rows.slice(start, min(start + _ROWS_AT_ONCE, n)),
                None if answers is None else answers[start : start + _ROWS_AT_ONCE],
                None if share is None else share[start : start + _ROWS_AT_ONCE],
            )
            for start in range(0, n, _ROWS_AT_ONCE)
        ]
        return SetPredictions(
            self.label_names,
            concatenate([block.candidates for block in blocks]),
            np.concatenate([block.confidence for block in blocks]),
            np.concatenate([block.label_probability for block in blocks]),
            np.concatenate([block.known_features for block in blocks]),
            np.concatenate([block.supported for block in blocks]),
        )

    def _rank_block(
        self, rows: SparseRows, answers: ModelAnswers | None, share: NDArray[np.float64] | None
    ) -> SetPredictions:
        evidence = self._evidence(self._scaled(rows), answers)
        ranked, confidence = self.reranker.rank(evidence, self.source.propose(evidence))
        if self.decider is not None:
            ranked, confidence = self.decider.announce(
                evidence, self.source, self.reranker, ranked, confidence
            )
        confidence = coherent_confidence(ranked, confidence)
        if self.curve is not None:
            confidence = self.curve.correct(ranked, confidence)
        n_features = count_trained(rows, self.trained_features)
        if answers is not None:
            n_features += answers.statements()
        return SetPredictions(
            self.label_names,
            ranked,
            confidence,
            evidence.marginals,
            n_features,
            self.support.covers(n_features, share),
        )

    def _checked(self, X: ArrayLike | csr_array) -> SparseRows:
        dtype = np.float32 if self.scaler is None else np.float64
        rows = as_rows(X, dtype)
        if rows.shape[1] != len(self.feature_names):
            raise ValueError(
                f"X has {rows.shape[1]} features; this model knows {len(self.feature_names)}"
            )
        return SparseRows.of(rows, dtype)

    def score(self, documents: Sequence[PredictionInput]) -> SetPredictions:
        """Rank label sets for documents of whatever form the model reads.

        Raises
        ------
        DocumentError
            At the first document that is not of this form; `UnknownNames` if it has labels or
            features that the model does not know.
        """
        return self.rank(self.read(documents))

    def read(self, documents: Sequence[PredictionInput]) -> ReadDocuments:
        """Return documents as the fitted parts read them; see `score`."""
        answers = self._read_answers(documents) if self.kind == "external" else None
        if self.vectorizer is not None:
            texts = [each.text for each in documents if each.text is not None]
            if len(texts) < len(documents):
                raise _lacks("text", documents)
            return ReadDocuments(self.vectorizer.rows(texts), answers, texts)
        if self.kind == "external" and not self.feature_names:
            return ReadDocuments(SparseRows.of(no_features(len(documents))), answers)
        features = [each.features for each in documents if each.features is not None]
        if len(features) < len(documents):
            raise _lacks("features", documents)
        return ReadDocuments(self._feature_rows(features), answers)

    def _read_answers(self, documents: Sequence[PredictionInput]) -> ModelAnswers:
        parsed = [each.answer for each in documents if each.answer is not None]
        if len(parsed) < len(documents):
            raise _lacks("answer", documents)
        answers = ModelAnswers.of(self.label_names, parsed, numbers=self.numbers)
        self._check_answers(answers)
        return answers

    def _check_answers(self, answers: ModelAnswers) -> None:
        """Raise `DocumentError` if a document has nothing that the model learnt from.

        Raises
        ------
        ValueError
            If the model is not external, or has other labels.
        """
        if self.kind != "external" or isinstance(self.base, BinaryRelevance):
            raise ValueError(f"this model was trained on {self.kind}: send no answers of another")
        if answers.n_labels != len(self.label_names):
            raise ValueError(
                f"the answers count {answers.n_labels} labels; this model knows "
                f"{len(self.label_names)}"
            )
        unread = self.base.unread(answers)
        if len(unread):
            kinds = {"scores": self.base.reads_scores_, "label sets": self.base.reads_sets_}
            learnt = " and ".join(name for name, is_read in kinds.items() if is_read)
            fault = f"it has no answer of the kind that the model learnt from: {learnt}"
            raise DocumentError(
                int(unread[0]), "", fault, "give the same fields again, or train again"
            )

    def predict_answers(
        self,
        answers: ModelAnswers,
        texts: Sequence[str] | None = None,
        X: ArrayLike | csr_array | None = None,
    ) -> SetPredictions:
        """Rank label sets for documents with another model's answers.

        Parameters
        ----------
        answers : ModelAnswers
        texts : sequence of str, optional
            The documents, which a model with a `vectorizer` needs; others ignore them.
        X : array-like or sparse array of shape (n_documents, n_features), optional
            Needed by a model with `feature_names` and no vectorizer.

        Raises
        ------
        ValueError
            If the model is not external, or the answers or documents do not suit it.
        """
        self._check_answers(answers)
        if self.vectorizer is not None:
            if texts is None:
                raise ValueError("this model was trained on texts and answers: send the texts too")
            rows = self.vectorizer.rows(list(texts))
        elif self.feature_names:
            if X is None:
                raise ValueError("this model was trained on vectors and answers: send both")
            rows = self._checked(X)
        else:
            rows = SparseRows.of(no_features(len(answers)))
        if rows.n_rows != len(answers):
            raise ValueError(f"{rows.n_rows} documents and {len(answers)} answers: give as many")
        return self.rank(ReadDocuments(rows, answers, texts))

    def predict_texts(self, texts: Sequence[str]) -> SetPredictions:
        """Rank label sets for texts; see `score`."""
        if isinstance(texts, str):
            raise TypeError("give a sequence of texts, not one string")
        return self.score([PredictionInput(text=text) for text in texts])

    def predict_features(self, documents: Sequence[Mapping[str, float]]) -> SetPredictions:
        """Rank label sets for documents given as named numbers; see `score`."""
        return self.score([PredictionInput(features=features) for features in documents])

    def _feature_rows(self, documents: Sequence[Mapping[str, float]]) -> SparseRows:
        names = list(chain.from_iterable(documents))
        numbers = list(chain.from_iterable(document.values() for document in documents))
        bounds = [0, *accumulate(map(len, documents))]
        try:
            # `map` and `fromiter` look names up without a Python loop over features.
            columns = np.fromiter(map(self._column.__getitem__, names), np.int32, bounds[-1])
        except KeyError:
            return self._feature_rows(self._spelled(documents))
        values = np.fromiter(numbers, np.float64, bounds[-1])
        indptr = np.array(bounds, dtype=np.int64)
        wrong = _sort_columns(indptr, columns, values)
        if wrong >= 0:
            raise DocumentError(
                int(np.searchsorted(indptr, wrong, side="right")) - 1,
                f"/features/{escaped(names[wrong])}",
                f"{numbers[wrong]} is no number within ±3.4e38",
                "give one",
            )
        if self.scaler is None:
            values = values.astype(np.float32)
        return SparseRows(indptr, columns, values, len(self.feature_names))

    def _spelled(self, documents: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
        """Return documents with the names of the model; raises `DocumentError`."""
        result = []
        for place, document in enumerate(documents):
            unknown = [name for name in document if spelled(name) not in self._column]
            if unknown:
                raise UnknownNames(place, "/features", unknown, "feature") from None
            try:
                result.append(spelled_keys(document))
            except ValueError as error:
                raise DocumentError(
                    place, "/features", f"the feature {error}", "give each feature once"
                ) from error
        return result

    @cached_property
    def _column(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self.feature_names)}


def _lacks(
    member: Literal["text", "features", "answer"], documents: Sequence[PredictionInput]
) -> DocumentError:
    """Return the error of the first document without what the model reads."""
    place = next(place for place, each in enumerate(documents) if getattr(each, member) is None)
    if member == "answer":
        fault = "there is no answer of another model, which this model reads"
        return DocumentError(place, "", fault, "give scores, candidates or labels")
    other = "features" if member == "text" else "text"
    if getattr(documents[place], other) is None:
        fault = f'there is no "{member}", which this model reads'
        return DocumentError(place, "", fault, f'give "{member}"')
    fault = f"this model reads {member}, not {other}"
    return DocumentError(place, f"/{other}", fault, f'give "{member}"')


@njit(cache=True, nogil=True)
def _sort_columns(
    indptr: NDArray[np.int64], columns: NDArray[np.int32], values: NDArray[np.float64]
) -> int:  # pragma: no cover - compiled
    """Sort each row's columns and values in place.

    Returns the index of the first value that float32 cannot hold, with nothing sorted, or -1.
    """
    for place in range(len(values)):
        if not abs(values[place]) <= _LARGEST:
            return place
    for i in range(len(indptr) - 1):
        row = slice(indptr[i], indptr[i + 1])
        features, numbers = columns[row], values[row]
        # Most documents are already in order.
        if len(features) > 1 and (features[1:] < features[:-1]).any():
            order = features.argsort()
            features[:] = features[order]
            numbers[:] = numbers[order]
    return -1


@njit(cache=True, nogil=True)
def count_trained(
    rows: SparseRows, trained: NDArray[np.bool_]
) -> NDArray[np.int32]:  # pragma: no cover - compiled
    """Count the features of each row that occurred in training."""
    counts = np.zeros(len(rows.indptr) - 1, dtype=np.int32)
    for i in range(len(counts)):
        for j in range(rows.indptr[i], rows.indptr[i + 1]):
            counts[i] += rows.values[j] != 0.0 and trained[rows.features[j]]
    return counts


def trained_features(X: csr_array) -> NDArray[np.bool_]:
    """Return which columns of X (n_documents, n_features) are ever non-zero."""
    trained = np.zeros(X.shape[1], dtype=bool)
    trained[X.indices[X.data != 0]] = True
    return trained
