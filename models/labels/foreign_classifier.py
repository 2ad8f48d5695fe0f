"""Label probabilities from any scikit-learn classifier."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone, is_classifier
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from setwise.models.parallel import thread_count

Rows = Any  # texts, array or sparse matrix


class ForeignClassifier:
    """A scikit-learn classifier fitted to label sets.

    Classifiers that know label sets, such as random forests and classifier chains, are fitted once;
    others once per label. In a pipeline, steps that learn nothing from labels are fitted once.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba`` or ``decision_function``; clones are fitted.
    n_jobs : int, optional
        Threads for one classifier per label; by default every usable core.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, Y = np.eye(3).repeat(9, axis=0), np.array([[1, 0], [1, 1], [0, 1]]).repeat(9, axis=0)
    >>> fitted = ForeignClassifier(LogisticRegression(C=100)).fit(X, sp.csr_array(Y))
    >>> fitted.probability(np.eye(3)).round(1).tolist()
    [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    """

    def __init__(self, estimator: Any, n_jobs: int | None = None) -> None:  # noqa: ANN401  # untyped
        if not hasattr(estimator, "fit") or not is_classifier(estimator):
            raise ValueError(f"estimator must be a classifier, not {estimator!r}")
        self.estimator = estimator
        self.n_jobs = n_jobs

    def fit(
        self, X: Rows, labels: sp.csr_array, sample_weight: NDArray[np.float64] | None = None
    ) -> Self:
        """Fit clones to label sets (n_samples, n_labels).

        Raises
        ------
        ValueError
            If there are weights and the classifier takes none.
        """
        self.front_, last = _split(self.estimator)
        if self.front_ is not None:
            X = self.front_.fit_transform(X)
        if sample_weight is not None and not has_fit_parameter(last, "sample_weight"):
            raise ValueError(f"{last!r} takes no sample_weight")
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        columns = labels.tocsc()
        held = np.diff(columns.indptr)
        # Many classifiers refuse a label that all documents have, or none.
        self.varying_ = np.flatnonzero((held > 0) & (held < labels.shape[0]))
        self.constant_ = (held > 0).astype(np.float64)
        if _takes_sets(last, len(self.varying_)):
            Y = columns[:, self.varying_].toarray().astype(np.int64)
            self.together_ = clone(last).fit(X, Y, **weights)
            return self
        self.together_ = None

        def fit_label(label: int) -> Any:  # noqa: ANN401  # a classifier
            y = columns[:, [label]].toarray().ravel().astype(np.int64)
            return clone(last).fit(X, y, **weights)

        self.each_ = self._in_threads(fit_label, self.varying_)
        return self

    def probability(self, X: Rows) -> NDArray[np.float64]:
        """Return the probability of each label, (n_samples, n_labels).

        Where the classifier has none, the sigmoid of its decision function, to be calibrated.
        """
        if self.front_ is not None:
            X = self.front_.transform(X)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        out = np.tile(self.constant_, (n, 1))
        if self.together_ is not None:
            out[:, self.varying_] = _of_all(self.together_, X)
        elif len(self.varying_):
            by_label = self._in_threads(lambda fitted: _of_one(fitted, X), self.each_)
            out[:, self.varying_] = np.column_stack(by_label)
        return out

    def _in_threads(self, job: Callable[[Any], Any], items: Any) -> list[Any]:  # noqa: ANN401  # any
        threads = Parallel(n_jobs=thread_count(self.n_jobs), prefer="threads")
        return list(threads(delayed(job)(item) for item in items))


def _split(estimator: Any) -> tuple[Any, Any]:  # noqa: ANN401  # untyped
    """Return what turns texts into vectors, if that is the first step, and the rest."""
    if not isinstance(estimator, Pipeline) or len(estimator.steps) < 2:
        return None, estimator
    first = estimator.steps[0][1]
    if first in {None, "passthrough"}:
        return None, estimator
    tags = get_tags(first)
    if not tags.input_tags.string or tags.target_tags.required:
        return None, estimator
    rest = estimator[1:]
    return clone(first), rest[0] if len(rest) == 1 else rest


def _takes_sets(estimator: Any, n_labels: int) -> bool:  # noqa: ANN401  # untyped
    """Tell whether an estimator is fitted to all labels at once."""
    while isinstance(estimator, Pipeline | BaseSearchCV):
        is_search = isinstance(estimator, BaseSearchCV)
        estimator = estimator.estimator if is_search else estimator.steps[-1][1]
    tags = get_tags(estimator)
    if n_labels > 0 and not tags.target_tags.single_output:  # it takes nothing but matrices
        return True
    return n_labels > 1 and bool(tags.classifier_tags.multi_label)


def _of_one(fitted: Any, X: Rows) -> NDArray[np.float64]:  # noqa: ANN401  # untyped
    if hasattr(fitted, "predict_proba"):
        return np.asarray(fitted.predict_proba(X)[:, 1], dtype=np.float64)
    return np.asarray(expit(fitted.decision_function(X)), dtype=np.float64)


def _of_all(fitted: Any, X: Rows) -> NDArray[np.float64]:  # noqa: ANN401  # untyped
    if not hasattr(fitted, "predict_proba"):
        return np.asarray(expit(fitted.decision_function(X)), dtype=np.float64)
    probability = fitted.predict_proba(X)
    if isinstance(probability, list):  # one matrix per label, with a column for each class found
        pairs = zip(probability, fitted.classes_, strict=True)
        columns = [p[:, list(c).index(1)] if 1 in c else np.zeros(len(p)) for p, c in pairs]
        probability = np.column_stack(columns)
    return np.asarray(probability, dtype=np.float64)
