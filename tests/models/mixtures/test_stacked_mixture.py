"""A mixture over label scores: still a mixture, and better where words are many."""

import numpy as np
import pytest

from setwise.models.mixtures.averaged_mixture import AveragedMixture
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.label_scores import LabelScores
from setwise.models.mixtures.stacked_mixture import StackedMixture
from tests.models.enumeration import assert_inference_equals_enumeration


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


def test_inference_equals_enumeration(model: StackedMixture) -> None:
    assert_inference_equals_enumeration(model, documents(1, 60)[0], 4, atol=1e-9)


def test_new_documents_are_likelier_than_under_a_mixture_over_the_features() -> None:
    X, Y = documents(0)
    new, expected = documents(2)
    stacked = StackedMixture(template(), LabelScores(n_jobs=1)).fit(X, Y)
    plain = template().fit(X, Y)
    gained = stacked.log_probability(new, expected) - plain.log_probability(new, expected)
    assert gained.mean() > 3.0 * gained.std() / np.sqrt(len(gained))


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
