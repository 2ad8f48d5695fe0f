"""The policy."""

from dataclasses import dataclass, field

import pytest

from setwise.service.domain import errors
from setwise.service.domain.policy import FIRST_POLICY_VERSION, ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.services.policy import Policies
from tests.fakes import FakeClock, FakeIds
from tests.samples import ADMIN, change
from tests.sqlite import Database


@dataclass
class Office:
    database: Database = field(default_factory=Database)
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=FakeIds)

    def __post_init__(self) -> None:
        parts = (self.database, self.now, self.new_id)
        policies = Policies(*parts)
        self.get_policy, self.change_policy = policies.get, policies.change

    def actions(self) -> list[str]:
        return [event.action for event in self.database.contents.events.values()]


@pytest.fixture
def office() -> Office:
    return Office()


def test_a_changed_policy_is_in_force_and_on_record(office: Office) -> None:
    changed = office.change_policy(ADMIN.calling_from(None, "r"), change(), FIRST_POLICY_VERSION)
    assert office.get_policy(ADMIN) == changed
    assert (changed.fixed_threshold, changed.created_by) == (0.8, ADMIN.id)
    (event,) = office.database.contents.events.values()
    assert (event.action, event.subject, event.request_id) == (
        "policy.changed",
        changed.version,
        "r",
    )
    assert event.detail["replaced"] == FIRST_POLICY_VERSION
    assert event.detail["fixed_threshold"] == 0.8


def test_a_policy_that_cannot_take_effect_changes_nothing(office: Office) -> None:
    wrong = change(threshold_mode=ThresholdMode.CERTIFIED, audits=AuditPlan(overlap_rate=2.0))
    with pytest.raises(errors.InvalidRequest) as refusal:
        office.change_policy(ADMIN, wrong, None)
    assert [f.pointer for f in refusal.value.faults] == ["/threshold/value", "/overlap_rate"]
    assert office.get_policy(ADMIN).version == FIRST_POLICY_VERSION
    assert office.actions() == []
