"""Build the service from settings: the only place that names concrete classes."""

import importlib.util
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine

from setwise.service.api.http.cursors import Cursors
from setwise.service.api.http.dependencies import KEY_CACHE_S, Callers, Edge
from setwise.service.api.http.gather import PredictionQueue, untraced
from setwise.service.api.http.limits import KeyLimits
from setwise.service.domain.accounts import KeyDigest, SessionRule
from setwise.service.domain.breaker import RUN_LENGTH, BreakerRule, Freshness
from setwise.service.domain.errors import ModelUnavailable, ServiceError
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.routing.audits import Lottery
from setwise.service.runtime.artifacts import FolderOrObjectStore
from setwise.service.runtime.cluster import workers_of
from setwise.service.runtime.courier import Courier
from setwise.service.runtime.files import FolderOrObjectFiles, SealedFiles
from setwise.service.runtime.model import POLL_S as MODEL_POLL_S
from setwise.service.runtime.model import ModelRegistry
from setwise.service.runtime.schedule import tasks
from setwise.service.runtime.sender import HttpSender
from setwise.service.runtime.shadow import ShadowScorer
from setwise.service.runtime.worker import POLL_S as JOB_POLL_S
from setwise.service.runtime.worker import Worker
from setwise.service.server_secrets import derived, find_cipher, find_pepper, new_secret
from setwise.service.services.accounts.keys import Keys
from setwise.service.services.accounts.people import People
from setwise.service.services.accounts.sessions import Sessions
from setwise.service.services.all import Services
from setwise.service.services.annotators import Annotators
from setwise.service.services.audit_trail import AuditTrail
from setwise.service.services.breaker import Breaker
from setwise.service.services.certification import Certifications
from setwise.service.services.documents import Documents
from setwise.service.services.documents.comments import Comments
from setwise.service.services.documents.selections import Selections
from setwise.service.services.documents.texts import Texts
from setwise.service.services.files import Files
from setwise.service.services.idempotency import Idempotency
from setwise.service.services.jobs import Jobs
from setwise.service.services.models import Models
from setwise.service.services.outcomes import Outcomes
from setwise.service.services.policy import Policies
from setwise.service.services.ports import (
    ArtifactStore,
    CalibratorLoader,
    CalibratorStore,
    FileStore,
    ModelLoader,
    Passwords,
    PredictorSource,
    Workers,
)
from setwise.service.services.predictions import Predictions, Stage, no_shadow, unwatched
from setwise.service.services.recalibration import Recalibration
from setwise.service.services.reports import Reports
from setwise.service.services.retraining import Retraining
from setwise.service.services.reviews import UNDO, Reviews
from setwise.service.services.segments import Segments
from setwise.service.services.webhooks import Webhooks
from setwise.service.settings import PREFIX, BadSetting, Settings, shown
from setwise.service.sign_in.oidc import OpenIdConnect, Provider, read_roles
from setwise.service.sign_in.passwords import Argon2Passwords
from setwise.service.sign_in.sessions import SessionCookies
from setwise.service.stores import database as engines
from setwise.service.stores.database import Clock, NewId, database_clock, new_id, utc_now
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import encryption, migrate
from setwise.service.telemetry import ServiceMetrics, Stages, start_tracing, watch
from setwise.service.tracing import Tracing

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Timing:
    """How long a process waits; tests wait for other times."""

    model_poll_s: float = MODEL_POLL_S
    job_poll_s: float = JOB_POLL_S
    key_cache_s: float = KEY_CACHE_S
    undo: timedelta = UNDO


USUAL = Timing()


