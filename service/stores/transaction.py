"""One transaction, whose stores share a connection; it commits unless an exception leaves it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from sqlalchemy import Connection, Engine

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, Segment
from setwise.service.stores.accounts import KeyStore, PersonStore, SessionStore, SignInAttemptStore
from setwise.service.stores.annotators import AnnotatorStore
from setwise.service.stores.audit_trail import AuditTrailStore
from setwise.service.stores.breaker import BreakerStore
from setwise.service.stores.certification import CertificationStore
from setwise.service.stores.database import READ_ONLY, fold_log
from setwise.service.stores.documents import CommentStore, DocumentStore
from setwise.service.stores.evidence import EvidenceStore
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
from setwise.service.stores.reports.counts import CountStore
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

    @contextmanager
    def __call__(
        self, *, read_only: bool = False, snapshot: bool = False
    ) -> Iterator["Transaction"]:
        """Open a transaction on a pooled connection, discarded after `StorageUnavailable`."""
        with nullcontext() if read_only else self._turn():
            connection = (self._reads if read_only else self._writes).connect()
            try:
                if snapshot and connection.dialect.name == "postgresql":
                    connection.execution_options(isolation_level="REPEATABLE READ")
                connection.begin()  # SQLite's transactions are always snapshots
                if not read_only:
                    refuse_foreign(connection)
                transaction = Transaction(connection)
                yield transaction
                if not read_only and not transaction.rolled_back:
                    transaction.commit()
            except StorageUnavailable:
                _discard(connection)
                raise
            finally:
                _close(connection)

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

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._queue is None:
            yield
            return
        if not self._queue.acquire(timeout=self._patience_s):
            raise StorageUnavailable(
                "The database is not available: too many writes wait for their turn."
            )
        try:
            yield
        finally:
            self._queue.release()


class Transaction:
    """The stores of one transaction.

    ``rolled_back``: Whether it commits nothing.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.rolled_back = False
        self.counts = CountStore(connection)
        self.truth = TruthStore(connection, self.counts)
        self.predictions = PredictionStore(connection, self.counts)
        self.reviews = ReviewStore(connection, self.truth)
        self.outcomes = OutcomeStore(connection, self.truth)
        self.documents = DocumentStore(connection, self.reviews)
        self.comments = CommentStore(connection)
        self.policies = PolicyStore(connection)
        self.evidence = EvidenceStore(connection)
        self.certifications = CertificationStore(connection)
        self.breakers = BreakerStore(connection)
        self.annotators = AnnotatorStore(connection)
        self.calibrations = CalibrationStore(connection)
        self.models = ModelStore(connection)
        self.labels = LabelStore(connection)
        self.keys = KeyStore(connection)
        self.people = PersonStore(connection)
        self.sessions = SessionStore(connection)
        self.attempts = SignInAttemptStore(connection)
        self.audit_trail = AuditTrailStore(connection)
        self.jobs = JobStore(connection)
        self.texts = TextStore(connection)
        self.outbox = OutboxStore(connection)
        self.endpoints = EndpointStore(connection)
        self.deliveries = DeliveryStore(connection)
        self.history = HistoryStore(connection)
        self.idempotency = IdempotencyStore(connection)
        self.comparisons = ComparisonStore(connection)
        self.backlog = BacklogStore(connection)

    def reports(self, segment: Segment = ALL_DOCUMENTS) -> ReportStore:
        """Return the aggregates of the documents of a segment."""
        return ReportStore(self._connection, segment)

    def show(self, *shown: object) -> None:
        """Store the response of a request with an idempotency key together with its effect.

        Call it with a secret that is shown once: a crash after the commit then loses nothing.
        """
        request = PRESENT.get()
        if request is not None and request.seal is not None:
            request.response = request.seal(*shown)

    def roll_back(self) -> None:
        """Undo all changes so far, and commit none."""
        self.rolled_back = True
        self.counts.forget()
        self._connection.rollback()

    def commit(self) -> None:
        """Make all changes permanent, or raise `StorageUnavailable`.

        The first commit of a request with an idempotency key stores the key; raises
        `RequestUnfinished` if a concurrent request was faster.
        """
        request = PRESENT.get()
        if request is None or request.claimed:
            self.counts.store()
            self._connection.commit()
            return
        self.idempotency.claim(request)
        self.counts.store()
        self._connection.commit()
        request.claimed, request.answered = True, request.response is not None


def _close(connection: Connection) -> None:
    try:
        connection.close()  # rolls back uncommitted changes
    except StorageUnavailable:
        # Nothing was committed, and the pool has dropped the connection. Do not hide the error
        # that caused the rollback.
        _discard(connection)


def _discard(connection: Connection) -> None:
    if not connection.closed:
        connection.invalidate()
        connection.close()
