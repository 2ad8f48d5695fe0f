"""How many audits find a drop of the accuracy."""

from itertools import product

import numpy as np
import pytest

from setwise.models.guarantees.delay import audits_to_alarm, simulate_alarms
from setwise.models.guarantees.drift import bet_factors


def test_the_audits_until_an_alarm_are_distributed_as_by_enumeration():
    accuracy, target, run_length = 0.5, 0.6, 12.0
    wrong, right = bet_factors(target)
    by_audit = np.zeros(9)  # probability of the first alarm at each audit, over all outcomes
    for outcomes in product((wrong, right), repeat=9):
        capital = np.zeros(len(wrong))
        for place, factor in enumerate(outcomes):
            capital = (capital + 1) * factor
            if capital.mean() >= run_length:
                by_audit[place] += 0.5**9
                break
    simulated = [np.mean(simulate_alarms(accuracy, target, run_length) <= n) for n in range(1, 10)]
    # Four standard errors of a share among 400 runs.
    np.testing.assert_allclose(simulated, by_audit.cumsum(), atol=4 * 0.025)
    assert 0.2 < by_audit.sum() < 0.9


def test_large_drops_are_found_sooner():
    audits = [
        audits_to_alarm(accuracy, target=0.9, run_length=5_000.0)
        for accuracy in (0.88, 0.85, 0.8, 0.6)
    ]
    assert audits == sorted(audits, reverse=True)


def test_what_meets_the_target_raises_no_alarm():
    assert audits_to_alarm(0.95, target=0.9, run_length=50_000.0) is None


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"accuracy": 1.0}, "accuracy"),
        ({"target": 1.0}, "target"),
        ({"run_length": 1.0}, "run_length"),
        ({"run_length": float("nan")}, "run_length"),
    ],
)
def test_values_out_of_range_are_refused(values, name):
    usual = {"accuracy": 0.85, "target": 0.9, "run_length": 5_000.0}
    with pytest.raises(ValueError, match=f"{name} is"):
        audits_to_alarm(**(usual | values))
