"""Build the service from settings: its backend, the HTTP interface, the worker and the courier."""

import importlib.util
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine

from setwise.service.api.http.callers import KEY_CACHE_S, Callers
from setwise.service.api.http.cursors import Cursors
from setwise.service.api.http.dependencies import Edge
from setwise.service.api.http.gather import PredictionQueue, untraced
from setwise.service.api.http.streams import Streams, ordinary_threads
from setwise.service.backend import Backend, open_backend, unmigrated, written_folders
from setwise.service.domain.breaker import RUN_LENGTH
from setwise.service.domain.errors import ModelUnavailable, ServiceError
from setwise.service.runtime import disk
from setwise.service.runtime.courier import Courier
from setwise.service.runtime.indexer import WordIndexer
from setwise.service.runtime.model import POLL_S as MODEL_POLL_S
from setwise.service.runtime.model import ModelRegistry
from setwise.service.runtime.polling import POLL_S as JOB_POLL_S
from setwise.service.runtime.schedule import tasks
from setwise.service.runtime.sender import HttpSender
from setwise.service.runtime.worker import Worker
from setwise.service.server_secrets import derived
from setwise.service.services.all import Services
from setwise.service.services.ports import Passwords, PredictorSource
from setwise.service.services.reviews.decisions import UNDO
from setwise.service.settings import PREFIX, BadSetting, Settings, shown
from setwise.service.sign_in.oidc import OpenIdConnect, Provider, read_roles
from setwise.service.sign_in.sessions import SessionCookies
from setwise.service.stores.database import Clock, NewId, OneClock, new_id, utc_now
from setwise.service.stores.upkeep import encryption, revisions
from setwise.service.telemetry import ServiceMetrics, stages, start_tracing, watch
from setwise.service.tracing import Tracing


@dataclass(frozen=True)
class Timing:
    """How long a process waits; tests wait for other times."""

    model_poll_s: float = MODEL_POLL_S
    job_poll_s: float = JOB_POLL_S
    key_cache_s: float = KEY_CACHE_S
    undo: timedelta = UNDO


USUAL = Timing()


