"""API keys: make one, see its secret once, take it out of use."""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from setwise.service.domain.callers import PERMISSIONS, ApiKey, Permission, Role
from setwise.service.domain.errors import Conflict, InvalidRequest, KeyNotFound
from setwise.service.pages.board.frame import Question, done, framed
from setwise.service.pages.forms import Filled, filled
from setwise.service.pages.rendering import Page
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.administer import MOST_PER_MINUTE
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/keys"

SCOPES = {
    Permission.PREDICT: "post documents and read their predictions",
    Permission.READ_ALL_PREDICTIONS: "read the predictions of every client",
    Permission.READ_QUEUE: "read the queue",
    Permission.REVIEW: "claim and settle reviews",
    Permission.REPORT: "read reports",
    Permission.INSPECT: "read policy, models, keys and webhooks",
    Permission.READ_AUDIT_TRAIL: "read the audit trail",
    Permission.RUN_JOBS: "start jobs and read their results",
    Permission.ADMINISTER: "change all of these",
}
ROLES = {
    Role.CLIENT: "a program that sends documents",
    Role.REVIEWER: "a program that settles reviews",
    Role.LEAD: "reviews, and reads reports and all predictions",
    Role.ADMIN: "may do everything",
    Role.AUDITOR: "reads everything and changes nothing",
}

_PLACES = {
    "/name": "name",
    "/scopes": "scope",
    "/expires_at": "expires",
    "/per_minute": "per_minute",
}


def key_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the keys."""
    router = APIRouter(route_class=Page)

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT))],
        done: str = "",
    ) -> Response:
        """List the keys, and offer to make one."""
        return _page(verbs, visit, Filled.of(role=Role.CLIENT.value), notice=done)

    @router.post(HERE)
    def create(
        request: Request,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
        form: Annotated[Filled, Depends(filled)],
    ) -> Response:
        """Make a key and show its secret, this once."""
        role = form.choice("role", Role)
        scopes = _scopes(form)
        expires_at = form.day("expires")
        per_minute = form.whole("per_minute", 0, MOST_PER_MINUTE, needed=False)
        if role is not None and not form.faults:
            try:
                key, secret = verbs.create_key(
                    visit.caller,
                    form.text("name"),
                    role,
                    scopes=scopes,
                    expires_at=expires_at,
                    per_minute=per_minute,
                    request_id=request_id_of(request),
                )
            except InvalidRequest as error:
                form.refused(error, _PLACES)
            else:
                return framed(
                    "board_key_made.html",
                    {"key": key, "secret": secret},
                    visit=visit,
                    section=HERE,
                    status=HTTPStatus.CREATED,
                )
        return _page(verbs, visit, form, status=HTTPStatus.UNPROCESSABLE_ENTITY)

    @router.get(f"{HERE}/{{key_id}}/revoke")
    def ask(
        key_id: str, visit: Annotated[Visit, Depends(visitors.who_may(Permission.ADMINISTER))]
    ) -> Response:
        """Say what revoking a key does, and ask."""
        return _question(_known(verbs, visit, key_id)).ask(visit, HERE)

    @router.post(f"{HERE}/{{key_id}}/revoke")
    def revoke(
        request: Request,
        key_id: str,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Take a key out of use."""
        try:
            verbs.revoke_key(visit.caller, key_id, request_id=request_id_of(request))
        except Conflict as error:
            question = _question(_known(verbs, visit, key_id))
            return question.ask(visit, HERE, refusal=error.detail, status=HTTPStatus.CONFLICT)
        return done(HERE, "key-revoked")

    return router


def _known(verbs: Verbs, visit: Visit, key_id: str) -> ApiKey:
    found = next((key for key in verbs.list_keys(visit.caller) if key.id == key_id), None)
    if found is None:
        raise KeyNotFound(f"No key has the id {key_id!r}.")
    return found


def _page(
    verbs: Verbs,
    visit: Visit,
    form: Filled,
    *,
    notice: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    now = datetime.now(UTC)
    keys = verbs.list_keys(visit.caller)
    values = {
        "keys": [key for key in keys if _works(key, now)],
        "former": [key for key in keys if not _works(key, now)],
        "form": form,
        "roles": [(role.value, f"{role}: {meaning}") for role, meaning in ROLES.items()],
        "scopes": [(scope.value, scope.value, _who(scope)) for scope in SCOPES],
    }
    return framed(
        "board_keys.html", values, visit=visit, section=HERE, notice=notice, status=status
    )


def _works(key: ApiKey, now: datetime) -> bool:
    return not key.revoked and not key.expired(now)


def _who(scope: Permission) -> str:
    roles = ", ".join(role for role in Role if scope in PERMISSIONS[role])
    return f"To {SCOPES[scope]}. For {roles}."


def _scopes(form: Filled) -> frozenset[Permission] | None:
    """Return what the key is narrowed to; None where nothing is ticked, which leaves it whole."""
    ticked = form.all("scope")
    known = {scope.value for scope in Permission}
    if not set(ticked) <= known:
        form.blame("scope", "One of them is unknown; reload the page.")
        return None
    return frozenset(map(Permission, ticked)) or None


def _question(key: ApiKey) -> Question:
    return Question(
        heading=f"Revoke the key “{key.name}”?",
        will=(
            f"Whoever calls with {key.prefix}… is refused, within seconds.",
            "It cannot be undone: a revoked key never works again, and its secret is not stored.",
            "What was done with it stays, and the audit trail goes on naming it.",
        ),
        answer="Revoke it",
        address=f"{HERE}/{key.id}/revoke",
        back=HERE,
    )
