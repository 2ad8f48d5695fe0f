"""Signing in and out, and the page on which people change their password.

Question: who are you?
"""

import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response

from setwise.service.api.http.dependencies import Edge, EdgeOf, ServicesOf
from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import ANONYMOUS
from setwise.service.domain.text import sentence
from setwise.service.pages.rendering import go, page
from setwise.service.pages.routes import PageRoute
from setwise.service.pages.visitors import LOGIN, local, who_may, who_sends
from setwise.service.sign_in.oidc import OpenIdConnect, SignInAttempt
from setwise.service.sign_in.sessions import Visit, from_request

Visits = Annotated[Visit, Depends(who_may())]
Sends = Annotated[Visit, Depends(who_sends())]

JOIN = "/join"
INVITED = f"{JOIN}?secret="
"""Where invitations lead; the log keeps paths without what follows the question mark."""

router = APIRouter(route_class=PageRoute)


@router.get(LOGIN)
def ask(edge: EdgeOf, request: Request, next: str = "/") -> Response:  # noqa: A002 -- its name in addresses
    """Show the sign-in form, unless the visitor is signed in."""
    try:
        edge.sessions.visit(request)
    except errors.Unauthenticated:
        return _form(edge, request, back=local(next))
    return go(local(next))


@router.post(LOGIN)
def sign_in(
    *,
    edge: EdgeOf,
    request: Request,
    login: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    back: Annotated[str, Form()] = "/",
    csrf: Annotated[str, Form()] = "",
) -> Response:
    """Begin a session, or say why not."""
    edge.sessions.check_form(request, csrf)
    try:
        signed_in, token = edge.services.sessions.sign_in(
            login,
            password,
            visitor=from_request(ANONYMOUS, request),
            device=edge.sessions.device(request),
        )
    except (errors.WrongPassword, errors.TooManyRequests) as error:
        return _form(edge, request, back=local(back), login=login, error=error)
    return _begun(edge, request, local(back), signed_in.person.login, token)


@router.post("/logout")
def sign_out(edge: EdgeOf, request: Request, visit: Sends) -> Response:
    """End the session."""
    edge.services.sessions.sign_out(visit.token, visit.caller)
    answer = go(LOGIN)
    edge.sessions.end(request, answer)
    return answer


@router.get(JOIN)
def invited(edge: EdgeOf, request: Request, secret: str = "") -> Response:
    """Ask who was invited for a password."""
    return _join(edge, request, secret)


@router.post(JOIN)
def join(
    *,
    edge: EdgeOf,
    request: Request,
    secret: Annotated[str, Form()] = "",
    new: Annotated[str, Form()] = "",
    again: Annotated[str, Form()] = "",
    csrf: Annotated[str, Form()] = "",
) -> Response:
    """Take the password, and begin a session."""
    edge.sessions.check_form(request, csrf)
    if new != again:
        return _join(edge, request, secret, "The passwords do not match.")
    visitor = from_request(ANONYMOUS, request)
    try:
        signed_in, token = edge.services.sessions.accept(secret, new, visitor=visitor)
    except errors.InvitationOver:
        return _join(edge, request, secret)
    except errors.InvalidRequest as error:
        return _join(edge, request, secret, _words(error))
    return _begun(edge, request, "/", signed_in.person.login, token)


def _begun(edge: Edge, request: Request, back: str, login: str, token: str) -> Response:
    answer = go(back)
    edge.sessions.begin(request, answer, token)
    edge.sessions.know(request, answer, login)
    return answer


def _join(edge: Edge, request: Request, secret: str, error: str = "") -> Response:
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error else HTTPStatus.OK
    person = None
    try:
        person = edge.services.sessions.invited(secret)
    except errors.InvitationOver as over:
        error, status = over.detail, HTTPStatus.NOT_FOUND
    values = {"person": person, "secret": secret, "error": error}
    return _door(edge, request, "join.html", values, status)


