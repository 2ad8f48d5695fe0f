"""A fitted model that turns documents into ranked label sets with confidences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from setwise.models.calibration.announced_curve import AnnouncedCurve
from setwise.models.calibration.calibration_rows import CalibrationRows
from setwise.models.calibration.calibrators import SetCalibrator
from setwise.models.data.answer_parsing import AnswerError
from setwise.models.data.answers import ModelAnswers
from setwise.models.data.datasets import Kind
from setwise.models.data.rows import SparseRows
from setwise.models.data.scaler import FeatureScaler
from setwise.models.data.support import Support
from setwise.models.data.text import TextVectorizer
from setwise.models.display import one_line, summary_of, table
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.given_scores import GivenScores
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.labels.ranking import rank_largest
from setwise.models.labels.scaling import as_rows, no_features
from setwise.models.sets.candidates import CandidateSets, concatenate
from setwise.models.sets.coherence import coherent_confidence, coherent_marginals
from setwise.models.sets.decider import Decider
from setwise.models.sets.evidence import CandidateSource, DocumentEvidence
from setwise.models.sets.features import SetFeatures
from setwise.models.sets.reranker import SetReranker
from setwise.models.voters.voters import SetVoters
from setwise.spelling import spelled, spelled_keys

# Votes are dense; this bounds their memory to a few megabytes.
_ROWS_AT_ONCE = 256

_READS: dict[Kind, str] = {
    "text": "texts: send text",
    "vectors": "vectors: send features",
    "external": "what another model says: send its answers",
}

_LARGEST = float(np.finfo(np.float32).max)


class UnknownFeatures(ValueError):
    """A document has features that the model does not know.

    Attributes
    ----------
    names : tuple of str
        The unknown names, each once, in order of appearance.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        first = ", ".join(repr(name) for name in self.names[:5])
        more = f" and {len(self.names) - 5} more" if len(self.names) > 5 else ""
        super().__init__(f"unknown features: {first}{more}; send features the model was trained on")


class RankedSet(NamedTuple):
    """One candidate of one document."""

    labels: tuple[str, ...]
    confidence: float  # calibrated probability that the whole set is right
    score: float  # probability of the set under independent labels


