"""Policy and keys."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from setwise.service.domain.audits import AuditPlan
from setwise.service.domain.callers import SYSTEM, Caller, KeyDigest, Role
from setwise.service.domain.errors import (
    Forbidden,
    InvalidRequest,
    KeyNotFound,
    LastAdmin,
    StaleVersion,
    Unauthenticated,
)
from setwise.service.domain.policy import FIRST_POLICY_VERSION, ThresholdMode
from setwise.service.services.administer import (
    Authenticate,
    CreateKey,
    ListKeys,
    RevokeKey,
)
from setwise.service.services.policy import Policies
from tests.fakes import FakeClock, FakeIds
from tests.samples import ADMIN, ANN, CLIENT, LEAD, change
from tests.sqlite import Database

MISSING = "019b7a0b-0000-7000-8000-ffffffffffff"


@dataclass
class Office:
    database: Database = field(default_factory=Database)
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=FakeIds)

    def __post_init__(self) -> None:
        parts = (self.database, self.now, self.new_id)
        digest = KeyDigest(b"pepper")
        policies = Policies(*parts)
        self.get_policy, self.change_policy = policies.get, policies.change
        self.create_key = CreateKey(*parts, digest, lambda: secrets.token_urlsafe(32))
        self.revoke = RevokeKey(*parts)
        self.list_keys = ListKeys(self.database)
        self.authenticate = Authenticate(self.database, digest, self.now)

    def actions(self) -> list[str]:
        return [event.action for event in self.database.contents.events.values()]


@pytest.fixture
def office() -> Office:
    return Office()


def test_a_changed_policy_is_in_force_and_on_record(office: Office) -> None:
    changed = office.change_policy(ADMIN, change(), FIRST_POLICY_VERSION, request_id="r")
    assert office.get_policy(ADMIN) == changed
    assert (changed.threshold, changed.created_by) == (0.8, ADMIN.id)
    (event,) = office.database.contents.events.values()
    assert (event.action, event.subject, event.request_id) == (
        "policy.changed",
        changed.version,
        "r",
    )
    assert event.detail["replaced"] == FIRST_POLICY_VERSION
    assert event.detail["threshold"] == 0.8


def test_a_change_of_a_policy_that_is_no_longer_in_force_is_refused(office: Office) -> None:
    changed = office.change_policy(ADMIN, change(), None)
    with pytest.raises(StaleVersion, match=changed.version):
        office.change_policy(ADMIN, change(threshold=0.1), FIRST_POLICY_VERSION)
    assert office.get_policy(ADMIN) == changed


def test_a_policy_that_cannot_take_effect_changes_nothing(office: Office) -> None:
    wrong = change(threshold_mode=ThresholdMode.CERTIFIED, audits=AuditPlan(overlap_rate=2.0))
    with pytest.raises(InvalidRequest) as refusal:
        office.change_policy(ADMIN, wrong, None)
    assert [f.pointer for f in refusal.value.faults] == ["/threshold/value", "/overlap_rate"]
    assert office.get_policy(ADMIN).version == FIRST_POLICY_VERSION
    assert office.actions() == []


@pytest.mark.parametrize("role", Role)
def test_a_new_key_opens_what_its_role_may_do(office: Office, role: Role) -> None:
    key, secret = office.create_key(ADMIN, "somebody", role)
    assert office.authenticate(secret) == Caller(key.id, "somebody", role)
    assert secret.startswith(key.prefix)
    assert len(secret) == len(f"sw_{role}_") + 43


def test_secrets_are_not_stored_and_never_twice_the_same(office: Office) -> None:
    made = [office.create_key(ADMIN, "somebody", Role.CLIENT)[1] for _ in range(3)]
    assert len(set(made)) == 3
    stored = repr(office.database.contents)
    assert not any(secret in stored or secret[20:] in stored for secret in made)


@pytest.mark.parametrize("secret", ["", "sw_client_guess", "Bearer", "\x00\udcff"])
def test_a_guessed_secret_opens_nothing(office: Office, secret: str) -> None:
    office.create_key(ADMIN, "somebody", Role.CLIENT)
    with pytest.raises(Unauthenticated, match="No key has this secret"):
        office.authenticate(secret)


def test_a_revoked_key_opens_nothing_and_stays_on_record(office: Office) -> None:
    key, secret = office.create_key(ADMIN, "somebody", Role.CLIENT)
    office.now.advance(days=1)
    revoked = office.revoke(ADMIN, key.id)
    assert revoked == replace(key, revoked_at=office.now())
    with pytest.raises(Unauthenticated, match="revoked"):
        office.authenticate(secret)
    office.now.advance(days=1)
    assert office.revoke(ADMIN, key.id) == revoked
    assert office.list_keys(ADMIN) == [revoked]
    assert office.actions() == ["key.created", "key.revoked"]


def test_the_last_admin_key_cannot_be_revoked(office: Office) -> None:
    first, _ = office.create_key(SYSTEM, "first", Role.ADMIN)
    second, _ = office.create_key(SYSTEM, "second", Role.ADMIN)
    office.create_key(SYSTEM, "client", Role.CLIENT)
    office.revoke(SYSTEM, first.id)
    with pytest.raises(LastAdmin):
        office.revoke(SYSTEM, second.id)
    assert not office.list_keys(SYSTEM)[1].revoked


def test_a_key_that_does_not_exist_cannot_be_revoked(office: Office) -> None:
    with pytest.raises(KeyNotFound, match=MISSING):
        office.revoke(ADMIN, MISSING)


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\x00b"])
def test_a_key_needs_a_name_that_can_be_kept(office: Office, name: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        office.create_key(ADMIN, name, Role.CLIENT)
    assert {fault.pointer for fault in refusal.value.faults} == {"/name"}


CALLS: dict[str, Callable[[Office, Caller, str], object]] = {
    "get policy": lambda office, who, _: office.get_policy(who),
    "change policy": lambda office, who, _: office.change_policy(who, change(), None),
    "create key": lambda office, who, _: office.create_key(who, "mine", Role.ADMIN),
    "list keys": lambda office, who, _: office.list_keys(who),
    "revoke key": lambda office, who, it: office.revoke(who, it),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("caller", [CLIENT, ANN, LEAD], ids=lambda caller: caller.role)
def test_only_administrators_administer(office: Office, caller: Caller, call) -> None:
    with pytest.raises(Forbidden):
        call(office, caller, MISSING)
    assert office.actions() == []
