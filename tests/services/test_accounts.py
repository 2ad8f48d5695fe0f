"""Accounts, signing in and out: who gets in, who does not, and what remains of it."""

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import ANONYMOUS, SYSTEM, Caller, Role
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.kit.clinic import Clinic
from tests.samples import ADMIN, key

if TYPE_CHECKING:
    from setwise.service.domain.accounts import Session

PASSWORD = "correct horse battery"
HERE, THERE = "192.0.2.1", "198.51.100.9"
FROM_HERE = ANONYMOUS.calling_from(HERE)


@pytest.fixture
def clinic() -> Clinic:
    return Clinic()


def ann(clinic: Clinic, role: Role = Role.REVIEWER) -> str:
    """Make Ann's account; return its id."""
    return clinic.people.create(SYSTEM, login="ann", name="Ann", role=role, password=PASSWORD).id


def enter(clinic: Clinic, password: str = PASSWORD, *, address: str = HERE) -> str:
    return clinic.sessions.sign_in("Ann", password, visitor=ANONYMOUS.calling_from(address))[1]


def events(clinic: Clinic) -> list[tuple[str, str, str | None]]:
    stored = clinic.contents.events.values()
    return [(event.action, event.subject, event.address) for event in stored]


def test_a_session_stands_for_the_person_until_they_sign_out(clinic: Clinic) -> None:
    ann_id = ann(clinic)
    token = enter(clinic)
    sign_in = clinic.sessions.open(token, ANONYMOUS.calling_from(THERE))
    assert sign_in.caller == Caller(ann_id, "Ann", Role.REVIEWER, THERE)
    clinic.sessions.sign_out(token, ANONYMOUS.calling_from(THERE))
    clinic.sessions.sign_out(token)
    for ended in (token, ""):
        with pytest.raises(errors.Unauthenticated):
            clinic.sessions.open(ended)
    assert events(clinic) == [
        ("person.created", ann_id, None),
        ("session.begun", ann_id, HERE),
        ("session.ended", ann_id, THERE),
    ]


@pytest.mark.parametrize("same", [True, False])
def test_a_hash_that_is_replaced_meanwhile_opens_to_its_password(
    clinic: Clinic, same: bool
) -> None:
    """Somebody signs in twice at once after an update that hashes better; or changes it."""
    ann_id = ann(clinic)
    clinic.passwords.version = 2
    hashed_hash = clinic.passwords.hash

    def meanwhile(password: str) -> str:
        clinic.passwords.hash = hashed_hash  # type: ignore[method-assign]  # once
        if same:
            enter(clinic)
        else:
            clinic.people.change(SYSTEM, ann_id, password="another that is long enough")
        return hashed_hash(password)

    clinic.passwords.hash = meanwhile  # type: ignore[method-assign]  # as above
    if same:
        assert clinic.sessions.open(enter(clinic)).caller.id == ann_id
    else:
        with pytest.raises(errors.WrongPassword):
            enter(clinic)
    (person,) = clinic.people.all(SYSTEM)
    assert person.password == hashed_hash(PASSWORD if same else "another that is long enough")


@pytest.mark.parametrize(("login", "password"), [("ann", "wrong"), ("bob", PASSWORD), ("", "")])
def test_a_wrong_name_and_a_wrong_password_look_alike(
    clinic: Clinic, login: str, password: str
) -> None:
    ann(clinic)
    with pytest.raises(errors.WrongPassword, match="name or the password"):
        clinic.sessions.sign_in(login, password, visitor=FROM_HERE)
    assert len(clinic.passwords.checked) == 1
    assert events(clinic)[-1][0::2] == ("session.refused", HERE)
    assert not clinic.contents.sessions


def test_what_a_stranger_typed_is_not_kept(clinic: Clinic) -> None:
    with pytest.raises(errors.WrongPassword):
        clinic.sessions.sign_in("my secret by mistake", "another secret", visitor=FROM_HERE)
    kept = repr(clinic.contents)
    assert "secret" not in kept


