import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from setwise.models.labels import penalty
from setwise.models.labels.linear import as_features, as_targets, fit_elastic_net
from setwise.models.labels.penalty import choose_penalty

Floats = NDArray[np.float64]


def make(seed: int, n: int = 600, d: int = 40, size: int = 4) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    truth = rng.normal(size=(d, size)) * (rng.random((d, size)) < 0.2)
    return X, (rng.random((n, size)) < 1 / (1 + np.exp(-X @ truth + 1))).astype(float)


def valid_loss(X: Floats, Y: Floats, alpha: float, p: slice = slice(None)) -> float:
    fit = fit_elastic_net(X[:400], Y[:400], alpha=alpha, l1_ratio=0.7, tol=1e-8)
    z = X[400:] @ fit.coef.T.toarray() + fit.intercept
    return float((np.logaddexp(0, z) - Y[400:] * z)[:, p].mean())


def test_the_path_finds_the_strength_a_full_grid_finds() -> None:
    X, Y = make(0)
    choice = choose_penalty(X[:400], Y[:400], X[400:], Y[400:], l1_ratio=0.7, tol=1e-8)
    grid = [valid_loss(X, Y, alpha) for alpha in choice.path[0] * 2.0 ** -np.arange(0, 16)]
    best = choice.path[choice.valid_loss.sum(axis=1).argmin()]
    assert valid_loss(X, Y, best) == pytest.approx(min(grid), abs=1e-6)
    np.testing.assert_allclose(choice.fit.alpha, best)


def test_the_path_starts_where_coefficients_begin() -> None:
    X, Y = make(1)
    choice = choose_penalty(X[:400], Y[:400], X[400:], Y[400:], l1_ratio=0.7, tol=1e-8)
    assert fit_elastic_net(X[:400], Y[:400], alpha=2 * choice.path[0], l1_ratio=0.7).coef.nnz == 0
    assert fit_elastic_net(X[:400], Y[:400], alpha=choice.path[1], l1_ratio=0.7).coef.nnz > 0


@pytest.mark.parametrize("sparse_columns", [0, 8])
@pytest.mark.parametrize("offset", [1e2, 1e4])
def test_features_far_from_zero_get_the_choice_of_centred_ones(
    offset: float, sparse_columns: int
) -> None:
    X, Y = make(7)
    rng = np.random.default_rng(7)
    indicators = (rng.random((600, sparse_columns)) < 0.02).astype(float)
    choices = [
        choose_penalty(A[:400], Y[:400], A[400:], Y[400:], l1_ratio=0.7, tol=1e-6)
        for A in (np.hstack([X + shift, indicators]) for shift in (0.0, offset))
    ]
    centred, shifted = (choice.valid_loss.sum(axis=1).min() for choice in choices)
    rate = Y[:400].mean(axis=0)
    empty = -(Y[400:] * np.log(rate) + (1 - Y[400:]) * np.log1p(-rate)).mean(axis=0).sum()
    assert centred < 0.95 * empty
    assert shifted == pytest.approx(centred, rel=0.01)
    # The grids begin at different strengths.
    near = np.log2(choices[1].fit.alpha / choices[0].fit.alpha)
    assert (np.abs(near) <= 1.0).all()


@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.0, 1.0), l1_ratio=st.floats(0.1, 1.0))
@settings(max_examples=25, deadline=None)
def test_coefficients_begin_just_below_the_emptying_strength(
    seed: int, share: float, l1_ratio: float
) -> None:
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(30, 6)) + 3 * rng.normal(size=6)) * (rng.random((30, 6)) < share)
    Y = (rng.random((30, 3)) < 0.3).astype(float)
    features = as_features(X, "X")
    weight = rng.random(30)
    targets = as_targets(Y, 30, "Y")
    bound, strength = penalty._emptying_penalty(features, targets, weight, l1_ratio)
    assert strength <= bound
    if (features.nnz == 0) or not Y.any():
        return

    def left(alpha: float) -> int:
        fit = fit_elastic_net(
            features, Y, alpha=alpha, l1_ratio=l1_ratio, sample_weight=weight, tol=1e-12
        )
        return int(fit.coef.nnz)

    assert left(1.001 * strength) == 0
    assert left(0.999 * strength) > 0


