"""What happens when a database does not answer: a clear refusal, nothing half done, recovery."""

import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, event, make_url, text

from setwise.service.domain.errors import StorageDamaged, StorageSlow, StorageUnavailable
from setwise.service.domain.predictions import Document, PredictionFilter
from setwise.service.stores.database import POOL_SIZE, create, sqlite_path
from setwise.service.stores.tables import metadata
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import migrate
from tests.kit.postgres import PostgresServer, find_binaries, run_server
from tests.samples import add_predictions, prediction


@pytest.fixture
def sqlite_engine(sqlite_url: str) -> Iterator[Engine]:
    engine = create(sqlite_url, patience_s=0.2)
    yield engine
    engine.dispose()


def store(begin: Transactions, document: Document | None = None) -> str:
    new_prediction = prediction(document=document)
    with begin() as transaction:
        add_predictions(transaction, new_prediction)
    return new_prediction.id


def stored(begin: Transactions) -> list[str]:
    with begin(read_only=True) as transaction:
        page = transaction.predictions.page(PredictionFilter(), after=None, limit=200)
    return [one.id for one in page.items]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "not a URL"),
        ("", "not a URL"),
        ("mysql://u:hush@host/db", "kind 'mysql' are not supported"),
        ("sqlite://", "needs a plain file"),
        ("sqlite:///:memory:", "needs a plain file"),
        ("sqlite:///file:x?mode=memory&uri=true", "needs a plain file"),
        ("postgresql+asyncpg://u:hush@host/db", "driver is psycopg, not 'asyncpg'"),
    ],
)
def test_an_address_that_cannot_serve_is_refused_without_its_password(
    url: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        create(url)
    assert "hush" not in str(refusal.value)


def test_a_bare_postgresql_address_gets_the_installed_driver() -> None:
    assert create("postgresql://u@host/db").driver == "psycopg"


def test_sqlite_keeps_what_was_committed_through_a_power_cut(sqlite_engine: Engine) -> None:
    with sqlite_engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_a_missing_file_is_an_error_and_not_an_empty_database(tmp_path: Path) -> None:
    engine = create(f"sqlite:///{tmp_path / 'gone.db'}")
    with pytest.raises(StorageUnavailable, match="cannot be opened"):
        store(Transactions(engine))
    assert not (tmp_path / "gone.db").exists()


def test_a_new_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    engine = create(f"sqlite:///{tmp_path / 'deep' / 'er' / 'new.db'}")
    migrate.upgrade(engine)
    assert stat.S_IMODE(sqlite_path(engine).stat().st_mode) == 0o600
    store(Transactions(engine))
    for beside in sqlite_path(engine).parent.iterdir():
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600
    engine.dispose()


def test_connections_that_meet_at_a_new_file_wait_for_each_other(tmp_path: Path) -> None:
    def connect(engine: Engine, all_here: threading.Barrier) -> None:
        all_here.wait()
        with engine.connect():
            pass

    for number in range(25):  # one in eight meets at the wrong moment
        file = tmp_path / f"{number}.db"
        file.touch()
        engine, all_here = create(f"sqlite:///{file}"), threading.Barrier(4)
        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(connect, engine, all_here) for _ in range(4)]
        engine.dispose()
        assert [call.exception() for call in calls] == [None] * 4


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "letter.db"
    path.write_text("Dear Sir or Madam, " * 500)
    with pytest.raises(StorageDamaged, match="not an SQLite database"):
        store(Transactions(create(f"sqlite:///{path}")))


def test_a_statement_that_takes_too_long_is_not_taken_for_a_database_that_is_away(
    postgres_url: str,
) -> None:
    engine = create(postgres_url)
    with engine.connect() as connection:
        connection.exec_driver_sql("SET LOCAL statement_timeout = 1")
        with pytest.raises(StorageSlow, match="took too long"):
            connection.exec_driver_sql("SELECT pg_sleep(10)")
    engine.dispose()