def test_a_disabled_person_is_out_at_once_and_for_good(clinic: Clinic) -> None:
    ann_id = ann(clinic)
    token = enter(clinic)
    clinic.people.change(ADMIN, "ann", disabled=True)
    with pytest.raises(errors.Unauthenticated):
        clinic.sessions.open(token)
    with pytest.raises(errors.WrongPassword):
        enter(clinic)
    clinic.people.change(ADMIN, ann_id, disabled=False)
    clinic.sessions.open(enter(clinic))


def test_a_new_role_ends_sessions_a_new_name_does_not(clinic: Clinic) -> None:
    ann(clinic)
    token = enter(clinic)
    clinic.people.change(ADMIN, "ann", name="Ann Lee")
    assert clinic.sessions.open(token).caller.name == "Ann Lee"
    clinic.people.change(ADMIN, "ann", role=Role.LEAD)
    with pytest.raises(errors.Unauthenticated):
        clinic.sessions.open(token)
    assert clinic.sessions.open(enter(clinic)).caller.role is Role.LEAD


def test_a_session_ends_by_itself_and_use_prolongs_it_to_a_limit(clinic: Clinic) -> None:
    ann(clinic)
    idle = enter(clinic)
    clinic.now.advance(hours=2)
    with pytest.raises(errors.Unauthenticated):
        clinic.sessions.open(idle)
    busy = enter(clinic)
    for _ in range(11):
        clinic.now.advance(hours=1)
        clinic.sessions.open(busy)
    clinic.now.advance(hours=1)
    with pytest.raises(errors.Unauthenticated):
        clinic.sessions.open(busy)
    enter(clinic)
    assert len(clinic.contents.sessions) == 1  # the ended ones are gone


def test_use_is_noted_once_a_minute(clinic: Clinic) -> None:
    ann(clinic)
    token = enter(clinic)
    instant = clinic.now()
    clinic.now.advance(seconds=59)
    clinic.sessions.open(token)
    (session,) = clinic.contents.sessions.values()
    assert session.seen_at == instant
    clinic.now.advance(seconds=1)
    clinic.sessions.open(token)
    (session,) = clinic.contents.sessions.values()
    assert session.seen_at == clinic.now()


def test_a_hash_of_old_parameters_is_renewed_when_its_person_signs_in(clinic: Clinic) -> None:
    ann(clinic)
    clinic.passwords.version = 2
    enter(clinic)
    (person,) = clinic.people.all(ADMIN)
    assert person.password is not None
    assert person.password.startswith("2:")
    enter(clinic)


def test_another_password_ends_every_session(clinic: Clinic) -> None:
    ann(clinic)
    tokens = [enter(clinic), enter(clinic)]
    clinic.people.change(ADMIN, "ANN", password="another long password")
    for token in tokens:
        with pytest.raises(errors.Unauthenticated):
            clinic.sessions.open(token)
    with pytest.raises(errors.WrongPassword):
        enter(clinic)
    enter(clinic, "another long password")


def test_changing_ones_own_password_keeps_this_session_only(clinic: Clinic) -> None:
    ann(clinic)
    other, mine = enter(clinic), enter(clinic)
    sign_in = clinic.sessions.open(mine)
    with pytest.raises(errors.WrongPassword):
        clinic.sessions.change_password(
            sign_in.caller, sign_in.session, "wrong", "another long password"
        )
    with pytest.raises(errors.InvalidRequest) as weak:
        clinic.sessions.change_password(sign_in.caller, sign_in.session, PASSWORD, "short")
    assert [fault.pointer for fault in weak.value.faults] == ["/password"]
    clinic.sessions.change_password(
        sign_in.caller, sign_in.session, PASSWORD, "another long password"
    )
    clinic.sessions.open(mine)
    with pytest.raises(errors.Unauthenticated):
        clinic.sessions.open(other)
    enter(clinic, "another long password")


