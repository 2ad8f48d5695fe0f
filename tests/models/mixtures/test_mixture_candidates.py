"""Candidates of a mixture: exact, united without duplicates, scored one way."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from setwise.models.data.rows import SparseRows
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.mixture_candidates import MixtureCandidates
from setwise.models.mixtures.mixture_mode import SOURCE_MIXTURE, set_log_probabilities
from setwise.models.sets.candidates import SOURCE_MARGINALS, SOURCE_VOTES
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.voters.votes import SetVotes, find_seen_sets
from tests.models.corpora import vectors


@pytest.fixture(scope="module")
def mixture():
    data = vectors()
    settings = {"alpha": 1e-2, "gate_alpha": 1e-2, "random_state": 0}
    return ConditionalBernoulliMixture(3, **settings).fit(data.X, data.Y)


@pytest.fixture(scope="module")
def evidence():
    data = vectors(seed=1)
    rng = np.random.default_rng(0)
    marginals = rng.uniform(0.01, 0.99, size=data.Y.shape)
    return DocumentEvidence(SparseRows.of(data.X), np.log(marginals / (1 - marginals)), marginals)


def test_candidates_are_the_best_of_the_joint_in_order(mixture, evidence):
    found = MixtureCandidates.of(mixture, 4).propose(evidence)
    best = mixture.most_probable_sets(evidence.X, 4).candidates
    np.testing.assert_array_equal(found.labels, best.labels)
    assert (found.source == SOURCE_MIXTURE).all()
    assert (np.diff(found.log_score)[np.diff(found.document) == 0] <= 0).all()


def test_union_adds_independent_candidates_and_scores_all_by_the_joint(mixture, evidence):
    found = MixtureCandidates.of(mixture, 4, union=True).propose(evidence)
    alone = MixtureCandidates.of(mixture, 4).propose(evidence)
    assert len(found) > len(alone)
    assert (found.source & SOURCE_MIXTURE > 0).sum() == len(alone)
    assert (found.source & SOURCE_MARGINALS > 0).any()
    for document in range(5):
        sets = range(found.doc_indptr[document], found.doc_indptr[document + 1])
        listed = [tuple(found.labels_of(s)) for s in sets]
        assert len(set(listed)) == len(listed)
    expected = set_log_probabilities(*mixture.parameters(evidence.X), found)
    np.testing.assert_allclose(found.log_score, expected, atol=1e-12)
    truth = mixture.log_probability(evidence.X, found.first())
    np.testing.assert_allclose(found.log_score[found.doc_indptr[:-1]], truth, atol=1e-9)
    assert (np.diff(found.log_score)[np.diff(found.document) == 0] <= 0).all()


def test_union_adds_the_sets_that_voters_favour(mixture, evidence):
    """Every voter is for one rare set: it becomes a candidate of each document."""
    seen, _ = find_seen_sets(vectors(seed=1).Y, 1000)
    rare = seen.n_sets - 1
    weights = np.zeros((1, len(evidence.X.indptr) - 1, seen.n_sets), dtype=np.float32)
    weights[:, :, rare] = 1.0
    voted = replace(evidence, votes=SetVotes(seen, ("neighbours",), weights))
    found = MixtureCandidates.of(mixture, 4, union=True).propose(voted)
    from_voters = found.source & SOURCE_VOTES > 0
    favoured = tuple(seen.labels[seen.indptr[rare] : seen.indptr[rare + 1]])
    for document in range(found.n_documents):
        sets = range(found.doc_indptr[document], found.doc_indptr[document + 1])
        assert favoured in {tuple(found.labels_of(s)) for s in sets if from_voters[s]}
    assert (found.source & (SOURCE_MIXTURE | SOURCE_MARGINALS) > 0).any()
    expected = set_log_probabilities(*mixture.parameters(voted.X), found)
    np.testing.assert_allclose(found.log_score, expected, atol=1e-12)


def test_a_stored_source_forgets_threads(mixture):
    _, settings = MixtureCandidates.of(mixture, 3, union=True).get_state()
    assert settings["mixture"]["params"]["n_jobs"] is None


def test_fitting_a_clone_fits_a_clone_of_the_mixture(mixture):
    data = vectors()
    source = clone(MixtureCandidates(mixture, 3)).fit(data.X, data.Y)
    assert source.mixture_ is not mixture
    np.testing.assert_array_equal(
        source.mixture_.predict_proba(data.X), mixture.predict_proba(data.X)
    )


def test_unfitted_or_wrong_sources_are_refused(mixture, evidence):
    with pytest.raises(NotFittedError):
        MixtureCandidates().propose(evidence)
    with pytest.raises(ValueError, match="between 1 and 64"):
        MixtureCandidates.of(mixture, 65).propose(evidence)
    candidates = MixtureCandidates.of(mixture, 2).propose(evidence)
    with pytest.raises(ValueError, match="do not go with"):
        set_log_probabilities(np.zeros((1, 2)), np.zeros((1, 2, 3)), candidates)
