"""From confidence to decision, and which policies can take effect."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.predictions import Decision, Reason
from service.domain.routing import (
    FIRST_POLICY_VERSION,
    PolicyChange,
    RoutingPolicy,
    ThresholdMode,
    first_policy,
)
from tests.fakes import START, scored_set
from tests.samples import change

FIXED = change(threshold=0.8).as_policy("v2", START, "admin")
confidences = st.floats(0, 1)


@given(confidences, confidences)
def test_a_set_leaves_alone_exactly_when_its_confidence_reaches_the_threshold(
    confidence: float, threshold: float
) -> None:
    policy = replace(FIXED, threshold=threshold)
    expected = (
        (Decision.AUTO, Reason.ABOVE_THRESHOLD)
        if confidence >= threshold
        else (Decision.REVIEW, Reason.BELOW_THRESHOLD)
    )
    assert policy.decide(scored_set(confidence)) == expected


@pytest.mark.parametrize("threshold", [None, 0.0])
def test_what_the_model_does_not_know_never_leaves_alone(threshold: float | None) -> None:
    policy = replace(FIXED, threshold=threshold)
    scored = scored_set(1.0, out_of_domain=True)
    assert policy.decide(scored) == (Decision.REVIEW, Reason.OUT_OF_DOMAIN)


@given(confidences)
def test_nothing_leaves_without_a_threshold_or_with_sending_switched_off(value: float) -> None:
    for policy in (replace(FIXED, threshold=None), replace(FIXED, auto_send=False, threshold=0.0)):
        assert policy.decide(scored_set(value)) == (Decision.REVIEW, Reason.NO_THRESHOLD)


def test_a_confidence_that_is_no_number_never_leaves_alone() -> None:
    decision, _ = replace(FIXED, threshold=0.0).decide(scored_set(math.nan))
    assert decision is Decision.REVIEW


@given(confidences)
def test_a_new_service_sends_nothing(confidence: float) -> None:
    policy = first_policy(START)
    assert policy.version == FIRST_POLICY_VERSION
    assert policy.decide(scored_set(confidence)) == (Decision.REVIEW, Reason.NO_THRESHOLD)


def test_a_change_becomes_the_policy_that_it_asks_for() -> None:
    expected = RoutingPolicy(
        version="v2",
        target_accuracy=0.9,
        risk=0.05,
        auto_send=True,
        threshold_mode=ThresholdMode.FIXED,
        threshold=0.8,
        created_at=START,
        created_by="admin",
    )
    made = change(threshold=0.8).as_policy("v2", START, "admin")
    assert made == expected


CERTIFIED = {"threshold_mode": ThresholdMode.CERTIFIED, "threshold": None}


@pytest.mark.parametrize(
    "sound",
    [
        change(),
        change(threshold=0.0),
        change(threshold=1.0),
        change(**CERTIFIED),
        change(auto_send=False),
    ],
)
def test_a_sound_change_has_no_faults(sound: PolicyChange) -> None:
    assert list(sound.faults()) == []


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        (change(target_accuracy=0.0), "/target_accuracy"),
        (change(target_accuracy=1.0), "/target_accuracy"),
        (change(target_accuracy=math.nan), "/target_accuracy"),
        (change(risk=-0.1), "/risk"),
        (change(risk=1.0), "/risk"),
        (change(threshold=None), "/threshold/value"),
        (change(threshold=1.01), "/threshold/value"),
        (change(threshold=math.nan), "/threshold/value"),
        (change(threshold_mode=ThresholdMode.CERTIFIED), "/threshold/value"),
        (change(certification_rate=0.04), "/audit/certification_rate"),
        (change(training_rate=0.02), "/audit/training_rate"),
        (change(audit_mode="send"), "/audit/mode"),
        (change(overlap_rate=0.1), "/overlap_rate"),
        (change(gold_reread_rate=0.1), "/gold_reread_rate"),
        (change(confidence_floor=0.5), "/confidence_floor"),
        (change(rules=[{"label": "x"}]), "/rules"),
    ],
)
def test_a_change_that_cannot_take_effect_says_where(wrong: PolicyChange, pointer: str) -> None:
    (fault,) = wrong.faults()
    assert fault.pointer == pointer


def test_all_faults_are_told_at_once() -> None:
    assert len(list(change(target_accuracy=2.0, risk=2.0, threshold=2.0).faults())) == 3
