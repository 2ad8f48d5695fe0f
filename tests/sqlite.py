"""A migrated SQLite file for each test, and readers for all that a test may want to see in it."""

import atexit
import shutil
import tempfile
import weakref
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event, select

from setwise.service.domain.accounts import ApiKey, Person, Session
from setwise.service.domain.audit_trail import AuditEvent
from setwise.service.domain.certification import Certification
from setwise.service.domain.jobs import Job, JobFilter
from setwise.service.domain.policy import Policy
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reports import Span
from setwise.service.domain.reviews import Annotation, ReviewTask
from setwise.service.domain.webhooks import (
    Delivery,
    DeliveryAttempt,
    Endpoint,
    Message,
    MessageType,
)
from setwise.service.stores import tables
from setwise.service.stores.database import create
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import migrate

_ALL: Any = {"after": None, "limit": 1_000_000}
_names = count()


@cache
def template() -> Path:
    """Return a migrated file, made once a process, from which each database is copied."""
    folder = tempfile.mkdtemp(prefix="setwise-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "template.db"
    engine = create(f"sqlite:///{path}")
    migrate.upgrade(engine)
    engine.dispose()  # the last connection folds the write-ahead log into the file
    return path


class Database(Transactions):
    """Transactions on an SQLite file that goes with this object."""

    def __init__(self) -> None:
        path = template().with_name(f"{next(_names)}.db")
        shutil.copyfile(template(), path)
        engine = create(f"sqlite:///{path}")
        event.listen(engine, "connect", hurry)
        super().__init__(engine)
        self.engine, self._path = engine, path
        self.contents = Contents(self)
        weakref.finalize(self, _remove, engine, path)

    def become(self, other: "Database") -> None:
        """Hold what another one holds now."""
        for database in (self, other):
            database.engine.dispose()  # which folds the write-ahead log into the file
        shutil.copyfile(other._path, self._path)


class Contents:
    """What is stored now, by id and in the order of writing."""

    def __init__(self, begin: Transactions) -> None:
        self._begin = weakref.ref(begin)

    @property
    def predictions(self) -> dict[str, Prediction]:
        with self._open() as transaction:
            return {one.id: one for one in transaction.history.predictions(Span(), **_ALL)}

    @property
    def idempotency(self) -> dict[tuple[str, str], tuple[str, str]]:
        return {
            (row["client_id"], row["key"]): (row["prediction_id"], row["request_digest"])
            for row in self._rows(tables.idempotency_keys)
        }

    @property
    def reviews(self) -> dict[str, ReviewTask]:
        with self._open() as transaction:
            found = transaction.reviews.page(state=None, reason=None, **_ALL).items
        return {task.id: task for task in found}

    @property
    def annotations(self) -> dict[str, Annotation]:
        with self._open() as transaction:
            found = transaction.history.annotations(Span(), **_ALL)
        return {one.task_id: one for one, _ in found}

    @property
    def events(self) -> dict[str, AuditEvent]:
        with self._open() as transaction:
            return {one.id: one for one in transaction.history.events(Span(), **_ALL)}

    @property
    def policies(self) -> list[Policy]:
        versions = sorted(self._rows(tables.policies), key=lambda row: row["ordinal"])
        with self._open() as transaction:
            return [transaction.policies.get(row["version"]) for row in versions]

    @property
    def certifications(self) -> dict[str, Certification]:
        with self._open() as transaction:
            return {one.id: one for one in transaction.certifications.page(**_ALL).items}

    @property
    def keys(self) -> dict[str, ApiKey]:
        with self._open() as transaction:
            return {one.id: one for one in transaction.keys.all()}

    @property
    def people(self) -> dict[str, Person]:
        with self._open() as transaction:
            return {one.id: one for one in transaction.people.all()}

    @property
    def sessions(self) -> dict[str, Session]:
        return {row["id"]: Session(**row) for row in self._rows(tables.sessions)}

    @property
    def jobs(self) -> dict[str, Job]:
        with self._open() as transaction:
            found = transaction.jobs.page(JobFilter(), **_ALL).items
        return {job.id: job for job in reversed(found)}

    @property
    def messages(self) -> dict[str, Message]:
        rows = sorted(self._rows(tables.outbox_messages), key=lambda row: row["ordinal"])
        return {row["id"]: _message(row) for row in rows}

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        with self._open() as transaction:
            return {one.id: one for one in transaction.endpoints.all()}

    @property
    def deliveries(self) -> dict[str, Delivery]:
        with self._open() as transaction:
            found = transaction.deliveries.page(state=None, endpoint_id=None, **_ALL).items
        return {one.id: one for one in reversed(found)}

    @property
    def attempts(self) -> dict[str, DeliveryAttempt]:
        with self._open() as transaction:
            return {
                attempt.id: attempt
                for delivery in self.deliveries
                for attempt in transaction.deliveries.attempts(delivery)
            }

    def __repr__(self) -> str:
        """Return every row of every table, for tests of what is never stored."""
        return repr({name: self._rows(table) for name, table in tables.metadata.tables.items()})

    def _open(self) -> Any:
        begin = self._begin()
        assert begin is not None
        return begin(read_only=True)

    def _rows(self, table: Any) -> list[dict[str, Any]]:
        begin = self._begin()
        assert isinstance(begin, Database)
        with begin.engine.connect() as connection:
            return [dict(row) for row in connection.execute(select(table)).mappings()]


def _message(row: dict[str, Any]) -> Message:
    columns = ("id", "client_id", "document_key", "data", "created_at")
    return Message(type=MessageType(row["type"]), **{name: row[name] for name in columns})


def hurry(connection: Any, _: object) -> None:
    """Leave out what only a crash of the machine would need."""
    connection.execute("PRAGMA synchronous=OFF")


def _remove(engine: Engine, path: Path) -> None:
    engine.dispose()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink(missing_ok=True)