@pytest.mark.parametrize("offset", [0.0, 0.1, 1e4])
@pytest.mark.parametrize("nothing", ["one answer", "constant features"])
def test_where_nothing_can_be_learnt_the_path_is_short_and_strong(
    nothing: str, offset: float
) -> None:
    X, Y = make(8)
    X, Y = (X + offset, np.ones_like(Y)) if nothing == "one answer" else (X * 0 + offset, Y)
    choice = choose_penalty(X[:400], Y[:400], X[400:], Y[400:], l1_ratio=0.7, tol=1e-6)
    assert choice.fit.coef.nnz == 0
    assert len(choice.path) <= penalty.PATIENCE + 1
    assert choice.path[0] > 1e-3


def test_the_path_ends_soon_after_the_minimum() -> None:
    X, Y = make(2)
    choice = choose_penalty(X[:400], Y[:400], X[400:], Y[400:], l1_ratio=0.7, tol=1e-6)
    loss = choice.valid_loss.sum(axis=1)
    after = loss[loss.argmin() + 1 :] / loss.min()
    assert (after[:-1] <= 1 + penalty.CLEARLY_WORSE).all()
    assert len(after) == penalty.PATIENCE or after[-1] > 1 + penalty.CLEARLY_WORSE


def test_a_label_without_validation_positives_takes_the_shared_strength() -> None:
    X, Y = make(3)
    Y[400:, 2] = 0.0
    choice = choose_penalty(X[:400], Y[:400], X[400:], Y[400:], l1_ratio=0.7, tol=1e-6)
    assert choice.alpha[2] == choice.path[choice.valid_loss.sum(axis=1).argmin()]


def test_a_frequent_label_decides_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = make(4)
    Y[:, 1:] = np.random.default_rng(4).random((600, 3)) < 0.4  # noise: no coefficient helps
    monkeypatch.setattr(penalty, "PRIOR_POSITIVES", 0.0)
    choice = choose_penalty(X[:400], Y[:400], X[400:], Y[400:], l1_ratio=0.7, tol=1e-6)
    own = choice.path[choice.valid_loss.argmin(axis=0)]
    np.testing.assert_array_equal(choice.alpha, own)
    assert len(set(own.tolist())) > 1


def test_noise_keeps_the_penalty_strong() -> None:
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(300, 20)), (rng.random((300, 3)) < 0.3).astype(float)
    choice = choose_penalty(X[:200], Y[:200], X[200:], Y[200:], l1_ratio=0.7, tol=1e-6)
    assert choice.fit.coef.nnz <= 6


def test_many_problems_are_sampled_reproducibly(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = make(6, size=12)
    monkeypatch.setattr(penalty, "MAX_PROBLEMS", 5)
    choices = [
        choose_penalty(
            X[:400], Y[:400], X[400:], Y[400:], l1_ratio=0.7, tol=1e-6, random_state=seed
        )
        for seed in (0, 0, 1)
    ]
    assert choices[0].alpha.shape == (12,)
    assert choices[0].fit.coef.shape == (5, 40)
    np.testing.assert_array_equal(choices[0].alpha, choices[1].alpha)
    assert not np.array_equal(choices[0].valid_loss, choices[2].valid_loss)


@pytest.mark.parametrize("weight", [None, np.zeros(50)])
def test_features_of_zero_or_no_weight_still_give_a_choice(weight: Floats | None) -> None:
    X = sp.csr_array((50, 4))
    Y = (np.arange(50) % 3 == 0).astype(float)[:, None]
    choice = choose_penalty(X, Y, X, Y, l1_ratio=0.7, tol=1e-6, sample_weight=weight)
    assert np.isfinite(choice.alpha).all()
    assert choice.fit.coef.nnz == 0


def test_no_validation_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="no rows to choose a penalty on"):
        choose_penalty(
            np.eye(2), [0, 1], np.zeros((0, 2)), np.zeros((0, 1)), l1_ratio=0.5, tol=1e-6
        )
