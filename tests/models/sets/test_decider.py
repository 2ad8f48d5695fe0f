"""The decider: its posterior, the set that it puts first, and its state."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from setwise.models.data.rows import SparseRows
from setwise.models.sets.candidates import SOURCE_MARGINALS, SOURCE_RULE, RaggedSets
from setwise.models.sets.decider import (
    SetDecider,
    admit,
    announced_order,
    blend,
    normalise,
    voted_sets,
)
from setwise.models.sets.decisions import (
    ExpectedF1,
    LabelThresholds,
    Posterior,
    SharedThreshold,
)
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.reranker import SetReranker
from setwise.models.sets.search import k_best_sets
from setwise.models.sets.sources import MarginalCandidates
from setwise.models.voters.votes import SeenSets, SetVotes, find_strongest

P = np.array([[0.6, 0.45, 0.4], [0.1, 0.95, 0.2]])


def evidence_of(marginals, votes=None):
    X = csr_array((len(marginals), 2), dtype=np.float32)
    return DocumentEvidence(SparseRows.of(X), np.zeros_like(marginals), marginals, votes)


def source(k):
    fitted = MarginalCandidates(k)
    fitted.allow_empty_ = True
    return fitted


class Judge:
    """Features and calibrator in one: confidence is half the set's probability."""

    def transform(self, evidence, candidates):
        return candidates

    def predict(self, candidates):
        return 0.5 * np.exp(candidates.log_score)


JUDGE = SetReranker(Judge(), Judge())


def announce(decider, marginals, k, votes=None):
    evidence = evidence_of(marginals, votes)
    ranked, confidence = JUDGE.rank(evidence, source(k).propose(evidence))
    return ranked, *decider.announce(evidence, source(k), JUDGE, ranked, confidence)


def test_a_set_that_was_no_candidate_comes_first_with_a_confidence_of_its_own():
    decider = SetDecider(SharedThreshold(0.3))
    ranked, found, confidence = announce(decider, P, k=2)
    assert found.first().toarray().tolist() == [[1, 1, 1], [0, 1, 0]]
    assert np.diff(found.doc_indptr).tolist() == [3, 2]
    assert found.source[0] == SOURCE_RULE
    assert confidence[0] == pytest.approx(0.5 * 0.6 * 0.45 * 0.4)
    # The others stand behind it as they stood.
    assert found.labels_of(1).tolist() == ranked.labels_of(0).tolist()
    assert (np.diff(confidence[1:3]) <= 0).all()


def test_a_candidate_that_is_chosen_moves_to_the_front_and_keeps_its_confidence():
    decider = SetDecider(SharedThreshold(0.3))
    ranked, found, confidence = announce(decider, P, k=8)
    assert len(found) == len(ranked)
    assert found.first().toarray()[0].tolist() == [1, 1, 1]
    assert found.source[0] == SOURCE_RULE | SOURCE_MARGINALS
    assert (found.source & SOURCE_RULE > 0).sum() == len(P)
    np.testing.assert_allclose(confidence, 0.5 * np.exp(found.log_score))


def test_documents_are_decided_alike_alone_and_together():
    decider = SetDecider(ExpectedF1(allow_empty=True, remainder=0.5))
    _, together, confidence = announce(decider, P, k=3)
    for row in range(len(P)):
        _, alone, own = announce(decider, P[[row]], k=3)
        bounds = slice(*together.doc_indptr[row : row + 2])
        assert (alone.to_matrix() != together.to_matrix()[bounds]).nnz == 0
        np.testing.assert_allclose(own, confidence[bounds])


def test_the_order_of_the_source_stays_where_confidence_does_not_rank():
    sets = admit(
        csr_array(np.array([[0, 1, 0], [0, 0, 0]], dtype=np.uint8)),
        evidence_of(P),
        source(4),
        k_best_sets(P, 4, allow_empty=True),
    )
    order = announced_order(sets, np.arange(len(sets), dtype=float), by_confidence=False)
    for first, last in zip(sets.doc_indptr[:-1], sets.doc_indptr[1:], strict=True):
        assert sets.source[order[first]] & SOURCE_RULE
        assert (np.diff(order[first + 1 : last]) > 0).all()


