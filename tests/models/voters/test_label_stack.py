"""The second look at labels: what it sees, what it leaves alone, and that it helps."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from setwise.models.calibration.calibrators import BoostedSets
from setwise.models.voters.label_stack import LabelStack, LabelVotes
from setwise.models.voters.votes import SetVotes, find_seen_sets


def problem(n=400, n_labels=8, seed=0):
    """Labels that a voter knows well and binary relevance hardly."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, n_labels)) < 0.25).astype(np.uint8)
    marginals = np.clip(0.25 + 0.1 * (Y - 0.25) + rng.normal(0, 0.05, Y.shape), 0.01, 0.99)
    votes = (Y + rng.normal(0, 0.3, Y.shape)).astype(np.float32)[None]
    return csr_array(Y), marginals, LabelVotes(("linear",), votes)


def log_loss(Y, P):
    truth = Y.toarray()
    return -np.mean(np.where(truth == 1, np.log(P), np.log1p(-P)))


def test_votes_on_sets_add_up_by_label():
    Y = csr_array(np.array([[1, 0], [1, 1], [0, 0]], dtype=np.uint8))
    seen, _ = find_seen_sets(Y, 10)
    weights = np.array([[[0.5, -0.2, 0.9]]], dtype=np.float32)
    by_label = LabelVotes.of(SetVotes(seen, ("linear",), weights))
    np.testing.assert_allclose(by_label.weights, [[[0.3, -0.2]]], atol=1e-6)


def test_what_voters_know_improves_probabilities_of_new_documents():
    Y, marginals, votes = problem()
    stack = LabelStack().fit(marginals, votes, Y)
    new, new_marginals, new_votes = problem(seed=1)
    refined = stack.refine(new_marginals, new_votes)
    assert ((refined > 0) & (refined < 1)).all()
    assert log_loss(new, refined) < 0.7 * log_loss(new, new_marginals)


def test_unlikely_labels_keep_their_probabilities():
    Y, marginals, votes = problem()
    stack = LabelStack(2, 1, trees=BoostedSets("logistic", n_trees=5)).fit(marginals, votes, Y)
    refined = stack.refine(marginals, votes)
    changed = refined != marginals
    assert changed.sum(axis=1).max() <= 3
    for i in range(20):
        likely = set(np.argsort(-marginals[i])[:2]) | {int(votes.weights[0, i].argmax())}
        assert set(np.flatnonzero(changed[i])) <= likely


def test_a_stack_needs_fitting_first():
    _, marginals, votes = problem()
    with pytest.raises(NotFittedError):
        LabelStack().refine(marginals, votes)
