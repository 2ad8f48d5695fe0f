"""A scikit-learn classifier of label sets, with confidences for whole sets."""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GroupKFold
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from setwise.models.calibration.noisy_history import Noise
from setwise.models.data.answers import ModelAnswers
from setwise.models.data.dataset_files import MIN_TRAINING_DOCUMENTS
from setwise.models.data.datasets import Dataset
from setwise.models.data.splits import fold_ids
from setwise.models.evaluation.metrics import training_remark
from setwise.models.labels.foreign_classifier import ForeignClassifier
from setwise.models.labels.scaling import check_sample_weight
from setwise.models.labels.targets import (
    SetClassifierMixin,
    Targets,
    as_array,
    column_names,
    in_order_of,
    label_lists,
    only_column,
    read_targets,
    spelled_classes,
)
from setwise.models.options import (
    CalibratorName,
    Experts,
    LabelsBy,
    MethodName,
    Preset,
    TextsBy,
    TrainingOptions,
    TrainingWarning,
)
from setwise.models.predictions import SetPredictions
from setwise.models.predictor import SetPredictor
from setwise.models.sets.decisions import Objective
from setwise.models.storage.artifacts import save
from setwise.models.training import train
from setwise.spelling import spelled_names

Documents = Any  # texts, array-like, data frame or sparse matrix
Scores = ArrayLike | sp.csr_array


