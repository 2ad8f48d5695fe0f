"""Margins and gaps of candidates, against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from setwise.models.data.rows import SparseRows
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.search import independent_scores, k_best_sets
from setwise.models.voters.vote_features import MarginFeatures, SmoothFeatures
from setwise.models.voters.votes import SetVotes, find_seen_sets


def log_odds(p):
    return np.log(p / (1 - p))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1000), n_labels=st.integers(1, 6), k=st.integers(1, 8))
def test_margins_of_every_candidate(seed, n_labels, k):
    P = np.random.default_rng(seed).uniform(0.01, 0.99, (3, n_labels))
    candidates = k_best_sets(P, k, allow_empty=True)
    evidence = DocumentEvidence(SparseRows.of(csr_array((3, 1), dtype=np.float32)), log_odds(P), P)
    columns = MarginFeatures().transform(evidence, candidates)
    for s, i in enumerate(candidates.document):
        members = candidates.labels_of(s)
        others = np.setdiff1d(np.arange(n_labels), members)
        best = candidates.log_score[candidates.document == i].max()
        wanted = [
            candidates.log_score[s] - best,
            log_odds(P[i, members]).min() if len(members) else 0.0,
            log_odds(P[i, others]).max() if len(others) else 0.0,
            len(members) - P[i].sum(),
        ]
        np.testing.assert_allclose(columns[s], wanted, atol=1e-4)


def test_gaps_are_zero_at_the_best_candidate_of_each_document():
    rng = np.random.default_rng(0)
    P = rng.uniform(0.1, 0.9, (20, 4))
    candidates = k_best_sets(P, 6, allow_empty=False)
    seen, _ = find_seen_sets(csr_array((rng.random((30, 4)) < 0.4).astype(np.uint8)), 50)
    weights = rng.normal(size=(1, 20, seen.n_sets)).astype(np.float32)
    votes = SetVotes(seen, ("smooth",), weights)
    evidence = DocumentEvidence(SparseRows.of(csr_array((20, 1), dtype=np.float32)), P, P, votes)
    columns = SmoothFeatures().transform(evidence, candidates)
    for i in range(20):
        rows = candidates.document == i
        for value, gap in ((0, 3), (2, 4)):
            np.testing.assert_allclose(
                columns[rows, gap], columns[rows, value] - columns[rows, value].max(), atol=1e-6
            )


def test_votes_are_required():
    P = np.array([[0.5]])
    evidence = DocumentEvidence(SparseRows.of(csr_array((1, 1), dtype=np.float32)), P, P)
    with pytest.raises(ValueError, match="need votes"):
        SmoothFeatures().transform(evidence, k_best_sets(P, 1, allow_empty=True))


def test_scores_of_listed_sets_equal_those_of_the_search():
    P = np.random.default_rng(1).uniform(0.0, 1.0, (5, 7))
    best = k_best_sets(P, 9, allow_empty=True)
    again = independent_scores(P, best.doc_indptr, best.sets)
    np.testing.assert_allclose(again, best.log_score, atol=1e-9)
