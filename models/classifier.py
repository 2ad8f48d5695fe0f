"""A scikit-learn classifier of label sets with a confidence for each whole set."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GroupKFold
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from setwise.models.data.datasets import MIN_TRAINING_DOCUMENTS, Dataset
from setwise.models.labels.scaling import check_sample_weight
from setwise.models.labels.targets import SetClassifierMixin, Targets, label_lists, read_targets
from setwise.models.predictor import SetPredictions, SetPredictor
from setwise.models.sets.decisions import Objective
from setwise.models.storage.artifacts import save
from setwise.models.training import CalibratorName, Method, Preset, TrainingOptions, train

Documents = Any  # texts, array-like, data frame or sparse matrix


class SetClassifier(SetClassifierMixin, ClassifierMixin, BaseEstimator):
    """Predicts label sets, and how likely each whole set is right.

    Everything is cross-fitted inside `fit`, so confidences are calibrated on documents that the
    parts before have not seen.

    Parameters
    ----------
    method, preset, optimize, n_candidates, n_folds, calibrator, n_jobs
        See `TrainingOptions`.
    random_state : int, RandomState or None
        Equal integers give equal models.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        What the columns of `predict` stand for: the labels of label lists, sorted; the columns of
        a data frame; else numbers from 0. The classes, if ``y`` had one class per row.
    predictor_ : SetPredictor
        The fitted model, as `setwise.load` returns it: candidates, marginals, manifest.
    n_features_in_ : int
        Not set for texts.
    feature_names_in_ : ndarray of str
        Set if ``X`` was a data frame.

    Examples
    --------
    >>> texts = ["wheat rain", "wheat", "rain", "sun"] * 15
    >>> labels = [["crop", "storm"], ["crop"], ["storm"], []] * 15
    >>> model = SetClassifier(preset="paper", calibrator="isotonic", n_folds=2).fit(texts, labels)
    >>> model.predict_set(["wheat and rain", "sun"])
    [('crop', 'storm'), ()]
    >>> model.predict(["wheat"]).tolist(), model.classes_.tolist()
    ([[1, 0]], ['crop', 'storm'])
    >>> bool(0.9 < model.predict_confidence(["wheat"])[0] < 1)
    True
    """

    predictor_: SetPredictor
    n_features_in_: int

    def __init__(
        self,
        *,
        method: Method = "br-rerank",
        preset: Preset = "best",
        optimize: Objective = "set-accuracy",
        n_candidates: int = 10,
        n_folds: int = 5,
        calibrator: CalibratorName = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.method = method
        self.preset = preset
        self.optimize = optimize
        self.n_candidates = n_candidates
        self.n_folds = n_folds
        self.calibrator = calibrator
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Documents,
        y: Any,  # noqa: ANN401  # scikit-learn's array-likes
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit on at least ten documents.

        Parameters
        ----------
        X : sequence of str, array-like, data frame or sparse matrix
            Texts, or features (n_samples, n_features).
        y : sequence of label lists, array-like or sparse matrix
            One collection of labels per document, or a 0/1 matrix (n_samples, n_labels), or one
            class per document.
        groups : array-like of shape (n_samples,), optional
            Documents of a group, for example of one patient, are never in different folds.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the documents in the label classifiers. Calibrators count each document
            once: a confidence is a share of documents.

        Raises
        ------
        ValueError
            If there is too little to learn from, shapes disagree or a parameter is out of range.
        TypeError
            If something among texts is no text.

        Warns
        -----
        TrainingWarning
            If there are too few documents for the calibrator that would otherwise be used.
        """
        texts, rows = self._documents(X, reset=True)
        targets = read_targets(y, X if rows is None else rows)
        n = targets.labels.shape[0]
        options = self._options()
        weight = None if sample_weight is None else check_sample_weight(sample_weight, n)
        folds = None if groups is None else group_folds(groups, n, options.n_folds)
        self.predictor_ = train(
            _dataset(texts, rows, self._feature_names(), targets),
            options,
            folds=folds,
            sample_weight=weight,
        )
        self.classes_, self.exclusive_ = targets.classes, targets.exclusive
        return self

    def predict(self, X: Documents) -> NDArray[Any]:
        """Return the predicted sets as a 0/1 matrix (n_samples, n_labels).

        If ``y`` had one class per row, the most probable class of each row instead.
        """
        predictions = self._predictions(X)
        if self.exclusive_:
            return self._likeliest(predictions.marginals)
        return np.asarray(predictions.chosen().toarray(), dtype=np.int64)

    def predict_set(self, X: Documents) -> list[tuple[Any, ...]]:
        """Return the predicted set of each document as a tuple of labels."""
        chosen = self._predictions(X).chosen()
        names = self.classes_.tolist()
        bounds = chosen.indptr[1:-1]
        return [tuple(names[k] for k in row.tolist()) for row in np.split(chosen.indices, bounds)]

    def predict_confidence(self, X: Documents) -> NDArray[np.float64]:
        """Return the probability that each predicted set is entirely right, (n_samples,)."""
        return self._predictions(X).top_confidence()

    def predict_proba(self, X: Documents) -> NDArray[np.float64]:
        """Return the probability of each label, (n_samples, n_labels).

        Rows sum to 1 only if ``y`` had one class per row.
        """
        return self._shown_probability(self._predictions(X).marginals)

    def score(
        self,
        X: Documents,
        y: Any,  # noqa: ANN401  # scikit-learn's array-likes
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the share of documents whose whole set is right, in [0, 1]."""
        lists = label_lists(y)
        if lists is None:
            return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        check_consistent_length(X, lists)
        found = zip(self.predict_set(X), lists, strict=True)
        weights = None if sample_weight is None else check_sample_weight(sample_weight, len(lists))
        return float(np.average([set(a) == set(b) for a, b in found], weights=weights))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the artifact that `setwise.load` and the service read; see `setwise.save`."""
        check_is_fitted(self)
        save(self.predictor_, folder, overwrite=overwrite)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def _options(self) -> TrainingOptions:
        seed = self.random_state
        if not isinstance(seed, int):
            seed = int(check_random_state(seed).randint(np.iinfo(np.int32).max))
        return TrainingOptions(
            preset=self.preset,
            method=self.method,
            optimize=self.optimize,
            n_candidates=self.n_candidates,
            n_folds=self.n_folds,
            calibrator=self.calibrator,
            n_jobs=self.n_jobs,
            seed=seed,
        )

    def _documents(
        self, X: Documents, *, reset: bool
    ) -> tuple[tuple[str, ...] | None, sp.csr_array | None]:
        """Return texts or feature rows, whichever `X` holds."""
        texts = _texts_of(X)
        if texts is not None:
            if reset:
                for name in ("n_features_in_", "feature_names_in_"):
                    self.__dict__.pop(name, None)
            return texts, None
        if not reset and self.predictor_.kind == "text":
            raise ValueError("this model was fitted on texts: give a sequence of strings")
        dtypes = (np.float64, np.float32)
        least = MIN_TRAINING_DOCUMENTS if reset else 1
        checked = validate_data(
            self, X, accept_sparse="csr", dtype=dtypes, reset=reset, ensure_min_samples=least
        )
        return None, sp.csr_array(checked)

    def _feature_names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names)

    def _predictions(self, X: Documents) -> SetPredictions:
        check_is_fitted(self)
        texts, rows = self._documents(X, reset=False)
        if rows is not None:
            return self.predictor_.predict(rows)
        return self.predictor_.predict_texts(texts or ())


