"""Keys and people: who calls the service, and who signs in."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Annotated

from markupsafe import Markup
from pydantic import BaseModel

from setwise.service.domain import errors
from setwise.service.domain.accounts import MOST_DAYS_INVITED, MOST_PER_MINUTE, ApiKey, Person
from setwise.service.domain.callers import PERMISSIONS, Permission, Role
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, Nothing, State
from setwise.service.pages.figures.numerals import plural
from setwise.service.pages.forms import Day, Input, whole

KEYS = "/board/keys"
PEOPLE = "/board/people"
DAYS = 7
"""How long an invitation is valid, unless somebody says otherwise."""
SOON = timedelta(days=14)
"""How long before a key expires someone should create the next one."""

SCOPES = {
    Permission.PREDICT: "post documents and read their predictions",
    Permission.READ_ALL_PREDICTIONS: "read the predictions of every client",
    Permission.READ_QUEUE: "read the queue",
    Permission.REVIEW: "claim and submit reviews",
    Permission.REPORT: "read reports",
    Permission.INSPECT: "read what administrators change, such as policy, models and keys",
    Permission.READ_AUDIT_TRAIL: "read the audit trail",
    Permission.RUN_JOBS: "start jobs and read their results",
    Permission.ADMINISTER: "change all of these",
}
KEY_ROLES = {
    Role.CLIENT: "a program that sends documents",
    Role.REVIEWER: "a program that submits reviews",
    Role.LEAD: "reviews, and reads reports and all predictions",
    Role.ADMIN: "may do everything",
    Role.AUDITOR: "reads everything and changes nothing",
}
ROLES = {
    Role.REVIEWER: "submits reviews at the desk",
    Role.LEAD: "reviews, decides between two answers, reads reports",
    Role.ADMIN: "may do everything",
    Role.AUDITOR: "reads everything and changes nothing",
}


def _choices(roles: dict[Role, str]) -> Sequence[tuple[str, str]]:
    return [(role.value, f"{role}: {meaning}") for role, meaning in roles.items()]


def _who(scope: Permission) -> str:
    roles = ", ".join(role for role in Role if scope in PERMISSIONS[role])
    return f"To {SCOPES[scope]}. For {roles}."


# Keys


class NewKey(BaseModel):
    """The form that creates a key."""

    name: Annotated[str, Input("Name", "Who it is for, as the audit trail shows it.")]
    role: Annotated[Role, Input("Role", widget="select", choices=_choices(KEY_ROLES))]
    expires: Annotated[
        Day | None,
        Input(
            "Valid until the end of",
            "A day in UTC. Leave empty for a key that never expires.",
            "date",
            pointers=("/expires_at",),
        ),
    ] = None
    per_minute: Annotated[
        int | None,
        whole(0, MOST_PER_MINUTE),
        Input("Requests per minute", "0 for no limit; leave empty for the default limit."),
    ] = None
    scope: Annotated[
        list[Permission],
        Input(
            "Allowed scopes (none selected: everything its role may do)",
            widget="boxes",
            choices=[(scope.value, scope.value, _who(scope)) for scope in SCOPES],
            pointers=("/scopes",),
            fold="Restrict to some scopes",
        ),
    ] = []


def _create_key(call: Call, form: NewKey) -> ui.View:
    key, secret = call.services.keys.create(
        call.caller,
        form.name,
        form.role,
        scopes=frozenset(form.scope) or None,
        expires_at=form.expires,
        per_minute=form.per_minute,
    )
    until = f", until {key.expires_at:%-d %B %Y, %H:%M} UTC" if key.expires_at else ""
    shown = ui.Secret(
        f"Key “{key.name}” created",
        "Copy its secret now. It is not stored and is never shown again.",
        secret,
        Markup("Programs send it as <code>Authorization: Bearer …</code>{}.").format(until),
        KEYS,
    )
    return ui.View("", (shown,), title="Key created", status=HTTPStatus.CREATED)


def _key(call: Call) -> ApiKey:
    key = next((key for key in call.services.keys.all(call.caller) if key.id == call.id), None)
    if key is None:
        raise errors.KeyNotFound(f"No key has the id {call.id!r}.")
    return key


def _rotate_question(call: Call) -> ui.Question:
    key = _key(call)
    return ui.Question(
        f"Replace the secret of the key “{key.name}”?",
        (
            "A new secret is shown once. Its rights, its limits and its history stay.",
            f"The old secret, {key.prefix}…, works for a day longer; change the program by then.",
            "A secret that was replaced before stops working now.",
        ),
        "Replace the secret",
        KEYS,
        danger=False,
    )


def _rotate_key(call: Call, _: Nothing) -> ui.View:
    key, secret = call.services.keys.rotate(call.caller, call.id)
    shown = ui.Secret(
        f"New secret of the key “{key.name}”",
        "Copy it now. It is not stored and is never shown again.",
        secret,
        ui.joined("The old secret works until ", ui.instant(key.old_expires_at, zone=True), "."),
        KEYS,
    )
    return ui.View("", (shown,), title="New secret")


def _revoke_question(call: Call) -> ui.Question:
    key = _key(call)
    return ui.Question(
        f"Revoke the key “{key.name}”?",
        (
            f"Requests with {key.prefix}… are refused within seconds.",
            "This cannot be undone: a revoked key never works again, and its secret is not stored.",
            "What was done with it stays, and the audit trail still names it.",
        ),
        "Revoke",
        KEYS,
    )


CREATE_KEY = Action(KEYS, _create_key, NewKey, heading="Create a key", label="Create")
ROTATE_KEY = Action(f"{KEYS}/{{key_id}}/rotate", _rotate_key, ask=_rotate_question)
REVOKE_KEY = Action(
    f"{KEYS}/{{key_id}}/revoke",
    lambda call, _: call.services.keys.revoke(call.caller, call.id),
    ask=_revoke_question,
    then=KEYS,
    notices={"key-revoked": "The key is revoked; every process refuses it within seconds."},
)


def _limits(key: ApiKey) -> Markup:
    scopes = f"only {', '.join(sorted(key.scopes))}" if key.scopes else ""
    rate = "" if key.per_minute is None else "no limit on requests"
    if key.per_minute:
        rate = f"{plural(key.per_minute, 'request')} per minute"
    return ui.joined(key.name, ui.sub(scopes), ui.sub(rate))


_IN_USE: Sequence[ui.Column[ApiKey]] = (
    ui.Column("Name", _limits, "head"),
    ui.Column("Role", lambda key: ui.joined(key.role, ui.sub(ui.code(f"{key.prefix}…")))),
    ui.Column("Last used", lambda key: ui.instant(key.last_used_at)),
    ui.Column(
        "Expires",
        lambda key: ui.joined(
            ui.instant(key.expires_at), ui.sub(f"created {key.created_at:%-d %b %Y}")
        ),
    ),
    ui.Column(
        "Change",
        lambda key: ui.joined(
            ui.row_link(f"{KEYS}/{key.id}/rotate", "Rotate", key.name),
            " ",
            ui.row_link(f"{KEYS}/{key.id}/revoke", "Revoke", key.name),
        ),
        "acts",
    ),
)
_FORMER: Sequence[ui.Column[ApiKey]] = (
    ui.Column("Name", lambda key: key.name, "head"),
    ui.Column("Role", lambda key: key.role),
    ui.Column("Begins with", lambda key: ui.code(f"{key.prefix}…")),
    ui.Column(
        "Since",
        lambda key: ui.joined(
            ui.instant(key.revoked_at or key.expires_at),
            ui.sub("revoked" if key.revoked else "expired"),
        ),
    ),
)


def _works(key: ApiKey, now: datetime) -> bool:
    return not key.revoked and not key.expired(now)


def _keys(call: Call) -> ui.View:
    now = datetime.now(UTC)
    keys = call.services.keys.all(call.caller)
    former = [key for key in keys if not _works(key, now)]
    parts: list[ui.Piece] = [
        ui.Table(
            "Keys in use",
            _IN_USE,
            [key for key in keys if _works(key, now)],
            "There are no working keys. Create one below for the program that sends documents.",
        ),
        call.form(CREATE_KEY, role=Role.CLIENT.value),
    ]
    if former:
        table = ui.Table("Former keys", _FORMER, former, gone=lambda _: True)
        parts.append(ui.More(plural(len(former), "former key"), [table]))
    lead = "Programs call the API with a key. Its secret is shown once, when it is created."
    return ui.View("Keys", parts, lead=lead)


def _keys_state(call: Call) -> State:
    now = datetime.now(UTC)
    working = [key for key in call.services.keys.all(call.caller) if _works(key, now)]
    ending = [key for key in working if key.expired(now + SOON)]
    if ending:
        return State(f"{ending[0].name} expires on {ending[0].expires_at:%-d %B}.", wrong=True)
    return State(f"{len(working):,} in use.")


# People


class NewPerson(BaseModel):
    """The form that creates an account."""

    name: Annotated[str, Input("Name", "As others see it.")]
    login: Annotated[str, Input("Login name", "What they type to sign in.")]
    role: Annotated[Role, Input("Role", widget="select", choices=_choices(ROLES))]
    days: Annotated[
        int,
        whole(1, MOST_DAYS_INVITED),
        Input("Link valid for days", "They set a password by a link, which works once."),
    ] = DAYS
    password: Annotated[
        str | None,
        Input("First password", "At least 12 characters; there is no link then.", "password"),
    ] = None


class ChangedPerson(BaseModel):
    """The form that changes a name and a role."""

    name: Annotated[str, Input("Name")]
    role: Annotated[
        Role,
        Input("Role", "A new role ends their sessions.", "select", choices=_choices(ROLES)),
    ]


class NewPassword(BaseModel):
    """The form that sets a password."""

    password: Annotated[
        str,
        Input("Password", "At least 12 characters. All sessions of the account end.", "password"),
    ]


def _person(call: Call) -> Person:
    people = call.services.people.all(call.caller)
    found = next((person for person in people if person.id == call.id), None)
    if found is None:
        raise errors.PersonNotFound(f"No account has the id {call.id!r}.")
    return found


def _create_person(call: Call, form: NewPerson) -> ui.View | None:
    person = call.services.people.create(
        call.caller, login=form.login, name=form.name, role=form.role, password=form.password
    )
    return None if form.password else _invitation(call, person.id, form.days)


def _invitation(call: Call, person_id: str, days: int) -> ui.View:
    person, secret = call.services.people.invite(call.caller, person_id, days)
    shown = ui.Secret(
        f"Invitation of {person.name}",
        "Send them this link. It is not stored and is never shown again.",
        f"{call.origin}/join?secret={secret}",
        ui.joined("They set a password there, once, until ", ui.instant(person.invited_until), "."),
        f"{PEOPLE}/{person.id}",
    )
    return ui.View("", (shown,), title="Invitation", status=HTTPStatus.CREATED)


def _invite_question(call: Call) -> ui.Question:
    person = _person(call)
    return ui.Question(
        f"Invite {person.name} by a new link?",
        (
            f"A link is shown once; it lets {person.name} set a password within {DAYS} days.",
            "An earlier link stops working.",
            "The present password, if there is one, works until then.",
        ),
        "Make the link",
        f"{PEOPLE}/{person.id}",
        danger=False,
    )


def _change_person(call: Call, form: ChangedPerson) -> None:
    person = _person(call)
    call.services.people.change(call.caller, person.id, name=form.name, role=form.role)


def _set_password(call: Call, form: NewPassword) -> None:
    person = _person(call)
    call.services.people.set_password(call.caller, person.id, form.password)


def _disable(call: Call, _: Nothing) -> None:
    person = _person(call)
    call.services.people.change(call.caller, person.id, disabled=True)


def _enable(call: Call, _: Nothing) -> None:
    person = _person(call)
    call.services.people.change(call.caller, person.id, disabled=False)


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
INVITE_AGAIN = Action(
    f"{_ONE}/invite",
    lambda call, _: _invitation(call, call.id, DAYS),
    ask=_invite_question,
)
CREATE_PERSON = Action(
    PEOPLE,
    _create_person,
    NewPerson,
    heading="Add somebody",
    label="Add",
    then=PEOPLE,
    notices={"person-created": "The account is created."},
    blames={errors.LoginTaken: "login"},
)
CHANGE_PERSON = Action(
    _ONE,
    _change_person,
    ChangedPerson,
    heading="Name and role",
    label="Save changes",
    then=_ONE,
    notices={"person-changed": "Your changes are saved."},
    blames={errors.Conflict: "role"},
)
SET_PASSWORD = Action(
    f"{_ONE}/password",
    _set_password,
    NewPassword,
    heading="New password",
    label="Set password",
    then=_ONE,
    notices={"password-set": "The password is set; all sessions of the account have ended."},
)
DISABLE = Action(
    f"{_ONE}/disable",
    _disable,
    ask=_disable_question,
    then=_ONE,
    notices={"person-disabled": "The account is disabled; all its sessions have ended."},
)
ENABLE = Action(
    f"{_ONE}/enable",
    _enable,
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
    form = call.form(CREATE_PERSON, role=Role.REVIEWER.value, days=str(DAYS))
    return ui.View("People", (table, form), lead="Who can sign in, and in which role.")


def _people_state(call: Call) -> State:
    people = call.services.people.all(call.caller)
    return State(f"{sum(not one.disabled for one in people):,} can sign in.")


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
        KEYS,
        _keys,
        (CREATE_KEY, ROTATE_KEY, REVOKE_KEY),
        name="Keys",
        meaning="What programs may call, and until when.",
        state=_keys_state,
    ),
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
