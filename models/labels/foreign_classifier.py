"""Label probabilities from any scikit-learn classifier."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from setwise.models.parallel import thread_count

Rows = Any  # texts, array or sparse matrix


class ForeignClassifier:
    """A scikit-learn classifier fitted to label sets.

    Classifiers that know label sets, such as random forests, are fitted once; others once per
    label. In a pipeline, steps that learn nothing from labels are fitted once.

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
        if not is_classifier(estimator):
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
        if get_tags(last).classifier_tags.multi_label and labels.shape[1] > 1:
            self.together_ = clone(last).fit(X, labels.toarray().astype(np.int64), **weights)
            return self
        self.together_ = None
        columns = labels.tocsc()

        def fit_label(label: int) -> Any:  # noqa: ANN401  # a classifier, or a constant
            y = columns[:, [label]].toarray().ravel().astype(np.int64)
            same = y.min() == y.max()
            return float(y[0]) if same else clone(last).fit(X, y, **weights)

        self.each_ = self._in_threads(fit_label, range(labels.shape[1]))
        return self

    def probability(self, X: Rows) -> NDArray[np.float64]:
        """Return the probability of each label, (n_samples, n_labels).

        Where the classifier has none, the sigmoid of its decision function, to be calibrated.
        """
        if self.front_ is not None:
            X = self.front_.transform(X)
        if self.together_ is not None:
            return _of_all(self.together_, X)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        by_label = self._in_threads(
            lambda fitted: np.full(n, fitted) if isinstance(fitted, float) else _of_one(fitted, X),
            self.each_,
        )
        return np.column_stack(by_label)

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
