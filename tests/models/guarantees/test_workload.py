"""The simulated first certificate of a workload."""

import numpy as np
import pytest

from setwise.models.guarantees.certificates import Certificate, risk_of_attempt
from setwise.models.guarantees.thresholds import certify_adjudicated
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


def by_hand(pool, rng):
    """Certify drawn audits, attempt by attempt; return the audits needed and the coverage."""
    confidence, wrong, overlooked, draw = np.zeros((4, 0))
    for attempt in range(1, 9):
        wanted = FIRST if attempt == 1 else int(np.ceil(GROWTH * len(confidence)))
        new = rng.choice(pool, wanted - len(confidence))
        confidence = np.append(confidence, new)
        wrong = np.append(wrong, rng.random(len(new)) >= new).astype(bool)
        overlooked = np.append(overlooked, rng.random(len(new)) < MISS).astype(bool)
        draw = np.append(draw, rng.random(len(new)))
        found = certify_adjudicated(
            pool,
            confidence,
            wrong & ~overlooked,
            wrong & overlooked & (draw < REREAD),
            REREAD,
            draw,
            target=TARGET,
            risk=risk_of_attempt(RISK, attempt),
        )
        if isinstance(found, Certificate):
            return len(confidence), found.coverage
    return NEVER, 0.0


@pytest.mark.slow
def test_first_certificates_come_as_those_of_certification_itself():
    given = workload()
    rng = np.random.default_rng(1)
    needed, coverage = np.transpose([by_hand(given.confidences, rng) for _ in range(40)])
    planned = first_certificates(given, REREAD)
    for audits in (FIRST, 120, 180, 270):
        # Four standard errors of the difference of two shares.
        assert np.mean(planned.audits <= audits) == pytest.approx(
            np.mean(needed <= audits), abs=4 * 0.5 * np.hypot(40**-0.5, 400**-0.5)
        )
    assert planned.share == pytest.approx(np.median(coverage), abs=0.06)


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