@dataclass(frozen=True)
class Application:
    """A complete service in one process, not yet started."""

    settings: Settings
    engine: Engine
    services: Services
    edge: Edge
    registry: ModelRegistry
    worker: Worker
    courier: Courier
    shadow: ShadowScorer

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Serve a model and run jobs inside the block; an ASGI lifespan."""
        self.registry.start(wait=False)  # the port opens first; /readyz says what is missing
        self.shadow.start(self.services.models.record)
        if self.settings.embedded_worker:
            self.worker.start()
            self.courier.start()
        try:
            yield
        finally:
            await run_in_threadpool(self.edge.predict.close)
            if self.settings.embedded_worker:
                await run_in_threadpool(self.courier.stop)
                await run_in_threadpool(self.worker.stop)
            await run_in_threadpool(self.shadow.stop)
            await run_in_threadpool(self.registry.stop)
            if self.edge.spans is not None:
                await run_in_threadpool(self.edge.spans.close)
            self.close()

    def unseal(self) -> None:
        """Check that this server can decrypt stored data, and record its key.

        Raises `BadSetting` if an encryption key is missing, or stored values are not encrypted
        under one.
        """
        fault = encryption.missing_keys(self.engine) or encryption.unsealed(self.engine)
        if fault is not None:
            raise BadSetting(f"{PREFIX}ENCRYPTION_KEYS: {fault}")
        encryption.note_key(self.engine, utc_now())
        unreadable = encryption.unreadable(self.engine)
        if unreadable is not None:
            log.error("encryption.unreadable", reason=unreadable, cure=encryption.CURE)

    def close(self) -> None:
        """Close all connections to the database."""
        self.engine.dispose()


def storage(settings: Settings) -> tuple[Engine, Transactions, FolderOrObjectStore]:
    """Return the database and the artifact store, without opening or creating anything.

    Raises `BadSetting` if the database URL is invalid.
    """
    try:
        engine = engines.create(
            settings.database_url,
            cipher=find_cipher(settings),
            pool_size=settings.database_pool_size,
        )
    except ValueError as error:
        raise BadSetting(f"{PREFIX}DATABASE_URL: {error}") from error
    try:
        store = FolderOrObjectStore(
            settings.artifact_url,
            cache=settings.data_dir / "artifact-cache",
            new_id=new_id,
            now=utc_now,
        )
    except ValueError as error:
        raise BadSetting(f"{PREFIX}ARTIFACT_URL: {error}") from error
    return engine, Transactions(engine), store


def build(
    settings: Settings,
    *,
    clock: Clock | None = None,
    ids: NewId = new_id,
    predictors: PredictorSource | None = None,
    timing: Timing = USUAL,
    run_length: float = RUN_LENGTH,
) -> Application:
    """Build the service without opening anything except the pepper's file.

    Raises `BadSetting` if the database URL is invalid or the pepper's file cannot be used.

    ``clock``, ``ids``: Sources of time and ids, replaced in simulations.
    ``predictors``: Scores in place of registered models, in simulations.
    ``run_length``: Of the breaker, in simulations.
    """
    engine, begin, store = storage(settings)
    pepper = find_pepper(settings)
    registry = ModelRegistry(begin, store, poll_s=timing.model_poll_s)
    shadow = ShadowScorer(registry.shadow)
    metrics, spans = ServiceMetrics(), start_tracing(settings)
    services = assemble(
        settings,
        begin,
        stage=Stages(metrics, spans),
        predictors=predictors or registry,
        loader=registry,
        calibrator_loader=registry,
        shadow=shadow.offer,
        store=store,
        calibrators=store,
        files=job_files(settings, engine),
        pepper=pepper,
        lease_clock=clock or database_clock(engine),
        clock=clock or utc_now,
        ids=ids,
        undo=timing.undo,
        run_length=run_length,
    )
    return Application(
        settings=settings,
        engine=engine,
        services=services,
        edge=edge(
            settings,
            services,
            pepper=pepper,
            checks={
                "database": partial(_database_fault, engine),
                "encryption": partial(_encryption_fault, engine),
                "model": partial(_model_fault, registry),
            },
            metrics=metrics,
            spans=spans,
            key_cache_s=timing.key_cache_s,
        ),
        registry=registry,
        worker=Worker(services.jobs, tasks(services), poll_s=timing.job_poll_s),
        courier=Courier(
            services.webhooks,
            HttpSender(allow_private=settings.webhook_allow_private, now=utc_now),
            utc_now,
            poll_s=timing.job_poll_s,
        ),
        shadow=shadow,
    )


def job_files(settings: Settings, engine: Engine) -> FolderOrObjectFiles | SealedFiles:
    """Return the store for files of jobs, encrypted if there is a key.

    Raises `BadSetting` if the address needs a library that is not installed.
    """
    try:
        files = FolderOrObjectFiles(settings.files_url)
    except ValueError as error:
        raise BadSetting(f"{PREFIX}FILES_URL: {error}") from error
    cipher = find_cipher(settings)
    if cipher is None:
        return files
    return SealedFiles(files, cipher, partial(encryption.writing, engine))


def assemble(
    settings: Settings,
    begin: Transactions,
    *,
    predictors: PredictorSource,
    loader: ModelLoader,
    calibrator_loader: CalibratorLoader,
    shadow: Callable[[Sequence[Prediction]], None] = no_shadow,
    store: ArtifactStore,
    calibrators: CalibratorStore,
    files: FileStore,
    pepper: bytes,
    lease_clock: Clock,
    clock: Clock = utc_now,
    ids: NewId = new_id,
    passwords: Passwords | None = None,
    stage: Stage = unwatched,
    undo: timedelta = UNDO,
    run_length: float = RUN_LENGTH,
) -> Services:
    """Return all services, built from the given parts.

    ``lease_clock``: The clock for leases, shared by all servers with this database.
    ``passwords``: By default, Argon2id with recommended parameters.
    """
    office = begin, clock, ids
    desk = begin, lease_clock, ids
    accounts = *office, passwords or Argon2Passwords(), KeyDigest(derived(pepper, "sessions"))
    lottery = Lottery(derived(pepper, "audits"))
    reading_time = timedelta(days=settings.audit_reading_days)
    certifications = Certifications(
        *office, lease_clock, lottery, loader, reading_time=reading_time
    )
    freshness = Freshness(settings.breaker_stale_documents)
    breaker = Breaker(*office, BreakerRule(run_length, freshness, reading_time))
    predictions = Predictions(
        predictors, *office, lottery, settings.max_text_bytes, shadow=shadow, stage=stage
    )
    models = Models(*office, lease_clock, loader, store)
    reviews = Reviews(
        *desk,
        predictors,
        lottery,
        lease=timedelta(seconds=settings.lease_s),
        undo_window=undo,
        annotated=breaker.annotated,
    )
    return Services(
        predictions=predictions,
        documents=Documents(begin, lease_clock, predictors),
        comments=Comments(*office),
        selections=Selections(*desk, reviews),
        outcomes=Outcomes(*office, predictors),
        reviews=reviews,
        jobs=Jobs(*desk, files, timedelta(days=settings.job_files_days)),
        files=Files(
            *desk,
            files,
            predictions.predict,
            predictors,
            max_upload_bytes=settings.max_upload_bytes,
            longest_line=settings.max_body_bytes,
            workers=_workers(settings),
        ),
        policy=Policies(*office),
        segments=Segments(*office),
        certification=certifications,
        breaker=breaker,
        annotators=Annotators(*office, settings.personal_figures),
        recalibration=Recalibration(
            *office, lease_clock, loader, calibrator_loader, calibrators, certifications
        ),
        reports=Reports(begin, clock, lease_clock),
        models=models,
        retraining=Retraining(*office, lease_clock, models, certifications, settings.training_data),
        keys=Keys(*office, KeyDigest(pepper), new_secret),
        people=People(*accounts, new_secret),
        sessions=Sessions(
            *accounts, new_secret, SessionRule(idle=timedelta(seconds=settings.session_idle_s))
        ),
        audit_trail=AuditTrail(begin),
        texts=Texts(
            *office, files, _days(settings.retain_auto_days), _days(settings.retain_reviewed_days)
        ),
        idempotency=Idempotency(begin, clock, derived(pepper, "idempotency")),
        webhooks=Webhooks(*desk, settings.webhook_allow_private),
    )


def _workers(settings: Settings) -> Callable[[], AbstractContextManager[Workers | None]]:
    """Return what connects to the cluster that scores files; nothing without one."""
    if not settings.dask_scheduler:
        return nullcontext
    if importlib.util.find_spec("distributed") is None:
        raise BadSetting(f"{PREFIX}DASK_SCHEDULER: install the extra setwise[dask] first")
    return partial(workers_of, settings.dask_scheduler)


def _days(count: float) -> timedelta | None:
    return timedelta(days=count) if count else None


def edge(
    settings: Settings,
    services: Services,
    *,
    pepper: bytes,
    checks: Mapping[str, Callable[[], str | None]],
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
        provider=_provider(settings),
        limits=KeyLimits(),
        https=settings.public_url.startswith("https:"),
        open_metrics=settings.open_metrics,
        attachment_hosts=frozenset(settings.attachment_hosts.replace(",", " ").split()),
        cursors=Cursors(derived(pepper, "cursors")),
        checks=checks,
        new_id=ids,
        max_body_bytes=settings.max_body_bytes,
        max_upload_bytes=settings.max_upload_bytes,
        settings=shown(settings),
        now=clock,
        metrics=metrics,
        spans=spans,
    )


def _provider(settings: Settings) -> OpenIdConnect | None:
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
        status = migrate.check(engine)
    except ServiceError as error:
        return error.detail
    return None if status.ok else unmigrated(status)


def _encryption_fault(engine: Engine) -> str | None:
    """Return which encryption keys are missing, or None."""
    try:
        if not migrate.check(engine).ok:
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


def unmigrated(status: migrate.Status) -> str:
    """Return an instruction for a database with another revision."""
    have = f"at revision {status.current}" if status.current else "empty"
    return f"The database is {have}, not at {status.head}: run setwise db upgrade."
