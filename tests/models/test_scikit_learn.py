"""Public estimators keep scikit-learn's conventions; each exception has its reason here.

`TextVectorizer` reads texts, for which scikit-learn has no checks.
"""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.utils import check_array
from sklearn.utils.estimator_checks import parametrize_with_checks

from setwise.models.classifier import SetClassifier
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.clustered_relevance import ClusteredRelevance
from setwise.models.labels.scaling import FeatureWeighting
from setwise.models.mixtures.averaged_mixture import AveragedMixture
from setwise.models.mixtures.bernoulli_mixture import BernoulliMixture
from setwise.models.mixtures.boosted_mixture import BoostedBernoulliMixture
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture

SMALL: dict[str, Any] = {
    "alpha": 1e-3,
    "gate_alpha": 1e-3,
    "features": "linear",
    "early_stopping": False,
    "max_iter": 3,
    "n_init": 1,
    "n_jobs": 1,
}
SMALL_MIXTURE = ConditionalBernoulliMixture(3, **SMALL)


class OfThresholdedReals(BernoulliMixture):
    """Takes what the checks draw: a label is present where a number is positive."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(self._present(X), y, sample_weight)

    def _log_joint(self, X):
        return super()._log_joint(self._present(X))

    def _present(self, X):
        reals = check_array(X, accept_sparse="csr", ensure_min_samples=1, estimator=self)
        return (reals > 0).astype(np.uint8)


ESTIMATORS: list[Any] = [
    SetClassifier(preset="paper", n_folds=2, n_candidates=3, calibrator="isotonic", n_jobs=1),
    BinaryRelevance(alpha=1e-2, tol=1e-15, n_jobs=1),
    ClusteredRelevance(alpha=1e-2, tol=1e-15, n_jobs=1),
    OfThresholdedReals(2, n_init=1),
    SMALL_MIXTURE,
    FeatureWeighting(),
]

SLOW_ESTIMATORS: list[Any] = [
    AveragedMixture(SMALL_MIXTURE, 2),
    BoostedBernoulliMixture(2, max_iter=8, validation_fraction=0.0, n_init=1, n_jobs=1),
]

WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
MODE = "the most probable set is not the set of all labels that are more likely than not"
RESPONSIBILITIES = "the checks ask whoever has predict_proba for the tags of a classifier"


def exceptions(estimator: Any) -> dict[str, str]:
    """Return the checks that an estimator fails, and why."""
    if isinstance(estimator, SetClassifier):
        return dict.fromkeys(WEIGHTS, "calibrators count a repeated row twice, a weighted row once")
    if isinstance(estimator, BoostedBernoulliMixture):
        return {"check_classifier_multioutput": MODE}
    if isinstance(estimator, BernoulliMixture):
        names = ["check_estimator_sparse_array", "check_estimator_sparse_matrix"]
        return dict.fromkeys(names, RESPONSIBILITIES)
    return {}


def checks(estimators: list[Any]) -> pytest.MarkDecorator:
    with warnings.catch_warnings():
        # Inheriting it would import scikit-learn wherever a model predicts.
        warnings.filterwarnings("ignore", ".* does not inherit from `sklearn.base.BaseEstimator`")
        return parametrize_with_checks(estimators, expected_failed_checks=exceptions)


@pytest.mark.filterwarnings("ignore")  # the checks' data are tiny
@checks(ESTIMATORS)
def test_keeps_the_conventions(estimator, check) -> None:
    check(estimator)


@pytest.mark.verify
@pytest.mark.filterwarnings("ignore")
@checks(SLOW_ESTIMATORS)
def test_what_learns_by_others_keeps_the_conventions_too(estimator, check) -> None:
    check(estimator)
