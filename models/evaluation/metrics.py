r"""Metrics of predicted label sets and their confidences.

Numbers of equations are those of [1]_. Where it leaves a ratio 0/0 open: F1 and Jaccard are 1 when
the true and the predicted set are both empty; precision and recall are 1 when both sets are empty
and 0 when only their denominator is.

References
----------
.. [1] C. Li, "Reduction Methods for Multi-label Classification", thesis, Northeastern University,
   2019, section 2.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, vstack

from setwise.models.evaluation.automation import AUTOMATION_TARGETS, automation_at
from setwise.models.evaluation.judging import judge_scores
from setwise.models.evaluation.label_table import LabelTable
from setwise.models.evaluation.rankings import average_precision, precision_at
from setwise.models.evaluation.scoring import score_calibration
from setwise.models.guarantees.binomial import lower_bound, upper_bound
from setwise.models.results import AutomationAt, ScoreJudgement
from setwise.models.sets.candidates import CandidateSets

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

Labels = ArrayLike | csr_array
"""A 0/1 matrix, dense or csr."""


@dataclass(frozen=True)
class Metrics:
    """All metrics of ``setwise evaluate``, in [0, 1] unless stated otherwise.

    Attributes
    ----------
    n, n_labels : int
        Documents and labels.
    set_accuracy : float
        Share of sets that are exactly right, (2.13).
    set_accuracy_low, set_accuracy_high : float
        Its exact interval of 90 %.
    instance_precision, instance_recall, instance_f1, instance_jaccard : float
        Means over documents, (2.6), (2.7), (2.8), (2.10).
    hamming_loss : float
        Share of wrong label decisions, (2.12).
    micro_f1, macro_f1 : float
        (2.30), and the mean over labels (2.21).
    micro_precision, micro_recall, macro_precision, macro_recall : float
        Of all label decisions together, and means over labels; 0/0 counts 0 in the latter.
    n_undefined_labels : int
        Labels that are neither true nor predicted anywhere; they count 0 in ``macro_f1``.
    one_set : bool
        Whether several documents all got the same set.
    map : float or None
        Mean average precision of each document's label ranking; None without marginals.
    precision_at_1, precision_at_3, precision_at_5 : float or None
        Share of true labels among the likeliest of each document; None without marginals.
    oracle_accuracy : float or None
        Share of documents with their true set among the candidates; None without candidates.
    brier, uncertainty, sharpness, alignment_error, log_loss : float
        See :func:`~evaluation.scoring.score_calibration`; log loss in nats, at least 0.
    judgement : ScoreJudgement
        Whether the confidence can decide what to send; AUROC, AURC and ECE with intervals.
    automation : tuple of AutomationAt
        One per target.
    train_seconds, train_cpu_seconds, predict_seconds, documents_per_second : float or None
        At least 0; None where unknown.
    intervals : mapping of metric to (low, high), or None
        See :meth:`RunningMetrics.intervals`; None unless asked for.
    labels : LabelTable or None
        Each label by itself; None unless asked for.
    """

    n: int
    n_labels: int
    set_accuracy: float
    set_accuracy_low: float
    set_accuracy_high: float
    instance_precision: float
    instance_recall: float
    instance_f1: float
    instance_jaccard: float
    hamming_loss: float
    micro_f1: float
    macro_f1: float
    micro_precision: float
    micro_recall: float
    macro_precision: float
    macro_recall: float
    n_undefined_labels: int
    one_set: bool
    map: float | None
    precision_at_1: float | None
    precision_at_3: float | None
    precision_at_5: float | None
    oracle_accuracy: float | None
    brier: float
    uncertainty: float
    sharpness: float
    alignment_error: float
    log_loss: float
    judgement: ScoreJudgement
    automation: tuple[AutomationAt, ...]
    train_seconds: float | None = None
    train_cpu_seconds: float | None = None
    predict_seconds: float | None = None
    documents_per_second: float | None = None
    intervals: Mapping[str, tuple[float, float]] | None = None
    labels: LabelTable | None = None

    def timed(self, *, predict_seconds: float, train_seconds: float | None = None) -> "Metrics":
        """Return the metrics with training and prediction times in seconds."""
        return replace(
            self,
            train_seconds=train_seconds,
            predict_seconds=predict_seconds,
            documents_per_second=self.n / predict_seconds if predict_seconds > 0 else None,
        )

    def to_json(self) -> dict[str, object]:
        """Return a JSON object without unknown values."""
        values = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) is not None
        }
        return {
            **values,
            **({} if self.labels is None else {"labels": self.labels.to_dict()}),
            "judgement": self.judgement.to_dict(),
            "automation": [asdict(point) for point in self.automation],
        }


@dataclass(frozen=True, eq=False)
class Agreement:
    """Counts of true, predicted and common labels along one axis.

    Created by :func:`count_agreement`. ``hits`` is TP, ``predicted`` TP + FP, ``true`` TP + FN: of
    each document, or of each label.
    """

    hits: NDArray[np.int64]
    predicted: NDArray[np.int64]
    true: NDArray[np.int64]

    def __add__(self, other: "Agreement") -> "Agreement":
        """Return the summed counts of two parts of the data."""
        return Agreement(
            self.hits + other.hits, self.predicted + other.predicted, self.true + other.true
        )

    @classmethod
    def joined(cls, parts: Sequence["Agreement"]) -> "Agreement":
        """Return the concatenated counts of all parts."""
        return cls(
            np.concatenate([part.hits for part in parts]),
            np.concatenate([part.predicted for part in parts]),
            np.concatenate([part.true for part in parts]),
        )

    @property
    def exact(self) -> Bools:
        """Whether both sets are equal."""
        exact: Bools = (self.hits == self.true) & (self.hits == self.predicted)
        return exact

    def precision(self, *, undefined: float | None = None) -> Floats:
        """Return TP / (TP + FP).

        0/0 is `undefined`; without it 1 if both sets are empty, else 0.
        """
        otherwise = self.true == 0 if undefined is None else undefined
        return _ratio(self.hits, self.predicted, otherwise=otherwise)

    def recall(self, *, undefined: float | None = None) -> Floats:
        """Return TP / (TP + FN); 0/0 as for `precision`."""
        otherwise = self.predicted == 0 if undefined is None else undefined
        return _ratio(self.hits, self.true, otherwise=otherwise)

    def summed(self) -> "Agreement":
        """Return the counts of all together, arrays of length 1."""
        return Agreement(
            *(np.array([part.sum()]) for part in (self.hits, self.predicted, self.true))
        )

    def f1(self, *, undefined: float = 1.0) -> Floats:
        """Return F1; 0/0 is `undefined`."""
        return _ratio(2 * self.hits, self.true + self.predicted, otherwise=undefined)

    def jaccard(self) -> Floats:
        """Return TP / (TP + FP + FN)."""
        return _ratio(self.hits, self.true + self.predicted - self.hits, otherwise=1.0)


def _ratio(
    numerator: NDArray[np.int64], denominator: NDArray[np.int64], *, otherwise: ArrayLike
) -> Floats:
    filled = np.array(np.broadcast_to(np.asarray(otherwise, dtype=np.float64), numerator.shape))
    return np.divide(numerator, denominator, out=filled, where=denominator > 0)


def count_agreement(Y_true: Labels, Y_pred: Labels, *, axis: int = 1) -> Agreement:
    """Count true, predicted and common labels.

    Parameters
    ----------
    Y_true, Y_pred : array-like or csr_array of shape (n, L)
        0/1 matrices.
    axis : {1, 0}
        1 counts within each document, 0 within each label.

    Returns
    -------
    Agreement
        Arrays of length n, or L.

    Raises
    ------
    ValueError
        If the shapes differ, or an entry is neither 0 nor 1.
    """
    true, predicted = _label_matrices(Y_true, Y_pred)
    common = true.multiply(predicted).tocsr()
    return Agreement(*(_count(matrix, axis) for matrix in (common, predicted, true)))


def have_one_set(predicted: csr_array) -> bool:
    """Return whether all rows of a 0/1 matrix (n, L) with sorted indices are the same.

    >>> have_one_set(csr_array([[0, 1], [0, 1]])), have_one_set(csr_array([[0, 1], [1, 0]]))
    (True, False)
    """
    sizes = np.diff(predicted.indptr)
    if np.any(sizes != sizes[:1]):
        return False
    sets = predicted.indices.reshape(len(sizes), -1) if sizes[:1].any() else np.zeros((1, 0))
    return bool(np.all(sets == sets[:1]))


def training_remark(metrics: Mapping[str, object]) -> str | None:
    """Return what users must know of a model by its cross-fitted metrics; None if nothing.

    Parameters
    ----------
    metrics : mapping
        Those of the artifact's manifest.
    """
    if not metrics.get("one_set"):
        return None
    return (
        "In cross-fitting the model gives the same set to every document that it has not seen: it "
        "has not learnt to tell them apart; train on more documents, or look at what it reads."
    )


def _count(matrix: csr_array, axis: int) -> NDArray[np.int64]:
    if axis == 1:
        return np.diff(matrix.indptr).astype(np.int64)
    return np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.int64)


def _label_matrices(Y_true: Labels, Y_pred: Labels) -> tuple[csr_array, csr_array]:
    true, predicted = _label_matrix("Y_true", Y_true), _label_matrix("Y_pred", Y_pred)
    if true.shape != predicted.shape:
        raise ValueError(f"Y_true has shape {true.shape}, but Y_pred {predicted.shape}")
    return true, predicted


def _label_matrix(name: str, Y: Labels) -> csr_array:
    """Return a 0/1 matrix that stores only ones, sorted."""
    if isinstance(Y, csr_array):
        matrix = Y
    else:
        dense = np.asarray(Y)
        if dense.ndim != 2:
            raise ValueError(f"{name} must be a matrix, not of shape {dense.shape}")
        matrix = csr_array(dense)
    if not (np.all(matrix.data == 1) and matrix.has_canonical_format):
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if not np.all(matrix.data == 1):
            raise ValueError(f"{name} must hold zeros and ones only")
    return matrix


class RunningMetrics:
    """Accumulates metrics part by part, without keeping scores or candidates.

    Examples
    --------
    >>> judged = RunningMetrics().add([[1, 0]], [[1, 0]], [0.9]).add([[1, 1]], [[1, 0]], [0.4])
    >>> metrics = judged.result()
    >>> metrics.set_accuracy, round(metrics.instance_f1, 3)
    (0.5, 0.833)
    """

    def __init__(self) -> None:
        self._confidence: list[Floats] = []
        self._within: list[Agreement] = []
        self._across: Agreement | None = None
        self._sets: list[tuple[csr_array, csr_array]] = []  # true and predicted
        self._rankings: list[Floats] | None = []  # None once a part came without marginals
        self._tops: list[Floats] = []  # as `precision_at`
        self._probability: Floats | None = None  # of each label, summed over documents
        self._oracle: list[Bools] | None = []  # None once a part came without candidates

    def add(
        self,
        Y_true: Labels,
        Y_pred: Labels,
        confidence: ArrayLike,
        *,
        marginals: ArrayLike | None = None,
        candidates: CandidateSets | None = None,
    ) -> Self:
        """Add the predictions of some documents and return itself.

        Parameters
        ----------
        Y_true : array-like or csr_array of shape (n, L)
            0/1 matrix. Labels unknown to the model are its last columns and count as misses.
        Y_pred : array-like or csr_array of shape (n, M), M <= L
            0/1 matrix of the predicted sets.
        confidence : array-like of shape (n,)
            Confidence of each predicted set, in [0, 1].
        marginals : array-like of shape (n, M), optional
            Of every part, or there is no ``map``.
        candidates : CandidateSets of n documents and M labels, optional
            Of every part, or there is no ``oracle_accuracy``.

        Raises
        ------
        ValueError
            If shapes do not fit, or values are out of range.
        """
        true = _label_matrix("Y_true", Y_true)
        predicted = _widened(_label_matrix("Y_pred", Y_pred), true.shape[1])
        across = count_agreement(true, predicted, axis=0)
        if self._across is not None:
            if len(self._across.true) != true.shape[1]:
                raise ValueError(
                    f"this part has {true.shape[1]} labels, those before {len(self._across.true)}"
                )
            across = self._across + across
        within = count_agreement(true, predicted, axis=1)
        if marginals is None:
            self._rankings = None
        elif self._rankings is not None:
            summed = np.asarray(marginals, dtype=np.float64).sum(axis=0)
            self._probability = summed if self._probability is None else self._probability + summed
            self._rankings.append(average_precision(true, marginals))
            self._tops.append(precision_at(true, marginals))
        if candidates is None:
            self._oracle = None
        elif self._oracle is not None:
            self._oracle.append(_oracle(true, candidates))
        self._sets.append((true, predicted))
        self._within.append(within)
        self._confidence.append(np.asarray(confidence, dtype=np.float64))
        self._across = across
        return self

    def result(self, bootstrap: int = 0) -> Metrics:
        """Return the metrics of everything added so far.

        Draws give them intervals.

        Raises
        ------
        ValueError
            If there is no document or no label, or a confidence is out of range.
        """
        across = self._across
        n = sum(len(part.true) for part in self._within)
        if across is None or n == 0 or len(across.true) == 0:
            raise ValueError("there is nothing to evaluate: no document or no label")
        within = Agreement.joined(self._within)
        confidence = self.confidence
        undefined = (across.true + across.predicted) == 0
        together = across.summed()
        wrong = int((together.true + together.predicted - 2 * together.hits)[0])
        rankings = None if self._rankings is None else np.concatenate(self._rankings)
        tops = None if rankings is None else np.concatenate(self._tops).mean(axis=0).tolist()
        return Metrics(
            n=n,
            n_labels=len(across.true),
            set_accuracy=float(within.exact.mean()),
            set_accuracy_low=float(lower_bound(within.exact.sum(), n, 0.05)),
            set_accuracy_high=float(upper_bound(within.exact.sum(), n, 0.05)),
            instance_precision=float(within.precision().mean()),
            instance_recall=float(within.recall().mean()),
            instance_f1=float(within.f1().mean()),
            instance_jaccard=float(within.jaccard().mean()),
            hamming_loss=wrong / (n * len(across.true)),
            micro_f1=float(together.f1()[0]),
            macro_f1=float(across.f1(undefined=0.0).mean()),
            micro_precision=float(together.precision()[0]),
            micro_recall=float(together.recall()[0]),
            macro_precision=float(across.precision(undefined=0.0).mean()),
            macro_recall=float(across.recall(undefined=0.0).mean()),
            n_undefined_labels=int(undefined.sum()),
            one_set=n > 1 and have_one_set(self.label_sets()[1]),
            map=float(rankings.mean()) if rankings is not None and len(rankings) else None,
            precision_at_1=None if tops is None else tops[0],
            precision_at_3=None if tops is None else tops[1],
            precision_at_5=None if tops is None else tops[2],
            oracle_accuracy=None
            if self._oracle is None
            else float(np.concatenate(self._oracle).mean()),
            automation=tuple(
                automation_at(target, confidence, within.exact, least=1)
                for target in AUTOMATION_TARGETS
            ),
            judgement=judge_scores(confidence, within.exact),
            intervals=self.intervals(bootstrap) if bootstrap else None,
            **asdict(score_calibration(confidence, within.exact)),
        )

    @property
    def confidence(self) -> Floats:
        """Confidences of everything added so far, shape (n,)."""
        return np.concatenate(self._confidence)

    @property
    def right(self) -> Bools:
        """Whether each whole set was right, shape (n,)."""
        return Agreement.joined(self._within).exact

    def label_sets(self) -> tuple[csr_array, csr_array]:
        """Return the true and the predicted label sets, shape (n, L) each."""
        true, predicted = (vstack(parts, format="csr") for parts in zip(*self._sets, strict=True))
        return true, predicted

    def finished(
        self,
        label_names: Sequence[str] | None,
        train_seconds: float | None,
        predict_seconds: float,
        bootstrap: int = 0,
    ) -> Metrics:
        """Return the metrics with times, and the table of labels if their names are given."""
        metrics = self.result(bootstrap)
        if label_names is not None:
            metrics = replace(metrics, labels=self.label_table(label_names))
        return metrics.timed(predict_seconds=predict_seconds, train_seconds=train_seconds)

    def label_table(self, label_names: Sequence[str]) -> LabelTable:
        """Return how often each label was right, missing and extra.

        Raises
        ------
        ValueError
            If there is no document, or another number of labels.
        """
        across = self._across
        if across is None or len(across.true) != len(label_names):
            raise ValueError("there is nothing to count, or another number of labels")
        n = sum(len(part.true) for part in self._within)
        means = None
        if self._rankings is not None and self._probability is not None:
            means = np.full(len(label_names), np.nan)
            means[: len(self._probability)] = self._probability / n
        counts = across.true, across.predicted, across.hits
        return LabelTable.of_counts(label_names, counts, n, means)

    def intervals(
        self, draws: int, *, level: float = 0.9, seed: int = 0
    ) -> dict[str, tuple[float, float]]:
        """Return percentile intervals by the bootstrap over documents, metric by metric.

        Parameters
        ----------
        draws : int
            How often as many documents are drawn with replacement.
        level : float
            Share of the draws inside an interval, in (0, 1).
        """
        true, predicted = self.label_sets()
        within, rng = Agreement.joined(self._within), np.random.default_rng(seed)
        n, n_labels = true.shape
        means = {
            "set_accuracy": within.exact,
            "instance_f1": within.f1(),
            "instance_jaccard": within.jaccard(),
            "hamming_loss": (within.true + within.predicted - 2 * within.hits) / n_labels,
        }
        draws_of: dict[str, list[float]] = {name: [] for name in (*means, "micro_f1", "macro_f1")}
        decisions = [matrix.T.tocsr() for matrix in (true.multiply(predicted), predicted, true)]
        for _ in range(draws):
            weight = rng.multinomial(n, np.full(n, 1 / n))
            across = Agreement(*(matrix @ weight for matrix in decisions))
            for name, value in means.items():
                draws_of[name].append(float(np.dot(weight, value)) / n)
            draws_of["micro_f1"].append(float(across.summed().f1()[0]))
            draws_of["macro_f1"].append(float(across.f1(undefined=0.0).mean()))
        tails = (0.5 - level / 2, 0.5 + level / 2)
        return {name: tuple(np.quantile(drawn, tails).tolist()) for name, drawn in draws_of.items()}


def _oracle(true: csr_array, candidates: CandidateSets) -> Bools:
    """Return which documents have their true set among the candidates."""
    if candidates.n_labels > true.shape[1]:
        raise ValueError(
            f"candidates of {candidates.n_labels} labels do not fit labels of shape {true.shape}"
        )
    widened = replace(candidates, n_labels=true.shape[1])
    return widened.contains(true)


def _widened(matrix: csr_array, n_columns: int) -> csr_array:
    """Append empty columns to a matrix."""
    if matrix.shape[1] > n_columns:
        raise ValueError(f"Y_pred has {matrix.shape[1]} labels, but Y_true only {n_columns}")
    return csr_array(
        (matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], n_columns)
    )
