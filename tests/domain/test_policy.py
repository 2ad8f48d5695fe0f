"""From confidence to decision, and which policies can take effect."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.certification import Scorer
from setwise.service.domain.policy import (
    FIRST_POLICY_VERSION,
    Policy,
    PolicyChange,
    ThresholdMode,
    first_policy,
)
from setwise.service.domain.predictions import Decision, Reason, ScoredSet
from setwise.service.domain.routing.audits import AuditMode, AuditPlan, AuditRole, Draws, Selection
from setwise.service.domain.routing.segments import ALL, GateState
from tests.fakes import START, scored_set
from tests.samples import change

FIXED = change(threshold=0.8).as_policy("v2", START, "admin")
confidences = st.floats(0, 1)
shares = st.floats(0, 1, exclude_max=True)


def certified(threshold: float, scorer: Scorer) -> Policy:
    """Return the policy with a proved threshold instead of the fixed one."""
    state = GateState(ALL, threshold, certified_for=scorer)
    mode = ThresholdMode.CERTIFIED
    return replace(FIXED, threshold_mode=mode, fixed_threshold=None, states=(state,))


def decided(policy: Policy, scored: ScoredSet) -> tuple[Decision, Reason]:
    route = policy.gate_of(None).route(scored, Draws(0.0, 0.0, 0.0))
    assert route.selection.role is AuditRole.NONE
    return route.decision, route.reason


@given(confidences, confidences)
def test_a_set_leaves_alone_exactly_when_its_confidence_reaches_the_threshold(
    confidence: float, threshold: float
) -> None:
    policy = replace(FIXED, fixed_threshold=threshold)
    expected = (
        (Decision.AUTO, Reason.ABOVE_THRESHOLD)
        if confidence >= threshold
        else (Decision.REVIEW, Reason.BELOW_THRESHOLD)
    )
    assert decided(policy, scored_set(confidence)) == expected


@pytest.mark.parametrize("threshold", [None, 0.0])
def test_what_the_model_does_not_know_never_leaves_alone(threshold: float | None) -> None:
    policy = replace(FIXED, fixed_threshold=threshold)
    score = scored_set(1.0, out_of_domain=True)
    assert decided(policy, score) == (Decision.REVIEW, Reason.OUT_OF_DOMAIN)


@given(confidences)
def test_nothing_leaves_without_a_threshold_or_with_sending_switched_off(value: float) -> None:
    for policy in (
        replace(FIXED, fixed_threshold=None),
        replace(FIXED, auto_send=False, fixed_threshold=0.0),
    ):
        assert decided(policy, scored_set(value)) == (Decision.REVIEW, Reason.NO_THRESHOLD)


def test_a_threshold_set_by_hand_does_not_send_what_nothing_has_calibrated() -> None:
    score = scored_set(0.9)._replace(uncalibrated=True)
    assert decided(replace(FIXED, fixed_threshold=0.0), score) == (
        Decision.REVIEW,
        Reason.NO_THRESHOLD,
    )
    policy = certified(0.8, Scorer(score.model_version, score.calibrator_version))
    assert decided(policy, score) == (Decision.AUTO, Reason.ABOVE_THRESHOLD)


def test_a_confidence_that_is_no_number_never_leaves_alone() -> None:
    decision, _ = decided(replace(FIXED, fixed_threshold=0.0), scored_set(math.nan))
    assert decision is Decision.REVIEW


@given(confidences)
def test_a_new_service_sends_nothing(confidence: float) -> None:
    policy = first_policy(START)
    assert policy.version == FIRST_POLICY_VERSION
    assert decided(policy, scored_set(confidence)) == (Decision.REVIEW, Reason.NO_THRESHOLD)


def test_a_change_becomes_the_policy_that_it_asks_for() -> None:
    expected = Policy(
        version="v2",
        target_accuracy=0.9,
        risk=0.05,
        auto_send=True,
        threshold_mode=ThresholdMode.FIXED,
        fixed_threshold=0.8,
        created_at=START,
        created_by="admin",
    )
    policy = change(threshold=0.8).as_policy("v2", START, "admin")
    assert policy == expected


CERTIFIED = {"threshold_mode": ThresholdMode.CERTIFIED, "threshold": None}


@pytest.mark.parametrize(
    "sound",
    [
        change(),
        change(threshold=0.0),
        change(threshold=1.0),
        change(**CERTIFIED),
        change(auto_send=False),
        change(confidence_floor=0.5, audits=AuditPlan(0.6, 0.4, AuditMode.SEND, 1.0, 1.0)),
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
        (change(audits=AuditPlan(certification_rate=-0.1)), "/audit/certification_rate"),
        (change(audits=AuditPlan(training_rate=math.nan)), "/audit/training_rate"),
        (
            change(audits=AuditPlan(certification_rate=0.7, training_rate=0.4)),
            "/audit/training_rate",
        ),
        (change(audits=AuditPlan(ramp_up_rate=1.5)), "/audit/ramp_up_rate"),
        (change(audits=AuditPlan(0.2, ramp_up_rate=0.1)), "/audit/ramp_up_rate"),
        (change(audits=AuditPlan(overlap_rate=1.5)), "/overlap_rate"),
        (change(audits=AuditPlan(gold_reread_rate=2.0)), "/gold_reread_rate"),
        (change(confidence_floor=1.5), "/confidence_floor"),
        (change(rules=[{"label": "x"}]), "/rules/0/kind"),
    ],
)
def test_a_change_that_cannot_take_effect_says_where(wrong: PolicyChange, pointer: str) -> None:
    (fault,) = wrong.faults()
    assert fault.pointer == pointer


def test_all_faults_are_told_at_once() -> None:
    assert len(list(change(target_accuracy=2.0, risk=2.0, threshold=2.0).faults())) == 3


@given(shares, shares, shares, confidences, confidences)
def test_a_check_is_drawn_from_the_documents_name_and_never_from_its_score(
    draw: float, certification: float, training: float, confidence: float, other: float
) -> None:
    plan = AuditPlan(certification, (1 - certification) * training)
    policy = replace(FIXED, audits=plan)
    one, two = (
        policy.gate_of(None).route(scored_set(c), Draws(draw, 0.0, 0.0))
        for c in (confidence, other)
    )
    role = AuditRole.CERTIFICATION
    assert (one.selection.role is role) == (two.selection.role is role) == (draw < certification)


@pytest.mark.parametrize(
    ("mode", "decision"), [(AuditMode.HOLD, Decision.REVIEW), (AuditMode.SEND, Decision.AUTO)]
)
@pytest.mark.parametrize(
    ("draw", "role"), [(0.03, AuditRole.CERTIFICATION), (0.05, AuditRole.TRAINING)]
)
def test_a_confident_document_that_is_drawn_waits_or_is_sent_as_the_owner_chose(
    mode: AuditMode, decision: Decision, draw: float, role: AuditRole
) -> None:
    policy = replace(FIXED, audits=AuditPlan(0.04, 0.02, mode))
    found_decision, reason, selection, *_ = policy.gate_of(None).route(
        scored_set(0.9), Draws(draw, 0.0, 0.0)
    )
    assert (found_decision, reason) == (decision, Reason.AUDIT)
    assert (selection.role, selection.draw) == (role, draw)
    assert selection.inclusion_probability == pytest.approx(0.06)


def test_what_a_person_reads_anyway_serves_certification_but_is_no_training_audit() -> None:
    policy = replace(FIXED, audits=AuditPlan(0.04, 0.02))
    for draw, role in ((0.03, AuditRole.CERTIFICATION), (0.05, AuditRole.NONE)):
        route = policy.gate_of(None).route(scored_set(0.4), Draws(draw, 0.0, 0.0))
        selection = Selection(role, draw, 1.0, audit_chance=0.04)
        assert route[:3] == (Decision.REVIEW, Reason.BELOW_THRESHOLD, selection)
    unknown = policy.gate_of(None).route(scored_set(0.9, out_of_domain=True), Draws(0.03, 0.0, 0.0))
    assert unknown.selection.role is AuditRole.NONE


@given(confidences, confidences, confidences)
def test_nothing_below_the_floor_leaves_alone(
    confidence: float, threshold: float, floor: float
) -> None:
    policy = replace(FIXED, fixed_threshold=threshold, confidence_floor=floor)
    decision, _ = decided(policy, scored_set(confidence))
    assert (decision is Decision.AUTO) == (confidence >= threshold and confidence >= floor)


def test_a_certified_threshold_holds_for_the_calibrator_that_it_was_proved_for() -> None:
    score = scored_set(0.9)
    scorer = Scorer(score.model_version, score.calibrator_version)
    assert decided(certified(0.8, scorer), score) == (Decision.AUTO, Reason.ABOVE_THRESHOLD)
    other = certified(0.8, scorer._replace(calibrator_version="another"))
    assert decided(other, score) == (Decision.REVIEW, Reason.NO_THRESHOLD)
    assert other.least_of(scorer) is None