class SetClassifier(SetClassifierMixin, ClassifierMixin, BaseEstimator):
    """Predicts label sets, and how likely each whole set is right.

    Everything is cross-fitted inside `fit`, so confidences are calibrated on documents that the
    parts before have not seen.

    Parameters
    ----------
    estimator : classifier, optional
        Any scikit-learn classifier takes the place of Setwise's own label scores, see
        `ForeignClassifier`; voters and calibrators stay. It is never part of what `save` writes:
        the artifact is of kind ``external``, and the service is sent the classifier's scores.
    method, preset, optimize, labels_by, texts_by, experts
    n_candidates, n_folds, calibrator, n_jobs
        See `TrainingOptions`.
    noise : mapping, optional
        Error rates of the annotators, ``{"ann": {"alpha": 0.3}, "*": {"alpha":
        0.1}}``, see `checked_noise`; `fit` takes their names as ``annotators``.
    random_state : int, RandomState or None
        Equal integers give equal models.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        What the columns of `predict` stand for: the labels of label lists, sorted; the columns of
        a data frame, ``y`` or else ``scores``; else numbers from 0. The classes, if ``y`` had one
        class per row.
    predictor_ : SetPredictor
        The fitted model, as `setwise.load` returns it: candidates, marginals, manifest.
    estimator_ : ForeignClassifier
        Set if there is an `estimator`: fitted to all documents.
    n_features_in_ : int
        Not set for texts.
    feature_names_in_ : ndarray of str
        Set if ``X`` was a data frame.

    Examples
    --------
    >>> texts = ["wheat rain", "wheat", "rain", "sun"] * 60
    >>> labels = [["crop", "storm"], ["crop"], ["storm"], []] * 60
    >>> model = SetClassifier(preset="paper", calibrator="isotonic", n_folds=2).fit(texts, labels)
    >>> model.predict_set(["wheat and rain", "sun"])
    [('crop', 'storm'), ()]
    >>> model.predict(["wheat"]).tolist(), model.classes_.tolist()
    ([[1, 0]], ['crop', 'storm'])
    >>> model.predict_confidence(["wheat"]).round(1)
    array([1.])
    """

    predictor_: SetPredictor
    n_features_in_: int

    def __init__(
        self,
        estimator: Any = None,  # noqa: ANN401  # scikit-learn has no types
        *,
        method: MethodName = "br-rerank",
        preset: Preset = "best",
        optimize: Objective = "set-accuracy",
        labels_by: LabelsBy = "each",
        texts_by: TextsBy = "words",
        experts: Experts = "linear",
        n_candidates: int = 10,
        n_folds: int = 5,
        calibrator: CalibratorName = "auto",
        noise: Noise | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.preset = preset
        self.optimize = optimize
        self.labels_by = labels_by
        self.texts_by = texts_by
        self.experts = experts
        self.n_candidates = n_candidates
        self.n_folds = n_folds
        self.calibrator = calibrator
        self.noise = noise
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Documents,
        y: Any,  # noqa: ANN401  # scikit-learn's array-likes
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        scores: Scores | None = None,
        annotators: Sequence[str | None] | None = None,
    ) -> Self:
        """Fit on at least ten documents.

        Parameters
        ----------
        X : sequence of str, array-like, data frame or sparse matrix
            Texts, or features (n_samples, n_features). None if there are but scores.
        y : sequence of label lists, array-like or sparse matrix
            One collection of labels per document, or a 0/1 matrix (n_samples, n_labels), or one
            class per document. Cross-validation of scikit-learn takes sets of labels, not lists.
        groups : array-like of shape (n_samples,), optional
            Documents of a group, for example of one patient, are never in different folds.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the documents in the label classifiers. Calibrators count each document
            once: a confidence is a share of documents.
        scores : array-like or sparse matrix of shape (n_samples, n_labels), optional
            Probabilities by a model that was fitted without the document, in the order of
            `classes_`, or a data frame with these names. They take the place of label scores made
            here; without an `estimator`, predictions need scores too.
        annotators : sequence of (str or None), optional
            Who labelled each document, as `noise` names them.

        Raises
        ------
        ValueError
            If there is too little to learn from, shapes disagree or a parameter is out of range.
        TypeError
            If something among texts is no text.

        Warns
        -----
        TrainingWarning
            If there are too few documents for the calibrator that would otherwise be used, or the
            model gives the same set to every document that it has not seen.
        """
        if X is None and scores is None:
            raise ValueError("give documents, or scores of another model")
        documents = self._documents(X, reset=True)
        targets = read_targets(y, scores if documents is None else documents)
        names_of_scores = column_names(scores)
        is_numbered = not targets.exclusive and _is_numbered(targets.classes)
        if names_of_scores is not None and is_numbered:
            targets = targets._replace(classes=names_of_scores)
        n = targets.labels.shape[0]
        if n < MIN_TRAINING_DOCUMENTS:
            raise ValueError(f"{n} documents are too few; give at least {MIN_TRAINING_DOCUMENTS}")
        options = self._options()
        weight = None if sample_weight is None else check_sample_weight(sample_weight, n)
        if groups is None:
            folds = fold_ids(n, min(options.n_folds, n), options.seed)
        else:
            folds = group_folds(groups, n, options.n_folds)
        self.__dict__.pop("estimator_", None)
        if self.estimator is not None:
            self.estimator_ = ForeignClassifier(self.estimator, self.n_jobs)
            if scores is None:
                scores = _out_of_fold(self.estimator_, documents, targets.labels, folds, weight)
            self.estimator_.fit(documents, targets.labels, weight)
        names = None if annotators is None else tuple(annotators)
        if names is not None and len(names) != n:
            raise ValueError(f"annotators names {len(names)} people for {n} documents")
        answers = None if scores is None else _answers(scores, targets.classes, n)
        self.predictor_ = train(
            replace(_dataset(documents, self._feature_names(), targets, answers), annotators=names),
            options,
            folds=folds,
            sample_weight=weight,
        )
        if remark := training_remark(self.predictor_.manifest["metrics"]):
            warnings.warn(remark, TrainingWarning, stacklevel=2)
        self.classes_, self.exclusive_ = targets.classes, targets.exclusive
        return self

    def predict(self, X: Documents, *, scores: Scores | None = None) -> NDArray[Any]:
        """Return the predicted sets as a 0/1 matrix (n_samples, n_labels).

        If ``y`` had one class per row, the most probable class of each row instead.
        """
        predictions = self._predictions(X, scores)
        if self.exclusive_:
            return self._likeliest(predictions.marginals)
        return np.asarray(predictions.chosen().toarray(), dtype=np.int64)

    def predict_set(self, X: Documents, *, scores: Scores | None = None) -> list[tuple[Any, ...]]:
        """Return the predicted set of each document as a tuple of labels."""
        chosen = self._predictions(X, scores).chosen()
        names = self.classes_.tolist()
        columns = chosen.indices.tolist()
        return [
            tuple(names[k] for k in columns[first:end])
            for first, end in pairwise(chosen.indptr.tolist())
        ]

    def predict_confidence(
        self, X: Documents, *, scores: Scores | None = None
    ) -> NDArray[np.float64]:
        """Return the probability that each predicted set is entirely right, (n_samples,)."""
        return self._predictions(X, scores).top_confidence()

    def predict_proba(self, X: Documents, *, scores: Scores | None = None) -> NDArray[np.float64]:
        """Return the probability of each label, (n_samples, n_labels).

        Rows sum to 1 only if ``y`` had one class per row.
        """
        return self._shown_probability(self._predictions(X, scores).marginals)

    def score(
        self,
        X: Documents,
        y: Any,  # noqa: ANN401  # scikit-learn's array-likes
        sample_weight: ArrayLike | None = None,
        *,
        scores: Scores | None = None,
    ) -> float:
        """Return the share of documents whose whole set is right."""
        lists = label_lists(y)
        if lists is None:
            y = only_column(y) if self.exclusive_ else in_order_of(y, self.classes_, "y")
            truth = y if sp.issparse(y) else spelled_classes(as_array(y, "y"))
            predicted = self.predict(X, scores=scores)
            return float(accuracy_score(truth, predicted, sample_weight=sample_weight))
        check_consistent_length(scores if X is None else X, lists)
        pairs = zip(self.predict_set(X, scores=scores), lists, strict=True)
        weights = None if sample_weight is None else check_sample_weight(sample_weight, len(lists))
        return float(np.average([set(a) == set(b) for a, b in pairs], weights=weights))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the artifact that `setwise.load` and the service read; see `setwise.save`.

        With an `estimator`, or if fitted with scores, the service is sent ``scores`` beside the
        document; the estimator itself is not stored.
        """
        check_is_fitted(self)
        save(self.predictor_, folder, overwrite=overwrite)

    def read(self, dataset: Dataset) -> tuple[SetPredictor, Dataset]:
        """Return what predicts, and a data set as it reads it.

        The `estimator` adds its scores. Labels and features that were fitted without names have
        those of the data set's columns.
        """
        check_is_fitted(self)
        model = self.predictor_
        if len(dataset.label_names) == len(self.classes_) and _is_numbered(self.classes_):
            model = replace(model, label_names=dataset.label_names)
        if dataset.X is not None and self._feature_names() is None:
            n_features = dataset.X.shape[1]
            if n_features != len(model.feature_names):
                raise ValueError(
                    f"the data has {n_features} features, the model {len(model.feature_names)}"
                )
            dataset = replace(dataset, feature_names=model.feature_names)
        if model.kind != "external" or dataset.kind == "external":
            return model, dataset
        if not hasattr(self, "estimator_"):
            raise ValueError("this model was fitted with scores: give a data set with answers")
        dataset = dataset.in_columns_of(model.label_names, self._feature_names())
        documents: Documents = dataset.X if dataset.texts is None else dataset.texts
        if dataset.texts is None and not get_tags(self.estimator).input_tags.sparse:
            documents = documents.toarray()
        answers = _answers(self.estimator_.probability(documents), self.classes_, dataset.n)
        return model, replace(dataset, kind="external", answers=answers)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def _options(self) -> TrainingOptions:
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = int(check_random_state(seed).randint(np.iinfo(np.int32).max))
        return TrainingOptions(
            preset=self.preset,
            method=self.method,
            optimize=self.optimize,
            labels_by=self.labels_by,
            texts_by=self.texts_by,
            experts=self.experts,
            n_candidates=self.n_candidates,
            n_folds=self.n_folds,
            calibrator=self.calibrator,
            noise=self.noise,
            n_jobs=self.n_jobs,
            seed=seed,
        )

    def _documents(self, X: Documents, *, reset: bool) -> Documents:
        """Return a tuple of texts, checked features (dense or CSR), or None."""
        texts = None if X is None else _texts_of(X)
        X = _with_spelled_columns(X)
        of_numbers = not reset and hasattr(self, "n_features_in_")
        if X is None or texts or (texts is not None and not of_numbers):
            if reset:
                for name in ("n_features_in_", "feature_names_in_"):
                    self.__dict__.pop(name, None)
            return texts
        if not reset and not hasattr(self, "n_features_in_"):
            raise ValueError("this model was fitted on texts: give a sequence of strings")
        dtypes = (np.float64, np.float32)
        least = MIN_TRAINING_DOCUMENTS if reset else 1
        return validate_data(
            self, X, accept_sparse="csr", dtype=dtypes, reset=reset, ensure_min_samples=least
        )

    def _feature_names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names)

    def _predictions(self, X: Documents, scores: Scores | None) -> SetPredictions:
        check_is_fitted(self)
        documents = self._documents(X, reset=False)
        model = self.predictor_
        texts = documents if isinstance(documents, tuple) else None
        if model.kind != "external":
            if scores is not None:
                raise ValueError("this model was fitted without scores: give none")
            if texts is not None:
                return model.predict_texts(texts)
            return model.predict(sp.csr_array(documents))
        if scores is None:
            if not hasattr(self, "estimator_"):
                raise ValueError("this model was fitted with scores: give those of the documents")
            scores = self.estimator_.probability(documents)
        rows = None if documents is None or texts is not None else sp.csr_array(documents)
        answers = _answers(scores, self.classes_, np.shape(scores)[0])
        return model.predict_answers(answers, texts, rows)


def group_folds(groups: ArrayLike, n: int, n_folds: int) -> NDArray[np.int64]:
    """Return each row's fold (n,): whole groups, folds of similar size.

    Examples
    --------
    >>> group_folds(["a", "b", "b", "a", "c"], 5, 2).tolist()
    [1, 0, 0, 1, 0]
    """
    if isinstance(groups, list | tuple):  # NumPy would make a name of NaN among names
        groups = np.array(groups, dtype=object)
    column = column_or_1d(as_array(groups, "groups"))
    if (missing := np.flatnonzero(column != column)).size:  # noqa: PLR0124 - NaN and NaT
        row = missing[0]
        raise ValueError(f"groups has no value in row {row}: fill it in, or leave the row out")
    if column.dtype.kind == "O":
        column = column.astype(str)  # names and numbers together
    names, number = np.unique(column, return_inverse=True)
    if len(number) != n:
        raise ValueError(f"groups has {len(number)} entries for {n} documents")
    if len(names) < 2:
        raise ValueError("groups names a single group; cross-fitting needs at least two")
    folds = np.empty(n, dtype=np.int64)
    splitter = GroupKFold(min(n_folds, len(names)))
    for fold, (_, inside) in enumerate(splitter.split(number, groups=number)):
        folds[inside] = fold
    return folds


def _texts_of(X: Documents) -> tuple[str, ...] | None:
    """Return texts if `X` is a sequence or one column of them, else None."""
    if isinstance(X, str):
        raise TypeError("X is one text; give a list of texts")
    if getattr(X, "ndim", 1) == 2 and X.shape[1] == 1 and not sp.issparse(X):
        X = only_column(X) if hasattr(X, "columns") else np.ravel(X)
    if hasattr(X, "columns"):
        others = [name for name in X.columns if X[name].dtype.kind == "O"]
        texts = [name for name in others if any(isinstance(cell, str) for cell in X[name])]
        if texts:
            raise ValueError(f"column {texts[0]!r} of X holds texts: give the column alone")
        return None
    if sp.issparse(X) or getattr(X, "ndim", 1) != 1 or not isinstance(X, Sequence | np.ndarray):
        if not hasattr(X, "to_list"):  # a column of a data frame has it
            return None
        X = X.to_list()
    if not (len(X) == 0 or any(isinstance(text, str) for text in X)):
        return None
    for row, text in enumerate(X):
        if not isinstance(text, str):
            raise TypeError(f"text {row} is of type {type(text).__name__}; give strings")
    return tuple(map(str, X))


def _with_spelled_columns(X: Documents) -> Documents:
    """Return a data frame with its names of columns spelled; anything else as it is."""
    names = list(getattr(X, "columns", ()))
    if not names or not all(isinstance(name, str) for name in names):
        return X
    plain = spelled_names("column", names)
    if plain == names:
        return X
    # Pandas and Polars each have their own method to rename columns.
    return (
        X.set_axis(plain, axis=1)
        if hasattr(X, "set_axis")
        else X.rename(dict(zip(names, plain, strict=True)))
    )


def _take(documents: Documents, rows: NDArray[np.int64]) -> Documents:
    if isinstance(documents, tuple):
        return [documents[row] for row in rows.tolist()]
    return documents[rows]


def _answers(scores: Scores, classes: NDArray[Any], n: int) -> ModelAnswers:
    shape = n, len(classes)
    if np.shape(scores) == shape:
        scores = in_order_of(scores, classes, "scores")
    if not sp.issparse(scores):
        scores = as_array(scores, "scores")
    answers = ModelAnswers.of_scores(scores)
    if answers.shape != shape:
        raise ValueError(f"scores has shape {answers.shape}; expected {shape}")
    return answers


def _is_numbered(classes: NDArray[Any]) -> bool:
    """Tell whether the labels have numbers of columns for names."""
    return bool(classes.tolist() == list(range(len(classes))))


def _out_of_fold(
    classifier: ForeignClassifier,
    documents: Documents,
    labels: sp.csr_array,
    folds: NDArray[np.int64],
    sample_weight: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return each fold's label probabilities by clones fitted to the others."""
    scores = np.empty(labels.shape)
    for fold in np.unique(folds):
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        weight = None if sample_weight is None else sample_weight[outside]
        fitted = classifier.fit(_take(documents, outside), labels[outside], weight)
        scores[inside] = fitted.probability(_take(documents, inside))
    return scores


def _dataset(
    documents: Documents,
    feature_names: tuple[str, ...] | None,
    targets: Targets,
    answers: ModelAnswers | None,
) -> Dataset:
    labels = targets.labels
    texts = documents if isinstance(documents, tuple) else None
    X = None if documents is None or texts is not None else sp.csr_array(documents)
    digest = hashlib.sha256()
    for text in texts or ():
        digest.update(text.encode(errors="surrogatepass") + b"\n")
    for matrix in (labels, X, None if answers is None else answers.scores):
        if matrix is not None:
            for part in (matrix.indptr, matrix.indices, matrix.data):
                digest.update(np.ascontiguousarray(part).tobytes())
    return Dataset(
        kind="external" if answers is not None else "vectors" if texts is None else "text",
        ids=tuple(map(str, range(1, labels.shape[0] + 1))),
        label_names=tuple(map(str, targets.classes)),
        Y=labels,
        texts=texts,
        X=X,
        feature_names=feature_names,
        fingerprint=digest.hexdigest(),
        answers=answers,
    )
