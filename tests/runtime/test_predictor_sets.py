"""What a model says, as objects."""

import numpy as np
import pytest

from setwise.models.predictions import SetPredictions
from setwise.models.sets.candidates import CandidateSets
from setwise.service.domain.predictions import Candidate, Marginal, ScoredSet
from setwise.service.runtime.predictor import MOST_MARGINALS, scored_sets

NAMES = ('say "a"', "b\\", "é€\n", *(f"label {n}" for n in range(60)))


def _predictions(marginals: np.ndarray) -> SetPredictions:
    """Return two documents with three candidates, one of which is the empty set."""
    return SetPredictions(
        label_names=NAMES,
        candidates=CandidateSets(
            set_indptr=np.array([0, 2, 2, 3]),
            labels=np.array([0, 2, 1], dtype=np.int32),
            doc_indptr=np.array([0, 2, 3]),
            log_score=np.log([0.5, 1e-12, 1 / 3]),
            source=np.zeros(3, dtype=np.uint8),
            n_labels=len(NAMES),
        ),
        confidence=np.array([0.1 + 0.2, 5e-324, 0.25]),
        label_probability=marginals,
        known_features=np.array([3, 0], dtype=np.int32),
        supported=np.array([True, False]),
    )


def _answers(predictions: SetPredictions, confidences: np.ndarray | None = None) -> list[ScoredSet]:
    own = None
    if confidences is not None:
        own = predictions.confidence
        predictions = predictions.with_confidence(confidences)
    return scored_sets(predictions, own, model_version="m", calibrator_version="c")


@pytest.fixture
def marginals() -> np.ndarray:
    draws = np.random.default_rng(0).uniform(0.006, 1.0, size=(2, len(NAMES)))
    draws[1, 1:] = 0.0049
    draws[1, 0] = 0.005
    return draws


def test_objects_hold_what_the_arrays_say(marginals: np.ndarray) -> None:
    predictions = _predictions(marginals)
    first, second = _answers(predictions)
    assert first.candidates == (
        Candidate((NAMES[0], NAMES[2]), 0.1 + 0.2, 0.5),
        Candidate((), 5e-324, 1e-12),
    )
    assert second.candidates == (Candidate((NAMES[1],), 0.25, 0.333333),)
    assert second.labels == (NAMES[1],)
    assert (first.out_of_domain, second.out_of_domain) == (False, True)
    assert second.marginals == (Marginal(NAMES[1], 0.25), Marginal(NAMES[0], 0.005))
    assert len(first.marginals) == MOST_MARGINALS
    order = [marginal.probability for marginal in first.marginals]
    likeliest = sorted(predictions.marginals[0].tolist(), reverse=True)[:MOST_MARGINALS]
    assert order == [float(f"{probability:.6g}") for probability in likeliest]
    assert first.replaced is None
    assert type(first.candidates[0]) is Candidate
    assert type(first.marginals[0]) is Marginal


def test_confidences_stay_as_they_are_and_no_score_passes_one(marginals: np.ndarray) -> None:
    predictions = _predictions(marginals)
    predictions.candidates.log_score[:] = 1e-9, -1e-9, -800.0
    exact = np.array([2 / 3, 1 / 7, 1e-20])
    candidates = [one for scored in _answers(predictions, exact) for one in scored.candidates]
    assert [one.confidence for one in candidates] == exact.tolist()
    assert [one.score for one in candidates] == [1.0, 1.0, 0.0]


def test_where_others_replace_them_the_models_own_confidences_are_kept(
    marginals: np.ndarray,
) -> None:
    first, second = _answers(_predictions(marginals), np.array([0.8, 0.2, 0.7]))
    assert [candidate.confidence for candidate in first.candidates] == [0.8, 0.2]
    assert (first.own_confidences, second.own_confidences) == ((0.1 + 0.2, 5e-324), (0.25,))


def test_labels_that_are_all_negligible_are_not_told() -> None:
    unsure = np.array([0.001, 0.002, 0.003])
    for score in _answers(_predictions(np.full((2, len(NAMES)), 0.001)), unsure):
        assert score.marginals == ()


def test_labels_follow_the_confidences_that_are_shown(marginals: np.ndarray) -> None:
    marginals[:] = 0.01
    first, _ = _answers(_predictions(marginals), np.array([0.8, 0.1, 0.7]))
    assert first.marginals[:2] == (Marginal(NAMES[0], 0.8), Marginal(NAMES[2], 0.8))


def test_a_number_that_json_lacks_is_refused(marginals: np.ndarray) -> None:
    with pytest.raises(ValueError, match="not finite"):
        _answers(_predictions(marginals), np.array([0.9, np.nan, 0.7]))
