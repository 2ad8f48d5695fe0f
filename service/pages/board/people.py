"""People: who signs in, and in which role.

Question: who may sign in, and in which role?
"""

from collections.abc import Sequence
from http import HTTPStatus

from markupsafe import Markup

from setwise.service.domain import errors
from setwise.service.domain.accounts import Person
from setwise.service.domain.accounts.callers import Permission, Role
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, SectionState
from setwise.service.requests.accounts import (
    DAYS_INVITED,
    InvitationRequest,
    PersonChange,
    PersonRequest,
)

PEOPLE = "/board/people"


class NewPerson(PersonRequest, InvitationRequest):
    """The form that creates an account, or invites to one."""


def _person(call: Call) -> Person:
    people = call.services.people.all(call.caller)
    for person in people:
        if person.id == call.id:
            return person
    raise errors.PersonNotFound(f"No account has the id {call.id!r}.")


def _create_person(call: Call, form: NewPerson) -> ui.View | None:
    people, caller = call.services.people, call.caller
    about = {"login": form.login, "name": form.name}
    if form.password:
        people.create(caller, **about, role=form.role, password=form.password.get_secret_value())
        return None
    return _invitation(
        call, *people.create_invited(caller, **about, role=form.role, days=form.days)
    )


def _invite(call: Call, _: object) -> ui.View:
    return _invitation(call, *call.services.people.invite(call.caller, call.id, DAYS_INVITED))


def _invitation(call: Call, person: Person, secret: str) -> ui.View:
    shown = ui.Secret(
        f"Invitation for {person.name}",
        "Send them this link. It is not stored and is never shown again.",
        f"{call.origin}/join?secret={secret}",
        ui.joined("They set a password there, once, until ", ui.instant(person.invited_until), "."),
        f"{PEOPLE}/{person.id}",
    )
    return ui.View("", (shown,), title="Invitation", status=HTTPStatus.CREATED)


def _invite_question(call: Call) -> ui.Question:
    person = _person(call)
    return ui.Question(
        f"Create a new invitation link for {person.name}?",
        (
            (
                f"A link is shown once; it lets {person.name} set a password within {DAYS_INVITED} "
                "days."
            ),
            "An earlier link stops working.",
            "The current password, if there is one, works until then.",
        ),
        "Create the link",
        f"{PEOPLE}/{person.id}",
        danger=False,
    )


def _change_person(call: Call, form: PersonChange) -> None:
    form.change(call.services.people, call.caller, _person(call).id)


def _disable_question(call: Call) -> ui.Question:
    person = _person(call)
    return ui.Question(
        f"Disable the account of {person.name}?",
        (
            f"{person.name} ({person.login}) is signed out everywhere and cannot sign in again.",
            "Documents they hold return to the queue when their leases expire.",
            "Their work stays under their name, and you can enable the account again.",
        ),
        "Disable",
        f"{PEOPLE}/{person.id}",
    )


_ONE = f"{PEOPLE}/{{person_id}}"
INVITE_AGAIN = Action(f"{_ONE}/invite", _invite, ask=_invite_question)
CREATE_PERSON = Action(
    PEOPLE,
    _create_person,
    NewPerson,
    ("name", "login", "role", "days", "password"),
    heading="Add a person",
    label="Add",
    then=PEOPLE,
    notices={"person-created": "The account is created."},
    blames={errors.LoginTaken: "login"},
)
CHANGE_PERSON = Action(
    _ONE,
    _change_person,
    PersonChange,
    ("name", "role"),
    heading="Name and role",
    label="Save changes",
    then=_ONE,
    notices={"person-changed": "Your changes are saved."},
    blames={errors.Conflict: "role"},
)
SET_PASSWORD = Action(
    f"{_ONE}/password",
    _change_person,
    PersonChange,
    ("password",),
    heading="New password",
    label="Set password",
    then=_ONE,
    notices={"password-set": "The password is set; all sessions of the account have ended."},
)
DISABLE = Action(
    f"{_ONE}/disable",
    lambda call, _: call.services.people.change(call.caller, _person(call).id, disabled=True),
    ask=_disable_question,
    then=_ONE,
    notices={"person-disabled": "The account is disabled; all its sessions have ended."},
)
ENABLE = Action(
    f"{_ONE}/enable",
    lambda call, _: call.services.people.change(call.caller, _person(call).id, disabled=False),
    then=_ONE,
    notices={"person-enabled": "The account is enabled."},
)


