"""Thresholds chosen in other ways than the certified ones."""

import numpy as np
import pytest

from benchmarks.papers.rival_thresholds import certify_clean, plugin_threshold, sgr_threshold
from setwise.models.guarantees.certificates import Certificate
from tests.models.guarantees.test_thresholds import world

pytestmark = pytest.mark.verify


def test_sgr_spends_its_risk_on_every_step_and_so_sends_less():
    predicted, _ = world(1, 4000)
    sent = {"certified": 0.0, "sgr": 0.0}
    for seed in range(20):
        confidence, right = world(50 + seed, 1000)
        found = certify_clean(predicted, confidence, right, target=0.9, risk=0.1)
        sent["certified"] += found.coverage if isinstance(found, Certificate) else 0.0
        threshold = sgr_threshold(confidence, right, 0.9, 0.1)
        sent["sgr"] += 0.0 if threshold is None else np.mean(predicted >= threshold)
    assert 0 < sent["sgr"] < sent["certified"]


def test_the_plugin_rules_take_confidences_at_their_word():
    predicted = [0.99, 0.95, 0.8, 0.8, 0.1]
    assert plugin_threshold(predicted, 0.9) == 0.9
    assert plugin_threshold(predicted, 0.9, "mean") == 0.95
    assert plugin_threshold(predicted, 0.88, "mean") == 0.8
    assert plugin_threshold([0.5], 0.9) is None
    assert plugin_threshold([], 0.9) is None