@dataclass(frozen=True, eq=False, repr=False)
class SetPredictions:
    """Ranked label sets for a batch of documents.

    Attributes
    ----------
    label_names : tuple of str
        Names of the label columns.
    candidates : CandidateSets
        Each document's sets, the chosen one first.
    confidence : float64 ndarray of shape (n_sets,)
        Calibrated probability that each whole set is right, in [0, 1]. A document's confidences
        sum to at most 1.
    label_probability : float64 ndarray of shape (n_documents, n_labels)
        Probability of each label, calibrated label by label, strictly inside (0, 1).
    known_features : int32 ndarray of shape (n_documents,)
        Number of the document's features that occurred in training.
    supported : bool ndarray of shape (n_documents,)
        Whether the document is like those that confidences were fitted to, see
        `setwise.models.data.support`; others are out of domain.
    """

    label_names: tuple[str, ...]
    candidates: CandidateSets
    confidence: NDArray[np.float64]
    label_probability: NDArray[np.float64]
    known_features: NDArray[np.int32]
    supported: NDArray[np.bool_]

    @cached_property
    def marginals(self) -> NDArray[np.float64]:
        """Probability of each label (n_documents, n_labels), coherent with the candidates.

        Candidates and the mass that they leave are one distribution, see
        `setwise.models.sets.coherence`: no label is less probable than the candidates that hold it
        together, nor more than these and the mass left.
        """
        return coherent_marginals(self.candidates, self.confidence, self.label_probability)

    def with_confidence(self, confidence: NDArray[np.float64]) -> "SetPredictions":
        """Return the same candidates with other confidences (n_sets,), made coherent."""
        coherent = coherent_confidence(self.candidates, confidence)
        return replace(self, confidence=coherent)

    def __len__(self) -> int:
        return self.candidates.n_documents

    def __repr__(self) -> str:
        counts = {"documents": len(self), "labels": len(self.label_names)}
        return one_line(type(self).__name__, {name: f"{n:,}" for name, n in counts.items()})

    def chosen(self) -> csr_array:
        """Return the chosen sets as a 0/1 matrix (n_documents, n_labels), uint8."""
        return self.candidates.first()

    def top_confidence(self) -> NDArray[np.float64]:
        """Return the confidence in each chosen set, shape (n_documents,)."""
        return self.confidence[self.candidates.doc_indptr[:-1]]

    def ranked(self, row: int) -> list[RankedSet]:
        """Return one document's candidates by name, the chosen one first."""
        # Lists, because indexing an array element by element is slow.
        sets, names = self.candidates, self.label_names
        first, last = sets.doc_indptr[row : row + 2].tolist()
        bounds = sets.set_indptr[first : last + 1].tolist()
        labels = [names[label] for label in sets.labels[bounds[0] : bounds[-1]].tolist()]
        ends = [bound - bounds[0] for bound in bounds]
        confidence = self.confidence[first:last].tolist()
        score = np.exp(sets.log_score[first:last]).tolist()
        return [
            RankedSet(tuple(labels[ends[i] : ends[i + 1]]), confidence[i], score[i])
            for i in range(last - first)
        ]


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
        Whether the feature occurred in a training document.
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
        return self._predict(self._checked(X))

    def _predict(
        self,
        rows: SparseRows,
        answers: ModelAnswers | None = None,
        texts: Sequence[str] | None = None,
    ) -> SetPredictions:
        n = rows.n_rows
        share = None
        if self.vectorizer is not None and texts is not None:
            share = self.vectorizer.known_share(texts)
        if n <= _ROWS_AT_ONCE:
            return self._rank(rows, answers, share)
        blocks = [
            self._rank(
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

    def _rank(
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
        n_features = _count_trained(rows, self.trained_features)
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

    def predict_texts(self, texts: Sequence[str]) -> SetPredictions:
        """Rank label sets for texts.

        Raises
        ------
        ValueError
            If the model was trained on vectors.
        """
        return self._predict(self.text_rows(texts), texts=texts)

    def read_answers(self, documents: Sequence[Mapping[str, Any]]) -> ModelAnswers:
        """Return what documents say, as `predict_answers` reads it.

        Parameters
        ----------
        documents : sequence of mapping
            As for `ModelAnswers.of`.

        Raises
        ------
        AnswerError
            If a document has no answer, one in another form, or not what the model learnt from.
        """
        answers = ModelAnswers.of(self.label_names, documents, numbers=self.numbers)
        self.check_answers(answers)
        return answers

    def check_answers(self, answers: ModelAnswers) -> None:
        """Raise `AnswerError` if a document has nothing that the model learnt from.

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
            raise AnswerError(
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
            Such as `read_answers` returns.
        texts : sequence of str, optional
            The documents, which a model with a `vectorizer` needs; others ignore them.
        X : array-like or sparse array of shape (n_documents, n_features), optional
            Needed by a model with `feature_names` and no vectorizer.

        Raises
        ------
        ValueError
            If the model is not external, or the answers or documents do not suit it.
        """
        self.check_answers(answers)
        if self.vectorizer is not None:
            if texts is None:
                raise ValueError("this model was trained on texts and answers: send the texts too")
            rows = self.text_rows(texts)
        elif self.feature_names:
            if X is None:
                raise ValueError("this model was trained on vectors and answers: send both")
            rows = self._checked(X)
        else:
            rows = SparseRows.of(no_features(len(answers)))
        if rows.n_rows != len(answers):
            raise ValueError(f"{rows.n_rows} documents and {len(answers)} answers: give as many")
        return self._predict(rows, answers, texts)

    def text_rows(self, texts: Sequence[str]) -> SparseRows:
        """Return texts as rows for `predict`."""
        if self.vectorizer is None:
            raise ValueError(f"this model was trained on {_READS[self.kind]}, not text")
        return self.vectorizer.rows(list(texts))

    def predict_features(self, documents: Sequence[Mapping[str, float]]) -> SetPredictions:
        """Rank label sets for documents given as named numbers.

        Features without a value are zero.

        Raises
        ------
        UnknownFeatures
            If a name is not one of the model's features.
        ValueError
            If the model was trained on texts, or a number is not finite.
        """
        return self._predict(self.feature_rows(documents))

    def feature_rows(self, documents: Sequence[Mapping[str, float]]) -> SparseRows:
        """Return documents given as named numbers as rows for `predict`."""
        if self.vectorizer is not None or not self.feature_names:
            raise ValueError(f"this model was trained on {_READS[self.kind]}, not features")
        names = list(chain.from_iterable(documents))
        numbers = list(chain.from_iterable(document.values() for document in documents))
        bounds = [0, *accumulate(map(len, documents))]
        try:
            # `map` and `fromiter` look names up without a Python loop over features.
            columns = np.fromiter(map(self._column.__getitem__, names), np.int32, bounds[-1])
        except KeyError:
            unknown = [name for name in names if spelled(name) not in self._column]
            if unknown:
                raise UnknownFeatures(unknown) from None
            return self.feature_rows([spelled_keys(document) for document in documents])
        values = np.fromiter(numbers, np.float64, bounds[-1])
        indptr = np.array(bounds, dtype=np.int64)
        wrong = _sort_columns(indptr, columns, values)
        if wrong >= 0:
            name, number = names[wrong], numbers[wrong]
            raise ValueError(f"feature {name!r} is {number}; it must be a number within ±3.4e38")
        if self.scaler is None:
            values = values.astype(np.float32)
        return SparseRows(indptr, columns, values, len(self.feature_names))

    @cached_property
    def _column(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self.feature_names)}


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
def most_likely(marginals: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Return the columns of each row's largest values.

    Columns are in falling order of value, ties in order of column.

    Returns
    -------
    int64 ndarray of shape (n_documents, min(limit, n_labels))
    """
    n, n_labels = marginals.shape
    out = np.empty((n, min(limit, n_labels)), dtype=np.int64)
    for i in range(n):
        rank_largest(marginals[i], out[i])
    return out


@njit(cache=True, nogil=True)
def likely_columns(
    marginals: NDArray[np.float64], limit: int, least: float
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Return columns and values as `most_likely`, leaving out small values.

    Values smaller than ``least`` are left out.

    Returns
    -------
    indptr : int64 ndarray of shape (n_documents + 1,)
        Start of each row.
    columns : int32 ndarray
    values : float64 ndarray

    Examples
    --------
    >>> likely_columns(np.array([[0.1, 0.9, 0.3], [0.2, 0.1, 0.2]]), 2, 0.15)[:2]
    (array([0, 2, 4]), array([1, 2, 0, 2], dtype=int32))
    """
    n, n_labels = marginals.shape
    room = min(limit, n_labels)
    indptr = np.zeros(n + 1, dtype=np.int64)
    columns, values = np.empty(n * room, dtype=np.int32), np.empty(n * room)
    large, place = np.empty(n_labels, dtype=np.int32), np.empty(room, dtype=np.int64)
    held = np.empty(n_labels)
    end = 0
    for i in range(n):
        n_large = 0
        for label in range(n_labels):
            if marginals[i, label] >= least:
                large[n_large], held[n_large] = label, marginals[i, label]
                n_large += 1
        n_kept = min(room, n_large)
        rank_largest(held[:n_large], place[:n_kept])
        for k in range(n_kept):
            columns[end], values[end] = large[place[k]], held[place[k]]
            end += 1
        indptr[i + 1] = end
    return indptr, columns[:end], values[:end]


@njit(cache=True, nogil=True)
def _count_trained(
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
