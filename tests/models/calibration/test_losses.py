"""Losses for noisy answers: derivatives, unbiasedness, propriety, the algorithms of the thesis."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from setwise.models.calibration.losses import ForwardLoss, checked_rates, shifted_target
from setwise.models.calibration.surrogate_losses import (
    AnnotatorTreeSurrogate,
    LogisticSurrogate,
    UniformTreeSurrogate,
)

rates = st.tuples(st.floats(0, 0.6), st.floats(0, 0.35))
margins = st.floats(-8, 8)
answers = st.sampled_from([0, 1])
losses = pytest.mark.parametrize("kind", [LogisticSurrogate, ForwardLoss])


@losses
@given(rate=rates, s=margins, agreed=answers)
def test_the_gradient_equals_finite_differences(kind, rate, s, agreed):
    loss, h = kind(*rate), 1e-4
    slope = (loss.value(s + h, agreed) - loss.value(s - h, agreed)) / (2 * h)
    assert loss.gradient(s, agreed) == pytest.approx(slope, rel=1e-5, abs=1e-6)


def over_noise(function, rate, v):
    """Return the expectation over the answer, given whether the prediction is right."""
    alpha, beta = rate
    agree = 1 - alpha if v else beta
    return agree * function(1) + (1 - agree) * function(0)


@given(rate=rates, s=margins, v=answers)
def test_the_backward_losses_are_unbiased(rate, s, v):
    c = expit(s)
    logistic = LogisticSurrogate(*rate)

    def squared(agreed):  # thesis (4.3)
        target = shifted_target(agreed, *rate)
        return (c - target) ** 2 + target - target**2

    assert over_noise(squared, rate, v) == pytest.approx((c - v) ** 2)
    clean = -np.log(c if v else 1 - c)
    assert over_noise(lambda a: logistic.value(s, a), rate, v) == pytest.approx(clean, abs=1e-9)
    gradient = over_noise(lambda a: logistic.gradient(s, a), rate, v)
    assert gradient == pytest.approx(c - v, abs=1e-9)


@given(rate=rates, p=st.floats(0.02, 0.98))
def test_the_forward_loss_is_least_at_the_truth(rate, p):
    loss, s = ForwardLoss(*rate), logit(p)

    def expected(function):
        return sum((p if v else 1 - p) * over_noise(function, rate, v) for v in (0, 1))

    assert expected(lambda a: loss.gradient(s, a)) == pytest.approx(0, abs=1e-9)
    bend = expected(lambda a: loss.gradient(s + 1e-4, a) - loss.gradient(s - 1e-4, a)) / 2e-4
    assert bend == pytest.approx(loss.curvature(s, 1), rel=1e-4, abs=1e-6)
    assert loss.curvature(s, 0) >= 0
    for other in (s - 0.5, s + 0.5):
        assert expected(lambda a, o=other: loss.value(o, a) - loss.value(s, a)) > 0


@given(s=margins, agreed=answers)
def test_without_noise_all_logistic_losses_are_the_cross_entropy(s, agreed):
    entropy = np.logaddexp(0, -s if agreed else s)
    for loss in (LogisticSurrogate(0, 0), ForwardLoss(0, 0)):
        assert loss.value(s, agreed) == pytest.approx(entropy)
        assert loss.gradient(s, agreed) == pytest.approx(expit(s) - agreed)
        assert loss.curvature(s, agreed) == pytest.approx(expit(s) * expit(-s))


@given(rate=rates, s=margins, agreed=answers)
def test_tree_steps_are_those_of_algorithms_4_3_and_4_4(rate, s, agreed):
    alpha, beta = rate
    c, m = expit(s), 1 / (1 - alpha - beta)
    response = c - agreed + (1 - c) * beta - c * alpha
    uniform, annotator = UniformTreeSurrogate(*rate), AnnotatorTreeSurrogate(*rate)
    assert uniform.gradient(s, agreed) / uniform.curvature(s, agreed) == pytest.approx(m * response)
    assert annotator.curvature(s, agreed) == pytest.approx(m)
    assert annotator.gradient(s, agreed) / m == pytest.approx(response, abs=1e-9)


def test_the_forward_loss_is_finite_where_a_sure_prediction_fails():
    loss = ForwardLoss(0.0, 0.0)
    for s, agreed in ((800.0, 0), (-800.0, 1)):
        assert np.isfinite(loss.value(s, agreed))
        assert np.isfinite(loss.gradient(s, agreed))


def test_rates_differ_by_row():
    loss = ForwardLoss([0.1, 0.5], [0.0, 0.1])
    both = loss.value([1.0, 1.0], [1, 1])
    assert both[0] == ForwardLoss(0.1, 0.0).value(1.0, 1)
    assert both[1] == ForwardLoss(0.5, 0.1).value(1.0, 1)
    np.testing.assert_allclose(
        shifted_target([1, 0], [0.1, 0.5], [0.0, 0.1]), [1 / 0.9, -0.1 / 0.4]
    )


@pytest.mark.parametrize(
    ("alpha", "beta", "words"),
    [(0.6, 0.4, "say nothing"), (-0.1, 0, "between"), (0.1, [0.1] * 6, "as many")],
)
def test_rates_that_say_nothing_are_refused(alpha, beta, words):
    with pytest.raises(ValueError, match=words):
        checked_rates(alpha, beta, 3)