def group_folds(groups: ArrayLike, n: int, n_folds: int) -> NDArray[np.int64]:
    """Return the fold of each row (n,), whole groups to folds of similar size.

    Examples
    --------
    >>> group_folds(["a", "b", "b", "a", "c"], 5, 2).tolist()
    [1, 0, 0, 1, 0]
    """
    names, number = np.unique(column_or_1d(groups), return_inverse=True)
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
    """Return texts if `X` is a sequence of them, else None."""
    if sp.issparse(X) or getattr(X, "ndim", 1) != 1 or not isinstance(X, Sequence | np.ndarray):
        if not hasattr(X, "to_list") or hasattr(X, "columns"):  # a column of a data frame has it
            return None
        X = X.to_list()
    if isinstance(X, str) or len(X) == 0 or not isinstance(X[0], str):
        return None
    for row, text in enumerate(X):
        if not isinstance(text, str):
            raise TypeError(f"text {row} is of type {type(text).__name__}; give strings")
    return tuple(map(str, X))


def _dataset(
    texts: tuple[str, ...] | None,
    X: sp.csr_array | None,
    feature_names: tuple[str, ...] | None,
    targets: Targets,
) -> Dataset:
    labels = targets.labels
    digest = hashlib.sha256()
    for text in texts or ():
        digest.update(text.encode(errors="surrogatepass") + b"\n")
    for matrix in (labels,) if X is None else (labels, X):
        for part in (matrix.indptr, matrix.indices, matrix.data):
            digest.update(np.ascontiguousarray(part).tobytes())
    return Dataset(
        kind="text" if X is None else "vectors",
        ids=tuple(map(str, range(1, labels.shape[0] + 1))),
        label_names=tuple(map(str, targets.classes)),
        Y=labels,
        texts=texts,
        X=X,
        feature_names=feature_names,
        fingerprint=digest.hexdigest(),
    )
