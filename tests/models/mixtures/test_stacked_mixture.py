"""A mixture over label scores: still a mixture, and better where words are many."""

import numpy as np
import pytest
from scipy.special import logsumexp

from setwise.models.mixtures.averaged_mixture import AveragedMixture
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.label_scores import LabelScores
from setwise.models.mixtures.stacked_mixture import StackedMixture

N_LABELS = 4
SETS = (np.arange(2**N_LABELS)[:, None] >> np.arange(N_LABELS)) & 1


def documents(seed: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Two hundred noisy measurements of a topic; each topic has one of three label sets."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 3, size=n)
    places = np.random.default_rng(99).normal(size=(3, 200))
    sets = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1]])
    return places[topic] + 4.0 * rng.normal(size=(n, 200)), sets[topic].astype(np.uint8)


def template(**given: object) -> ConditionalBernoulliMixture:
    return ConditionalBernoulliMixture(3, features="linear", weighting="none", n_jobs=1, **given)


@pytest.fixture(scope="module", params=["one", "mean"])
def model(request: pytest.FixtureRequest) -> StackedMixture:
    mixture = template() if request.param == "one" else AveragedMixture(template(), 2)
    return StackedMixture(mixture, LabelScores(n_jobs=1)).fit(*documents(0))


def all_joints(model: StackedMixture, X: np.ndarray) -> np.ndarray:
    """Log-probability of every set by the model, (n, 2^L)."""
    columns = [model.log_probability(X, np.tile(s, (len(X), 1))) for s in SETS]
    return np.stack(columns, axis=1)


def test_probabilities_sum_to_one_and_modes_equal_enumeration(model: StackedMixture) -> None:
    X, _ = documents(1, 60)
    joint = all_joints(model, X)
    np.testing.assert_allclose(logsumexp(joint, axis=1), 0.0, atol=1e-9)
    best = np.where(SETS.any(axis=1), joint, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), SETS[best])
    found = model.most_probable_sets(X, 3)
    assert found.proven.all()
    np.testing.assert_allclose(model.predict_proba(X), np.exp(joint) @ SETS, atol=1e-9)


def test_new_documents_are_likelier_than_under_a_mixture_over_the_features() -> None:
    X, Y = documents(0)
    new, expected = documents(2)
    stacked = StackedMixture(template(), LabelScores(n_jobs=1)).fit(X, Y)
    plain = template().fit(X, Y)
    gained = stacked.log_probability(new, expected) - plain.log_probability(new, expected)
    assert gained.mean() > 3.0 * gained.std() / np.sqrt(len(gained))


def test_it_survives_its_state(model: StackedMixture) -> None:
    again = StackedMixture.from_state(*model.get_state())
    X, _ = documents(3, 50)
    for one, other in zip(model.parameters(X), again.parameters(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.describe_components() == model.describe_components()
    assert again.n_features_in_ == 200


def test_components_are_described_by_the_features_of_their_documents(model: StackedMixture) -> None:
    summaries = model.describe_components(n_labels=2, n_features=4)
    assert [s.share for s in summaries] == sorted((s.share for s in summaries), reverse=True)
    places = np.random.default_rng(99).normal(size=(3, 200))
    apart = places - places.mean(axis=0)
    for summary in summaries:
        assert len(summary.features) == 4
        weights = [weight for _, weight in summary.features]
        assert weights == sorted(weights, reverse=True)
        if summary.share > 0.1:  # its features are those of some topic, not noise
            assert max(apart[:, [j for j, _ in summary.features]].mean(axis=1)) > 0.5


def test_other_numbers_of_features_are_refused(model: StackedMixture) -> None:
    with pytest.raises(ValueError, match="features"):
        model.predict(np.zeros((2, 7)))
