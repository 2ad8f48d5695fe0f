"""Votes of seen sets on candidates, against sums written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from setwise.models.sets.candidates import RaggedSets
from setwise.models.voters.votes import SetVotes, find_leaders, find_seen_sets, tally


def jaccard(a, b):
    return 1.0 if not a and not b else len(a & b) / len(a | b)


def matrix(sets, n_labels):
    Y = np.zeros((len(sets), n_labels), dtype=np.uint8)
    for row, members in enumerate(sets):
        Y[row, sorted(members)] = 1
    return csr_array(Y)


label_sets = st.frozensets(st.integers(0, 4))


@settings(max_examples=60, deadline=None)
@given(
    seen=st.lists(label_sets, min_size=1, max_size=6, unique=True),
    candidates=st.lists(label_sets, min_size=1, max_size=6),
    seed=st.integers(0, 9),
)
def test_tallies_are_sums_over_the_seen_sets(seen, candidates, seed):
    sets, set_of = find_seen_sets(matrix(seen, 5), 100)
    assert set_of.tolist() == list(range(len(seen)))
    weights = np.random.default_rng(seed).normal(size=(1, len(seen))).astype(np.float32)
    doc_indptr = np.array([0, len(candidates)])
    found = tally(doc_indptr, RaggedSets.of(matrix(candidates, 5)), sets, weights)
    for row, candidate in zip(found, candidates, strict=True):
        similar = np.array([jaccard(candidate, other) for other in seen])
        wanted = [
            column @ weights[0].astype(float) for column in (similar == 1, similar, similar**2)
        ]
        np.testing.assert_allclose(row, wanted, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    seen=st.lists(label_sets, min_size=1, max_size=6, unique=True),
    k=st.integers(1, 4),
    pool=st.integers(1, 6),
    seed=st.integers(0, 9),
)
def test_leaders_are_the_best_supported_of_the_heaviest_sets(seen, k, pool, seed):
    sets, _ = find_seen_sets(matrix(seen, 5), 100)
    weights = np.random.default_rng(seed).normal(size=(1, len(seen))).astype(np.float32)
    doc_indptr, leaders = find_leaders(sets, weights, k, pool)
    heavy = [s for s in np.argsort(-weights[0], kind="stable") if weights[0, s] > 0][:pool]
    support = {
        s: sum(weights[0, u] * jaccard(seen[s], seen[u]) ** 2 for u in range(len(seen)))
        for s in heavy
    }
    wanted = [s for s in sorted(heavy, key=lambda s: -support[s]) if support[s] > 0][:k]
    assert leaders.tolist() == wanted
    assert doc_indptr.tolist() == [0, len(wanted)]


def test_only_the_most_frequent_sets_are_listed():
    Y = matrix([{0}, {1}, {1}, {2}, {0, 1}, {0, 1}], 3)
    sets, set_of = find_seen_sets(Y, 2)
    assert sets.n_sets == 2
    assert set_of.tolist() == [-1, 0, 0, -1, 1, 1]


def test_an_unknown_voter_is_named():
    sets, _ = find_seen_sets(matrix([{0}], 1), 2)
    votes = SetVotes(sets, ("linear",), np.ones((1, 1, 1), dtype=np.float32))
    assert votes.of("linear").shape == (1, 1)
    with pytest.raises(ValueError, match="no voter is named 'smooth'; there are linear"):
        votes.of("smooth")
