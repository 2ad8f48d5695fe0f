import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from setwise.models.labels import linear
from setwise.models.labels.linear import LinearFit, fit_elastic_net

Floats = NDArray[np.float64]
EXACT = {"tol": 1e-14, "max_iter": 2000}


def make_problem(seed: int, n: int = 80, d: int = 12, size: int = 3) -> tuple[sp.csr_array, Floats]:
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.4, rng=rng, dtype=np.float64).tocsr()
    X.data = np.round(X.data * 4 + 0.5).astype(np.float64)  # exact in float32
    truth = rng.normal(size=(d, size)) * (rng.random((d, size)) < 0.5)
    Y = (rng.random((n, size)) < 1 / (1 + np.exp(-(X @ truth - 1.0)))).astype(float)
    Y[0], Y[1] = 0.0, 1.0
    return X, Y


def objective(
    X: sp.csr_array, t: Floats, w: Floats, coef: Floats, b: float, alpha: float, ratio: float
) -> float:
    z = X @ coef + b
    loss = (w * (np.logaddexp(0, z) - t * z)).sum() / w.sum()
    return float(
        loss + alpha * (ratio * np.abs(coef).sum() + (1 - ratio) / 2 * np.square(coef).sum())
    )


def objectives(X: sp.csr_array, Y: Floats, fit: LinearFit, ratio: float) -> Floats:
    w = np.ones(X.shape[0])
    coef = fit.coef.toarray()
    return np.array(
        [
            objective(X, Y[:, p], w, coef[p], fit.intercept[p], fit.alpha[p], ratio)
            for p in range(Y.shape[1])
        ]
    )


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("alpha", [3e-3, 3e-2])
def test_reaches_the_optimum_of_scikit_learn(alpha: float, ratio: float) -> None:
    X, Y = make_problem(0)
    fit = fit_elastic_net(X, Y, alpha=alpha, l1_ratio=ratio, **EXACT)
    for p in range(Y.shape[1]):
        solver = "lbfgs" if ratio == 0.0 else "saga"
        reference = LogisticRegression(
            C=1 / (alpha * X.shape[0]),
            l1_ratio=ratio,
            solver=solver,
            tol=1e-9,
            max_iter=100_000,
            random_state=0,
        ).fit(X.toarray(), Y[:, p])  # saga is slow to fit the intercept of sparse rows
        w = np.ones(X.shape[0])
        best = objective(X, Y[:, p], w, reference.coef_[0], reference.intercept_[0], alpha, ratio)
        assert fit.objective[p] == pytest.approx(best, abs=1e-6)
        assert fit.objective[p] <= best + 1e-9


def test_reported_objective_is_the_stated_formula() -> None:
    X, Y = make_problem(2)
    fit = fit_elastic_net(X, Y, alpha=[1e-3, 1e-2, 1e-1], l1_ratio=0.3)
    np.testing.assert_allclose(fit.objective, objectives(X, Y, fit, 0.3), rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    alpha=st.sampled_from([1e-4, 1e-2, 1e-1]),
    ratio=st.sampled_from([0.0, 0.4, 1.0]),
)
def test_optimality_conditions_hold(seed: int, alpha: float, ratio: float) -> None:
    X, Y = make_problem(seed, n=40, d=8, size=2)
    rng = np.random.default_rng(seed)
    targets = Y * rng.random(Y.shape)  # soft
    weights = rng.integers(0, 3, Y.shape).astype(float)
    weights[:2] = 1.0
    # Rows that can all but be separated take thousands of steps of a few sweeps.
    far = {"tol": 1e-14, "max_iter": 50_000, "max_sweeps": 100}
    fit = fit_elastic_net(X, targets, alpha=alpha, l1_ratio=ratio, sample_weight=weights, **far)
    assert fit.converged.all()
    for p, coef in enumerate(fit.coef.toarray()):
        share = weights[:, p] / weights[:, p].sum()
        residual = share * (expit(X @ coef + fit.intercept[p]) - targets[:, p])
        gradient = X.T @ residual + alpha * (1 - ratio) * coef
        l1 = alpha * ratio
        assert abs(residual.sum()) < 1e-6
        moved = coef != 0
        np.testing.assert_allclose(gradient[moved], -l1 * np.sign(coef[moved]), atol=1e-6)
        assert (np.abs(gradient[~moved]) <= l1 + 1e-6).all()


