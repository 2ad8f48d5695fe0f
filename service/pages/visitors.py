"""The visitor of a page, and the permissions they need.

A router of pages is made with ``APIRouter(route_class=Page)``::

    @router.get("/desk")
    def show(
        services: ServicesOf, visit: Annotated[Visit, Depends(who_may(Permission.REVIEW))]
    ) -> Response:
        task = services.queue.claim(visit.caller)
        return page("desk.html", {"csrf": visit.csrf, …}, visit=visit)

    @router.post("/desk/skip")
    def skip(visit: Annotated[Visit, Depends(who_sends(Permission.REVIEW))]) -> …:
        …

`who_may` is for reading: without a session the browser goes to ``/login?next=…`` and back
afterwards. `who_sends` is for changes: it also refuses requests that did not come from our
pages, so a form carries ``<input type="hidden" name="csrf" value="{{ csrf }}">`` and a script sends
the header ``X-CSRF-Token`` with the value of ``<meta name="csrf-token">``. Calls under ``/v1`` take
the same cookie and header.
Refusals become pages, or problems for scripts; `Page` sees to that.
"""

from collections.abc import Callable
from typing import Annotated

from fastapi import Form, Header, Request

from setwise.service.api.http.dependencies import edge_of
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import Unauthenticated
from setwise.service.sign_in.sessions import SAFE_METHODS, Visit

LOGIN = "/login"


class SignInFirst(Exception):
    """A page was requested without a session.

    ``back``: The address of the page.
    """

    def __init__(self, back: str) -> None:
        super().__init__(back)
        self.back = back


def who_may(*needed: Permission) -> Callable[[Request], Visit]:
    """Return a dependency: a visitor with one of the permissions ``needed``.

    It raises `SignInFirst` or `setwise.service.domain.errors.Forbidden`.
    """

    def visitor(request: Request) -> Visit:
        return _let_in(request, needed)

    return visitor


def who_sends(*needed: Permission) -> Callable[..., Visit]:
    """Return a dependency as `who_may` does, for requests that change something.

    It raises `setwise.service.domain.errors.ForgedRequest` besides.
    """

    def visitor(
        request: Request,
        csrf: Annotated[str, Form()] = "",
        x_csrf_token: Annotated[str, Header()] = "",
    ) -> Visit:
        visit = _let_in(request, needed)
        edge_of(request).sessions.check(request, visit, x_csrf_token or csrf)
        return visit

    return visitor


def whose_script_sends(*needed: Permission) -> Callable[..., Visit]:
    """Return a dependency as `who_sends` does, for JSON: the token is in the header alone."""

    def visitor(request: Request, x_csrf_token: Annotated[str, Header()] = "") -> Visit:
        visit = _let_in(request, needed)
        edge_of(request).sessions.check(request, visit, x_csrf_token)
        return visit

    return visitor


def _let_in(request: Request, needed: tuple[Permission, ...]) -> Visit:
    try:
        visit = edge_of(request).sessions.visit(request)
    except Unauthenticated as error:
        raise SignInFirst(_asked_for(request)) from error
    request.state.visit = visit
    if needed:
        visit.caller.require(*needed)
    return visit


def visitor_of(request: Request) -> Visit | None:
    """Return the visitor of a request, even of a refused one; None without a session."""
    visit: Visit | None = getattr(request.state, "visit", None)
    return visit


def _asked_for(request: Request) -> str:
    if request.method not in SAFE_METHODS:
        return "/"  # what was sent cannot be sent again by going there
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{request.url.path}{query}"


def local(address: str) -> str:
    r"""Return an address on this site to go to; whatever leads elsewhere becomes the start page.

    >>> [local(a) for a in ("/desk?x=1", "//evil.example", "/\\evil.example", "https://e.example")]
    ['/desk?x=1', '/', '/', '/']
    """
    inside = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if inside and address.isprintable() else "/"