def _signs_in(person: Person) -> str:
    if person.external_id:
        return "the identity provider"
    return "a password" if person.password else "nothing yet"


def _account_state(person: Person) -> Markup:
    if person.disabled:
        return ui.badge("disabled", "bad")
    waits = not (person.password or person.external_id)
    return ui.badge("invited", "warn") if waits else ui.badge("active", "good")


_ACCOUNTS: Sequence[ui.Column[Person]] = (
    ui.Column("Name", lambda person: ui.link(f"{PEOPLE}/{person.id}", person.name), "head"),
    ui.Column("Login name", lambda person: person.login),
    ui.Column("Role", lambda person: person.role),
    ui.Column("Created", lambda person: person.created_at),
    ui.Column("State", _account_state),
)


def _people(call: Call) -> ui.View:
    table = ui.Table(
        "People",
        _ACCOUNTS,
        call.services.people.all(call.caller),
        "There are no accounts yet. Create the first one below.",
        gone=lambda person: person.disabled,
    )
    form = call.form(CREATE_PERSON, role=Role.REVIEWER.value, days=str(DAYS_INVITED))
    return ui.View("People", (table, form), lead="Who can sign in, and in which role.")


def _people_state(call: Call) -> SectionState:
    people = call.services.people.all(call.caller)
    return SectionState(f"{sum(not person.disabled for person in people):,} can sign in.")


def _one_person(call: Call) -> ui.View:
    person = _person(call)
    here = f"{PEOPLE}/{person.id}"
    facts: list[tuple[str, object]] = [
        ("Login name", person.login),
        ("Role", person.role),
        ("Created", ui.instant(person.created_at, zone=True)),
        ("Disabled", ui.instant(person.disabled_at, zone=True) if person.disabled else None),
        ("Signs in with", _signs_in(person)),
        ("Invited until", person.invited_until and ui.instant(person.invited_until, zone=True)),
    ]
    parts: list[ui.Piece] = [ui.Facts(facts)]
    if call.caller.may(Permission.READ_AUDIT_TRAIL):
        address = f"/board/audit?actor={person.id}"
        parts.append(ui.text(ui.link(address, f"What {person.name} has done")))
    if call.caller.may(Permission.ADMINISTER):
        if person.id == call.caller.id:
            parts.append(ui.text("This is your own account.", "note"))
        parts += [
            call.form(CHANGE_PERSON, name=person.name, role=person.role.value),
            call.form(SET_PASSWORD),
        ]
        says, button = (
            (
                f"Enable the account to let {person.name} sign in again.",
                ui.Press("Enable account", f"{here}/enable"),
            )
            if person.disabled
            else (
                "Disable the accounts of people who have left.",
                ui.Go("Disable account", f"{here}/disable"),
            )
        )
        invite = () if person.disabled else (ui.Go("New invitation", f"{here}/invite"),)
        parts.append(ui.Card("Account", (ui.text(says), ui.Buttons((button, *invite)))))
    return ui.View(person.name, parts, badge=_account_state(person))


PAGES = (
    BoardPage(
        PEOPLE,
        _people,
        (CREATE_PERSON,),
        name="People",
        meaning="Who can sign in, and in which role.",
        state=_people_state,
    ),
    BoardPage(
        _ONE,
        _one_person,
        (CHANGE_PERSON, INVITE_AGAIN, SET_PASSWORD, DISABLE, ENABLE),
        section=PEOPLE,
    ),
)
