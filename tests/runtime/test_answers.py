"""What a model says, as objects and as JSON: the two never differ."""

import json

import numpy as np
import pytest

from setwise.models.predictor import SetPredictions
from setwise.models.sets.candidates import CandidateSets
from setwise.service.domain.columns import Rows
from setwise.service.domain.predictions import Candidate, Marginal, ScoredSet
from setwise.service.runtime.answers import MOST_MARGINALS, Answers
from setwise.service.stores.written import write_scores

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
        confidence=np.array([0.1 + 0.2, 5e-324, 1.0]),
        marginals=marginals,
        known_features=np.array([3, 0], dtype=np.int32),
    )


def _answers(predictions: SetPredictions, confidences: np.ndarray | None = None) -> Rows[ScoredSet]:
    if confidences is None:
        confidences = predictions.confidence
    return Answers(NAMES)(predictions, confidences, model_version="m", calibrator_version="c")


@pytest.fixture
def marginals() -> np.ndarray:
    drawn = np.random.default_rng(0).uniform(0.006, 1.0, size=(2, len(NAMES)))
    drawn[1, 1:] = 0.0049
    drawn[1, 0] = 0.005
    return drawn


def test_columns_hold_what_the_objects_say(marginals: np.ndarray) -> None:
    for confidences in (None, np.array([0.2, 0.9, 0.7])):
        answers = _answers(_predictions(marginals), confidences)
        for name in (*ScoredSet._fields, "labels", "confidence"):
            assert [*answers.column(name)] == [getattr(one, name) for one in answers]
            assert answers.column(name)[1] == getattr(answers[1], name)
        # A slice is read from the arrays, where the first candidate alone is of these columns.
        firsts = [one.candidates[:1][0] for one in answers]
        assert answers.column("labels") == [one.labels for one in firsts]
        assert answers.column("confidence") == [one.confidence for one in firsts]


def test_objects_hold_what_the_arrays_say(marginals: np.ndarray) -> None:
    first, second = _answers(_predictions(marginals))
    assert first.candidates == (
        Candidate((NAMES[0], NAMES[2]), 0.1 + 0.2, 0.5),
        Candidate((), 5e-324, 1e-12),
    )
    assert second.candidates == (Candidate((NAMES[1],), 1.0, 0.333333),)
    assert second.labels == (NAMES[1],)
    assert (first.out_of_domain, second.out_of_domain) == (False, True)
    assert second.marginals == (Marginal(NAMES[0], 0.005),)
    assert len(first.marginals) == MOST_MARGINALS
    order = [marginal.probability for marginal in first.marginals]
    likeliest = sorted(marginals[0].tolist(), reverse=True)[:MOST_MARGINALS]
    assert order == [float(f"{probability:.6g}") for probability in likeliest]
    assert first.replaced is None
    assert type(first.candidates[0]) is Candidate
    assert type(first.marginals[0]) is Marginal


def test_confidences_stay_as_they_are_and_no_score_passes_one(marginals: np.ndarray) -> None:
    said = _predictions(marginals)
    said.candidates.log_score[:] = 1e-9, -1e-9, -800.0
    exact = np.array([2 / 3, 1 / 7, 1e-20])
    told = [one for scored in _answers(said, exact) for one in scored.candidates]
    assert [one.confidence for one in told] == exact.tolist()
    assert [one.score for one in told] == [1.0, 1.0, 0.0]


def test_members_are_reached_like_those_of_a_tuple(marginals: np.ndarray) -> None:
    first, _ = _answers(_predictions(marginals))
    whole = tuple(first.candidates)
    assert (first.candidates[0], first.candidates[-1]) == (whole[0], whole[1])
    assert first.candidates[-2] == whole[0]
    assert first.candidates[:1] == whole[:1]
    assert (len(first.candidates), len(first.marginals)) == (2, MOST_MARGINALS)
    with pytest.raises(IndexError):
        first.candidates[2]


def test_the_json_says_the_same_to_the_last_bit(marginals: np.ndarray) -> None:
    for scored in _answers(_predictions(marginals)):
        assert scored.written is not None
        assert json.loads(b"{%b}" % scored.written.told) == {
            "candidates": [
                {**candidate._asdict(), "labels": list(candidate.labels)}
                for candidate in scored.candidates
            ],
            "marginals": [marginal._asdict() for marginal in scored.marginals],
        }
        assert scored.written == write_scores(scored.candidates, scored.marginals)


def test_where_others_replace_them_the_models_own_confidences_are_kept(
    marginals: np.ndarray,
) -> None:
    first, second = _answers(_predictions(marginals), np.array([0.9, 0.2, 0.7]))
    assert [candidate.confidence for candidate in first.candidates] == [0.9, 0.2]
    assert (first.own_confidences, second.own_confidences) == ((0.1 + 0.2, 5e-324), (1.0,))


def test_labels_that_are_all_negligible_are_not_told() -> None:
    for scored in _answers(_predictions(np.full((2, len(NAMES)), 0.001))):
        assert scored.marginals == ()
        assert scored.written is not None
        assert bytes(scored.written.told).endswith(b'],"marginals":[]')
        assert scored.written.stored_marginals == "[]"


def test_a_number_that_json_lacks_is_refused(marginals: np.ndarray) -> None:
    with pytest.raises(ValueError, match="not finite"):
        _answers(_predictions(marginals), np.array([0.9, np.nan, 0.7]))
