"""The papers' joints against enumeration, and their gradients against finite differences."""

import warnings

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.sparse import csr_array
from scipy.special import expit, log_expit, log_softmax, logit, logsumexp

from benchmarks.papers.baselines.chains import BeamChain, ChainEnsemble, SetVotingChains
from benchmarks.papers.baselines.learners import labelwise
from benchmarks.papers.baselines.method import as_sets, joint, votes
from benchmarks.papers.baselines.pairwise_crf import PairwiseCRF
from benchmarks.papers.baselines.sized_labels import SizedLabels
from benchmarks.papers.baselines.smooth_link import (
    SmoothLink,
    best_f1_by_label,
    randomized_embedding,
    rank_of,
)
from benchmarks.papers.baselines.stacking import DependencyNetwork, DependentRelevance
from benchmarks.papers.baselines.support import PowerSet, SupportedBinaryRelevance
from tests.models.enumeration import every_set

pytestmark = pytest.mark.verify


@pytest.fixture(scope="module")
def rows():
    """Sixty documents of four labels; the third follows the first two."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    Y = (X[:, :4] + rng.normal(size=(60, 4)) > 0.3).astype(int)
    Y[:, 2] = Y[:, 0] & Y[:, 1]
    return csr_array(X.astype(np.float32)), as_sets(Y)


def found_sets(predicted, row):
    first, last = predicted.candidates.doc_indptr[row : row + 2]
    return predicted.candidates.to_matrix().toarray()[first:last], predicted.candidates.log_score[
        first:last
    ]


def assert_is_the_joint(predicted, sets, log_mass):
    """The listed sets, their masses, the mode and the label probabilities are those enumerated."""
    for row, expected in enumerate(log_mass):
        listed, score = found_sets(predicted, row)
        order = np.argsort(-expected)[: len(score)]
        np.testing.assert_allclose(score, expected[order], atol=1e-5)
        np.testing.assert_array_equal(listed[0], sets[expected.argmax()])
    np.testing.assert_array_equal(predicted.sets.toarray(), sets[log_mass.argmax(axis=1)])
    np.testing.assert_allclose(predicted.scores, np.exp(log_mass) @ sets, atol=1e-5)


def test_a_beam_of_full_width_finds_the_whole_joint_of_the_chain(rows):
    X, Y = rows
    model = BeamChain(width=16).fit(X, Y)
    sets, order = every_set(4), np.asarray(model.chain_.order_)
    log_mass = np.zeros((X.shape[0], 16))
    for place, link in enumerate(model.chain_.estimators_):
        for number, one in enumerate(sets):
            before = np.tile(one[order[:place]], (X.shape[0], 1))
            z = link.decision_function(np.hstack([X.toarray(), before]))
            log_mass[:, number] += log_expit(z if one[order[place]] else -z)
    np.testing.assert_allclose(logsumexp(log_mass, axis=1), 0.0, atol=1e-9)
    assert_is_the_joint(model.predict(X), sets, log_mass)


def test_a_beam_of_width_one_is_the_greedy_chain(rows):
    X, Y = rows
    model = BeamChain(width=1).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X).sets.toarray(), model.chain_.predict(X))


def test_support_inference_is_enumeration_of_the_known_sets(rows):
    X, Y = rows
    model = SupportedBinaryRelevance().fit(X, Y)
    sets = np.unique(Y.toarray(), axis=0)
    p = expit(model.model_.decision_function(X))[:, None, :]
    log_mass = np.log(np.where(sets > 0, p, 1 - p)).sum(axis=2)
    assert_is_the_joint(model.predict(X), sets, log_softmax(log_mass, axis=1))


def test_the_power_set_is_a_softmax_over_known_sets(rows):
    X, Y = rows
    model = PowerSet().fit(X, Y)
    log_mass = model.model_.predict_log_proba(X)
    assert_is_the_joint(model.predict(X), model.support_.sets.toarray(), log_mass)


def test_a_set_that_the_power_set_rules_out_has_a_finite_log_mass():
    model = PowerSet().fit(csr_array([[-1.0], [0.0], [1.0]]), as_sets(np.eye(3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predicted = model.predict(csr_array([[-1e5], [1e5]]))
    assert np.isfinite(predicted.candidates.log_score).all()
    np.testing.assert_allclose(predicted.scores, [[1, 0, 0], [0, 0, 1]], atol=1e-12)


@pytest.mark.parametrize("pairs", [True, False])
def test_the_field_is_its_formula_and_its_gradient_that_of_finite_differences(rows, pairs):
    X, Y = rows
    model = PairwiseCRF(0.1, pairs=pairs).fit(X, Y)
    sets = np.unique(Y.toarray(), axis=0)
    upper = np.stack([np.outer(s, s)[np.triu_indices(4, 1)] for s in sets])
    weights = model.bias_[4:] if pairs else np.zeros(0)
    held = upper[:, upper.any(axis=0)] @ weights if pairs else 0.0
    scores = (X @ model.coef_ + model.bias_[:4]) @ sets.T + held
    assert_is_the_joint(model.predict(X), sets, log_softmax(scores, axis=1))
    theta = np.random.default_rng(0).normal(size=X.shape[1] * 4 + len(model.bias_))
    wide = X.astype(np.float64)
    value, slope = (lambda t: model.objective(t, wide)[0]), (lambda t: model.objective(t, wide)[1])
    assert check_grad(value, slope, theta) < 1e-5
    best = np.concatenate([model.coef_.ravel(), model.bias_])
    assert np.abs(slope(best)).max() < 1e-3


def test_pair_weights_see_labels_that_go_together():
    rng = np.random.default_rng(1)
    both = rng.random(300) < 0.5
    X, Y = csr_array(np.ones((300, 1))), np.stack([both, both], axis=1)
    Y = as_sets(np.vstack([Y[:260], rng.random((40, 2)) < 0.5]))
    mass = {
        pairs: np.exp(PairwiseCRF(1e-3, pairs=pairs).fit(X, Y).predict(X[:1]).candidates.log_score)
        for pairs in (True, False)
    }
    assert mass[True][:2].sum() > 0.85 > 0.6 > mass[False][:2].sum()


def test_gibbs_sampling_visits_sets_as_often_as_their_probability(rows):
    X, Y = rows
    model = DependencyNetwork(50, 4000).fit(X, Y)
    # Conditionals of a joint without interactions: the sampler must give back the product.
    model.others_ = np.zeros_like(model.others_)
    predicted, p = model.predict(X[:3]), expit(model.of_features(X[:3]))
    np.testing.assert_allclose(predicted.scores, p, atol=0.04)
    np.testing.assert_array_equal(predicted.sets.toarray(), p > 0.5)


def test_dependent_relevance_gives_a_label_no_weight_on_itself(rows):
    X, Y = rows
    model = DependentRelevance().fit(X, Y)
    assert not np.diag(model.others_).any()
    assert model.others_[2, 0] > 0 < model.others_[2, 1]  # the third label is the first and second


def test_votes_count_whole_sets():
    drawn = np.array([[[1, 0], [0, 0]], [[1, 0], [1, 1]], [[0, 1], [1, 1]]], dtype=np.uint8)
    predicted = votes(drawn)
    np.testing.assert_array_equal(predicted.sets.toarray(), [[1, 0], [1, 1]])
    np.testing.assert_allclose(predicted.scores, [[2 / 3, 1 / 3], [2 / 3, 2 / 3]])
    np.testing.assert_allclose(predicted.mass(as_sets([[0, 1], [1, 0]])), [1 / 3, 0])


def test_chains_vote_for_labels_or_for_sets(rows):
    X, Y = rows
    by_label, by_set = (kind(3).fit(X, Y) for kind in (ChainEnsemble, SetVotingChains))
    drawn = by_set.votes(X)
    assert len({tuple(chain.order_) for chain in by_set.chains_}) > 1
    np.testing.assert_allclose(by_label.predict(X).scores, drawn.mean(axis=0))
    for row, chosen in enumerate(by_set.predict(X).sets.toarray()):
        own = [tuple(one) for one in drawn[:, row].tolist()]
        assert own.count(tuple(chosen.tolist())) == max(map(own.count, own))


def test_a_joint_lists_likely_sets_first_and_drops_no_document():
    sets = as_sets([[1, 0], [0, 1], [1, 1]])
    predicted = joint(np.array([1, 0, 1]), sets, np.log([0.2, 0.5, 0.6]), 2)
    np.testing.assert_array_equal(predicted.sets.toarray(), [[0, 1], [1, 1]])
    np.testing.assert_allclose(predicted.scores, [[0, 1], [1, 0.75]])


def test_sizes_and_labels_together_are_regressions_on_both(rows):
    X, Y = rows
    model, truth = SizedLabels().fit(X, Y), Y.toarray()
    pairs = {(label, truth[row].sum()) for row, label in zip(*truth.nonzero(), strict=True)}
    assert set(zip(model.labels_.tolist(), model.sizes_.tolist(), strict=True)) == pairs
    predicted, P = model.predict(X), model.model_.predict_proba(X)[:, :-1]
    np.testing.assert_allclose(
        predicted.scores[:, 1], P[:, model.labels_ == 1].sum(axis=1).clip(0, 1)
    )


def test_a_full_embedding_projects_on_all_labels(rows):
    X, Y = (matrix.astype(np.float64) for matrix in rows)
    U, W = randomized_embedding(X, Y, 4, 1e-9, np.random.default_rng(0))
    np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-8)
    dense = X.toarray()
    plain = np.linalg.lstsq(dense, Y.toarray(), rcond=None)[0]
    np.testing.assert_allclose(W @ U.T, plain, atol=1e-3)
    one, _ = randomized_embedding(X, Y, 1, 1e-9, np.random.default_rng(0))
    expected = np.linalg.svd(dense @ plain)[2][0]
    assert abs(one[:, 0] @ expected) == pytest.approx(1.0, abs=1e-6)


def test_the_smooth_link_reads_cosines_of_log_odds_and_the_linear_one_few_directions(rows):
    X, Y = rows
    smooth = SmoothLink(embedded=False, n_cosines=5).fit(X, Y)
    odds = labelwise(0).fit(X, Y).decision_function(X)
    columns = np.sqrt(2 / 5) * np.cos(odds @ smooth.directions_ + smooth.shifts_)
    expected = expit(columns @ smooth.coef_[:-1] + smooth.coef_[-1])
    np.testing.assert_allclose(smooth.predict(X).scores, expected)
    linear = SmoothLink(n_cosines=0).fit(X, Y)
    varying = logit(linear.predict(X).scores) - linear.coef_[-1]
    assert np.linalg.matrix_rank(varying, tol=1e-8) == rank_of(Y) < 4


def test_f1_inference_takes_the_best_depth_of_each_label():
    scores = np.random.default_rng(3).random((7, 3))
    prior = np.array([0.2, 0.5, 0.9])
    chosen = best_f1_by_label(scores, prior)
    for label in range(3):
        falling = np.sort(scores[:, label])[::-1]
        worth = [2 * falling[:m].sum() / (7 * prior[label] + m) for m in range(1, 8)]
        assert chosen[:, label].sum() == 1 + int(np.argmax(worth))
        assert set(scores[chosen[:, label] > 0, label]) == set(falling[: 1 + np.argmax(worth)])