def test_a_lock_held_by_another_program_for_too_long_is_reported_and_passes(
    sqlite_engine: Engine,
) -> None:
    begin = Transactions(sqlite_engine)
    other = sqlite3.connect(sqlite_path(sqlite_engine), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageUnavailable, match="locked for too long"):
        store(begin)
    assert stored(begin) == []  # readers do not wait for a writer
    other.execute("ROLLBACK")
    other.close()
    made = store(begin)
    assert stored(begin) == [made]


def test_a_full_disk_is_reported_stores_nothing_and_passes(sqlite_url: str) -> None:
    engine = create(sqlite_url)
    begin = Transactions(engine)
    first = store(begin)
    # SQLite answers a page beyond its limit as it answers a disk without room.
    with engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    engine.dispose()
    _limit_pages(engine, pages)
    with pytest.raises(StorageUnavailable, match="disk is full"):
        store(begin, Document(text="x" * 200_000))
    assert stored(begin) == [first]
    _limit_pages(engine, 2**30)
    engine.dispose()
    second = store(begin, Document(text="x" * 200_000))
    assert stored(begin) == [second, first]
    engine.dispose()


def _limit_pages(engine: Engine, pages: int) -> None:
    @event.listens_for(engine, "connect")
    def _limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")


def test_a_mistake_of_ours_is_not_mistaken_for_a_fault_of_the_database(engine: Engine) -> None:
    with pytest.raises(Exception, match="no_such_table") as failure, engine.connect() as connection:
        connection.execute(text("SELECT * FROM no_such_table"))
    assert not isinstance(failure.value, StorageUnavailable)


def test_a_read_only_transaction_cannot_write_on_postgresql(postgres_url: str) -> None:
    engine = create(postgres_url)
    begin = Transactions(engine)
    with (
        pytest.raises(StorageUnavailable, match="accepts no writes"),
        begin(read_only=True) as transaction,
    ):
        add_predictions(transaction, prediction())
    store(begin)  # and the connection went back to the pool as it was
    engine.dispose()


def test_a_transaction_is_rolled_back_and_its_connection_free_after_any_error(
    engine: Engine,
) -> None:
    begin = Transactions(engine)

    def fail() -> None:
        with begin() as transaction:
            add_predictions(transaction, prediction())
            raise KeyboardInterrupt

    for _ in range(POOL_SIZE + 5):
        with pytest.raises(KeyboardInterrupt):
            fail()
    assert stored(begin) == []


def test_writers_of_one_process_take_turns_instead_of_failing(sqlite_engine: Engine) -> None:
    # Its patience at SQLite's lock is 0.2 s, yet ten writers of 0.1 s each all get through.
    begin = Transactions(sqlite_engine)

    def slow() -> None:
        with begin() as transaction:
            add_predictions(transaction, prediction())
            time.sleep(0.1)

    threads = [threading.Thread(target=slow) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stored(begin)) == 10


def test_more_threads_than_connections_wait_and_are_told_when_it_takes_too_long(
    postgres_url: str,
) -> None:
    engine = create(postgres_url)
    engine.pool._timeout = 0.2  # for a free connection; opening one may take a while
    begin = Transactions(engine)
    opened = [begin(read_only=True) for _ in range(POOL_SIZE)]
    for one in opened:
        one.__enter__()
    with pytest.raises(StorageUnavailable, match="every connection is in use"):
        stored(begin)
    for one in opened:
        one.__exit__(None, None, None)
    assert stored(begin) == []
    engine.dispose()


def test_nobody_listening_is_reported(tmp_path: Path) -> None:
    engine = create("postgresql+psycopg://u:hush@127.0.0.1:1/db", patience_s=1)
    with pytest.raises(StorageUnavailable, match="does not answer") as refusal:
        stored(Transactions(engine))
    assert "hush" not in refusal.value.detail


def test_an_unknown_database_is_reported(postgres_server: PostgresServer) -> None:
    url = postgres_server.admin.set(database="no_such_database")
    engine = create(url.render_as_string(hide_password=False))
    with pytest.raises(StorageUnavailable, match="database"):
        stored(Transactions(engine))


