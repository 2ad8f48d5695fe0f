"""Metrics of label sets against scikit-learn, and by hand where it has none."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from sklearn import metrics as reference

from setwise.models.evaluation.metrics import (
    Metrics,
    RunningMetrics,
    count_agreement,
)
from setwise.models.sets.search import k_best_sets

SHAPES = st.tuples(st.integers(1, 8), st.integers(1, 6))


@st.composite
def judged(draw):
    """A truth, a prediction and marginals; empty sets and full rows occur often."""
    shape = draw(SHAPES)
    bits = st.integers(0, 1)
    return (
        draw(arrays(np.uint8, shape, elements=bits)),
        draw(arrays(np.uint8, shape, elements=bits)),
        draw(arrays(np.float64, shape, elements=st.sampled_from([0.1, 0.2, 0.5, 0.7, 0.9]))),
    )


def evaluate(true, predicted, **more) -> Metrics:
    return RunningMetrics().add(true, predicted, np.full(np.shape(true)[0], 0.5), **more).result()


@given(judged())
def test_set_metrics_equal_scikit_learn_where_it_defines_them(case):
    true, predicted, _ = case
    ours = evaluate(csr_array(true), csr_array(predicted))
    assert ours.set_accuracy == pytest.approx(reference.accuracy_score(true, predicted))
    assert ours.hamming_loss == pytest.approx(reference.hamming_loss(true, predicted))
    macro = [
        reference.f1_score(t, p, zero_division=0) for t, p in zip(true.T, predicted.T, strict=True)
    ]
    assert ours.macro_f1 == pytest.approx(np.mean(macro))
    assert ours.one_set == (len(predicted) > 1 and len({row.tobytes() for row in predicted}) == 1)
    micro = reference.f1_score(true.ravel(), predicted.ravel(), zero_division=1)
    assert ours.micro_f1 == pytest.approx(micro)
    for name, score in (
        ("precision", reference.precision_score),
        ("recall", reference.recall_score),
    ):
        macro = [score(t, p, zero_division=0) for t, p in zip(true.T, predicted.T, strict=True)]
        assert getattr(ours, f"macro_{name}") == pytest.approx(np.mean(macro))
        nothing = float(not true.any() and not predicted.any())
        micro = score(true.ravel(), predicted.ravel(), zero_division=nothing)
        assert getattr(ours, f"micro_{name}") == pytest.approx(micro)


def members(row):
    return set(np.flatnonzero(row).tolist())


@given(judged())
def test_instance_metrics_equal_their_definitions_set_by_set(case):
    true, predicted, _ = case
    rows = []
    for y, z in zip(map(members, true), map(members, predicted), strict=True):
        both = len(y & z)
        if not y and not z:
            rows.append((1, 1, 1, 1))
        else:
            precision = both / len(z) if z else 0
            recall = both / len(y) if y else 0
            rows.append((precision, recall, 2 * both / (len(y) + len(z)), both / len(y | z)))
    ours = evaluate(true, predicted)
    found = (
        ours.instance_precision,
        ours.instance_recall,
        ours.instance_f1,
        ours.instance_jaccard,
    )
    assert found == pytest.approx(np.mean(rows, axis=0))


@given(judged())
@settings(deadline=None)  # the first call compiles
def test_average_precision_equals_scikit_learns_label_ranking(case):
    true, predicted, marginals = case
    judged_rows = true.any(axis=1)
    ours = evaluate(true, predicted, marginals=marginals).map
    if not judged_rows.any():
        assert ours is None
        return
    theirs = reference.label_ranking_average_precision_score(
        true[judged_rows], marginals[judged_rows]
    )
    assert ours == pytest.approx(theirs)


def test_precision_at_k_counts_true_labels_among_the_likeliest():
    true = [[1, 0, 1, 0, 0, 1], [0, 0, 0, 1, 0, 0]]
    ours = evaluate(true, true, marginals=[[0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.1] * 3 + [0.9, 0, 0]])
    assert (ours.precision_at_1, ours.precision_at_3) == pytest.approx((1.0, (2 / 3 + 1 / 3) / 2))
    assert ours.precision_at_5 == pytest.approx((2 / 5 + 1 / 5) / 2)
    few = evaluate([[1, 0]], [[1, 0]], marginals=[[0.9, 0.1]])
    assert (few.precision_at_1, few.precision_at_5) == (1.0, 0.5)


def test_bootstrap_intervals_cover_the_metric_and_shrink_with_its_standard_error():
    rng = np.random.default_rng(0)
    true = rng.random((400, 3)) < 0.4
    predicted = true ^ (rng.random((400, 3)) < 0.1)
    judged = RunningMetrics()
    for rows in (slice(0, 100), slice(100, 400)):
        judged.add(true[rows], predicted[rows], np.full(len(true[rows]), 0.5))
    found, intervals = judged.result(), judged.intervals(400)
    for name, (low, high) in intervals.items():
        assert low < getattr(found, name) < high
    low, high = intervals["set_accuracy"]
    error = np.sqrt(found.set_accuracy * (1 - found.set_accuracy) / 400)
    assert high - low == pytest.approx(2 * 1.645 * error, rel=0.15)
    assert intervals == judged.intervals(400)


def test_the_example_of_the_thesis():
    # Section 2.1: five documents, four labels; by hand.
    true = [[1, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 1, 0]]
    predicted = [[1, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 0], [0, 1, 1, 1], [1, 0, 1, 0]]
    ours = evaluate(true, predicted)
    assert ours.set_accuracy == pytest.approx(1 / 5)
    assert ours.hamming_loss == pytest.approx((2 + 2 + 1 + 1 + 0) / 20)
    assert ours.instance_precision == pytest.approx((2 / 3 + 1 / 2 + 0 + 1 + 1) / 5)
    assert ours.instance_recall == pytest.approx((2 / 3 + 1 / 2 + 0 + 3 / 4 + 1) / 5)
    assert ours.instance_f1 == pytest.approx((4 / 6 + 2 / 4 + 0 + 6 / 7 + 1) / 5)
    assert ours.instance_jaccard == pytest.approx((2 / 4 + 1 / 3 + 0 + 3 / 4 + 1) / 5)
    assert ours.micro_f1 == pytest.approx(2 * 8 / (11 + 11))
    assert ours.macro_f1 == pytest.approx((4 / 6 + 4 / 5 + 6 / 7 + 2 / 4) / 4)


def test_two_empty_sets_agree_and_an_unseen_label_is_counted():
    ours = evaluate([[0, 0, 0]], [[0, 0, 0]])
    assert (ours.instance_f1, ours.instance_jaccard, ours.instance_precision) == (1, 1, 1)
    assert (ours.instance_recall, ours.micro_f1, ours.set_accuracy) == (1, 1, 1)
    assert (ours.macro_f1, ours.n_undefined_labels) == (0, 3)


def test_labels_the_model_lacks_are_misses():
    true = [[1, 0, 1], [0, 1, 0]]
    narrow = [[1, 0], [0, 1]]
    marginals = [[0.9, 0.1], [0.2, 0.8]]
    candidates = k_best_sets(marginals, 4, allow_empty=True)
    ours = evaluate(true, narrow, marginals=marginals, candidates=candidates)
    wide = evaluate(true, [[1, 0, 0], [0, 1, 0]], marginals=[[0.9, 0.1, 0], [0.2, 0.8, 0]])
    assert ours.oracle_accuracy == 0.5
    assert replace(ours, oracle_accuracy=None) == wide
    assert ours.map == pytest.approx(((1 + 2 / 3) / 2 + 1) / 2)


@given(judged(), st.integers(1, 6))
def test_oracle_accuracy_counts_documents_with_the_truth_among_the_candidates(case, k):
    true, predicted, marginals = case
    candidates = k_best_sets(marginals, k, allow_empty=True)
    found = 0
    for row in range(len(true)):
        own = range(candidates.doc_indptr[row], candidates.doc_indptr[row + 1])
        wanted = np.flatnonzero(true[row]).tolist()
        found += any(candidates.labels_of(s).tolist() == wanted for s in own)
    assert evaluate(true, predicted, candidates=candidates).oracle_accuracy == found / len(true)


def test_what_is_unknown_is_left_out_of_the_json():
    ours = evaluate([[1]], [[1]])
    document = json.loads(json.dumps(ours.to_json()))
    assert {"map", "oracle_accuracy", "train_seconds", "predict_seconds"}.isdisjoint(document)
    assert document["automation"][0] == {
        "target": 0.8, "threshold": 0.5, "coverage": 1.0, "accuracy": 1.0,
        "accuracy_low": pytest.approx(0.05),
    }  # fmt: skip
    timed = ours.timed(predict_seconds=0.25, train_seconds=3.0).to_json()
    assert (timed["documents_per_second"], timed["train_seconds"]) == (4.0, 3.0)


@given(judged(), st.data())
@settings(deadline=None)  # the first call compiles
def test_parts_judged_one_by_one_give_the_metrics_of_the_whole(case, data):
    true, predicted, marginals = case
    n = len(true)
    confidence = np.linspace(0.05, 0.95, n)
    candidates = k_best_sets(marginals, 2, allow_empty=True)
    cut = data.draw(st.integers(0, n))
    parts = RunningMetrics()
    for rows in (slice(0, cut), slice(cut, n)):
        parts.add(
            csr_array(true)[rows],
            csr_array(predicted)[rows],
            confidence[rows],
            marginals=marginals[rows],
            candidates=candidates.take_documents(np.arange(n)[rows]),
        )
    whole = (
        RunningMetrics()
        .add(true, predicted, confidence, marginals=marginals, candidates=candidates)
        .result()
    )
    assert parts.result() == whole


def test_a_part_without_marginals_or_candidates_leaves_their_metrics_unknown():
    parts = RunningMetrics()
    candidates = k_best_sets([[0.6, 0.2]], 2, allow_empty=True)
    parts.add([[1, 0]], [[1, 0]], [0.5], marginals=[[0.6, 0.2]], candidates=candidates)
    parts.add([[1, 0]], [[1, 0]], [0.5])
    assert (parts.result().map, parts.result().oracle_accuracy) == (None, None)


def test_parts_of_different_label_counts_are_refused():
    parts = RunningMetrics()
    parts.add([[1, 0]], [[1, 0]], [0.5])
    with pytest.raises(ValueError, match="this part has 3 labels, those before 2"):
        parts.add([[1, 0, 0]], [[1, 0]], [0.5])


def test_every_key_of_the_contract_is_there():
    marginals = [[0.6, 0.2]]
    candidates = k_best_sets(marginals, 2, allow_empty=True)
    ours = evaluate([[1, 0]], [[1, 0]], marginals=marginals, candidates=candidates)
    wanted = """n n_labels set_accuracy instance_f1 instance_precision instance_recall
        instance_jaccard hamming_loss micro_f1 macro_f1 micro_precision micro_recall
        macro_precision macro_recall precision_at_1 precision_at_3 precision_at_5 map
        oracle_accuracy brier uncertainty sharpness alignment_error log_loss automation
        train_seconds predict_seconds documents_per_second"""
    assert set(wanted.split()) <= set(ours.timed(predict_seconds=1, train_seconds=1).to_json())


@pytest.mark.parametrize(
    ("true", "predicted", "message"),
    [
        ([[1, 2]], [[1, 0]], "Y_true must hold zeros and ones only"),
        ([[1, 0]], [[1, 0.5]], "Y_pred must hold zeros and ones only"),
        ([[1, 0]], [[1, 0], [0, 1]], "Y_true has shape"),
        ([[1]], [[1, 0]], "Y_pred has 2 labels, but Y_true only 1"),
        ([1, 0], [1, 0], "Y_true must be a matrix"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "nothing to evaluate"),
    ],
)
def test_impossible_labels_are_refused(true, predicted, message):
    with pytest.raises(ValueError, match=message):
        evaluate(true, predicted)


@pytest.mark.parametrize("marginals", [[[0.1]], [[0.1, 0.2, 0.3]], [[np.nan, 0.1], [0.2, 0.3]]])
def test_impossible_marginals_are_refused(marginals):
    with pytest.raises(ValueError, match="marginals"):
        evaluate([[1, 0], [0, 1]], [[1, 0], [0, 1]], marginals=marginals)


def test_matrices_stored_oddly_are_counted_right():
    odd = csr_array(
        (np.array([1, 0, 1], dtype=np.uint8), np.array([2, 1, 0]), np.array([0, 3])), shape=(1, 3)
    )
    agreement = count_agreement(odd, [[1, 0, 1]])
    assert agreement.exact.tolist() == [True]
    assert count_agreement(odd, [[1, 0, 1]], axis=0).hits.tolist() == [1, 0, 1]
