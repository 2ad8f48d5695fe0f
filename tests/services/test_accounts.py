"""Accounts, signing in and out: who gets in, who does not, and what remains of it."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from setwise.service.domain.accounts import Session, SessionRule
from setwise.service.domain.callers import SYSTEM, Caller, KeyDigest, Role
from setwise.service.domain.errors import (
    Forbidden,
    InvalidRequest,
    LastAdmin,
    LoginTaken,
    PersonNotFound,
    TooManyRequests,
    Unauthenticated,
    WrongPassword,
)
from setwise.service.services.accounts import (
    NETWORK_BACKOFF,
    SIGN_IN_BACKOFF,
    ChangeOwnPassword,
    ChangePerson,
    CreatePerson,
    ListPeople,
    OpenSession,
    SetPassword,
    SignIn,
    SignOut,
)
from tests.fakes import FakeClock, FakeIds, FakePasswords
from tests.samples import ADMIN, ANN, CLIENT, LEAD, key
from tests.sqlite import Database

PASSWORD = "correct horse battery"
HERE, THERE = "192.0.2.1", "198.51.100.9"


@dataclass
class House:
    """The verbs on people, on a database in memory."""

    begin: Database = field(default_factory=Database)
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=FakeIds)
    passwords: FakePasswords = field(default_factory=FakePasswords)

    def __post_init__(self) -> None:
        office = (self.begin, self.now, self.new_id)
        tokens = (f"token {n}" for n in range(1_000))
        digest, rule = KeyDigest(b"pepper"), SessionRule()
        self.create = CreatePerson(*office, self.passwords)
        self.everybody = ListPeople(self.begin)
        self.change = ChangePerson(*office)
        self.set_password = SetPassword(*office, self.passwords)
        self.change_own = ChangeOwnPassword(*office, self.passwords)
        self.sign_in = SignIn(*office, digest, lambda: next(tokens), rule, self.passwords)
        self.open = OpenSession(self.begin, self.now, digest, rule)
        self.sign_out = SignOut(*office, digest)

    def ann(self, role: Role = Role.REVIEWER) -> str:
        person = self.create(SYSTEM, login="ann", name="Ann", role=role, password=PASSWORD)
        return person.id

    def enter(self, password: str = PASSWORD, *, address: str = HERE) -> str:
        return self.sign_in("Ann", password, address=address)[1]

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
    opened = house.open(token, address=THERE)
    assert opened.caller == Caller(ann, "Ann", Role.REVIEWER, THERE)
    house.sign_out(token, address=THERE)
    house.sign_out(token)
    with pytest.raises(Unauthenticated):
        house.open(token)
    assert house.events() == [
        ("person.created", ann, None),
        ("session.begun", ann, HERE),
        ("session.ended", ann, THERE),
    ]


def test_only_a_digest_of_the_token_is_kept(house: House) -> None:
    house.ann()
    token = house.enter()
    (session,) = house.begin.contents.sessions.values()
    assert token.encode() not in session.digest
    assert len(session.digest) == 32


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
            house.set_password(SYSTEM, ann, "another that is long enough")
        return hashed(password)

    house.passwords.hash = meanwhile  # type: ignore[method-assign]  # as above
    if same:
        assert house.open(house.enter()).caller.id == ann
    else:
        with pytest.raises(WrongPassword):
            house.enter()
    (person,) = house.everybody(SYSTEM)
    assert person.password == hashed(PASSWORD if same else "another that is long enough")


@pytest.mark.parametrize(("login", "password"), [("ann", "wrong"), ("bob", PASSWORD), ("", "")])
def test_a_wrong_name_and_a_wrong_password_look_alike(
    house: House, login: str, password: str
) -> None:
    house.ann()
    with pytest.raises(WrongPassword, match="name or the password"):
        house.sign_in(login, password, address=HERE)
    assert len(house.passwords.checked) == 1
    assert house.events()[-1][0::2] == ("session.refused", HERE)
    assert not house.begin.contents.sessions


def test_what_a_stranger_typed_is_not_kept(house: House) -> None:
    with pytest.raises(WrongPassword):
        house.sign_in("my secret by mistake", "another secret", address=HERE)
    kept = repr(house.begin.contents)
    assert "secret" not in kept


def test_a_disabled_person_is_out_at_once_and_for_good(house: House) -> None:
    ann = house.ann()
    token = house.enter()
    house.change(ADMIN, "ann", disabled=True)
    with pytest.raises(Unauthenticated):
        house.open(token)
    with pytest.raises(WrongPassword):
        house.enter()
    house.change(ADMIN, ann, disabled=False)
    house.open(house.enter())


def test_a_new_role_ends_sessions_a_new_name_does_not(house: House) -> None:
    house.ann()
    token = house.enter()
    house.change(ADMIN, "ann", name="Ann Lee")
    assert house.open(token).caller.name == "Ann Lee"
    house.change(ADMIN, "ann", role=Role.LEAD)
    with pytest.raises(Unauthenticated):
        house.open(token)
    assert house.open(house.enter()).caller.role is Role.LEAD


def test_guesses_are_slowed_and_then_stopped_without_a_look_at_the_password(house: House) -> None:
    house.ann()
    for _ in range(SIGN_IN_BACKOFF.free):
        with pytest.raises(WrongPassword):
            house.enter("wrong")
    checked = len(house.passwords.checked)
    with pytest.raises(TooManyRequests) as refused:
        house.enter()  # the right one, too early
    assert 0 < refused.value.retry_after_s <= 2
    assert len(house.passwords.checked) == checked
    house.now.advance(seconds=refused.value.retry_after_s)
    house.enter()
    with pytest.raises(WrongPassword):  # the count starts anew
        house.enter("wrong")


def test_a_guesser_locks_nobody_else_out(house: House) -> None:
    house.ann()
    for _ in range(SIGN_IN_BACKOFF.free + 1):
        with pytest.raises((WrongPassword, TooManyRequests)):
            house.enter("wrong", address=THERE)
    assert house.open(house.enter(address=HERE))


def test_a_network_that_tries_many_names_is_slowed_too(house: House) -> None:
    house.ann()
    for number in range(NETWORK_BACKOFF.free):
        with pytest.raises(WrongPassword):
            house.sign_in(f"name{number}", "wrong", address=THERE)
    with pytest.raises(TooManyRequests):
        house.enter(address=THERE)
    house.enter(address=HERE)


def test_an_office_that_signs_in_rightly_is_never_slowed(house: House) -> None:
    house.ann()
    for _ in range(NETWORK_BACKOFF.free + 10):
        house.enter()


def test_a_session_ends_by_itself_and_use_prolongs_it_to_a_limit(house: House) -> None:
    house.ann()
    idle = house.enter()
    house.now.advance(hours=2)
    with pytest.raises(Unauthenticated):
        house.open(idle)
    busy = house.enter()
    for _ in range(11):
        house.now.advance(hours=1)
        house.open(busy)
    house.now.advance(hours=1)
    with pytest.raises(Unauthenticated):
        house.open(busy)
    house.enter()
    assert len(house.begin.contents.sessions) == 1  # the ended ones are gone


def test_use_is_noted_once_a_minute(house: House) -> None:
    house.ann()
    token = house.enter()
    begun = house.now()
    house.now.advance(seconds=59)
    house.open(token)
    (session,) = house.begin.contents.sessions.values()
    assert session.seen_at == begun
    house.now.advance(seconds=1)
    house.open(token)
    (session,) = house.begin.contents.sessions.values()
    assert session.seen_at == house.now()


def test_a_hash_of_old_parameters_is_renewed_when_its_person_signs_in(house: House) -> None:
    house.ann()
    house.passwords.version = 2
    house.enter()
    (person,) = house.everybody(ADMIN)
    assert person.password is not None
    assert person.password.startswith("2:")
    house.enter()


def test_another_password_ends_every_session(house: House) -> None:
    house.ann()
    tokens = [house.enter(), house.enter()]
    house.set_password(ADMIN, "ANN", "another long password")
    for token in tokens:
        with pytest.raises(Unauthenticated):
            house.open(token)
    with pytest.raises(WrongPassword):
        house.enter()
    house.enter("another long password")


def test_changing_ones_own_password_keeps_this_session_only(house: House) -> None:
    house.ann()
    other, mine = house.enter(), house.enter()
    opened = house.open(mine)
    with pytest.raises(WrongPassword):
        house.change_own(opened.caller, opened.session, "wrong", "another long password")
    with pytest.raises(InvalidRequest) as weak:
        house.change_own(opened.caller, opened.session, PASSWORD, "short")
    assert [fault.pointer for fault in weak.value.faults] == ["/password"]
    house.change_own(opened.caller, opened.session, PASSWORD, "another long password")
    house.open(mine)
    with pytest.raises(Unauthenticated):
        house.open(other)
    house.enter("another long password")


def test_accents_may_be_composed_in_either_way(house: House) -> None:
    house.create(
        SYSTEM, login="zoe", name="Zoé", role=Role.LEAD, password="un re\u0301sume\u0301 long"
    )
    house.sign_in("zoe", "un r\u00e9sum\u00e9 long", address=HERE)


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
    with pytest.raises(InvalidRequest) as refused:
        house.create(ADMIN, **whole)
    assert [fault.pointer for fault in refused.value.faults] == [pointer]
    assert not house.everybody(ADMIN)


def test_a_login_name_is_taken_once(house: House) -> None:
    house.ann()
    with pytest.raises(LoginTaken):
        house.ann()


@pytest.mark.parametrize("who", ["nobody", "019b7a0b-0000-7000-8000-00000000ffff", "", "\x00"])
def test_nobody_is_nobody(house: House, who: str) -> None:
    with pytest.raises(PersonNotFound):
        house.change(ADMIN, who, disabled=True)
    with pytest.raises(PersonNotFound):
        house.set_password(ADMIN, who, PASSWORD)


@pytest.mark.parametrize("caller", [CLIENT, ANN, LEAD, Caller("9", "Aud", Role.AUDITOR)])
def test_only_admins_change_people(house: House, caller: Caller) -> None:
    house.ann()
    with pytest.raises(Forbidden):
        house.create(caller, login="x", name="X", role=Role.LEAD, password=PASSWORD)
    with pytest.raises(Forbidden):
        house.change(caller, "ann", disabled=True)
    with pytest.raises(Forbidden):
        house.set_password(caller, "ann", PASSWORD)
    if caller.role is Role.AUDITOR:
        assert house.everybody(caller)
    else:
        with pytest.raises(Forbidden):
            house.everybody(caller)


def test_the_last_admin_stays(house: House) -> None:
    house.ann(Role.ADMIN)
    for change in ({"disabled": True}, {"role": Role.LEAD}):
        with pytest.raises(LastAdmin):
            house.change(ADMIN, "ann", **change)
    with house.begin() as transaction:
        transaction.keys.add(key(Role.ADMIN))
        transaction.commit()
    house.change(ADMIN, "ann", role=Role.LEAD)


def test_nothing_to_change_leaves_no_trace(house: House) -> None:
    house.ann()
    before = house.events()
    house.change(ADMIN, "ann", name="Ann", disabled=False)
    assert house.events() == before


def test_a_session_of_nobody_opens_nothing(house: House) -> None:
    with pytest.raises(Unauthenticated):
        house.open("")


def test_a_session_is_not_begun_twice_by_the_same_token(house: House) -> None:
    house.ann()
    first, second = house.enter(), house.enter()
    assert first != second
    sessions: list[Session] = list(house.begin.contents.sessions.values())
    assert len({session.digest for session in sessions}) == 2
    assert all(s.expires_at - s.created_at == timedelta(hours=12) for s in sessions)