@pytest.fixture
def end_sessions(postgres_url: str, postgres_server: PostgresServer) -> Callable[[], None]:
    """Return what ends every session on the test's database, as an administrator would."""

    def end() -> None:
        address = postgres_server.admin.set(drivername="postgresql")
        with psycopg.connect(address.render_as_string(hide_password=False)) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                [make_url(postgres_url).database],
            )

    return end


def test_a_session_that_the_server_ended_is_reported_and_the_next_works(
    postgres_url: str, end_sessions: Callable[[], None]
) -> None:
    engine = create(postgres_url)
    begin = Transactions(engine)
    first = store(begin)

    def interrupted() -> None:
        with begin() as transaction:
            add_predictions(transaction, prediction())
            end_sessions()
            add_predictions(transaction, prediction())

    with pytest.raises(StorageUnavailable):
        interrupted()
    assert stored(begin) == [first]
    end_sessions()  # idle ones in the pool are noticed before they are used
    assert stored(begin) == [first]
    engine.dispose()


def test_a_commit_that_the_server_did_not_confirm_is_reported(
    postgres_url: str, end_sessions: Callable[[], None]
) -> None:
    engine = create(postgres_url)
    begin = Transactions(engine)

    def unconfirmed() -> None:
        with begin() as transaction:
            add_predictions(transaction, prediction())
            end_sessions()

    with pytest.raises(StorageUnavailable):
        unconfirmed()
    assert stored(begin) == []
    engine.dispose()


def test_a_lost_session_does_not_hide_the_error_that_ended_the_work(
    postgres_url: str, end_sessions: Callable[[], None]
) -> None:
    engine = create(postgres_url)
    begin = Transactions(engine)

    def fail() -> None:
        with begin() as transaction:
            add_predictions(transaction, prediction())
            end_sessions()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert stored(begin) == []
    engine.dispose()


def test_a_writer_does_not_wait_for_ever_for_those_of_its_process(sqlite_engine: Engine) -> None:
    begin = Transactions(sqlite_engine, patience_s=0.1)
    with begin(), pytest.raises(StorageUnavailable, match="wait for their turn"):
        store(begin)
    made = store(begin)
    assert stored(begin) == [made]


def test_a_database_without_a_policy_says_what_to_do(empty_engine: Engine) -> None:
    if empty_engine.dialect.name == "sqlite":
        sqlite_path(empty_engine).touch()
    metadata.create_all(empty_engine)
    with (
        Transactions(empty_engine)(read_only=True) as transaction,
        pytest.raises(StorageUnavailable, match="setwise db upgrade"),
    ):
        transaction.policies.current()


def test_only_an_sqlite_engine_has_a_file() -> None:
    with pytest.raises(ValueError, match="not an SQLite file"):
        sqlite_path(create("postgresql://u@host/db"))


@pytest.mark.slow
def test_a_server_that_was_away_is_used_again_without_a_restart_of_ours() -> None:
    engine = None
    with run_server(find_binaries()) as server:
        url = server.make()
        engine = create(url.render_as_string(hide_password=False), patience_s=30)
        migrate.upgrade(engine)
        begin = Transactions(engine)
        first = store(begin)
        server.stop()
        for _ in range(3):
            with pytest.raises(StorageUnavailable):
                store(begin)
        server.start()
        second = store(begin)
        assert stored(begin) == [second, first]
        engine.dispose()


def test_connections_carry_a_name_for_the_operator(postgres_url: str) -> None:
    engine = create(postgres_url)
    with engine.connect() as connection:
        (name,) = connection.exec_driver_sql("SHOW application_name").one()
    engine.dispose()
    assert name == "setwise"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_process_opens_no_more_connections_than_its_pool_may(
    kind: str, sqlite_url: str, request: pytest.FixtureRequest
) -> None:
    url = sqlite_url if kind == "sqlite" else request.getfixturevalue("postgres_url")
    engine = create(url, pool_size=3, patience_s=0.01)
    if kind == "sqlite":
        migrate.upgrade(engine)
    with ExitStack() as opened:
        for _ in range(3):
            opened.enter_context(engine.connect())
        with pytest.raises(StorageUnavailable, match="every connection is in use"):
            engine.connect()
    engine.dispose()
