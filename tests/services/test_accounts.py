"""Accounts, signing in and out: who gets in, who does not, and what remains of it."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import ANONYMOUS, SYSTEM, Caller, Role
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.fakes import FakeClock, FakeIds, FakePasswords
from tests.samples import ADMIN, key
from tests.sqlite import Database

if TYPE_CHECKING:
    from setwise.service.domain.accounts import Session

PASSWORD = "correct horse battery"
HERE, THERE = "192.0.2.1", "198.51.100.9"
FROM_HERE = ANONYMOUS.calling_from(HERE)


@dataclass
class House:
    """The services on people."""

    begin: Database = field(default_factory=Database)
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=FakeIds)
    passwords: FakePasswords = field(default_factory=FakePasswords)

    def __post_init__(self) -> None:
        office = (self.begin, self.now, self.new_id)
        self.keys = building.keys(*office)
        self.people = building.people(*office, passwords=self.passwords)
        self.sessions = building.sessions(*office, passwords=self.passwords)

    def ann(self, role: Role = Role.REVIEWER) -> str:
        person = self.people.create(SYSTEM, login="ann", name="Ann", role=role, password=PASSWORD)
        return person.id

    def enter(self, password: str = PASSWORD, *, address: str = HERE) -> str:
        return self.sessions.sign_in("Ann", password, visitor=ANONYMOUS.calling_from(address))[1]

    def events(self) -> list[tuple[str, str, str | None]]:
        with self.begin(read_only=True) as transaction:
            found = transaction.audit_trail.page(after=None, limit=200).items
        return [(event.action, event.subject, event.address) for event in reversed(found)]


@pytest.fixture
def house() -> House:
    return House()


def test_a_session_stands_for_the_person_until_they_sign_out(house: House) -> None:
    ann = house.ann()
    token = house.enter()
    opened = house.sessions.open(token, ANONYMOUS.calling_from(THERE))
    assert opened.caller == Caller(ann, "Ann", Role.REVIEWER, THERE)
    house.sessions.sign_out(token, ANONYMOUS.calling_from(THERE))
    house.sessions.sign_out(token)
    for ended in (token, ""):
        with pytest.raises(errors.Unauthenticated):
            house.sessions.open(ended)
    assert house.events() == [
        ("person.created", ann, None),
        ("session.begun", ann, HERE),
        ("session.ended", ann, THERE),
    ]


@pytest.mark.parametrize("same", [True, False])
def test_a_hash_that_is_replaced_meanwhile_opens_to_its_password(house: House, same: bool) -> None:
    """Somebody signs in twice at once after an update that hashes better; or changes it."""
    ann = house.ann()
    house.passwords.version = 2
    hashed = house.passwords.hash

    def meanwhile(password: str) -> str:
        house.passwords.hash = hashed  # type: ignore[method-assign]  # once
        if same:
            house.enter()
        else:
            house.people.change(SYSTEM, ann, password="another that is long enough")
        return hashed(password)

    house.passwords.hash = meanwhile  # type: ignore[method-assign]  # as above
    if same:
        assert house.sessions.open(house.enter()).caller.id == ann
    else:
        with pytest.raises(errors.WrongPassword):
            house.enter()
    (person,) = house.people.all(SYSTEM)
    assert person.password == hashed(PASSWORD if same else "another that is long enough")


@pytest.mark.parametrize(("login", "password"), [("ann", "wrong"), ("bob", PASSWORD), ("", "")])
def test_a_wrong_name_and_a_wrong_password_look_alike(
    house: House, login: str, password: str
) -> None:
    house.ann()
    with pytest.raises(errors.WrongPassword, match="name or the password"):
        house.sessions.sign_in(login, password, visitor=FROM_HERE)
    assert len(house.passwords.checked) == 1
    assert house.events()[-1][0::2] == ("session.refused", HERE)
    assert not house.begin.contents.sessions


def test_what_a_stranger_typed_is_not_kept(house: House) -> None:
    with pytest.raises(errors.WrongPassword):
        house.sessions.sign_in("my secret by mistake", "another secret", visitor=FROM_HERE)
    kept = repr(house.begin.contents)
    assert "secret" not in kept


def test_a_disabled_person_is_out_at_once_and_for_good(house: House) -> None:
    ann = house.ann()
    token = house.enter()
    house.people.change(ADMIN, "ann", disabled=True)
    with pytest.raises(errors.Unauthenticated):
        house.sessions.open(token)
    with pytest.raises(errors.WrongPassword):
        house.enter()
    house.people.change(ADMIN, ann, disabled=False)
    house.sessions.open(house.enter())


def test_a_new_role_ends_sessions_a_new_name_does_not(house: House) -> None:
    house.ann()
    token = house.enter()
    house.people.change(ADMIN, "ann", name="Ann Lee")
    assert house.sessions.open(token).caller.name == "Ann Lee"
    house.people.change(ADMIN, "ann", role=Role.LEAD)
    with pytest.raises(errors.Unauthenticated):
        house.sessions.open(token)
    assert house.sessions.open(house.enter()).caller.role is Role.LEAD


def test_a_session_ends_by_itself_and_use_prolongs_it_to_a_limit(house: House) -> None:
    house.ann()
    idle = house.enter()
    house.now.advance(hours=2)
    with pytest.raises(errors.Unauthenticated):
        house.sessions.open(idle)
    busy = house.enter()
    for _ in range(11):
        house.now.advance(hours=1)
        house.sessions.open(busy)
    house.now.advance(hours=1)
    with pytest.raises(errors.Unauthenticated):
        house.sessions.open(busy)
    house.enter()
    assert len(house.begin.contents.sessions) == 1  # the ended ones are gone


def test_use_is_noted_once_a_minute(house: House) -> None:
    house.ann()
    token = house.enter()
    begun = house.now()
    house.now.advance(seconds=59)
    house.sessions.open(token)
    (session,) = house.begin.contents.sessions.values()
    assert session.seen_at == begun
    house.now.advance(seconds=1)
    house.sessions.open(token)
    (session,) = house.begin.contents.sessions.values()
    assert session.seen_at == house.now()


def test_a_hash_of_old_parameters_is_renewed_when_its_person_signs_in(house: House) -> None:
    house.ann()
    house.passwords.version = 2
    house.enter()
    (person,) = house.people.all(ADMIN)
    assert person.password is not None
    assert person.password.startswith("2:")
    house.enter()


def test_another_password_ends_every_session(house: House) -> None:
    house.ann()
    tokens = [house.enter(), house.enter()]
    house.people.change(ADMIN, "ANN", password="another long password")
    for token in tokens:
        with pytest.raises(errors.Unauthenticated):
            house.sessions.open(token)
    with pytest.raises(errors.WrongPassword):
        house.enter()
    house.enter("another long password")


def test_changing_ones_own_password_keeps_this_session_only(house: House) -> None:
    house.ann()
    other, mine = house.enter(), house.enter()
    opened = house.sessions.open(mine)
    with pytest.raises(errors.WrongPassword):
        house.sessions.change_password(
            opened.caller, opened.session, "wrong", "another long password"
        )
    with pytest.raises(errors.InvalidRequest) as weak:
        house.sessions.change_password(opened.caller, opened.session, PASSWORD, "short")
    assert [fault.pointer for fault in weak.value.faults] == ["/password"]
    house.sessions.change_password(opened.caller, opened.session, PASSWORD, "another long password")
    house.sessions.open(mine)
    with pytest.raises(errors.Unauthenticated):
        house.sessions.open(other)
    house.enter("another long password")


def test_accents_may_be_composed_in_either_way(house: House) -> None:
    house.people.create(
        SYSTEM, login="zoe", name="Zoé", role=Role.LEAD, password="un re\u0301sume\u0301 long"
    )
    house.sessions.sign_in("zoe", "un r\u00e9sum\u00e9 long", visitor=FROM_HERE)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"login": "Ann Lee"}, "/login"),
        ({"name": " "}, "/name"),
        ({"role": Role.CLIENT}, "/role"),
        ({"password": "short"}, "/password"),
    ],
)
def test_an_account_that_cannot_be_is_refused(
    house: House, fields: dict[str, object], pointer: str
) -> None:
    whole = {"login": "ann", "name": "Ann", "role": Role.LEAD, "password": PASSWORD} | fields
    with pytest.raises(errors.InvalidRequest) as refused:
        house.people.create(ADMIN, **whole)
    assert [fault.pointer for fault in refused.value.faults] == [pointer]
    assert not house.people.all(ADMIN)


def test_the_last_admin_stays(house: House) -> None:
    house.ann(Role.ADMIN)
    for change in ({"disabled": True}, {"role": Role.LEAD}):
        with pytest.raises(errors.LastAdmin):
            house.people.change(ADMIN, "ann", **change)
    with house.begin() as transaction:
        transaction.keys.add(key(Role.ADMIN))
    house.people.change(ADMIN, "ann", role=Role.LEAD)


def test_nothing_to_change_leaves_no_trace(house: House) -> None:
    house.ann()
    before = house.events()
    house.people.change(ADMIN, "ann", name="Ann", disabled=False)
    assert house.events() == before


def test_no_two_sessions_have_one_token_and_only_digests_are_kept(house: House) -> None:
    house.ann()
    first, second = house.enter(), house.enter()
    assert first != second
    sessions: list[Session] = list(house.begin.contents.sessions.values())
    assert len({session.digest for session in sessions}) == 2
    assert not any(first.encode() in session.digest for session in sessions)
    assert all(s.expires_at - s.created_at == timedelta(hours=12) for s in sessions)


@pytest.mark.parametrize("role", Role)
def test_a_new_key_opens_what_its_role_may_do(house: House, role: Role) -> None:
    key, secret = house.keys.create(ADMIN, "somebody", role)
    assert house.keys.authenticate(secret) == Caller(key.id, "somebody", role)
    assert secret.startswith(key.prefix)
    assert len(secret) == len(f"sw_{role}_") + 43


def test_secrets_are_not_stored_and_never_twice_the_same(house: House) -> None:
    made = [house.keys.create(ADMIN, "somebody", Role.CLIENT)[1] for _ in range(3)]
    assert len(set(made)) == 3
    stored = repr(house.begin.contents)
    assert not any(secret in stored or secret[20:] in stored for secret in made)


@pytest.mark.parametrize("secret", ["", "sw_client_guess", "Bearer", "\x00\udcff"])
def test_a_guessed_secret_opens_nothing(house: House, secret: str) -> None:
    house.keys.create(ADMIN, "somebody", Role.CLIENT)
    with pytest.raises(errors.Unauthenticated, match="No key has this secret"):
        house.keys.authenticate(secret)


def test_a_revoked_key_opens_nothing_and_stays_on_record(house: House) -> None:
    key, secret = house.keys.create(ADMIN, "somebody", Role.CLIENT)
    house.now.advance(days=1)
    revoked = house.keys.revoke(ADMIN, key.id)
    assert revoked == replace(key, revoked_at=house.now())
    with pytest.raises(errors.Unauthenticated, match="revoked"):
        house.keys.authenticate(secret)
    house.now.advance(days=1)
    assert house.keys.revoke(ADMIN, key.id) == revoked
    assert house.keys.all(ADMIN) == [revoked]
    assert [action for action, _, _ in house.events()] == ["key.created", "key.revoked"]


def test_a_replaced_secret_works_for_a_day_and_an_older_one_stops(house: House) -> None:
    made, first = house.keys.create(SYSTEM, "billing", Role.CLIENT)
    _, second = house.keys.rotate(SYSTEM, made.id)
    assert {house.keys.authenticate(one).id for one in (first, second)} == {made.id}
    house.now.advance(days=1)
    with pytest.raises(errors.Unauthenticated, match="was replaced"):
        house.keys.authenticate(first)
    rotated, third = house.keys.rotate(SYSTEM, made.id)
    assert third.startswith(rotated.prefix)
    _, fourth = house.keys.rotate(SYSTEM, made.id)
    with pytest.raises(errors.Unauthenticated):
        house.keys.authenticate(second)
    assert {house.keys.authenticate(one).id for one in (third, fourth)} == {made.id}


def test_a_key_that_no_longer_works_gets_no_new_secret(house: House) -> None:
    made, secret = house.keys.create(SYSTEM, "billing", Role.CLIENT)
    _, other = house.keys.rotate(SYSTEM, made.id)
    house.keys.revoke(SYSTEM, made.id)
    with pytest.raises(errors.KeyNotFound):
        house.keys.rotate(SYSTEM, made.id)
    for one in (secret, other):
        with pytest.raises(errors.Unauthenticated, match="revoked"):
            house.keys.authenticate(one)


def test_the_last_use_of_a_key_is_known_to_within_an_hour(house: House) -> None:
    _, secret = house.keys.create(SYSTEM, "billing", Role.CLIENT)
    seen = [house.keys.all(SYSTEM)[0].last_used_at]
    for minutes in (0, 59, 1):
        house.now.advance(minutes=minutes)
        house.keys.authenticate(secret)
        seen.append(house.keys.all(SYSTEM)[0].last_used_at)
    start = seen[1]
    assert start is not None
    assert seen == [None, start, start, start + timedelta(hours=1)]


def test_the_last_admin_key_cannot_be_revoked(house: House) -> None:
    first, _ = house.keys.create(SYSTEM, "first", Role.ADMIN)
    second, _ = house.keys.create(SYSTEM, "second", Role.ADMIN)
    house.keys.create(SYSTEM, "client", Role.CLIENT)
    house.keys.revoke(SYSTEM, first.id)
    with pytest.raises(errors.LastAdmin):
        house.keys.revoke(SYSTEM, second.id)
    assert not house.keys.all(SYSTEM)[1].revoked


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\x00b"])
def test_a_key_needs_a_name_that_can_be_kept(house: House, name: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refusal:
        house.keys.create(ADMIN, name, Role.CLIENT)
    assert {fault.pointer for fault in refusal.value.faults} == {"/name"}


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.ADMIN])
def test_only_admins_erase_people(house: House, role: Role) -> None:
    with pytest.raises(errors.Forbidden):
        house.people.erase(Caller("1", "x", role), "ann")


def test_an_erased_person_leaves_an_id(begin: Transactions) -> None:
    """The same on every database."""
    people = building.people(begin)
    ann = people.create(
        SYSTEM, login="ann", name="Ann Lee", role=Role.LEAD, password=PASSWORD, external_id="id ann"
    )
    people.create(SYSTEM, login="boss", name="B", role=Role.ADMIN, password=None)
    erased = people.erase(ADMIN, "ann")
    with begin(read_only=True) as transaction:
        assert transaction.people.get(ann.id) == erased
    assert (erased.name, erased.password, erased.external_id) == ("erased person", None, None)
    assert "ann" not in erased.login.replace(ann.id, "")
    assert erased.disabled
    with pytest.raises(errors.PersonNotFound):
        people.erase(ADMIN, "ann")
    with pytest.raises(errors.LastAdmin):
        people.erase(ADMIN, "boss")
