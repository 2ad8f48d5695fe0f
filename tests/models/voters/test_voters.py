"""Voters together: one list of sets, and nothing told about sets that only the fold holds."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from sklearn.exceptions import NotFittedError

from setwise.models.data.rows import SparseRows
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.voters.voters import VOTERS, SetVoters


def corpus(n=60, n_labels=5, seed=0):
    rng = np.random.default_rng(seed)
    X = csr_array(random_array((n, 25), density=0.3, rng=rng, dtype=np.float32))
    Y = csr_array((rng.random((n, n_labels)) < 0.3).astype(np.uint8))
    marginals = rng.uniform(0.01, 0.99, (n, n_labels))
    return (
        DocumentEvidence(SparseRows.of(X), np.log(marginals / (1 - marginals)), marginals),
        Y,
        np.arange(n) % 4,
    )


def test_a_set_that_only_the_fold_holds_gets_no_weight_at_all():
    evidence, Y, folds = corpus()
    voters = SetVoters(tuple(VOTERS))
    vote = voters.fit_folds(evidence.X, evidence.marginals, Y, folds)
    own = 0
    for fold in range(4):
        inside = np.flatnonzero(folds == fold)
        votes = vote(inside)
        elsewhere = {tuple(row) for row in Y[folds != fold].toarray().tolist()}
        for s in range(votes.sets.n_sets):
            members = np.zeros(5, dtype=int)
            members[votes.sets.labels[votes.sets.indptr[s] : votes.sets.indptr[s + 1]]] = 1
            if tuple(members.tolist()) not in elsewhere:
                own += 1
                assert (votes.weights[:, :, s] == 0.0).all()
    assert own > 0


def test_a_voter_of_other_sets_is_refused():
    evidence, Y, folds = corpus()
    voters = SetVoters(("smooth",))
    voters.fit_folds(evidence.X, evidence.marginals, Y, folds)
    arrays, settings = voters.get_state()
    arrays = {**arrays, "smooth.weights": arrays["smooth.weights"][:, :-1].copy()}
    with pytest.raises(ValueError, match="array 'weights' is int16 of shape"):
        SetVoters.from_state(arrays, settings)


def test_an_unknown_voter_and_an_unfitted_one_are_refused():
    evidence, Y, folds = corpus()
    with pytest.raises(ValueError, match="unknown voter 'crowd'; there are neighbours"):
        SetVoters(("crowd",)).fit_folds(evidence.X, evidence.marginals, Y, folds)
    with pytest.raises(NotFittedError):
        SetVoters().vote(evidence)
