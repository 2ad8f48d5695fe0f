"""The artificial experiment, small: EM recovers the mixture that labelled the data."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from benchmarks import artificial_mixture


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["argmax, noise", "sample"])
def test_three_components_reach_the_bound_and_fewer_do_not(scenario: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = {
            method: accuracy
            for _, method, accuracy in artificial_mixture.run(3000, seed=0, scenarios=[scenario])
        }
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