def _door(
    edge: Edge, request: Request, template: str, values: Mapping[str, object], status: HTTPStatus
) -> Response:
    """Return a page with a form for visitors who are not signed in."""
    bound = Response()
    csrf = edge.sessions.form_token(request, bound)
    context = {**values, "csrf": csrf, "external": edge.provider is not None}
    answer = page(template, context, status=status)
    answer.headers["Set-Cookie"] = bound.headers["Set-Cookie"]
    return answer


@router.get("/account")
def account(visit: Visits) -> Response:
    """Show who is signed in, and take another password."""
    return page("account.html", {"error": None, "done": False}, visit=visit)


@router.post("/account/password")
def change_password(
    *,
    services: ServicesOf,
    visit: Sends,
    old: Annotated[str, Form()] = "",
    new: Annotated[str, Form()] = "",
    again: Annotated[str, Form()] = "",
) -> Response:
    """Take another password; the person's other sessions end."""
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    wrong = None if new == again else "The new passwords do not match; nothing was changed."
    if wrong is None:
        try:
            services.sessions.change_password(visit.caller, visit.session, old, new)
        except (errors.WrongPassword, errors.InvalidRequest) as error:
            wrong = _words(error)
        except errors.TooManyRequests as error:
            wrong, status = error.detail, HTTPStatus.TOO_MANY_REQUESTS
    if wrong is None:
        status = HTTPStatus.OK
    return page("account.html", {"error": wrong, "done": wrong is None}, visit=visit, status=status)


def _form(
    edge: Edge,
    request: Request,
    *,
    back: str,
    login: str = "",
    error: errors.ServiceError | None = None,
) -> Response:
    status = HTTPStatus.OK
    if error is not None:
        late = isinstance(error, errors.TooManyRequests)
        status = HTTPStatus.TOO_MANY_REQUESTS if late else HTTPStatus.FORBIDDEN
    values = {"back": back, "login": login, "error": error and error.detail}
    answer = _door(edge, request, "login.html", values, status)
    if isinstance(error, errors.TooManyRequests):
        answer.headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    return answer


def _words(error: errors.ServiceError) -> str:
    faults = error.faults if isinstance(error, errors.InvalidRequest) else ()
    return " ".join([error.detail, *(sentence(f"It {fault.detail}") for fault in faults)])


CALLBACK = f"{LOGIN}/oidc/callback"


def _provider(edge: EdgeOf) -> OpenIdConnect:
    if edge.provider is None:
        raise errors.NotFound("This service has no identity provider.")
    return edge.provider


Provider = Annotated[OpenIdConnect, Depends(_provider)]


@router.get(f"{LOGIN}/oidc")
def leave(
    edge: EdgeOf,
    provider: Provider,
    request: Request,
    next: str = "/",  # noqa: A002 -- its name in addresses
) -> Response:
    """Send the browser to the provider."""
    attempt = SignInAttempt.begin(local(next))
    cookies = edge.sessions
    answer = go(provider.address(attempt, cookies.base(request) + CALLBACK))
    cookies.remember(request, answer, json.dumps(asdict(attempt)))
    return answer


@router.get(CALLBACK)
def arrive(
    *,
    edge: EdgeOf,
    provider: Provider,
    request: Request,
    code: str = "",
    state: str = "",
    error: str = "",
) -> Response:
    """Begin a session for the person whom the provider vouches for."""
    cookies = edge.sessions
    flow = cookies.recall(request)
    attempt = SignInAttempt(**json.loads(flow)) if flow else None
    if attempt is None or not hmac.compare_digest(state.encode(), attempt.state.encode()):
        raise errors.Unauthenticated(
            "This sign-in was started in another browser, or too long ago."
        )
    if error or not code:
        raise errors.Unauthenticated("The identity provider did not sign you in. Try again.")
    identity = provider.identify(code, attempt, cookies.base(request) + CALLBACK)
    visitor, back = from_request(ANONYMOUS, request), attempt.back
    if back.startswith(INVITED):
        secret, back = back.removeprefix(INVITED), "/"
        edge.services.sessions.accept_externally(secret, identity, visitor=visitor)
    _, token = edge.services.sessions.sign_in_externally(identity, visitor=visitor)
    answer = go(local(back))
    cookies.begin(request, answer, token)
    cookies.forget(request, answer)
    return answer
