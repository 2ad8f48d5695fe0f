"""Dependencies of routes: the services, the caller and the edge."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, TypeVar
from urllib.parse import urlencode

from fastapi import Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.models import HTTPBearer as HTTPBearerModel
from fastapi.params import Depends as DependsMarker
from fastapi.security.base import SecurityBase
from fastapi.security.utils import get_authorization_scheme_param
from pydantic import BaseModel
from pydantic_core import to_json

from setwise.service.api.http.callers import RATE_HEADERS, Callers, KeyLimitReached
from setwise.service.api.http.cursors import Cursors
from setwise.service.api.http.gather import PredictionQueue
from setwise.service.api.http.prefix import prefix_of
from setwise.service.api.http.streams import Streams, run_soon
from setwise.service.api.schemas import Paged
from setwise.service.domain.accounts.callers import PERMISSIONS, Caller, Permission
from setwise.service.domain.errors import Forbidden, Unauthenticated
from setwise.service.domain.text import Page
from setwise.service.services.all import Services
from setwise.service.settings import ShownSetting
from setwise.service.sign_in.oidc import OpenIdConnect
from setwise.service.sign_in.sessions import CSRF_HEADER, SAFE_METHODS, SessionCookies, from_request
from setwise.service.telemetry import ServiceMetrics
from setwise.service.tracing import Tracing
from setwise.shown import Shown


@dataclass(frozen=True)
class Edge:
    """Everything that the HTTP interface needs from the rest of the service."""

    services: Services
    predict: PredictionQueue
    """Predicts documents together that requests submit at about the same time."""
    callers: Callers
    sessions: SessionCookies
    cursors: Cursors
    checks: Mapping[str, Callable[[], str | None]]
    """For each part that must work before the service is ready: its name, and a function that
    returns what is wrong with it, or None.
    """
    prediction_checks: Mapping[str, Callable[[], str | None]]
    """The same for what only predictions need."""
    new_id: Callable[[], str]
    """Makes request ids."""
    max_body_bytes: int
    streams: Streams
    """Sends files, part by part."""
    threads: int = 26
    """Most ordinary requests that are served at a time."""
    body_patience_s: float = 30.0
    """Longest pause, in seconds, that a client may make within a body."""
    provider: OpenIdConnect | None = None
    """Identity provider that people sign in with."""
    https: bool = False
    """Browsers reach the service by TLS only."""
    public_url: str = ""
    """Where browsers and clients reach the service, if that was set."""
    open_metrics: bool = True
    """Whether anyone may read the metrics, not only callers with permission to inspect."""
    max_upload_bytes: int = 1_000_000_000
    attachment_hosts: frozenset[str] = frozenset()
    """Hosts whose files the desk may show beside a document."""
    settings: Sequence[ShownSetting] = ()
    """Those that this server was started with."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """Gives the time that a page is made, in UTC."""
    metrics: ServiceMetrics = field(default_factory=ServiceMetrics)
    spans: Tracing | None = None

    @property
    def prefix(self) -> str:
        """The path of the public URL, without a slash at its end."""
        return prefix_of(self.public_url)


def edge_of(request: Request) -> Edge:
    """Return the edge of the application that serves a request."""
    edge: Edge = request.app.state.edge
    return edge


async def _edge(request: Request) -> Edge:
    return edge_of(request)


EdgeOf = Annotated[Edge, Depends(_edge)]


async def _services(edge: EdgeOf) -> Services:
    return edge.services


ServicesOf = Annotated[Services, Depends(_services)]


class _KeyOrSession(SecurityBase):
    """The caller: the holder of the key, or the signed-in person."""

    model = HTTPBearerModel(description="A key made by `setwise key create`.")
    scheme_name = "key"

    async def __call__(self, request: Request) -> Caller:
        state = request.scope.setdefault("state", {})
        if "caller" not in state:  # found at most once a request, so that it counts once
            state["caller"] = await self._find(request)
        caller: Caller = state["caller"]
        return caller

    async def _find(self, request: Request) -> Caller:
        edge = edge_of(request)
        scheme, secret = get_authorization_scheme_param(request.headers.get("Authorization"))
        if scheme.lower() != "bearer" or not secret:
            return await _visitor(request, edge.sessions)
        holder = edge.callers.known(secret)
        if holder is None:  # asked in a thread, so that the database never blocks the event loop
            holder = await run_soon(edge.callers.find, secret)
        state = request.scope.setdefault("state", {})
        try:
            state[RATE_HEADERS] = holder.take()
        except KeyLimitReached as refusal:
            state[RATE_HEADERS] = refusal.headers
            raise
        return from_request(holder.caller, request)


async def _visitor(request: Request, sessions: SessionCookies) -> Caller:
    """Return the signed-in person; scripts of our pages call as them."""
    if sessions.token(request) is None:
        raise Unauthenticated("Send Authorization: Bearer KEY.")
    visit = await run_in_threadpool(sessions.visit, request)
    if request.method not in SAFE_METHODS:
        sessions.check(request, visit, request.headers.get(CSRF_HEADER))
    return visit.caller


caller_of = _KeyOrSession()

CallerOf = Annotated[Caller, Depends(caller_of)]


@dataclass(frozen=True)
class Need:
    """A dependency that refuses callers without any of some permissions.

    Services check the same. Here it is checked before a body or a query is read, whose faults would
    tell what others may do.
    """

    permissions: Sequence[Permission]
    leads: bool = False
    """Whether the caller must lead reviewers besides."""

    async def __call__(self, request: Request) -> None:
        """Raise `Forbidden` for a caller without the permissions."""
        caller = await caller_of(request)
        caller.require(*self.permissions)
        if self.leads and Permission.REPORT not in PERMISSIONS[caller.role]:
            raise Forbidden("Only leads and administrators may do this.")


def needs(*permissions: Permission, leads: bool = False) -> DependsMarker:
    """Return the dependency of a route on one of some permissions; see `Need`."""
    marker: DependsMarker = Depends(Need(permissions, leads))
    return marker


_Item = TypeVar("_Item")


def listed(
    edge: Edge,
    query: Paged,
    scope: str,
    read: Callable[..., Page[_Item]],
    body: Callable[[_Item], object] = lambda item: item,
) -> Response:
    """Return one page of a list.

    ``scope``: The list with its filters, which a cursor is bound to.
    ``read``: Reads the page from ``after`` and ``limit``.
    ``body``: Returns the body of an item that does not leave as it is.
    """
    page = read(after=edge.cursors.read(query.cursor, scope), limit=query.limit)
    next_cursor = edge.cursors.write(page.next_after, scope)
    return answer(
        {
            "items": [body(item) for item in page.items],
            "next_cursor": next_cursor,
            "limit": query.limit,
        },
        headers=None if next_cursor is None else {"Link": _next_page(query, next_cursor)},
    )


def _next_page(query: Paged, cursor: str) -> str:
    """Return a link to the next page (RFC 8288), relative to the address of this one."""
    asked = query.model_dump(mode="json", exclude_defaults=True)
    given = {**asked, "limit": query.limit, "cursor": cursor}
    written = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in given.items()
    }
    return f'<?{urlencode(written, doseq=True)}>; rel="next"'


def listed_wholly(bodies: Iterable[object]) -> Response:
    """Return a list that has only one page."""
    items = list(bodies)
    return answer({"items": items, "next_cursor": None, "limit": len(items)})


def answer(
    body: BaseModel | Shown | Mapping[str, object],
    *,
    status: int = 200,
    etag: str | int | None = None,
    headers: Mapping[str, str] | None = None,
    counts: bool = False,
) -> Response:
    """Return ``body`` as a JSON response that caches must not store.

    A finished response saves a `def` endpoint the second trip through the thread pool that
    FastAPI's serialisation takes.

    ``etag``: The version.
    ``counts``: Whether the body also counts what changes without a new version; then the tag has a
    digest of the body after the version.
    """
    content = to_json(body)
    digest = f".{hashlib.sha256(content).hexdigest()[:8]}" if counts else ""
    extra = {} if etag is None else {"ETag": f'"{etag}{digest}"'}
    return Response(
        content,
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store", **extra, **(headers or {})},
    )