@dataclass(frozen=True)
class Application(Backend):
    """A complete service in one process, not yet started."""

    edge: Edge
    worker: Worker
    courier: Courier
    indexer: WordIndexer

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Serve a model and run jobs inside the block; an ASGI lifespan."""
        self.registry.start(wait=False)  # the port opens first; /readyz says what is missing
        self.shadow.start(self.services.models.record)
        if self.settings.embedded_worker:
            self.worker.start()
            self.courier.start()
            self.indexer.start()
        try:
            yield
        finally:
            await run_in_threadpool(self.edge.predict.close)
            if self.settings.embedded_worker:
                await run_in_threadpool(self.indexer.stop)
                await run_in_threadpool(self.courier.stop)
                await run_in_threadpool(self.worker.stop)
            await run_in_threadpool(self.shadow.stop)
            await run_in_threadpool(self.registry.stop)
            if self.edge.spans is not None:
                await run_in_threadpool(self.edge.spans.close)
            self.close()


def build(
    settings: Settings,
    *,
    clock: OneClock | None = None,
    ids: NewId = new_id,
    predictors: PredictorSource | None = None,
    passwords: Passwords | None = None,
    timing: Timing = USUAL,
    run_length: float = RUN_LENGTH,
) -> Application:
    """Build the service without opening anything except the pepper's file.

    Raises `BadSetting` if the database URL is invalid or the pepper's file cannot be used.

    ``clock``, ``ids``: Sources of time and ids, replaced in simulations.
    ``predictors``: Scores in place of registered models, in simulations.
    ``passwords``: By default, Argon2id with recommended parameters.
    ``run_length``: Of the breaker, in simulations.
    """
    metrics, spans = ServiceMetrics(), start_tracing(settings)
    backend = open_backend(
        settings,
        clock=clock,
        ids=ids,
        predictors=predictors,
        passwords=passwords,
        model_poll_s=timing.model_poll_s,
        undo=timing.undo,
        run_length=run_length,
        stages=stages(metrics, spans),
    )
    services = backend.services
    return Application(
        settings=settings,
        pepper=backend.pepper,
        engine=backend.engine,
        begin=backend.begin,
        services=services,
        registry=backend.registry,
        shadow=backend.shadow,
        edge=edge(
            settings,
            services,
            pepper=backend.pepper,
            checks={
                "database": partial(_database_fault, backend.engine),
                "disk": partial(disk.fault, written_folders(settings, backend.engine)),
                "encryption": partial(_encryption_fault, backend.engine),
                "start": backend.registry.start_fault,
            },
            prediction_checks={"model": partial(_model_fault, backend.registry)},
            metrics=metrics,
            spans=spans,
            key_cache_s=timing.key_cache_s,
        ),
        worker=Worker(services.jobs, tasks(services), poll_s=timing.job_poll_s),
        courier=Courier(
            services.webhooks,
            HttpSender(allow_private=settings.webhook_allow_private, now=utc_now),
            utc_now,
            poll_s=timing.job_poll_s,
        ),
        indexer=WordIndexer(services.texts.index_words, poll_s=timing.job_poll_s),
    )


def edge(
    settings: Settings,
    services: Services,
    *,
    pepper: bytes,
    checks: Mapping[str, Callable[[], str | None]],
    prediction_checks: Mapping[str, Callable[[], str | None]],
    ids: NewId = new_id,
    clock: Clock = utc_now,
    metrics: ServiceMetrics | None = None,
    spans: Tracing | None = None,
    key_cache_s: float = KEY_CACHE_S,
) -> Edge:
    """Return the dependencies of the HTTP interface."""
    metrics = metrics or ServiceMetrics()
    watch(metrics, services)
    return Edge(
        services=services,
        predict=PredictionQueue(
            services.predictions.predict, together=spans.together if spans else untraced
        ),
        callers=Callers(services.keys.authenticate, trusted_s=key_cache_s),
        sessions=SessionCookies(
            services.sessions.open,
            secret=derived(pepper, "forms"),
            public_url=settings.public_url,
            longest_s=services.sessions.rule.longest.total_seconds(),
        ),
        provider=provider_of(settings),
        https=settings.public_url.startswith("https:"),
        public_url=settings.public_url,
        open_metrics=settings.open_metrics,
        attachment_hosts=frozenset(settings.attachment_hosts.replace(",", " ").split()),
        cursors=Cursors(derived(pepper, "cursors")),
        checks=checks,
        prediction_checks=prediction_checks,
        new_id=ids,
        max_body_bytes=settings.max_body_bytes,
        streams=Streams(settings.database_pool_size),
        threads=ordinary_threads(settings.database_pool_size),
        max_upload_bytes=settings.max_upload_bytes,
        settings=shown(settings),
        now=clock,
        metrics=metrics,
        spans=spans,
    )


def provider_of(settings: Settings) -> OpenIdConnect | None:
    """Return the client of the OpenID Connect provider; None without one.

    Raises `BadSetting` if a setting that it needs is missing.
    """
    if not settings.oidc_issuer:
        return None
    needed = {
        "OIDC_CLIENT_ID": settings.oidc_client_id,
        "OIDC_ROLES": settings.oidc_roles,
        "PUBLIC_URL": settings.public_url,
    }
    for name, value in needed.items():
        if not value:
            raise BadSetting(f"{PREFIX}{name}: is needed with {PREFIX}OIDC_ISSUER")
    if importlib.util.find_spec("joserfc") is None:
        raise BadSetting(f"{PREFIX}OIDC_ISSUER: install the extra setwise[oidc] first")
    secret = settings.oidc_client_secret
    return OpenIdConnect(
        Provider(
            settings.oidc_issuer,
            settings.oidc_client_id,
            secret.get_secret_value() if secret else None,
            settings.oidc_role_claim,
            read_roles(settings.oidc_roles),
        )
    )


def _database_fault(engine: Engine) -> str | None:
    """Return why the database is unusable, or None."""
    try:
        status = revisions.check(engine)
    except ServiceError as error:
        return error.detail
    return None if status.ok else unmigrated(status)


def _encryption_fault(engine: Engine) -> str | None:
    """Return which encryption keys are missing, or None."""
    try:
        if not revisions.check(engine).ok:
            return None  # the check of the database reports it
        return encryption.missing_keys(engine) or encryption.foreign(engine)
    except ServiceError as error:
        return error.detail


def _model_fault(registry: ModelRegistry) -> str | None:
    """Return why no model serves, or None."""
    try:
        registry.active()
    except ModelUnavailable as error:
        return error.detail
    return None
