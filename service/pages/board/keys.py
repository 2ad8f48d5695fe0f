"""API keys: which programs call the service.

Question: which programs may call the service?
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from markupsafe import Markup

from setwise.models.figures.numerals import plural
from setwise.service.domain import errors
from setwise.service.domain.accounts import ApiKey
from setwise.service.domain.accounts.callers import Role
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, Nothing, SectionState
from setwise.service.requests.accounts import KeyRequest

KEYS = "/board/keys"
SOON = timedelta(days=14)
"""How long before a key expires someone should create the next one."""


def _create_key(call: Call, form: KeyRequest) -> ui.View:
    key, secret = form.create(call.services.keys, call.caller)
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


CREATE_KEY = Action(KEYS, _create_key, KeyRequest, heading="Create a key", label="Create")
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
        lambda key: ui.Menu(
            key.name,
            [ui.row_link(f"{KEYS}/{key.id}/revoke", "Revoke", key.name)],
            before=ui.row_link(f"{KEYS}/{key.id}/rotate", "Rotate", key.name),
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


def _keys_state(call: Call) -> SectionState:
    now = datetime.now(UTC)
    working = [key for key in call.services.keys.all(call.caller) if _works(key, now)]
    ending = [key for key in working if key.expired(now + SOON)]
    if ending:
        return SectionState(
            f"{ending[0].name} expires on {ending[0].expires_at:%-d %B}.", wrong=True
        )
    return SectionState(f"{len(working):,} in use.")


PAGES = (
    BoardPage(
        KEYS,
        _keys,
        (CREATE_KEY, ROTATE_KEY, REVOKE_KEY),
        name="Keys",
        meaning="What programs may call, and until when.",
        state=_keys_state,
    ),
)