def test_accents_may_be_composed_in_either_way(clinic: Clinic) -> None:
    clinic.people.create(
        SYSTEM, login="zoe", name="Zoé", role=Role.LEAD, password="un re\u0301sume\u0301 long"
    )
    clinic.sessions.sign_in("zoe", "un r\u00e9sum\u00e9 long", visitor=FROM_HERE)


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
    clinic: Clinic, fields: dict[str, object], pointer: str
) -> None:
    whole = {"login": "ann", "name": "Ann", "role": Role.LEAD, "password": PASSWORD} | fields
    with pytest.raises(errors.InvalidRequest) as error:
        clinic.people.create(ADMIN, **whole)
    assert [fault.pointer for fault in error.value.faults] == [pointer]
    assert not clinic.people.all(ADMIN)


def test_the_last_admin_stays(clinic: Clinic) -> None:
    ann(clinic, Role.ADMIN)
    for change in ({"disabled": True}, {"role": Role.LEAD}):
        with pytest.raises(errors.LastAdmin):
            clinic.people.change(ADMIN, "ann", **change)
    with clinic.begin() as transaction:
        transaction.keys.add(key(Role.ADMIN))
    clinic.people.change(ADMIN, "ann", role=Role.LEAD)


def test_nothing_to_change_leaves_no_trace(clinic: Clinic) -> None:
    ann(clinic)
    before = events(clinic)
    clinic.people.change(ADMIN, "ann", name="Ann", disabled=False)
    assert events(clinic) == before


def test_no_two_sessions_have_one_token_and_only_digests_are_kept(clinic: Clinic) -> None:
    ann(clinic)
    first, second = enter(clinic), enter(clinic)
    assert first != second
    sessions: list[Session] = list(clinic.contents.sessions.values())
    assert len({session.digest for session in sessions}) == 2
    assert not any(first.encode() in session.digest for session in sessions)
    assert all(s.expires_at - s.created_at == timedelta(hours=12) for s in sessions)


@pytest.mark.parametrize("role", Role)
def test_a_new_key_opens_what_its_role_may_do(clinic: Clinic, role: Role) -> None:
    key, secret = clinic.keys.create(ADMIN, "somebody", role)
    assert clinic.keys.authenticate(secret) == Caller(key.id, "somebody", role)
    assert secret.startswith(key.prefix)
    assert len(secret) == len(f"sw_{role}_") + 43


def test_secrets_are_not_stored_and_never_twice_the_same(clinic: Clinic) -> None:
    made = [clinic.keys.create(ADMIN, "somebody", Role.CLIENT)[1] for _ in range(3)]
    assert len(set(made)) == 3
    stored = repr(clinic.contents)
    assert not any(secret in stored or secret[20:] in stored for secret in made)


@pytest.mark.parametrize("secret", ["", "sw_client_guess", "Bearer", "\x00\udcff"])
def test_a_guessed_secret_opens_nothing(clinic: Clinic, secret: str) -> None:
    clinic.keys.create(ADMIN, "somebody", Role.CLIENT)
    with pytest.raises(errors.Unauthenticated, match="No key has this secret"):
        clinic.keys.authenticate(secret)


def test_a_revoked_key_opens_nothing_and_stays_on_record(clinic: Clinic) -> None:
    key, secret = clinic.keys.create(ADMIN, "somebody", Role.CLIENT)
    clinic.now.advance(days=1)
    revoked_key = clinic.keys.revoke(ADMIN, key.id)
    assert revoked_key == replace(key, revoked_at=clinic.now())
    with pytest.raises(errors.Unauthenticated, match="revoked"):
        clinic.keys.authenticate(secret)
    clinic.now.advance(days=1)
    assert clinic.keys.revoke(ADMIN, key.id) == revoked_key
    assert clinic.keys.all(ADMIN) == [revoked_key]
    assert [action for action, _, _ in events(clinic)] == ["key.created", "key.revoked"]


