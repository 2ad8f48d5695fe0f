"""Confidences that share one certainty: derivatives, sums, groups, weights."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from setwise.models.calibration.calibrators import BoostedSets
from setwise.models.calibration.conditional_logit import ConditionalLogitSets
from setwise.models.calibration.group_softmax import (
    SoftmaxSets,
    draw_documents,
    share_certainty,
    softmax_derivatives,
)
from tests.models.calibration.tables import make_table

groups = st.lists(st.lists(st.floats(-40, 40), min_size=1, max_size=4), min_size=1, max_size=4)


def bounds_of(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def competing(seed, n_documents=800, n_candidates=4):
    """Return a table of documents with one right candidate at most, and what is right."""
    table, _, _ = make_table(seed, n=n_documents * n_candidates)
    table = dataclasses.replace(table, doc_indptr=np.arange(0, len(table) + 1, n_candidates))
    margin = (2.0 + table.column("log_score")).reshape(-1, n_candidates)
    chance = np.exp(margin) / (1.0 + np.exp(margin).sum(axis=1, keepdims=True))
    edges = np.cumsum(chance, axis=1)
    drawn = np.random.default_rng(seed).random((n_documents, 1))
    right = (drawn < edges) & (drawn >= edges - chance)
    return table, right.ravel().astype(np.uint8), chance.ravel()


def cross_entropy(margin, doc_indptr, outcome, weight):
    total = 0.0
    for first, last in pairwise(doc_indptr):
        own, truth = margin[first:last], outcome[first:last]
        log_sum = np.logaddexp.reduce(np.append(own, 0.0))
        total += weight[first] * (log_sum - truth @ own)
    return total


@given(groups)
@settings(deadline=None)
def test_confidences_are_the_softmax_beside_a_margin_of_nought(margins):
    found = np.concatenate(margins)
    share_certainty(found, bounds_of([len(own) for own in margins]))
    expected = [np.exp(np.array(own) - np.logaddexp.reduce([*own, 0.0])) for own in margins]
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-12)


def test_huge_margins_stay_finite():
    margin = np.array([1e6, -1e6, 1e6])
    share_certainty(margin, np.array([0, 3]))
    assert margin.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_is_the_slope_of_the_cross_entropy_and_the_curvature_a_bound(seed):
    rng = np.random.default_rng(seed)
    bounds = bounds_of([1, 3, 2, 4])
    n = bounds[-1]
    margin = rng.normal(0, 2, n)
    outcome = np.zeros(n)
    outcome[[0, 2]] = 1.0
    outcome[4:6] = 0.3, 0.5  # shares; nothing is right in the last document
    weight = np.repeat([1.0, 2.0, 0.5, 3.0], np.diff(bounds))
    gradient, curvature = softmax_derivatives(margin, bounds, outcome, weight)

    def slope(at, step=1e-5):
        moves = step * np.eye(n)
        rise = [
            cross_entropy(at + move, bounds, outcome, weight)
            - cross_entropy(at - move, bounds, outcome, weight)
            for move in moves
        ]
        return np.array(rise) / (2 * step)

    np.testing.assert_allclose(gradient, slope(margin), atol=1e-8)
    hessian = np.array(
        [
            (
                softmax_derivatives(margin + move, bounds, outcome, weight)[0]
                - softmax_derivatives(margin - move, bounds, outcome, weight)[0]
            )
            / 2e-5
            for move in 1e-5 * np.eye(n)
        ]
    )
    assert np.linalg.eigvalsh(np.diag(curvature) - hessian).min() > -1e-8
    # Not a loose one: alone in its document a candidate has c (1 - c), at most a document's c.
    assert (curvature <= weight).all()


@pytest.mark.parametrize("seed", range(2))
def test_confidences_of_a_document_sum_to_less_than_one_and_are_near_the_chance(seed):
    table, right, _ = competing(seed)
    new, _, chance = competing(seed + 100)
    found = SoftmaxSets().fit(table, right).predict(new)
    assert np.add.reduceat(found, new.doc_indptr[:-1]).max() < 1.0
    alone = BoostedSets("logistic").fit(table, right).predict(new)
    assert np.sqrt(np.mean((found - chance) ** 2)) < 0.09
    assert np.mean((found - chance) ** 2) < 0.8 * np.mean((alone - chance) ** 2)


def test_a_document_of_one_candidate_gets_the_sigmoid_of_its_margin():
    table, right, _ = competing(0)
    model = SoftmaxSets().fit(table, right)
    apart = dataclasses.replace(table, doc_indptr=np.arange(len(table) + 1))
    np.testing.assert_allclose(model.predict(apart), expit(model.trees_.margin(table)))


def test_the_order_of_documents_does_not_matter():
    table, right, _ = competing(0, n_documents=300)
    model = SoftmaxSets().fit(table, right)
    order = np.arange(len(table)).reshape(-1, 4)[::-1].ravel()
    np.testing.assert_array_equal(model.predict(table)[order], model.predict(table.take(order)))


def test_of_too_many_rows_whole_documents_are_drawn():
    table, right, _ = competing(0)
    model = SoftmaxSets(max_rows=1000)
    drawn = draw_documents(table.doc_indptr, 1000, 0)
    assert len(drawn) == 1000
    assert set(np.bincount(table.document[drawn])) == {0, 4}
    found = model.fit(table, right).predict(table)
    again = SoftmaxSets(max_rows=1000).fit(table, right).predict(table)
    np.testing.assert_array_equal(found, again)
    assert np.mean((found - right) ** 2) < np.mean((right.mean() - right) ** 2)


def test_a_linear_ranker_learns_from_forty_documents_what_trees_cannot():
    table, right, _ = competing(0, n_documents=40)
    new, right_there, _ = competing(100)

    def log_loss(confidence: np.ndarray) -> float:
        none = 1.0 - np.add.reduceat(confidence, new.doc_indptr[:-1])
        sure = np.add.reduceat(confidence * right_there, new.doc_indptr[:-1])
        return float(-np.log(np.where(sure > 0, sure, np.maximum(none, 1e-9))).mean())

    linear = ConditionalLogitSets().fit(table, right).predict(new)
    assert np.add.reduceat(linear, new.doc_indptr[:-1]).max() < 1.0
    assert log_loss(linear) < log_loss(SoftmaxSets().fit(table, right).predict(new))


def test_two_right_sets_in_one_document_are_refused():
    table, right, _ = competing(0, n_documents=10)
    right[:2] = 1
    with pytest.raises(ValueError, match="more than one right candidate"):
        SoftmaxSets().fit(table, right)


def test_different_weights_in_one_document_are_refused():
    table, right, _ = competing(0, n_documents=10)
    weight = np.ones(len(table))
    weight[0] = 2.0
    with pytest.raises(ValueError, match="must have one weight"):
        SoftmaxSets().fit(table, right, sample_weight=weight)
