"""Scores of confidences and automation against plain loops and scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from setwise.models.evaluation.automation import automation_at
from setwise.models.evaluation.scoring import score_calibration
from setwise.models.guarantees.binomial import lower_bound
from setwise.models.results import AutomationAt

JUDGED = st.lists(
    st.tuples(
        st.one_of(st.floats(0, 1), st.integers(0, 10).map(lambda tenth: tenth / 10)),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=40,
)


@given(JUDGED)
def test_scores_equal_their_definitions_bucket_by_bucket(pairs):
    c, v = map(list, zip(*pairs, strict=True))
    n = len(c)
    buckets = {}
    for confidence, correct in pairs:
        buckets.setdefault(min(math.floor(confidence * 10), 9), []).append((confidence, correct))
    base_rate = sum(v) / n
    alignment = sharpness = 0.0
    for members in buckets.values():
        accuracy = sum(correct for _, correct in members) / len(members)
        mean = math.fsum(confidence for confidence, _ in members) / len(members)
        alignment += len(members) / n * (accuracy - mean) ** 2
        sharpness += len(members) / n * (accuracy - base_rate) ** 2
    scores = score_calibration(c, v)
    assert scores.alignment_error == pytest.approx(alignment, abs=1e-12)
    assert scores.sharpness == pytest.approx(sharpness, abs=1e-12)
    assert scores.uncertainty == pytest.approx(np.var(v), abs=1e-12)
    assert scores.brier == pytest.approx(brier_score_loss(v, c, pos_label=1), abs=1e-12)
    both_ways = np.column_stack([1 - np.array(c), c])
    assert scores.log_loss == pytest.approx(log_loss(v, both_ways, labels=[0, 1]), abs=1e-9)


@given(JUDGED)
def test_the_brier_score_decomposes_once_confidences_are_bucket_means(pairs):
    c, v = (np.array(column) for column in zip(*pairs, strict=True))
    c = np.minimum(np.floor(c * 10), 9) / 10 + 0.05
    scores = score_calibration(c, v)
    composed = scores.uncertainty - scores.sharpness + scores.alignment_error
    assert scores.brier == pytest.approx(composed, abs=1e-12)


def test_tenths_fall_into_the_bucket_they_open_and_one_into_the_last():
    for tenth in range(11):
        c = [tenth / 10, min(tenth, 9) / 10 + 0.05]
        # One bucket for both: its accuracy is 1/2.
        assert score_calibration(c, [0, 1]).sharpness == 0, tenth


def test_a_sure_mistake_costs_much_but_not_infinitely():
    assert 30 < score_calibration([1.0], [0]).log_loss < 40
    assert score_calibration([1.0, 0.0], [1, 0]).log_loss == pytest.approx(0, abs=1e-12)


@given(JUDGED, st.floats(0.01, 1))
def test_automation_sends_most_while_keeping_the_target(pairs, target):
    best = AutomationAt(target, None, 0.0, None)
    for threshold in sorted({confidence for confidence, _ in pairs}, reverse=True):
        sent = [correct for confidence, correct in pairs if confidence >= threshold]
        if sum(sent) / len(sent) >= target:
            low = float(lower_bound(sum(sent), len(sent), 0.05))
            accuracy = sum(sent) / len(sent)
            best = AutomationAt(target, threshold, len(sent) / len(pairs), accuracy, low)
    c, v = zip(*pairs, strict=True)
    assert automation_at(target, c, v, least=1) == best


def test_nineteen_of_twenty_reach_ninety_five_percent():
    point = automation_at(0.95, np.linspace(0.5, 1, 20), [0] + [1] * 19, least=1)
    assert (point.threshold, point.coverage, point.accuracy) == (0.5, 1.0, 0.95)


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([0.5], [1, 0], "one length"),
        ([], [], "one length"),
        ([[0.5]], [[1]], "one length"),
        ([1.1], [1], r"a confidence lies in \[0, 1\]"),
        ([np.nan], [1], r"a confidence lies in \[0, 1\]"),
        ([0.5], [0.5], "an answer is 0 or 1"),
    ],
)
def test_impossible_confidences_are_refused(confidence, correct, message):
    with pytest.raises(ValueError, match=message):
        score_calibration(confidence, correct)
    with pytest.raises(ValueError, match=message):
        automation_at(0.9, confidence, correct)


def test_impossible_targets_are_refused():
    with pytest.raises(ValueError, match="target accuracy"):
        automation_at(0.0, [0.5], [1])