@given(st.lists(st.lists(st.floats(0, 1), min_size=8, max_size=8), min_size=1, max_size=4))
def test_confidences_become_masses_that_sum_to_one_at_most(confidences):
    sets = k_best_sets(np.full((len(confidences), 3), 0.4), 8, allow_empty=True)
    confidence = np.concatenate(confidences)
    mass = normalise(sets, confidence).reshape(-1, 8)
    total = confidence.reshape(-1, 8).sum(axis=1)
    # Where there is no confidence at all, each set gets a little, so that one can be announced.
    np.testing.assert_allclose(mass.sum(axis=1), np.minimum(total, 1.0), atol=1e-8)
    # Masses keep the proportions, and confidences that leave something to others stay.
    some = total > 0
    kept = (mass * np.maximum(total, 1.0)[:, None])[some]
    np.testing.assert_allclose(kept, np.array(confidences)[some], atol=1e-300)


SEEN = SeenSets.of(RaggedSets(np.array([0, 1, 3, 3]), np.array([0, 1, 2], dtype=np.int32)), 3)
VOTES = SetVotes(SEEN, ("linear",), np.array([[[0.2, 0.6, -0.3], [-0.1, 0.0, -1.0]]], np.float32))


def test_a_voter_believes_in_sets_of_positive_weight():
    sets, mass = voted_sets(VOTES, "linear")
    assert sets.doc_indptr.tolist() == [0, 2, 2]
    assert sets.to_matrix().toarray().tolist() == [[0, 1, 1], [1, 0, 0]]
    np.testing.assert_allclose(mass, [0.75, 0.25], rtol=1e-6)


@given(st.integers(1, 6), st.integers(0, 1000))
def test_the_strongest_sets_are_those_of_a_full_sort(k, seed):
    weights = np.random.default_rng(seed).normal(size=(4, 5)).astype(np.float32)
    exact = weights.astype(np.float64)
    doc_indptr, strongest, mass = find_strongest(weights, k)
    for row in range(4):
        best = [s for s in np.argsort(-weights[row]) if weights[row, s] > 0][:k]
        bounds = slice(*doc_indptr[row : row + 2])
        assert strongest[bounds].tolist() == best
        np.testing.assert_allclose(mass[bounds], exact[row, best] / exact[row, best].sum())


def test_a_blend_shares_the_mass_where_a_voter_has_any():
    candidates = k_best_sets(P, 2, allow_empty=True)
    own = Posterior(P, candidates, np.array([0.5, 0.3, 0.9, 0.05]))
    mixed = blend(own, *voted_sets(VOTES, "linear"), 0.25)
    assert mixed.candidates.doc_indptr.tolist() == [0, 4, 6]
    np.testing.assert_allclose(mixed.mass[:4], [0.375, 0.225, 0.1875, 0.0625], rtol=1e-6)
    np.testing.assert_allclose(mixed.mass[4:], [0.9, 0.05])


def test_a_voter_moves_the_choice():
    alone = SetDecider(ExpectedF1(allow_empty=True))
    helped = SetDecider(ExpectedF1(allow_empty=True), "linear", 0.9)
    _, first, _ = announce(alone, P, k=3, votes=VOTES)
    _, second, _ = announce(helped, P, k=3, votes=VOTES)
    assert first.first().toarray()[0].tolist() != [0, 1, 1]
    assert second.first().toarray()[0].tolist() == [0, 1, 1]


def test_a_voter_without_votes_is_refused():
    decider = SetDecider(ExpectedF1(allow_empty=True), "linear", 0.5)
    with pytest.raises(ValueError, match="'linear' needs votes"):
        announce(decider, P, k=3)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"share": 1.5}, "setting 'share' is 1.5, not 0.0 to 1.0"),
        ({"voter": 7}, "setting 'voter' is 7; it must be a text"),
        ({"rule": {"objective": "magic"}}, "unknown objective 'magic'"),
        ({"rule": {"objective": "micro-f1", "threshold": 2.0}}, "setting 'threshold' is 2.0"),
        (
            {"rule": {"objective": "micro-f1", "threshold": float("nan")}},
            "setting 'threshold' is nan",
        ),
        (
            {
                "rule": {
                    "objective": "f1",
                    "allow_empty": True,
                    "remainder": -1.0,
                    "residual": False,
                }
            },
            "setting 'remainder' is -1.0",
        ),
    ],
)
def test_a_state_out_of_range_is_refused(change, fault):
    settings = {"rule": {"objective": "hamming"}, "voter": None, "share": 0.0}
    with pytest.raises(ValueError, match=fault):
        SetDecider.from_state({}, {**settings, **change}, labels=3)


def test_thresholds_of_another_number_of_labels_are_refused():
    arrays, settings = SetDecider(LabelThresholds(np.full(4, 0.5))).get_state()
    with pytest.raises(ValueError, match="thresholds"):
        SetDecider.from_state(arrays, settings, labels=3)
