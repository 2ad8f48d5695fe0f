"""The simulated first certificate of a workload."""

import numpy as np
import pytest

from setwise.models.guarantees.workload import NEVER, Workload, first_certificates

TARGET, RISK, FIRST, GROWTH = 0.8, 0.1, 80, 1.5
MISS, REREAD = 0.1, 0.5


def workload(**changed):
    confidences = np.random.default_rng(5).beta(2.2, 0.75, 2_000)
    usual = {
        "confidences": confidences,
        "documents_a_week": 1_000.0,
        "target": TARGET,
        "risk": RISK,
        "first_attempt": FIRST,
        "growth": GROWTH,
        "miss_rate": MISS,
    }
    return Workload(**{**usual, **changed})


def test_missed_errors_and_high_targets_delay_the_certificate():
    def soon(**changed):
        return np.mean(first_certificates(workload(**changed), REREAD).audits <= 180)

    assert soon(miss_rate=0.4) < soon()
    assert soon(target=0.9) < soon()


def test_without_any_second_reading_nothing_is_certified():
    found = first_certificates(workload(), 0.0)
    assert (found.audits == NEVER).all()
    assert found.share == 0.0


def test_confidences_below_the_target_are_never_certified():
    low = workload(confidences=np.full(100, 0.6))
    assert np.mean(first_certificates(low, REREAD).audits == NEVER) > 0.9


def test_overconfidence_costs_automation_and_shows_in_the_errors():
    usual, over = (first_certificates(workload(overconfidence=x), REREAD) for x in (0.0, 0.05))
    assert over.share < usual.share
    assert 0.0 < over.wrong < 1 - TARGET


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"confidences": np.zeros(0)}, "confidences"),
        ({"confidences": np.array([1.2])}, "confidences"),
        ({"documents_a_week": 0.0}, "documents_a_week"),
        ({"sendable": 0.0}, "sendable"),
        ({"target": 1.0}, "target"),
        ({"risk": 0.0}, "risk"),
        ({"miss_rate": 1.5}, "miss_rate"),
        ({"growth": 1.0}, "growth"),
        ({"first_attempt": 0}, "first_attempt"),
        ({"overconfidence": float("nan")}, "overconfidence"),
    ],
)
def test_values_out_of_range_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        workload(**wrong)
