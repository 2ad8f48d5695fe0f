"""Database, services and models of one process: all that commands need, without HTTP."""

import importlib.util
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypedDict

import structlog
from sqlalchemy import Engine

from setwise.service.domain.accounts import KeyDigest, SessionRule
from setwise.service.domain.breaker import RUN_LENGTH, BreakerRule, Freshness
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.routing.audits import Lottery
from setwise.service.runtime.artifacts import FolderOrObjectStore
from setwise.service.runtime.cluster import workers_of
from setwise.service.runtime.files import FolderOrObjectFiles, SealedFiles
from setwise.service.runtime.model import POLL_S as MODEL_POLL_S
from setwise.service.runtime.model import ModelRegistry
from setwise.service.runtime.object_stores import local_folder
from setwise.service.runtime.shadow import ShadowScorer
from setwise.service.server_secrets import derived, find_cipher, find_pepper, new_secret
from setwise.service.services.accounts.keys import Keys
from setwise.service.services.accounts.people import People
from setwise.service.services.accounts.sessions import Sessions
from setwise.service.services.all import Services
from setwise.service.services.annotators import Annotators
from setwise.service.services.audit_trail import AuditTrail
from setwise.service.services.breaker import Breaker
from setwise.service.services.certification.attempts import Certifications
from setwise.service.services.certification.outlook import Outlooks
from setwise.service.services.certification.questions import Questions
from setwise.service.services.documents import Documents
from setwise.service.services.documents.comments import Comments
from setwise.service.services.documents.selections import Selections
from setwise.service.services.documents.texts import Texts
from setwise.service.services.files import Files
from setwise.service.services.idempotency import Idempotency
from setwise.service.services.jobs import Jobs
from setwise.service.services.labels import Labels
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
from setwise.service.services.predictions import UNMEASURED, Predictions, Stages, no_shadow
from setwise.service.services.recalibration import Recalibration
from setwise.service.services.reports import Reports
from setwise.service.services.retraining import Retraining
from setwise.service.services.reviews.answers import Answers
from setwise.service.services.reviews.decisions import UNDO, Reviews
from setwise.service.services.reviews.queue import Queue
from setwise.service.services.segments import Segments
from setwise.service.services.webhooks import Webhooks
from setwise.service.settings import PREFIX, BadSetting, Settings
from setwise.service.sign_in.passwords import Argon2Passwords
from setwise.service.stores import database as engines
from setwise.service.stores.database import (
    LeaseClock,
    NewId,
    OneClock,
    WallClock,
    database_clock,
    new_id,
    sqlite_path,
    utc_now,
)
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import encryption
from setwise.service.stores.upkeep.revisions import Status, knows

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Backend:
    """The services of one process on their own database."""

    settings: Settings
    pepper: bytes = field(repr=False)
    engine: Engine
    begin: Transactions
    services: Services
    registry: ModelRegistry
    shadow: ShadowScorer

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


def open_backend(
    settings: Settings,
    *,
    clock: OneClock | None = None,
    ids: NewId = new_id,
    predictors: PredictorSource | None = None,
    passwords: Passwords | None = None,
    model_poll_s: float = MODEL_POLL_S,
    undo: timedelta = UNDO,
    run_length: float = RUN_LENGTH,
    stages: Stages = UNMEASURED,
) -> Backend:
    """Return the services, without opening anything except the pepper's file.

    Raises `BadSetting` if the database URL is invalid or the pepper's file cannot be used.

    ``clock``, ``ids``: Sources of time and ids, replaced in simulations.
    ``predictors``: Scores in place of registered models, in simulations.
    ``passwords``: By default, Argon2id with recommended parameters.
    ``model_poll_s``: How long the process takes to notice another active model, in seconds.
    ``run_length``: Of the breaker, in simulations.
    """
    pepper = find_pepper(settings)
    engine, begin, store = storage(settings)
    registry = ModelRegistry(begin, store, poll_s=model_poll_s)
    shadow = ShadowScorer(registry.shadow)
    services = assemble(
        settings,
        begin,
        stages=stages,
        predictors=predictors or registry,
        loader=registry,
        calibrator_loader=registry,
        shadow=shadow.offer,
        store=store,
        calibrators=store,
        files=job_files(settings, engine),
        pepper=pepper,
        lease_clock=clock or database_clock(engine),
        clock=clock or WallClock(),
        ids=ids,
        passwords=passwords,
        undo=undo,
        run_length=run_length,
    )
    return Backend(settings, pepper, engine, begin, services, registry, shadow)


def written_folders(settings: Settings, engine: Engine) -> Sequence[Path]:
    """Return the folders of this machine that the service writes to."""
    stores = map(local_folder, (settings.artifact_url, settings.files_url))
    database = sqlite_path(engine).parent if engine.dialect.name == "sqlite" else None
    folders = (settings.data_dir, database, *stores)
    return [folder for folder in dict.fromkeys(folders) if folder is not None]


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


