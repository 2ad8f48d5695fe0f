import warnings
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from setwise.models.data.dataset_files import read_dataset
from setwise.models.labels import binary_relevance
from setwise.models.labels.binary_relevance import BinaryRelevance, score_row
from setwise.models.labels.clustered_relevance import ClusteredRelevance
from setwise.models.labels.targets import as_labels
from tests.models.corpora import vectors

Floats = NDArray[np.float64]


def make(seed: int, n: int = 200, d: int = 20, size: int = 5) -> tuple[sp.csr_array, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.3, rng=rng, dtype=np.float32).tocsr()
    truth = rng.normal(size=(d, size)) * 3
    Y = (rng.random((n, size)) < 1 / (1 + np.exp(-(X @ truth - 1)))).astype(np.uint8)
    return X, Y


def log_loss(model: BinaryRelevance, X: Any, Y: Any) -> float:
    z = model.decision_function(X)
    return float((np.logaddexp(0, z) - Y * z).mean())


def test_logits_equal_scikit_learns_label_by_label() -> None:
    X, Y = make(0)
    model = BinaryRelevance(alpha=1e-2, l1_ratio=0.0, weighting="none", tol=1e-12).fit(X, Y)
    for label in range(Y.shape[1]):
        reference = LogisticRegression(C=1 / (1e-2 * X.shape[0]), tol=1e-10, max_iter=5000)
        expected = reference.fit(X.astype(float), Y[:, label]).decision_function(X)
        np.testing.assert_allclose(model.decision_function(X)[:, label], expected, atol=1e-4)


def test_predictions_are_logits_above_zero_and_probabilities_their_sigmoid() -> None:
    X, Y = make(1)
    model = BinaryRelevance().fit(X, Y)
    z = model.decision_function(X)
    np.testing.assert_allclose(model.predict_proba(X), 1 / (1 + np.exp(-z)))
    np.testing.assert_array_equal(model.predict(X), z > 0)
    assert model.predict(X).dtype == np.int64


@pytest.mark.parametrize("share", [0.0, 2.0])
def test_dense_and_listed_coefficients_score_alike(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y = make(2)
    monkeypatch.setattr(binary_relevance, "_DENSE_SHARE", share)
    model = BinaryRelevance(alpha=1e-3).fit(X, Y)
    assert (model.weights_.dense.size > 0) == (share == 0.0)
    weighted = model.weighting_.transform(X)
    expected = weighted.astype(np.float64) @ model.coef_.T.toarray() + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-9, atol=1e-12)
    logits = np.empty(Y.shape[1])
    span = slice(weighted.indptr[7], weighted.indptr[8])
    score_row(weighted.indices[span], weighted.data[span], model.weights_, logits)
    np.testing.assert_array_equal(logits, model.decision_function(X[[7]])[0])


def test_the_chosen_penalty_beats_weak_and_strong_ones_on_new_rows() -> None:
    X, Y = make(6, n=900, d=200)
    chosen = log_loss(BinaryRelevance().fit(X[:600], Y[:600]), X[600:], Y[600:])
    for alpha in (1e-5, 1e-1):
        other = BinaryRelevance(alpha=alpha).fit(X[:600], Y[:600])
        assert chosen < log_loss(other, X[600:], Y[600:])


def test_labels_that_never_or_always_occur_get_finite_logits_of_their_rate() -> None:
    X, Y = make(10)
    Y[:, 0], Y[:, 1] = 0, 1
    z = BinaryRelevance().fit(X, Y).decision_function(X)
    np.testing.assert_allclose(z[:, 0], -np.log(2 * len(Y) + 1))
    np.testing.assert_allclose(z[:, 1], np.log(2 * len(Y) + 1))


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 12),
    d=st.integers(1, 6),
    size=st.integers(1, 8),
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([1e-30, 1.0, 1e30]),
    dense=st.booleans(),
)
def test_any_small_data_give_finite_logits(
    n: int, d: int, size: int, seed: int, scale: float, dense: bool
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-1 if dense else 0, 3, (n, d)) * scale
    Y = (rng.random((n, size)) < rng.random(size)).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = BinaryRelevance(random_state=seed, n_jobs=1).fit(X, Y)
    logits = model.decision_function(X)
    assert np.isfinite(logits).all()
    # A logit beyond 37 is certainty, as far as numbers go.
    np.testing.assert_allclose(model.predict_proba(X), expit(logits), atol=1e-300)