def test_weights_per_problem_equal_problems_solved_apart() -> None:
    X, Y = make_problem(6)
    weights = np.random.default_rng(6).random(Y.shape)
    sparse = sp.csr_array(Y.astype(np.uint8))
    together = fit_elastic_net(X, sparse, alpha=1e-2, l1_ratio=0.5, sample_weight=weights)
    for p in range(Y.shape[1]):
        alone = fit_elastic_net(X, Y[:, p], alpha=1e-2, l1_ratio=0.5, sample_weight=weights[:, p])
        np.testing.assert_array_equal(alone.coef.toarray()[0], together.coef.toarray()[p])


def test_scaling_all_weights_changes_nothing() -> None:
    X, Y = make_problem(7)
    w = np.random.default_rng(7).random(X.shape[0])
    small = fit_elastic_net(X, Y, alpha=1e-2, l1_ratio=0.5, sample_weight=w, **EXACT)
    large = fit_elastic_net(X, Y, alpha=1e-2, l1_ratio=0.5, sample_weight=1e6 * w, **EXACT)
    np.testing.assert_allclose(small.coef.toarray(), large.coef.toarray(), atol=1e-8)


def test_warm_start_reaches_the_same_optimum_in_fewer_steps() -> None:
    X, Y = make_problem(8)
    near = fit_elastic_net(X, Y, alpha=1.2e-3, l1_ratio=0.5, **EXACT)
    cold = fit_elastic_net(X, Y, alpha=1e-3, l1_ratio=0.5, **EXACT)
    warm = fit_elastic_net(X, Y, alpha=1e-3, l1_ratio=0.5, warm_start=near, **EXACT)
    again = fit_elastic_net(X, Y, alpha=1e-3, l1_ratio=0.5, warm_start=cold, **EXACT)
    np.testing.assert_allclose(warm.objective, cold.objective, atol=1e-10)
    assert warm.n_iter.sum() < cold.n_iter.sum()
    assert again.n_iter.max() <= 1


def test_each_step_lowers_the_objective() -> None:
    X, Y = make_problem(10)
    trace = np.array(
        [
            fit_elastic_net(X, Y, alpha=1e-4, l1_ratio=0.5, tol=1e-12, max_iter=steps).objective
            for steps in range(8)
        ]
    )
    assert (np.diff(trace, axis=0) <= 0).all()
    assert (trace[1] < trace[0]).all()


def test_separable_rare_label_does_not_diverge() -> None:
    # Undamped Newton steps from the base rate overshoot here by hundreds of logits.
    X = np.zeros((2000, 3))
    X[:4, 0] = 1.0
    X[:, 1] = np.arange(2000) % 2
    Y = np.zeros((2000, 1))
    Y[:4] = 1.0
    fit = fit_elastic_net(X, Y, alpha=1e-7, l1_ratio=0.5, tol=1e-8, max_iter=500)
    assert fit.converged.all()
    assert np.isfinite(fit.coef.data).all()
    assert fit.objective[0] < 1e-4


def test_steps_are_limited_and_counted() -> None:
    X, Y = make_problem(13)
    options = {"alpha": 1e-5, "l1_ratio": 0.5, "tol": 1e-12}
    none, one, many = (fit_elastic_net(X, Y, max_iter=n, **options) for n in (0, 1, 500))
    assert (none.n_iter.tolist(), one.n_iter.tolist()) == ([0, 0, 0], [1, 1, 1])
    assert not (none.converged | one.converged).any()
    assert many.converged.all()
    assert none.coef.nnz == 0


def test_a_label_of_one_class_gets_its_smoothed_rate() -> None:
    X, _ = make_problem(14)
    n = X.shape[0]
    Y = np.stack([np.zeros(n), np.ones(n)], axis=1)
    w = np.full(n, 0.1)  # sums that do not round to one
    fit = fit_elastic_net(X, Y, alpha=1e-3, l1_ratio=0.5, sample_weight=w)
    odds = 0.5 / (w.sum() + 0.5)
    np.testing.assert_allclose(fit.intercept, [np.log(odds), -np.log(odds)])
    assert fit.coef.nnz == 0
    assert fit.converged.all()


