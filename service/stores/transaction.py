"""One transaction, whose stores share a connection; it commits unless an exception leaves it."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import TimeoutError as PoolExhausted

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.stores.accounts import KeyStore, PersonStore, SessionStore, SignInAttemptStore
from setwise.service.stores.annotators import AnnotatorStore
from setwise.service.stores.audit_trail import AuditTrailStore
from setwise.service.stores.breaker import BreakerStore
from setwise.service.stores.certification import CertificationStore
from setwise.service.stores.database import READ_ONLY, fold_log
from setwise.service.stores.documents import CommentStore, DocumentStore
from setwise.service.stores.idempotency import PRESENT, IdempotencyStore
from setwise.service.stores.jobs import JobStore
from setwise.service.stores.labels import LabelStore
from setwise.service.stores.models import ComparisonStore, ModelStore
from setwise.service.stores.outcomes import OutcomeStore
from setwise.service.stores.policy import PolicyStore
from setwise.service.stores.predictions import PredictionStore, TextStore
from setwise.service.stores.recalibration import CalibrationStore
from setwise.service.stores.reports import ReportStore
from setwise.service.stores.reports.backlog import BacklogStore
from setwise.service.stores.reports.history import HistoryStore
from setwise.service.stores.reviews import ReviewStore
from setwise.service.stores.truth import TruthStore
from setwise.service.stores.upkeep.encryption import refuse_foreign
from setwise.service.stores.webhooks import DeliveryStore, EndpointStore, OutboxStore


class Transactions:
    """Opens transactions on one engine; share one instance per process.

    SQLite allows one writer at a time, and waiting writers poll for its lock, so some could wait
    for long. Writers of this process therefore first queue at a lock.

    ``patience_s``: How long a writer waits in the queue, in seconds.
    """

    def __init__(self, engine: Engine, *, patience_s: float = 10.0) -> None:
        self._reads = engine.execution_options(**{READ_ONLY: True, "postgresql_readonly": True})
        self._writes = engine
        self._queue = threading.Lock() if engine.dialect.name == "sqlite" else None
        self._patience_s = patience_s

    def __call__(self, *, read_only: bool = False, snapshot: bool = False) -> "Transaction":
        """Return a transaction, to be entered with ``with``."""
        return Transaction(
            self._reads if read_only else self._writes,
            read_only=read_only,
            snapshot=snapshot,
            queue=None if read_only else self._queue,
            patience_s=self._patience_s,
        )

    def empty_log(self) -> bool:
        """Empty SQLite's write-ahead log, which holds earlier content; False if readers prevent it.

        PostgreSQL keeps its log by its own settings.
        """
        if self._queue is None:
            return True
        if not self._queue.acquire(timeout=self._patience_s):
            return False
        try:
            return fold_log(self._writes)
        finally:
            self._queue.release()


_R = TypeVar("_R")


class _Repository(Generic[_R]):
    """A transaction's store, created on first use: most need few."""

    def __init__(self, make: Callable[[Connection], _R]) -> None:
        self._make = make

    def __get__(self, unit: "Transaction", _: type) -> _R:
        return unit.repository(self._make)


def _repository(make: Callable[[Connection], _R]) -> _R:
    """Return a descriptor for a transaction's store, typed as the store."""
    return _Repository(make)  # type: ignore[return-value]  # as a descriptor