@pytest.mark.parametrize("kind", [BinaryRelevance, ClusteredRelevance])
def test_labels_of_rows_left_out_move_a_fold_by_less_than_its_tolerance(
    kind: type[BinaryRelevance],
) -> None:
    # Half of the rows, and coefficients far from those of the fold, are the worst case.
    data = vectors(n=400)
    X, Y, inside = data.X, data.Y.toarray(), np.arange(400) < 200
    flipped = np.where(inside[:, None], 1 - Y, Y)
    cold = kind(alpha=1e-3, tol=1e-7).fit(X[~inside], Y[~inside])
    for labels in (Y, flipped):
        whole = kind(alpha=1e-3).fit(X, labels)
        relevance = whole.for_folds().set_params(tol=1e-7)
        if isinstance(relevance, ClusteredRelevance):
            relevance.set_params(clusters=cold.cluster_)
        warm = relevance.fit(X[~inside], Y[~inside])
        np.testing.assert_allclose(warm.decision_function(X), cold.decision_function(X), atol=0.01)
    nearby = kind(alpha=1e-3).fit(X, Y).for_folds()
    warm_start = copy(nearby).fit(X[20:], Y[20:])
    cold_start = clone(nearby).fit(X[20:], Y[20:])
    assert warm_start.n_iter_.sum() < 0.7 * cold_start.n_iter_.sum()


def test_an_unfinished_fit_warns_once_and_counts_the_labels() -> None:
    X, Y = make(11)
    Y[:, 0] = 0
    with pytest.warns(ConvergenceWarning, match="4 of 5 labels were still moving") as caught:
        BinaryRelevance(alpha=1e-6, max_iter=1).fit(X, Y)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.zeros((3, 1, 1)), "y must have shape"),
        (np.full((3, 2), 2), "0 and 1 only"),
        (np.full((3, 2), np.nan), "0 and 1 only"),
        (np.zeros((2, 1)), "inconsistent numbers of samples"),
    ],
)
def test_labels_that_are_no_indicators_are_refused(Y: Floats, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BinaryRelevance().fit(np.eye(3), Y)


def test_bad_settings_and_weights_are_refused() -> None:
    X, Y = np.eye(3), np.ones((3, 1))
    with pytest.raises(ValueError, match='one per label or "auto"'):
        BinaryRelevance(alpha="best").fit(X, Y)
    with pytest.raises(ValueError, match="every sample_weight is zero"):
        BinaryRelevance().fit(X, Y, sample_weight=np.zeros(3))
    with pytest.raises(ValueError, match="alpha has shape"):
        BinaryRelevance(alpha=[1.0, 2.0]).fit(X, Y)


def test_stored_zeros_are_no_labels() -> None:
    Y = sp.csr_array((np.array([0, 1]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    labels = as_labels(Y)
    assert labels.nnz == 1
    assert labels.dtype == np.uint8
    assert Y.nnz == 2


@pytest.mark.data
@pytest.mark.verify
def test_bibtex_reaches_the_validation_loss_of_the_best_known_fit(data_dir: Path) -> None:
    # .0442 is the best prototype's log-loss on the test part; rows here come from training only.
    dataset = read_dataset(data_dir / "bibtex", part="train")
    order = np.random.default_rng(0).permutation(dataset.n)
    train, valid = dataset.take(order[1000:]), dataset.take(order[:1000])
    model = BinaryRelevance().fit(train.X, train.Y)
    z = model.decision_function(valid.X)
    losses = (np.logaddexp(0, z) - valid.Y.toarray() * z).mean(axis=1)
    assert losses.mean() < 0.0442 + 3 * losses.std() / np.sqrt(valid.n)
