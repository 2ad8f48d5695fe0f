"""The HTTP application, assembled from routes, middleware and error handlers; its server."""

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from threading import Thread
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute

from setwise.service.api import (
    accounts,
    annotators,
    audit_trail,
    breaker,
    certification,
    derivations,
    documents,
    files,
    health,
    jobs,
    labels,
    models,
    outcomes,
    policy,
    predictions,
    recalibration,
    reports,
    reviews,
    webhooks,
)
from setwise.service.api.http import problems, reference
from setwise.service.api.http.connections import ConnectionLimits
from setwise.service.api.http.dependencies import Edge
from setwise.service.api.http.encodings import Compressing
from setwise.service.api.http.middleware import EdgeMiddleware
from setwise.service.api.http.openapi import describe
from setwise.service.api.http.prefix import PathPrefix
from setwise.service.api.webhooks import messages as webhook_messages
from setwise.service.logs import configure_logging
from setwise.service.pages import start
from setwise.service.pages.board.start import TEXTS
from setwise.service.pages.routes import unknown_address

if TYPE_CHECKING:
    from setwise.service.build import Application
    from setwise.service.settings import Settings

LONGEST_FAREWELL_S = 30
"""How long requests in progress may take after the server is asked to stop."""

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(
    edge: Edge | None = None, *, lifespan: Lifespan | None = None, only: APIRouter | None = None
) -> FastAPI:
    """Return the FastAPI application.

    ``edge``: Services and settings for the routes; without it, the application only describes
    itself.
    ``lifespan``: Context that runs around the time of serving.
    ``only``: Routes in place of all of them.
    """
    app = FastAPI(
        title="Setwise",
        version=version("setwise"),
        lifespan=lifespan,
        docs_url=None,  # its scripts come from another host; `reference` needs none
        redoc_url=None,
        openapi_url="/openapi.json" if only is None else None,
        redirect_slashes=False,
        routes=only.routes if only is not None else _routes(),
        webhooks=webhook_messages.router,
        servers=[{"url": edge.public_url}] if edge is not None and edge.public_url else None,
    )
    problems.install(app)
    for status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        app.add_exception_handler(status, unknown_address)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]  # FastAPI's documented hook
    if edge is not None:
        app.state.edge = edge
        app.add_middleware(Compressing)
        uploads = {files.SCORING, models.ARCHIVES, TEXTS}
        app.add_middleware(EdgeMiddleware, edge=edge, exempt=uploads)
        if edge.prefix:  # outside, where paths begin with it
            app.add_middleware(PathPrefix, prefix=edge.prefix)
    return app


@cache
def _routes() -> list[BaseRoute]:
    """Return all routes; building them is expensive, and they take the edge from each request."""
    router = APIRouter(generate_unique_id_function=lambda route: route.name)  # in generated clients
    # Each request looks through them in order, and most are for predictions.
    for part in (
        predictions.router,
        documents.router,
        outcomes.router,
        derivations.router,
        reviews.router,
        labels.router,
        webhooks.router,
        policy.router,
        models.uploads,
        models.router,
        files.router,
        certification.router,
        breaker.router,
        annotators.router,
        recalibration.router,
        jobs.router,
        reports.router,
        accounts.router,
        audit_trail.router,
        health.router,
        reference.router,
    ):
        router.include_router(part)
    router.include_router(start.router, include_in_schema=False)
    return router.routes


def serving(application: "Application") -> FastAPI:
    """Return the application for a complete service."""
    return create_app(application.edge, lifespan=application.running)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections; port 0 takes any free port.

    Raises `OSError` if the address is in use or does not exist.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)


def url_of(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    application: "Application",
    listener: socket.socket,
    *,
    started: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until the process is asked to stop, then finish open requests.

    ``listener``: Accepts connections; closed in the end.
    ``started``: Called with the URL once requests are served.
    """
    settings = application.settings
    configure_logging(settings.log_level, settings.log_format)
    with listener:
        config = server_config(serving(application), settings)
        _Server(config, lambda: started(url_of(listener))).run(sockets=[listener])


@contextmanager
def serving_health(application: "Application", listener: socket.socket) -> Iterator[None]:
    """Answer health, readiness and metrics inside the block, in a thread."""
    app = create_app(application.edge, only=health.router)
    server = uvicorn.Server(server_config(app, application.settings))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, name="health", daemon=True)
    with listener:
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()


def server_config(
    app: FastAPI, settings: "Settings", limits: ConnectionLimits | None = None
) -> uvicorn.Config:
    """Return how to serve an application, with limits on its connections."""
    limits = limits or ConnectionLimits(exempt=settings.trusted_proxies)
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # EdgeMiddleware writes better ones
        server_header=False,
        # X-Forwarded-For from any other address may be forged.
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=LONGEST_FAREWELL_S,
        timeout_keep_alive=limits.idle_s,  # type: ignore[arg-type]  # fractions work
        http=limits.protocol(),
        ws="none",  # there are no WebSockets
    )


class _Server(uvicorn.Server):
    """A server that calls a function once it has started."""

    def __init__(self, config: uvicorn.Config, started_up: Callable[[], None]) -> None:
        super().__init__(config)
        self._started_up = started_up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._started_up()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; after SIGTERM the process exits with status 0."""
        if sig == signal.SIGTERM:
            self.should_exit = True  # uvicorn would raise the signal again after stopping
        else:
            super().handle_exit(sig, frame)
