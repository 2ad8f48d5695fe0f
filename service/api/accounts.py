"""Routes for people, API keys and erasures."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, listed_wholly, needs
from setwise.service.api.http.idempotency import shown_once
from setwise.service.api.http.openapi import documented
from setwise.service.api.schemas import WhollyListed
from setwise.service.api.views import AnswerBody, View
from setwise.service.domain import accounts
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import KeyNotFound, LastAdmin, LoginTaken, PersonNotFound
from setwise.service.requests import RequestBody
from setwise.service.requests.accounts import (
    InvitationRequest,
    KeyRequest,
    PersonChange,
    PersonRequest,
)
from setwise.service.services.documents.texts import Erasure

router = APIRouter(prefix="/v1/admin", tags=["access"], route_class=StrictRoute)


class PersonBody(
    View, of=accounts.Person, shows="id login name role created_at disabled_at invited_until"
):
    """A person who signs in."""


class PersonPage(WhollyListed[PersonBody]):
    """Every person, by login name."""


class Invitation(AnswerBody):
    """An invitation, whose link is shown only once."""

    person: PersonBody
    path: str = Field(
        description="Below the address of the service: the page on which the person sets a "
        "password, once."
    )


class Key(
    View,
    of=accounts.ApiKey,
    shows="id name role prefix scopes per_minute created_at expires_at revoked_at last_used_at "
    "old_expires_at",
):
    """An API key, without its secret."""

    scopes: Annotated[list[Permission], AfterValidator(sorted)] | None = Field(
        description="The only permissions of its role that it has; null for all of them."
    )


class IssuedKey(AnswerBody):
    """A new key with its secret, which is shown only once."""

    details: Key
    key: str = Field(description="The secret; send it as `Authorization: Bearer KEY`.")


class KeyPage(WhollyListed[Key]):
    """All keys, newest first."""


class ErasureRequest(RequestBody):
    """A document to erase."""

    document_id: str | None = Field(
        None, max_length=200, description="The id that its sender gave it."
    )
    prediction_id: str | None = Field(
        None,
        max_length=200,
        description="Instead: one prediction, such as one whose document has no id.",
    )


@router.post("/erasures", response_model=Erasure, dependencies=[needs(Permission.ADMINISTER)])
def erase_document(caller: CallerOf, body: ErasureRequest, services: ServicesOf) -> Response:
    """Erase a document.

    This deletes its text, features, metadata, comments, id and idempotency keys, also from messages
    and their log; a job removes it from the files of jobs. Labels and numbers are kept;
    `labels` are those that may have to go too.
    """
    return answer(
        services.texts.erase(caller, document_id=body.document_id, prediction_id=body.prediction_id)
    )


@router.get(
    "/people",
    response_model=PersonPage,
    dependencies=[needs(Permission.INSPECT)],
)
def list_people(caller: CallerOf, services: ServicesOf) -> Response:
    """List all people, including disabled ones, in one page."""
    return listed_wholly(map(PersonBody.show, services.people.all(caller)))


@router.post(
    "/people",
    status_code=201,
    response_model=PersonBody,
    responses=documented(LoginTaken),
    dependencies=[needs(Permission.ADMINISTER)],
)
def create_person(caller: CallerOf, body: PersonRequest, services: ServicesOf) -> Response:
    """Create an account for a person."""
    person = services.people.create(
        caller,
        login=body.login,
        name=body.name,
        role=body.role,
        password=None if body.password is None else body.password.get_secret_value(),
    )
    return answer(PersonBody.show(person), status=201)


@router.post(
    "/people/{person_id}/invite",
    status_code=201,
    response_model=Invitation,
    responses=documented(PersonNotFound),
    dependencies=[needs(Permission.ADMINISTER)],
)
def invite_person(
    caller: CallerOf, person_id: str, body: InvitationRequest, services: ServicesOf
) -> Response:
    """Invite a person by a link, which lets them set a password once.

    An earlier link stops working; the current password works until the person sets a new one.
    """

    def respond(person: accounts.Person, secret: str) -> Response:
        invitation = Invitation(person=PersonBody.show(person), path=f"/join?secret={secret}")
        return answer(invitation, status=201)

    invite = partial(services.people.invite, caller, person_id, body.days)
    return shown_once(services, respond, invite)


@router.patch(
    "/people/{person_id}",
    response_model=PersonBody,
    responses=documented(PersonNotFound, LastAdmin),
    dependencies=[needs(Permission.ADMINISTER)],
)
def change_person(
    caller: CallerOf, person_id: str, body: PersonChange, services: ServicesOf
) -> Response:
    """Change a person's name, role or password, or disable the account.

    A new role, a new password and disabling end the person's sessions at once.
    """
    return answer(PersonBody.show(body.change(services.people, caller, person_id)))


@router.get(
    "/keys",
    response_model=KeyPage,
    dependencies=[needs(Permission.INSPECT)],
)
def list_keys(caller: CallerOf, services: ServicesOf) -> Response:
    """List all API keys without their secrets, newest first, in one page."""
    return listed_wholly(map(Key.show, services.keys.all(caller)))


@router.post(
    "/keys", status_code=201, response_model=IssuedKey, dependencies=[needs(Permission.ADMINISTER)]
)
def create_key(caller: CallerOf, body: KeyRequest, services: ServicesOf) -> Response:
    """Create an API key; its secret is shown only in this response."""
    return shown_once(
        services, partial(_issued, status=201), partial(body.create, services.keys, caller)
    )


@router.post(
    "/keys/{key_id}/rotate",
    response_model=IssuedKey,
    responses=documented(KeyNotFound),
    dependencies=[needs(Permission.ADMINISTER)],
)
def rotate_key(caller: CallerOf, key_id: str, services: ServicesOf) -> Response:
    """Replace the secret of an API key; the old one works for a day longer.

    The new secret is shown only in this response.
    """
    return shown_once(services, _issued, partial(services.keys.rotate, caller, key_id))


def _issued(key: accounts.ApiKey, secret: str, status: int = 200) -> Response:
    return answer(IssuedKey(details=Key.show(key), key=secret), status=status)


@router.post(
    "/keys/{key_id}/revoke",
    response_model=Key,
    responses=documented(KeyNotFound, LastAdmin),
    dependencies=[needs(Permission.ADMINISTER)],
)
def revoke_key(caller: CallerOf, key_id: str, services: ServicesOf) -> Response:
    """Revoke an API key permanently; every process follows within seconds."""
    return answer(Key.show(services.keys.revoke(caller, key_id)))
