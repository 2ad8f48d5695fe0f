"""The artificial experiment, small: EM recovers the mixture that labelled the data."""

import warnings

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.exceptions import ConvergenceWarning

from benchmarks import artificial_mixture


def accuracies(n: int, scenario: str) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        runs = artificial_mixture.run(
            n, seed=0, scenarios=[scenario], wanted=artificial_mixture.PAPER
        )
        return {method: accuracy for _, method, accuracy in runs}


@pytest.mark.slow
def test_three_components_are_better_than_independent_labels() -> None:
    found = accuracies(600, "sample")
    assert found["CBM, K=3"] > found["binary relevance"] + 2.0


@pytest.mark.verify
@pytest.mark.parametrize("scenario", ["argmax, noise", "sample"])
def test_three_components_reach_the_bound_and_fewer_do_not(scenario: str) -> None:
    found = accuracies(3000, scenario)
    assert found["CBM, K=3"] > found["upper bound"] - 1.5
    assert found["CBM, K=2"] < found["CBM, K=3"] - 1.0
    assert found["binary relevance"] < found["CBM, K=2"] - 1.0


def test_noise_and_sampling_lower_the_bound() -> None:
    rng = np.random.default_rng(1)
    truth = artificial_mixture.TrueMixture.draw(rng)
    X = rng.normal(size=(3000, artificial_mixture.N_FEATURES))
    mode = artificial_mixture.label(truth, X, drawn=False, noisy=False, rng=rng)
    agree = [
        (mode == artificial_mixture.label(truth, X, drawn=drawn, noisy=noisy, rng=rng)).all(axis=1)
        for drawn, noisy in artificial_mixture.SCENARIOS.values()
    ]
    shares = [a.mean() for a in agree]
    assert shares[0] == 1.0
    assert shares[3] < min(shares[1], shares[2]) < 1.0


@pytest.fixture(scope="module")
def modes() -> tuple[artificial_mixture.TrueMixture, np.ndarray, np.ndarray]:
    """A true mixture, documents and their most probable sets."""
    rng = np.random.default_rng(0)
    truth = artificial_mixture.TrueMixture.draw(rng)
    X = rng.normal(size=(2000, artificial_mixture.N_FEATURES))
    return truth, X, artificial_mixture.label(truth, X, drawn=False, noisy=False, rng=rng)


def test_modes_are_likelier_under_a_mixture_that_has_other_modes(modes) -> None:
    truth, X, Y = modes
    rng = np.random.default_rng(0)
    accuracy, likelihood = [], []
    for factor in (1.0, 2.0, 8.0):
        theta = artificial_mixture.as_vector(truth, factor)
        joint = artificial_mixture.as_mixture(theta).log_joint(X, 0.0, rng)
        chosen = artificial_mixture.every_set()[joint.argmax(axis=1)]
        accuracy.append((chosen == Y).all(axis=1).mean())
        likelihood.append(joint[np.arange(len(X)), Y @ (1 << np.arange(Y.shape[1]))].mean())
    assert accuracy[0] == 1.0
    assert accuracy[0] > accuracy[1] > accuracy[2]
    assert likelihood[0] < likelihood[1] < likelihood[2]


@pytest.mark.parametrize("sharpness", [1.0, 4.0])
def test_the_slope_of_the_sharpened_likelihood_equals_finite_differences(modes, sharpness) -> None:
    truth, X, Y = modes
    theta = artificial_mixture.as_vector(truth, 0.3)
    rows = artificial_mixture.with_one(X[:100])
    _, slope = artificial_mixture.loss(theta, rows, Y[:100], sharpness)
    measured = approx_fprime(
        theta, lambda at: artificial_mixture.loss(at, rows, Y[:100], sharpness)[0], 1e-6
    )
    np.testing.assert_allclose(slope, measured, atol=1e-5)
