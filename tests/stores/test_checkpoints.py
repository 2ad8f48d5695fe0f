"""The log of an SQLite file is copied into it beside those who write."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from setwise.service.domain.predictions import Document
from setwise.service.stores.checkpoints import Checkpoints
from setwise.service.stores.database import create, sqlite_path
from setwise.service.stores.transaction import Transactions
from tests.samples import add_predictions, prediction

PATIENCE_S = 60.0


@pytest.fixture
def sqlite_engine(sqlite_url: str) -> Iterator[Engine]:
    engine = create(sqlite_url)
    yield engine
    engine.dispose()


def store(engine: Engine, text: str) -> None:
    with Transactions(engine)() as transaction:
        add_predictions(transaction, prediction(document=Document(text=text)))
        transaction.commit()


def until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_is_committed_soon_stands_in_the_file_itself(sqlite_engine: Engine) -> None:
    path = sqlite_path(sqlite_engine)
    store(sqlite_engine, "the first needle")
    assert b"the first needle" not in path.read_bytes()  # but in the log
    checkpoints = Checkpoints(sqlite_engine)
    checkpoints.start()
    until(lambda: b"the first needle" in path.read_bytes())
    store(sqlite_engine, "the second needle")
    until(lambda: b"the second needle" in path.read_bytes())
    checkpoints.stop()


def test_a_writer_and_a_copy_do_not_wait_for_each_other(sqlite_engine: Engine) -> None:
    path = sqlite_path(sqlite_engine)
    store(sqlite_engine, "a needle")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        checkpoints = Checkpoints(sqlite_engine)
        checkpoints.start()
        until(lambda: b"a needle" in path.read_bytes())
        writer.execute("ROLLBACK")
        checkpoints.stop()


def test_a_file_that_is_away_for_a_while_ends_no_copying(
    sqlite_engine: Engine, tmp_path: Path
) -> None:
    path = sqlite_path(sqlite_engine)
    sqlite_engine.dispose()
    moved = path.rename(tmp_path / "moved")
    checkpoints = Checkpoints(sqlite_engine)
    checkpoints.start()
    time.sleep(0.6)
    moved.rename(path)
    store(sqlite_engine, "a needle")
    until(lambda: b"a needle" in path.read_bytes())
    checkpoints.stop()
