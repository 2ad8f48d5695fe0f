"""Databases for tests: a migrated SQLite file for each, or a database on a PostgreSQL server.

SQL is proved on both (`tests/stores`); what stands above it runs on SQLite, and one journey of each
noun on both. `Contents` reads all that a test may want to see.

A pytest plugin. ``SETWISE_TEST_POSTGRES_URL`` names a server where tests may make databases.
Without any, tests on PostgreSQL are skipped with the reason, and fail where
``SETWISE_REQUIRE_POSTGRES`` is set.
"""

import atexit
import os
import shutil
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, make_url, select, text

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
from setwise.service.stores.columns.types import cipher_of
from setwise.service.stores.database import create, sqlite_path
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import migrate
from tests.kit.postgres import PostgresServer, server_or_skip

BOTH = ("sqlite", "postgresql")

ON_BOTH = pytest.mark.parametrize("database_kind", BOTH, scope="module")
"""For one journey of each noun, and for facts in which the databases differ."""

_ALL: Any = {"after": None, "limit": 1_000_000}
_names = count()
MOST_COMPILED = 3_000


class Compiled(dict[Any, Any]):
    """Statements compiled once a process: an engine for each test would compile each of them again.

    SQLAlchemy's keys begin with the dialect, and each engine has its own.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, statement: Any) -> None:
        if len(self) >= MOST_COMPILED:
            self.clear()
        super().__setitem__(key[1:], statement)


_compiled: dict[str, Compiled] = defaultdict(Compiled)


@event.listens_for(Engine, "engine_connect")
def _compile_once(connection: Connection) -> None:
    """Share what plain columns compile to; sealed ones have the cipher of their engine."""
    dialect = connection.dialect
    if cipher_of(dialect) is None:
        connection.execution_options(compiled_cache=_compiled[dialect.name])


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
        assert begin is not None
        with begin._reads.connect() as connection:
            return [dict(row) for row in connection.execute(select(table)).mappings()]


def _message(row: dict[str, Any]) -> Message:
    columns = ("id", "client_id", "document_key", "data", "created_at")
    return Message(type=MessageType(row["type"]), **{name: row[name] for name in columns})


def hurry(connection: Any, _: object) -> None:
    """Leave out what only a crash of the machine would need."""
    connection.execute("PRAGMA synchronous=OFF")


@contextmanager
def statements_of(engine: Engine) -> Iterator[list[str]]:
    """Give the list to which every statement on an engine is added."""
    statements: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", note)


def _remove(engine: Engine, path: Path) -> None:
    engine.dispose()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Return a server for this session; with several workers, each has its own."""
    given = os.environ.get("SETWISE_TEST_POSTGRES_URL")
    if given:
        yield PostgresServer(make_url(given).set(drivername="postgresql+psycopg"))
        return
    with server_or_skip() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> Iterator[str]:
    """Return the name of a migrated database, from which each test's is copied."""
    url = postgres_server.make()
    engine = create(url.render_as_string(hide_password=False))
    migrate.upgrade(engine)
    engine.dispose()
    assert url.database is not None
    yield url.database
    postgres_server.drop(url)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Return the URL of a migrated SQLite file of the test's own."""
    path = tmp_path / "setwise.db"
    shutil.copyfile(template(), path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """Return the URL of a migrated PostgreSQL database of the test's own."""
    url = postgres_server.make(template=postgres_template)
    yield url.render_as_string(hide_password=False)
    postgres_server.drop(url)


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """Return the URL of a PostgreSQL database without tables."""
    url = postgres_server.make()
    yield url.render_as_string(hide_password=False)
    postgres_server.drop(url)


@pytest.fixture(scope="session")
def database_kind() -> str:
    """Return where tests run: on SQLite, unless a folder or ``ON_BOTH`` says otherwise."""
    return "sqlite"


@pytest.fixture
def database_url(request: pytest.FixtureRequest, database_kind: str) -> str:
    """Return the URL of a migrated database of the test's own."""
    name = "sqlite_url" if database_kind == "sqlite" else "postgres_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
def empty_database_url(request: pytest.FixtureRequest, database_kind: str, tmp_path: Path) -> str:
    """Return the URL of a database without tables; the SQLite file does not exist yet."""
    if database_kind == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    url: str = request.getfixturevalue("empty_postgres_url")
    return url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Return an engine on a migrated database."""
    engine = create(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def empty_engine(empty_database_url: str) -> Iterator[Engine]:
    """Return an engine on a database without tables."""
    engine = create(empty_database_url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def module_engine(
    request: pytest.FixtureRequest, database_kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """Return an engine that the tests of a module share; each undoes what it adds."""
    with ExitStack() as stack:
        if database_kind == "sqlite":
            path = tmp_path_factory.mktemp("module") / "setwise.db"
            shutil.copyfile(template(), path)
            url = f"sqlite:///{path}"
        else:
            server = request.getfixturevalue("postgres_server")
            database = server.make(request.getfixturevalue("postgres_template"))
            stack.callback(server.drop, database)
            url = database.render_as_string(hide_password=False)
        engine = create(url)
        stack.callback(engine.dispose)
        yield engine


@pytest.fixture
def begin(request: pytest.FixtureRequest, database_kind: str) -> Iterator[Transactions]:
    """Open transactions on a migrated database of the test's own."""
    if database_kind == "sqlite":
        yield Database()
        return
    engine = create(request.getfixturevalue("postgres_url"))
    yield Transactions(engine)
    engine.dispose()


def places_of(engine: Engine, word: str) -> list[str]:
    """Return SQLite's files that hold a word, byte by byte, or PostgreSQL's tables."""
    if engine.dialect.name == "sqlite":
        path = sqlite_path(engine)
        files = path.parent.glob(f"{path.name}*")
        return [str(file) for file in files if word.encode() in file.read_bytes()]
    with engine.connect() as connection:
        query = text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        names = list(connection.execute(query).scalars())
        return [
            name
            for name in names
            if any(
                word in row
                for row in connection.execute(text(f'SELECT t::text FROM "{name}" t')).scalars()
            )
        ]