class Office(TypedDict):
    """What services record their changes with."""

    begin: Transactions
    now: WallClock
    new_id: NewId


class Desk(TypedDict):
    """The same for services whose times are those of leases."""

    begin: Transactions
    now: LeaseClock
    new_id: NewId


class Requests(Office):
    """What services queue jobs with."""

    lease_clock: LeaseClock


class Credentials(TypedDict):
    """What services check passwords and sessions with."""

    passwords: Passwords
    session_digest: KeyDigest
    new_secret: Callable[[], str]


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
    lease_clock: LeaseClock,
    clock: WallClock,
    ids: NewId = new_id,
    passwords: Passwords | None = None,
    stages: Stages = UNMEASURED,
    undo: timedelta = UNDO,
    run_length: float = RUN_LENGTH,
) -> Services:
    """Return all services, built from the given parts.

    ``lease_clock``: The clock for leases, shared by all servers with this database.
    ``passwords``: By default, Argon2id with recommended parameters.
    """
    office: Office = {"begin": begin, "now": clock, "new_id": ids}
    desk: Desk = {"begin": begin, "now": lease_clock, "new_id": ids}
    jobs: Requests = {**office, "lease_clock": lease_clock}
    credentials: Credentials = {
        "passwords": passwords or Argon2Passwords(),
        "session_digest": KeyDigest(derived(pepper, "sessions")),
        "new_secret": new_secret,
    }
    lottery = Lottery(derived(pepper, "audits"))
    reading_time = timedelta(days=settings.audit_reading_days)
    freshness = Freshness(settings.breaker_stale_documents)
    policies = Policies(**office)
    questions = Questions(clock, lottery, reading_time=reading_time)
    certifications = Certifications(**jobs, questions=questions, loader=loader, policies=policies)
    outlooks = Outlooks(begin, questions)
    breaker = Breaker(**office, rule=BreakerRule(run_length, freshness, reading_time))
    predictions = Predictions(
        **office,
        predictors=predictors,
        lottery=lottery,
        max_text_bytes=settings.max_text_bytes,
        shadow=shadow,
        stages=stages,
    )
    idempotency = Idempotency(begin, clock, derived(pepper, "idempotency"))
    models = Models(**jobs, loader=loader, store=store)
    queue = Queue(
        **desk,
        predictors=predictors,
        lottery=lottery,
        lease=timedelta(seconds=settings.lease_s),
    )
    reviews = Reviews(
        **desk,
        predictors=predictors,
        queue=queue,
        lottery=lottery,
        undo_window=undo,
        annotated=breaker.annotated,
    )
    answers = Answers(**desk, reviews=reviews)
    return Services(
        predictions=predictions,
        documents=Documents(begin, lease_clock, predictors),
        comments=Comments(**office),
        selections=Selections(**desk, answers=answers),
        outcomes=Outcomes(**office, predictors=predictors),
        queue=queue,
        reviews=reviews,
        answers=answers,
        jobs=Jobs(**desk, files=files, keep_files=timedelta(days=settings.job_files_days)),
        files=Files(
            **desk,
            store=files,
            predict=predictions.predict,
            predictors=predictors,
            max_upload_bytes=settings.max_upload_bytes,
            longest_line=settings.max_body_bytes,
            secret=derived(pepper, "files"),
            workers=_workers(settings),
        ),
        policy=policies,
        segments=Segments(**office, outlooks=outlooks),
        certification=certifications,
        outlook=outlooks,
        breaker=breaker,
        annotators=Annotators(**office, personal_figures=settings.personal_figures),
        recalibration=Recalibration(
            **jobs,
            loader=loader,
            calibrator_loader=calibrator_loader,
            calibrators=calibrators,
            certifications=certifications,
        ),
        reports=Reports(begin, clock, lease_clock, outlooks),
        models=models,
        labels=Labels(**jobs, predictors=predictors, forget_responses=idempotency.forget_labels),
        retraining=Retraining(
            **jobs,
            models=models,
            certifications=certifications,
            training_data=settings.training_data,
        ),
        keys=Keys(**office, digest=KeyDigest(pepper), new_secret=new_secret),
        people=People(**office, **credentials),
        sessions=Sessions(
            **office,
            **credentials,
            rule=SessionRule(idle=timedelta(seconds=settings.session_idle_s)),
        ),
        audit_trail=AuditTrail(begin),
        texts=Texts(
            **office,
            files=files,
            forget_responses=idempotency.forget,
            retain_auto=_days(settings.retain_auto_days),
            retain_reviewed=_days(settings.retain_reviewed_days),
        ),
        idempotency=idempotency,
        webhooks=Webhooks(**desk, allow_private=settings.webhook_allow_private),
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


def unmigrated(status: Status) -> str:
    """Return an instruction for a database with another revision."""
    have = f"at revision {status.current}" if status.current else "empty"
    known = status.current is None or knows(status.current)
    cure = "run setwise db upgrade" if known else "install the release that made it, or a newer one"
    return f"The database is {have}, not at {status.head}: {cure}."
