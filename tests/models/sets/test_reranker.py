"""Ranking by confidence, ties by score."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.models.sets.candidates import CandidateSets
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.reranker import SetReranker, rank_by

FEW = st.sampled_from([0.0, 0.25, 0.5, 1.0])


def candidates(sizes, log_score):
    n = sum(sizes)
    return CandidateSets(
        np.cumsum([0, *sizes], dtype=np.int64),
        np.arange(n + 1, dtype=np.int64),
        np.zeros(n, dtype=np.int32),
        np.asarray(log_score, dtype=np.float64),
        np.ones(n, dtype=np.uint8),
        1,
    )


@settings(deadline=None)  # the first example compiles
@given(st.lists(st.lists(st.tuples(FEW, FEW), min_size=1, max_size=6), min_size=1, max_size=5))
def test_order_is_by_confidence_then_score_then_position(documents):
    flat = [pair for document in documents for pair in document]
    confidence = np.array([pair[0] for pair in flat])
    sets = candidates([len(document) for document in documents], [-pair[1] for pair in flat])
    expected = []
    for start, end in zip(sets.doc_indptr[:-1], sets.doc_indptr[1:], strict=True):
        expected += sorted(range(start, end), key=lambda s: (-confidence[s], -sets.log_score[s], s))
    assert rank_by(confidence, sets).tolist() == expected


class Fixed:
    """Stands in for features and for a calibrator: given confidences."""

    def __init__(self, confidence):
        self.confidence = np.asarray(confidence)

    def transform(self, evidence, candidates):
        return None

    def predict(self, table):
        return self.confidence


@pytest.mark.parametrize(
    ("by_confidence", "scores", "confidence"),
    [(True, [-2.0, -1.0, -3.0], [0.9, 0.1, 0.3]), (False, [-1.0, -2.0, -3.0], [0.1, 0.9, 0.3])],
)
def test_ranks_or_only_annotates(by_confidence, scores, confidence):
    sets = candidates([2, 1], [-1, -2, -3])
    fixed = Fixed([0.1, 0.9, 0.3])
    evidence = DocumentEvidence(None, np.zeros((2, 1)), np.zeros((2, 1)))
    ranked, found = SetReranker(fixed, fixed, by_confidence=by_confidence).rank(evidence, sets)
    assert ranked.log_score.tolist() == scores
    assert found.tolist() == confidence