class Transaction:
    """A transaction on a pooled connection, which is discarded after `StorageUnavailable`."""

    predictions = _repository(PredictionStore)
    documents = _repository(DocumentStore)
    comments = _repository(CommentStore)
    reviews = _repository(ReviewStore)
    outcomes = _repository(OutcomeStore)
    truth = _repository(TruthStore)
    policies = _repository(PolicyStore)
    certifications = _repository(CertificationStore)
    breakers = _repository(BreakerStore)
    annotators = _repository(AnnotatorStore)
    calibrations = _repository(CalibrationStore)
    models = _repository(ModelStore)
    labels = _repository(LabelStore)
    keys = _repository(KeyStore)
    people = _repository(PersonStore)
    sessions = _repository(SessionStore)
    attempts = _repository(SignInAttemptStore)
    audit_trail = _repository(AuditTrailStore)
    jobs = _repository(JobStore)
    texts = _repository(TextStore)
    outbox = _repository(OutboxStore)
    endpoints = _repository(EndpointStore)
    deliveries = _repository(DeliveryStore)
    history = _repository(HistoryStore)
    idempotency = _repository(IdempotencyStore)
    comparisons = _repository(ComparisonStore)
    backlog = _repository(BacklogStore)
    reports = _repository(ReportStore)

    def __init__(
        self,
        engine: Engine,
        *,
        read_only: bool,
        snapshot: bool,
        queue: "threading.Lock | None",  # a function before Python 3.13
        patience_s: float,
    ) -> None:
        self._engine = engine
        self._read_only = read_only
        self._commits = False
        self._snapshot = snapshot
        self._queue = queue
        self._patience_s = patience_s
        self._connection: Connection | None = None
        self._repositories: dict[object, object] = {}

    def __enter__(self) -> Self:
        self._queue_for_writing()
        try:
            connection = self._connect()
        except BaseException:
            self._leave()
            raise
        self._connection = connection
        self._commits = not self._read_only
        self._repositories.clear()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            if error is None and self._commits:
                self.commit()
        except BaseException as failed:
            error = failed
            raise
        finally:
            self._connection = None
            try:
                if isinstance(error, StorageUnavailable):
                    self._discard(connection)
                else:
                    self._close(connection)
            finally:
                self._leave()

    def repository(self, make: Callable[[Connection], _R]) -> _R:
        """Return the transaction's store of one kind."""
        store = self._repositories.get(make)
        if store is None:
            store = self._repositories[make] = make(self._opened())
        return cast("_R", store)

    def show(self, *shown: object) -> None:
        """Store the response of a request with an idempotency key together with its effect.

        Call it with a secret that is shown once: a crash after the commit then loses nothing.
        """
        request = PRESENT.get()
        if request is not None and request.seal is not None:
            request.response = request.seal(*shown)

    def roll_back(self) -> None:
        """Undo all changes so far, and commit none."""
        self._commits = False
        self._opened().rollback()

    def commit(self) -> None:
        """Make all changes permanent, or raise `StorageUnavailable`.

        The first commit of a request with an idempotency key stores the key; raises
        `RequestUnfinished` if a concurrent request was faster.
        """
        request = PRESENT.get()
        if request is None or request.claimed:
            self._opened().commit()
            return
        self.idempotency.claim(request)
        self._opened().commit()
        request.claimed, request.answered = True, request.response is not None

    def _opened(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("the transaction is not open")
        return self._connection

    def _connect(self) -> Connection:
        try:
            connection = self._engine.connect()
        except PoolExhausted as error:
            raise StorageUnavailable(
                "The database is not available: every connection is in use."
            ) from error
        try:
            if self._snapshot and connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            connection.begin()  # SQLite's transactions are always snapshots
            if not self._read_only:
                refuse_foreign(connection)
        except BaseException:
            self._discard(connection)
            raise
        return connection

    def _queue_for_writing(self) -> None:
        if self._queue is not None and not self._queue.acquire(timeout=self._patience_s):
            raise StorageUnavailable(
                "The database is not available: too many writes wait for their turn."
            )

    def _leave(self) -> None:
        if self._queue is not None:
            self._queue.release()

    def _close(self, connection: Connection) -> None:
        try:
            connection.close()  # rolls back uncommitted changes
        except StorageUnavailable:
            # Nothing was committed, and the pool has dropped the connection. Do not hide the error
            # that caused the rollback.
            self._discard(connection)

    @staticmethod
    def _discard(connection: Connection) -> None:
        if not connection.closed:
            connection.invalidate()
            connection.close()
