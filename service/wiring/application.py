"""The finished service: its verbs, its edge, and what works in the background."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine

from setwise.service.api.dependencies import Edge
from setwise.service.domain.predictions import Prediction, ScoredSet
from setwise.service.runtime.artifacts import FolderOrObjectStore
from setwise.service.runtime.courier import Courier
from setwise.service.runtime.files import FolderOrObjectFiles, SealedFiles
from setwise.service.runtime.model import ModelRegistry
from setwise.service.runtime.schedule import tasks
from setwise.service.runtime.sender import HttpSender
from setwise.service.runtime.shadow import ShadowScorer
from setwise.service.runtime.worker import Worker
from setwise.service.services.ports import PredictorSource
from setwise.service.services.verbs import Verbs
from setwise.service.settings import PREFIX, BadSetting, Settings
from setwise.service.stores import database as engines
from setwise.service.stores import encryption
from setwise.service.stores.clock import Clock, database_clock, utc_now
from setwise.service.stores.identity import NewId, new_id
from setwise.service.stores.transaction import Transactions
from setwise.service.telemetry import Metrics
from setwise.service.wiring.all_verbs import verbs
from setwise.service.wiring.checks import database_check, encryption_check, model_check
from setwise.service.wiring.http_edge import edge
from setwise.service.wiring.keys import find_cipher, find_pepper
from setwise.service.wiring.watching import Stages, start_tracing


@dataclass(frozen=True)
class Application:
    """A whole service in one process, not yet started."""

    settings: Settings
    engine: Engine
    verbs: Verbs
    edge: Edge
    registry: ModelRegistry
    worker: Worker
    courier: Courier
    shadow: ShadowScorer

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Serve a model and run jobs inside the block; what ASGI calls a lifespan."""
        await run_in_threadpool(self.registry.start)
        self.shadow.start()
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
        """See to it that this server can read what is stored, before it writes.

        Raises
        ------
        BadSetting
            If it lacks an encryption key.
        """
        fault = encryption.missing_keys(self.engine)
        if fault is not None:
            raise BadSetting(f"{PREFIX}ENCRYPTION_KEYS: {fault}")
        encryption.note_key(self.engine, utc_now())

    def close(self) -> None:
        """Close every connection to the database."""
        self.engine.dispose()


def storage(settings: Settings) -> tuple[Engine, Transactions, FolderOrObjectStore]:
    """Return the database and the store of artifacts; nothing is opened, and nothing is made.

    Raises
    ------
    BadSetting
        If the database's address cannot be used.
    """
    try:
        engine = engines.create(settings.database_url, cipher=find_cipher(settings))
    except ValueError as error:
        raise BadSetting(f"{PREFIX}DATABASE_URL: {error}") from error
    store = FolderOrObjectStore(
        settings.artifact_url,
        cache=settings.data_dir / "artifact-cache",
        new_id=new_id,
        now=utc_now,
    )
    return engine, Transactions(engine), store


def build(
    settings: Settings,
    *,
    clock: Clock | None = None,
    ids: NewId = new_id,
    predictors: PredictorSource | None = None,
) -> Application:
    """Put the service together. Nothing is opened yet, except the file that holds the pepper.

    Parameters
    ----------
    clock, ids : callable
        The time and where ids come from, in simulations; otherwise as they are.
    predictors : PredictorSource or None
        What scores in the place of registered models, likewise.

    Raises
    ------
    BadSetting
        If the database's address or the pepper's file cannot be used.
    """
    engine, begin, store = storage(settings)
    pepper = find_pepper(settings)
    registry = ModelRegistry(begin, store, poll_s=settings.model_poll_s)

    def record(
        model_id: str, predictions: Sequence[Prediction], scores: Sequence[ScoredSet]
    ) -> None:
        finished.models.record(model_id, predictions, scores)

    shadow = ShadowScorer(registry.shadow, record)
    files: FolderOrObjectFiles | SealedFiles = FolderOrObjectFiles(settings.files_url)
    cipher = find_cipher(settings)
    if cipher is not None:
        files = SealedFiles(files, cipher)
    lease_clock = clock or database_clock(engine)
    metrics, spans = Metrics(), start_tracing(settings)
    finished = verbs(
        settings,
        begin,
        stage=Stages(metrics, spans),
        predictors=predictors or registry,
        loader=registry,
        calibrator_loader=registry,
        shadow=shadow.offer,
        store=store,
        calibrators=store,
        files=files,
        pepper=pepper,
        lease_clock=lease_clock,
        clock=clock or utc_now,
        ids=ids,
    )
    return Application(
        settings=settings,
        engine=engine,
        verbs=finished,
        edge=edge(
            settings,
            finished,
            pepper=pepper,
            checks={
                "database": database_check(engine),
                "encryption": encryption_check(engine),
                "model": model_check(registry),
            },
            metrics=metrics,
            spans=spans,
        ),
        registry=registry,
        worker=Worker(finished.jobs, tasks(finished), poll_s=settings.job_poll_s),
        courier=Courier(
            finished.webhooks,
            HttpSender(allow_private=settings.webhook_allow_private, now=utc_now),
            utc_now,
            poll_s=settings.job_poll_s,
        ),
        shadow=shadow,
    )