def test_a_replaced_secret_works_for_a_day_and_an_older_one_stops(clinic: Clinic) -> None:
    key, first = clinic.keys.create(SYSTEM, "billing", Role.CLIENT)
    _, second = clinic.keys.rotate(SYSTEM, key.id)
    assert {clinic.keys.authenticate(one).id for one in (first, second)} == {key.id}
    clinic.now.advance(days=1)
    with pytest.raises(errors.Unauthenticated, match="was replaced"):
        clinic.keys.authenticate(first)
    rotated_key, third = clinic.keys.rotate(SYSTEM, key.id)
    assert third.startswith(rotated_key.prefix)
    _, fourth = clinic.keys.rotate(SYSTEM, key.id)
    with pytest.raises(errors.Unauthenticated):
        clinic.keys.authenticate(second)
    assert {clinic.keys.authenticate(one).id for one in (third, fourth)} == {key.id}


def test_a_key_that_no_longer_works_gets_no_new_secret(clinic: Clinic) -> None:
    key, secret = clinic.keys.create(SYSTEM, "billing", Role.CLIENT)
    _, other = clinic.keys.rotate(SYSTEM, key.id)
    clinic.keys.revoke(SYSTEM, key.id)
    with pytest.raises(errors.KeyNotFound):
        clinic.keys.rotate(SYSTEM, key.id)
    for one in (secret, other):
        with pytest.raises(errors.Unauthenticated, match="revoked"):
            clinic.keys.authenticate(one)


def test_the_last_use_of_a_key_is_known_to_within_an_hour(clinic: Clinic) -> None:
    _, secret = clinic.keys.create(SYSTEM, "billing", Role.CLIENT)
    instants = [clinic.keys.all(SYSTEM)[0].last_used_at]
    for minutes in (0, 59, 1):
        clinic.now.advance(minutes=minutes)
        clinic.keys.authenticate(secret)
        instants.append(clinic.keys.all(SYSTEM)[0].last_used_at)
    start = instants[1]
    assert start is not None
    assert instants == [None, start, start, start + timedelta(hours=1)]


def test_the_last_admin_key_cannot_be_revoked(clinic: Clinic) -> None:
    first, _ = clinic.keys.create(SYSTEM, "first", Role.ADMIN)
    second, _ = clinic.keys.create(SYSTEM, "second", Role.ADMIN)
    clinic.keys.create(SYSTEM, "client", Role.CLIENT)
    clinic.keys.revoke(SYSTEM, first.id)
    with pytest.raises(errors.LastAdmin):
        clinic.keys.revoke(SYSTEM, second.id)
    assert not clinic.keys.all(SYSTEM)[1].revoked


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\x00b"])
def test_a_key_needs_a_name_that_can_be_kept(clinic: Clinic, name: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refusal:
        clinic.keys.create(ADMIN, name, Role.CLIENT)
    assert {fault.pointer for fault in refusal.value.faults} == {"/name"}


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.ADMIN])
def test_only_admins_erase_people(clinic: Clinic, role: Role) -> None:
    with pytest.raises(errors.Forbidden):
        clinic.people.erase(Caller("1", "x", role), "ann")


def test_an_erased_person_leaves_an_id(begin: Transactions) -> None:
    """The same on every database."""
    people = building.people(begin)
    ann = people.create(
        SYSTEM, login="ann", name="Ann Lee", role=Role.LEAD, password=PASSWORD, external_id="id ann"
    )
    people.create(SYSTEM, login="boss", name="B", role=Role.ADMIN, password=None)
    person = people.erase(ADMIN, "ann")
    with begin(read_only=True) as transaction:
        assert transaction.people.get(ann.id) == person
    assert (person.name, person.password, person.external_id) == ("erased person", None, None)
    assert "ann" not in person.login.replace(ann.id, "")
    assert person.disabled
    with pytest.raises(errors.PersonNotFound):
        people.erase(ADMIN, "ann")
    with pytest.raises(errors.LastAdmin):
        people.erase(ADMIN, "boss")
