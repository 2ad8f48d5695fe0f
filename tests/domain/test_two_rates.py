"""Two rates of audits: often where sets could be sent, seldom elsewhere."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.certification import Arrivals, Scorer
from setwise.service.domain.policy import Policy, ThresholdMode, first_policy
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reports import standing
from setwise.service.domain.routing.audits import (
    AuditPlan,
    AuditRole,
    Draws,
    Selection,
    audited_from,
)
from setwise.service.domain.routing.segments import ALL, GateState
from setwise.service.services.analysis.accuracy import share
from tests.domain.test_recalibration import learn, reviewed_as
from tests.fakes import START, scored_set
from tests.samples import checked

PLAN = AuditPlan(certification_rate=0.3, rest_rate=0.03, ramp_up_rate=0.5)
SCORED = scored_set()
SCORER = Scorer(SCORED.model_version, SCORED.calibrator_version)
AIMED = GateState(ALL, audited_from=0.6, audited_for=SCORER)
POLICY = replace(first_policy(START), audits=PLAN, states=(AIMED,))
confidences = st.floats(0.0, 1.0)
draws = st.floats(0.0, 1.0, exclude_max=True)


def selected(policy: Policy, confidence: float, draw: float = 0.99) -> Selection:
    return policy.gate_of(None).route(scored_set(confidence), Draws(draw, 0.0, 0.0)).selection


def fixed(threshold: float, **rest: object) -> Policy:
    policy = replace(POLICY, threshold_mode=ThresholdMode.FIXED, fixed_threshold=threshold)
    return replace(policy, **rest)


@given(confidences, draws)
def test_what_could_be_sent_is_read_blind_more_often(confidence: float, draw: float) -> None:
    selection = selected(POLICY, confidence, draw)
    chance = 0.5 if confidence >= 0.6 else 0.03  # nothing is sent yet
    assert (selection.audit_chance, selection.in_rest) == (chance, confidence < 0.6)
    assert (selection.role is AuditRole.CERTIFICATION) == (draw < chance)


@given(confidences, confidences, draws)
def test_all_that_is_sent_is_audited_at_the_higher_rate(
    confidence: float, threshold: float, draw: float
) -> None:
    gate = fixed(threshold).gate_of(None)
    route = gate.route(scored_set(confidence), Draws(draw, 0.0, 0.0))
    if confidence >= threshold:
        assert (route.selection.audit_chance, route.selection.in_rest) == (0.3, False)
        assert route.selection.inclusion_probability == 0.3
        assert (route.decision is Decision.AUTO) == (draw >= 0.3)
    else:
        assert route.selection.in_rest == (confidence < 0.6)


@pytest.mark.parametrize(
    "state",
    [
        GateState(ALL),
        replace(AIMED, audited_for=SCORER._replace(calibrator_version="older")),
        replace(AIMED, audited_from=None),
    ],
)
def test_until_a_scorer_is_known_one_rate_holds_for_all(state: GateState) -> None:
    policy = replace(POLICY, states=(state,))
    assert {selected(policy, confidence)[3:5] for confidence in (0.1, 0.9)} == {(0.5, False)}


def test_what_a_rule_holds_back_keeps_the_chance_that_it_would_have_had() -> None:
    gate = POLICY.gate_of(None)
    route = gate.route(scored_set(0.2, out_of_domain=True), Draws(0.01, 0.0, 0.0))
    assert route.reason is Reason.OUT_OF_DOMAIN
    assert route.selection == Selection(AuditRole.NONE, 0.01, 1.0, 0.03, in_rest=True)


@pytest.mark.parametrize(
    ("plan", "pointer"),
    [
        (AuditPlan(0.3, rest_rate=0.0), "/audit/rest_rate"),
        (AuditPlan(0.3, rest_rate=0.4), "/audit/rest_rate"),
        (AuditPlan(0.3, rest_rate=-0.1), "/audit/rest_rate"),
        (AuditPlan(1.0, rest_rate=0.5), "/audit/certification_rate"),
        (AuditPlan(0.3, rest_rate=0.3, ramp_up_rate=1.0), "/audit/ramp_up_rate"),
    ],
)
def test_a_blind_task_may_not_tell_what_the_model_thinks(plan: AuditPlan, pointer: str) -> None:
    (fault,) = plan.faults()
    assert fault.pointer == pointer


def test_equal_rates_are_one_rate() -> None:
    for plan in (AuditPlan(1.0, rest_rate=1.0), AuditPlan(0.0, rest_rate=0.0), AuditPlan(0.3)):
        assert list(plan.faults()) == []
        assert not plan.two_rates


def test_the_higher_rate_begins_below_the_plausible_threshold() -> None:
    assert audited_from([0.9] * 10 + [0.2] * 10, 0.9) == pytest.approx(0.8)
    assert audited_from([0.05] * 10, 0.01) == 0.0
    assert audited_from([0.5], 0.9) is None


@pytest.mark.parametrize("often", [[1, 1, 0], [0, 0, 0], [1, 1, 1]])
def test_the_accuracy_weighs_blind_readings_by_their_chance(often: list[int]) -> None:
    """On average over all draws that read some of both kinds, the estimate is the truth."""
    seldom, rates = [0, 1, 0, 0], (0.6, 0.2)
    truth = (sum(often) + sum(seldom)) / (len(often) + len(seldom))
    total, mean = 0.0, 0.0
    for drawn in product([True, False], repeat=len(often) + len(seldom)):
        upper, lower = drawn[: len(often)], drawn[len(often) :]
        if not any(upper) or not any(lower):
            continue
        chance, documents = 1.0, []
        for right, read, rest in zip(
            [*often, *seldom], drawn, [False] * len(often) + [True] * len(seldom), strict=True
        ):
            rate = rates[rest]
            chance *= rate if read else 1.0 - rate
            labels = ("a",) if right else ("b",)
            documents += [
                checked(
                    f"{len(documents)}",
                    labels if read else None,
                    labels if read else None,
                    reason=Reason.BELOW_THRESHOLD,
                    reread_rate=1.0,
                    reread_draw=0.0,
                    in_rest=rest,
                )
            ]
        total += chance
        mean += chance * (share(documents, 0.1, standing(documents)).value or 0.0)
    assert mean / total == pytest.approx(truth)


def test_reviews_stand_for_the_audits_that_taught_nothing() -> None:
    (row,) = learn(reviewed_as("1", selection=Selection(AuditRole.NONE, 0.9, 1.0, 0.03, True))).rows
    assert row.inclusion_probability == 0.97


def test_fewer_audits_prove_as_much_where_most_documents_cannot_be_sent() -> None:
    arrivals = Arrivals(1_000.0, rest=900.0, rest_rate=0.03)
    assert arrivals.drawn(0.3) == pytest.approx(100 * 0.3 + 900 * 0.03)
    assert arrivals.drawn(0.01) == pytest.approx(10.0), "a lower rate holds everywhere"
    assert arrivals.targeted(300, 0.3) == 57
    assert Arrivals(1_000.0).targeted(300, 0.3) == 300
