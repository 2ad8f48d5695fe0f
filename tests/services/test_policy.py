"""The policy."""

import pytest

from setwise.service.domain import errors
from setwise.service.domain.policy import FIRST_POLICY_VERSION, ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from tests.kit.clinic import Clinic
from tests.samples import ADMIN, change


def test_a_changed_policy_is_in_force_and_on_record(clinic: Clinic) -> None:
    policy = clinic.policies.change(ADMIN.calling_from(None, "r"), change(), FIRST_POLICY_VERSION)
    assert clinic.policies.get(ADMIN) == policy
    assert (policy.fixed_threshold, policy.created_by) == (0.8, ADMIN.id)
    (event,) = clinic.contents.events.values()
    assert (event.action, event.subject, event.request_id) == (
        "policy.changed",
        policy.version,
        "r",
    )
    assert event.detail["replaced"] == FIRST_POLICY_VERSION
    assert event.detail["fixed_threshold"] == 0.8


def test_a_policy_that_cannot_take_effect_changes_nothing(clinic: Clinic) -> None:
    wrong = change(threshold_mode=ThresholdMode.CERTIFIED, audits=AuditPlan(overlap_rate=2.0))
    with pytest.raises(errors.InvalidRequest) as refusal:
        clinic.policies.change(ADMIN, wrong, None)
    assert [f.pointer for f in refusal.value.faults] == ["/threshold/value", "/overlap_rate"]
    assert clinic.policies.get(ADMIN).version == FIRST_POLICY_VERSION
    assert clinic.actions() == []
