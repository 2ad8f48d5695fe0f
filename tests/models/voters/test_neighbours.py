"""Votes of the nearest documents, against a search of all."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from setwise.models.data.rows import SparseRows
from setwise.models.voters.neighbours import NearestVotes, NeighbourVotes

N_SETS = 6


def corpus(n=60, d=25, seed=0):
    rng = np.random.default_rng(seed)
    X = csr_array(random_array((n, d), density=0.3, rng=rng, dtype=np.float32))
    return X, rng.integers(-1, N_SETS, n).astype(np.int32), np.arange(n) % 4


def brute_force(cosines, set_of, allowed, k):
    out = np.zeros(N_SETS)
    order = [j for j in np.argsort(-cosines, kind="stable") if allowed[j] and cosines[j] > 0][:k]
    for j in order:
        if set_of[j] >= 0:
            out[set_of[j]] += cosines[j] ** 2
    return out / np.sum(cosines[order].astype(float) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_the_nearest_documents_vote_for_their_sets(seed):
    X, set_of, folds = corpus(seed=seed)
    voter = NeighbourVotes(7)
    voter.fit_folds(X, set_of, N_SETS, folds)
    rows = voter.space_.transform(X)
    cosines = (rows @ rows.T).toarray()
    everyone = np.ones(len(folds), dtype=bool)
    wanted = [brute_force(cosines[i], set_of, everyone, 7) for i in range(len(folds))]
    np.testing.assert_allclose(voter.vote(SparseRows.of(X)), wanted, atol=1e-5)


def test_held_out_documents_hear_only_the_other_folds():
    X, set_of, folds = corpus()
    voter = NeighbourVotes(5)
    hold_out = voter.fit_folds(X, set_of, N_SETS, folds)
    rows = voter.space_.transform(X)
    cosines = (rows @ rows.T).toarray()
    inside = np.flatnonzero(folds == 2)
    wanted = [brute_force(cosines[i], set_of, folds != 2, 5) for i in inside]
    np.testing.assert_allclose(hold_out(inside), wanted, atol=1e-5)


def test_the_nearest_are_three_neighbours():
    X, set_of, folds = corpus()
    nearest, three = NearestVotes(), NeighbourVotes(3)
    for voter in (nearest, three):
        voter.fit_folds(X, set_of, N_SETS, folds)
    np.testing.assert_array_equal(nearest.vote(SparseRows.of(X)), three.vote(SparseRows.of(X)))


def test_a_document_without_known_features_gets_no_votes():
    X, set_of, folds = corpus()
    voter = NeighbourVotes()
    voter.fit_folds(X, set_of, N_SETS, folds)
    assert (
        voter.vote(SparseRows.of(csr_array((2, X.shape[1]), dtype=np.float32))).tolist()
        == [[0.0] * N_SETS] * 2
    )


def test_the_number_of_indexed_documents_is_bounded():
    X, set_of, folds = corpus()
    voter = NeighbourVotes(5, max_documents=20)
    hold_out = voter.fit_folds(X, set_of, N_SETS, folds)
    assert len(voter.neighbourhood_.set_of) == 20
    assert hold_out(np.flatnonzero(folds == 0)).shape == (15, N_SETS)


def test_a_state_of_other_sets_is_refused():
    X, set_of, folds = corpus()
    voter = NeighbourVotes(5)
    voter.fit_folds(X, set_of, N_SETS, folds)
    arrays, settings = voter.get_state()
    with pytest.raises(ValueError, match="names sets that do not exist"):
        NeighbourVotes.from_state(arrays, {**settings, "n_sets": 2})
