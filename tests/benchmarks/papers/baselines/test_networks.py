"""The networks' gradients against finite differences, and their inference against brute force."""

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from scipy.sparse import csr_array
from scipy.special import expit

from benchmarks.papers.baselines.constrained_networks import PredictAndConstrain, project
from benchmarks.papers.baselines.energy_networks import EnergyNetwork
from benchmarks.papers.baselines.method import as_sets
from benchmarks.papers.baselines.networks import SetScore
from benchmarks.papers.baselines.value_networks import ValueNetwork, relaxed_f1
from setwise.models.evaluation.metrics import count_agreement

pytestmark = pytest.mark.verify

X = csr_array(np.random.default_rng(0).normal(size=(5, 4)))
Y = as_sets(np.random.default_rng(1).random((5, 3)) > 0.5)


@pytest.fixture
def score():
    rng = np.random.default_rng(2)
    made = SetScore.around(X, Y, 6, 2, rng)
    made.weights["c"] = rng.normal(size=2)
    return made


def error(score, names, value, gradient):
    """How far a gradient in the named weights is from finite differences."""
    sizes = [score.weights[name].size for name in names]

    def put(theta):
        for name, part in zip(names, np.split(theta, np.cumsum(sizes)[:-1]), strict=True):
            score.weights[name] = part.reshape(score.weights[name].shape)

    def at(theta):
        put(theta)
        return value()

    def slope(theta):
        put(theta)
        found = gradient()
        return np.concatenate([found[name].ravel() for name in names])

    start = np.concatenate([score.weights[name].ravel() for name in names])
    return check_grad(at, slope, start, epsilon=1e-6)


def test_gradients_of_the_score_are_those_of_finite_differences(score):
    rng = np.random.default_rng(3)
    y, u, s = rng.random((5, 3)), rng.normal(size=(5, 3)), rng.normal(size=5)
    a = score.of_labels(X)
    for names, value, gradient in (
        ("WbAd", lambda: np.vdot(u, score.of_labels(X)), lambda: score.of_labels_gradient(X, u)),
        ("Cec", lambda: s @ score.total(a, y), lambda: score.total_gradient(y, s)),
        ("Cec", lambda: np.vdot(u, score.slope(a, y)), lambda: score.slope_gradient(y, u)[0]),
    ):
        assert error(score, names, value, gradient) < 1e-4
    for value, gradient in (
        (lambda y: score.total(a, y).sum(), lambda y: score.slope(a, y)),
        (lambda y: np.vdot(u, score.slope(a, y)), lambda y: score.slope_gradient(y, u)[1]),
    ):
        flat = (
            (lambda v, f=value: f(v.reshape(5, 3))),
            (lambda v, g=gradient: g(v.reshape(5, 3)).ravel()),
        )
        assert check_grad(*flat, y.ravel()) < 1e-5


def test_the_energy_network_ends_where_score_and_entropy_are_highest(score):
    model = EnergyNetwork(n_steps=200, step=0.1)
    model.score_ = score
    y = model.measure(X)
    np.testing.assert_allclose(y, expit(score.slope(score.of_labels(X), y)), atol=1e-6)
    score.weights["c"] = np.zeros(2)
    np.testing.assert_allclose(model.measure(X), expit(score.of_labels(X)))


def test_the_value_network_raises_its_estimate_of_f1(score):
    truth = Y.toarray()
    other = np.roll(truth, 1, axis=0)
    expected = count_agreement(Y, as_sets(other)).f1()
    np.testing.assert_allclose(relaxed_f1(other.astype(float), truth.astype(float)), expected)
    model = ValueNetwork()
    model.score_ = score
    a = score.of_labels(X)
    assert (score.total(a, model.measure(X)) > score.total(a, np.zeros_like(a))).all()


def test_the_value_network_learns_more_labels_than_a_document_has():
    rng = np.random.default_rng(5)
    topic = rng.integers(20, size=200)
    words, sets = np.eye(20)[topic], np.zeros((200, 40))
    sets[np.arange(200)[:, None], 2 * topic[:, None] + [0, 1]] = 1
    model = ValueNetwork(n_hidden=20, n_batches=400)
    model.learn(csr_array(words), as_sets(sets))
    assert ((model.measure(csr_array(words)) > 0.5) == sets).all(axis=1).mean() > 0.5


def test_the_projection_is_the_nearest_point_of_the_cube_with_that_sum():
    rng = np.random.default_rng(4)
    u, size = 2 * rng.normal(size=(4, 3)), np.array([0.0, 0.7, 2.0, 3.0])
    for found, to, total in zip(project(u, size), u, size, strict=True):
        nearest = minimize(
            lambda v, to=to: ((v - to) ** 2).sum(),
            np.full(3, total / 3),
            bounds=[(0, 1)] * 3,
            constraints={"type": "eq", "fun": lambda v, total=total: v.sum() - total},
        )
        np.testing.assert_allclose(found, nearest.x, atol=1e-5)


def test_the_gradient_goes_through_all_projected_steps(score):
    model = PredictAndConstrain(n_label_batches=0, n_batches=0, n_steps=3, step=0.1)
    model.learn(X, Y)
    model.score_, truth = score, Y.toarray().astype(float)
    assert (model.measure(X) == 1.0).sum() == 1  # held, where the others may move
    far = error(
        score,
        "WbAdCec",
        lambda: model.loss_gradient(X, truth)[0],
        lambda: model.loss_gradient(X, truth)[1],
    )
    assert far < 1e-4
