"""What is shown of labels and of label sets is one distribution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.models.calibration.recalibration import ConfidenceCorrection
from setwise.models.options import TrainingOptions
from setwise.models.sets.candidates import CandidateSets
from setwise.models.sets.coherence import coherent_confidence, coherent_marginals
from tests.models.corpora import vectors

ROUNDING = 1e-9
MODELS = {
    "br": TrainingOptions(method="br", preset="paper"),
    "br-rerank": TrainingOptions(preset="fast", calibrator="boosted-squared"),
    "softmax": TrainingOptions(preset="best", calibrator="group-softmax"),
    "f1": TrainingOptions(preset="fast", optimize="f1"),
    "cbm": TrainingOptions(method="cbm", preset="paper", n_components=2),
    "cbm-rerank": TrainingOptions(method="cbm-rerank", preset="paper", n_components=2),
}


def implied(candidates, confidence):
    """Return the mass of each label in the listed sets, and the mass of no listed set."""
    by_label = np.zeros((candidates.n_documents, candidates.n_labels))
    np.add.at(by_label, candidates.document, candidates.to_matrix().toarray() * confidence[:, None])
    total = np.bincount(candidates.document, confidence, minlength=candidates.n_documents)
    return by_label, 1.0 - total


def assert_coherent(candidates, confidence, marginals):
    by_label, rest = implied(candidates, confidence)
    assert (rest > -ROUNDING).all()
    assert (marginals >= by_label - ROUNDING).all()
    assert (marginals <= by_label + rest[:, None] + ROUNDING).all()
    assert ((marginals >= 0.0) & (marginals <= 1.0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_no_label_is_less_probable_than_the_sets_that_hold_it(name, model_of):
    model = model_of(vectors(n_features=5), MODELS[name])
    shown = model.predict(vectors(n=200, n_features=5, seed=1).X)
    assert_coherent(shown.candidates, shown.confidence, shown.marginals)
    trusting = ConfidenceCorrection(1.5, np.array([0.5, 0.0, 0.3, 0.0, 0.0]), np.zeros(5))
    again = shown.with_confidence(trusting.correct(shown.candidates, shown.confidence))
    assert_coherent(again.candidates, again.confidence, again.marginals)


@st.composite
def judged_sets(draw):
    """Draw candidates of two documents with any confidences, and label probabilities."""
    n_labels = 3
    every = [[j for j in range(n_labels) if s >> j & 1] for s in range(2**n_labels)]
    per_document = [draw(st.permutations(every))[: draw(st.integers(1, 8))] for _ in range(2)]
    sets = [one for document in per_document for one in document]
    candidates = CandidateSets(
        np.cumsum([0, *map(len, per_document)]),
        np.cumsum([0, *map(len, sets)]),
        np.array([label for one in sets for label in one], dtype=np.int32),
        np.zeros(len(sets)),
        np.zeros(len(sets), dtype=np.uint8),
        n_labels,
    )
    share = st.sampled_from([0.0, 1e-12, 0.1, 0.5, 0.9, 1.0]) | st.floats(0.0, 1.0)
    confidence = np.array([draw(share) for _ in sets])
    alone = np.array([[draw(share) for _ in range(n_labels)] for _ in range(2)])
    return candidates, confidence, alone


@given(judged_sets())
@settings(max_examples=100)
def test_any_confidences_become_one_distribution_and_the_announced_one_stays(drawn):
    candidates, confidence, alone = drawn
    shown = coherent_confidence(candidates, confidence)
    first = candidates.doc_indptr[:-1]
    assert shown[first].tolist() == confidence[first].tolist()
    assert (shown <= confidence).all()
    assert_coherent(candidates, shown, coherent_marginals(candidates, shown, alone))


def test_a_probability_that_fits_the_sets_stays_as_it_is():
    candidates = CandidateSets(
        np.array([0, 2]),
        np.array([0, 1, 1]),
        np.array([0], dtype=np.int32),
        np.zeros(2),
        np.zeros(2, dtype=np.uint8),
        2,
    )
    shown = coherent_marginals(candidates, np.array([0.4, 0.2]), np.array([[0.7, 0.3]]))
    assert shown.tolist() == [[0.7, 0.3]]