def test_weights_of_zero_alone_give_even_odds() -> None:
    X, Y = make_problem(15, size=1)
    fit = fit_elastic_net(X, Y, alpha=1e-3, l1_ratio=0.5, sample_weight=np.zeros(X.shape[0]))
    assert fit.intercept.tolist() == [0.0]


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_constant_and_duplicate_columns_are_harmless(ratio: float) -> None:
    X, Y = make_problem(16)
    dense = X.toarray()
    wide = np.hstack([dense, np.full((len(dense), 1), 7.1), dense[:, :1], np.zeros((80, 1))])
    plain = fit_elastic_net(dense, Y, alpha=1e-3, l1_ratio=ratio, **EXACT)
    fit = fit_elastic_net(wide, Y, alpha=1e-3, l1_ratio=ratio, **EXACT)
    coef = fit.coef.toarray()
    np.testing.assert_array_equal(coef[:, [12, 14]], 0.0)
    assert (fit.objective <= plain.objective + 1e-12).all()
    if ratio == 0.0:
        np.testing.assert_allclose(coef[:, 0], coef[:, 13], atol=1e-3)


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_shifting_a_feature_moves_only_the_intercept(ratio: float) -> None:
    X, Y = make_problem(17)
    dense = X.toarray()
    plain = fit_elastic_net(dense, Y, alpha=1e-3, l1_ratio=ratio, **EXACT)
    fit = fit_elastic_net(dense + 1000.0, Y, alpha=1e-3, l1_ratio=ratio, **EXACT)
    np.testing.assert_allclose(fit.coef.toarray(), plain.coef.toarray(), atol=1e-5)
    # Centring is implicit, so the shift costs no steps either.
    assert fit.n_iter.sum() <= plain.n_iter.sum() + 3


def test_equal_documents_give_the_rate() -> None:
    X = np.ones((10, 4))
    Y = np.zeros((10, 1))
    Y[:3] = 1.0
    fit = fit_elastic_net(X, Y, alpha=1e-6, l1_ratio=0.5)
    assert fit.coef.nnz == 0
    assert fit.intercept[0] == pytest.approx(np.log(3 / 7))


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e30])
def test_extreme_units_give_finite_coefficients(scale: float) -> None:
    X, Y = make_problem(18)
    fit = fit_elastic_net(X * scale, Y, alpha=1e-3, l1_ratio=0.5)
    assert np.isfinite(fit.coef.data).all()
    assert np.isfinite(fit.objective).all()
    assert (fit.objective <= np.log(2) + 1e-9).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [[np.nan, 1.0], [0.0, 1.0]]}, "X holds NaN"),
        ({"X": [[1e300, 1.0], [0.0, 1.0]]}, "beyond 3.4e38"),
        ({"X": [1.0, 2.0]}, "two dimensions"),
        ({"Y": [[0.5], [1.5]]}, r"outside \[0, 1\]"),
        ({"Y": [[np.nan], [1.0]]}, r"outside \[0, 1\]"),
        ({"Y": [[1.0]]}, "Y has 1 rows"),
        ({"alpha": -1.0}, "alpha must be finite and not negative"),
        ({"alpha": [1.0, 2.0]}, r"alpha has shape \(2,\)"),
        ({"l1_ratio": 1.5}, r"l1_ratio must be in \[0, 1\]"),
        ({"sample_weight": [1.0, -1.0]}, "negative or non-finite"),
        ({"sample_weight": [1.0]}, "sample_weight has shape"),
        ({"max_sweeps": 0}, "at least 1"),
    ],
)
def test_bad_input_is_refused(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "X": [[1.0, 0.0], [0.0, 1.0]],
        "Y": [[0.0], [1.0]],
        "alpha": 0.1,
        "l1_ratio": 0.5,
    } | change
    X, Y = arguments.pop("X"), arguments.pop("Y")
    with pytest.raises(ValueError, match=message):
        fit_elastic_net(X, Y, **arguments)


def test_a_warm_start_of_another_problem_is_refused() -> None:
    X, Y = make_problem(20)
    fit = fit_elastic_net(X, Y, alpha=0.1, l1_ratio=0.5)
    with pytest.raises(ValueError, match="warm_start has coefficients"):
        fit_elastic_net(X, Y[:, :1], alpha=0.1, l1_ratio=0.5, warm_start=fit)


def test_the_callers_matrix_is_left_alone() -> None:
    unsorted = sp.csc_array(
        (np.ones(3, np.float32), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(3, 2)
    )
    before = unsorted.indices.copy()
    linear.fit_elastic_net(unsorted, [0, 1, 1], alpha=0.1, l1_ratio=0.5)
    np.testing.assert_array_equal(unsorted.indices, before)
