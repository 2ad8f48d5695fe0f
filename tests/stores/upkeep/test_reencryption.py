"""Sealed values stay in their rows, and move to another key while the service runs."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from sqlalchemy import Engine, text, update

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.domain.predictions import Document
from setwise.service.domain.text import UNREADABLE
from setwise.service.stores import tables
from setwise.service.stores.columns.ciphers import TextCipher
from setwise.service.stores.columns.types import InRow
from setwise.service.stores.database import create
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import encryption
from tests.fakes import START
from tests.samples import ANN, add_predictions, endpoint, prediction, task

ONE, TWO = bytes(range(32)), bytes(range(1, 33))

Open = Callable[..., Engine]


@pytest.fixture
def open_database(database_url: str) -> Iterator[Open]:
    """Open the same database under other keys."""
    with ExitStack() as stack:

        def engine(*keys: bytes, noted: bool = True) -> Engine:
            made = create(database_url, cipher=TextCipher(keys) if keys else None)
            stack.callback(made.dispose)
            if noted:
                encryption.note_key(made, START)
            return made

        yield engine


def silent(_: float, __: str) -> None:
    pass


def stored(engine: Engine, *, client: str = "clinic", words: str = "fever") -> str:
    one = prediction(document=Document("note", words, metadata={"ward": words}))
    one = one._replace(client_id=client)
    with Transactions(engine)() as transaction:
        add_predictions(transaction, one)
    return one.id


def text_of(engine: Engine, prediction_id: str) -> str | None:
    """Return a stored text, or `UNREADABLE`."""
    with Transactions(engine)(read_only=True) as transaction:
        kept = transaction.predictions.get(prediction_id)
        assert kept is not None
        return UNREADABLE if kept.document.unreadable else kept.document.text


def unguarded(engine: Engine, *statements: str) -> None:
    """Change rows as somebody could who owns the database."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL session_replication_role = replica"))
        else:
            names = connection.execute(
                text("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            ).scalars()
            for name in list(names):
                connection.execute(text(f"DROP TRIGGER {name}"))
        for statement in statements:
            connection.execute(text(statement))


@pytest.mark.parametrize("column", ["text", "metadata"])
def test_a_value_that_was_moved_to_another_row_is_refused(open_database: Open, column: str) -> None:
    engine = open_database(ONE)
    victim, attacker = stored(engine), stored(engine, client="other")
    unguarded(
        engine,
        f"UPDATE predictions SET {column} = "
        f"(SELECT {column} FROM predictions WHERE id = '{victim}') WHERE id = '{attacker}'",
    )
    assert text_of(engine, attacker) == UNREADABLE
    assert text_of(engine, victim) == "fever"


def test_a_row_that_was_given_to_another_client_is_refused(open_database: Open) -> None:
    engine = open_database(ONE)
    victim = stored(engine)
    unguarded(engine, f"UPDATE predictions SET client_id = 'other' WHERE id = '{victim}'")
    assert text_of(engine, victim) == UNREADABLE


def test_signing_secrets_and_comments_do_not_move_either(open_database: Open) -> None:
    engine = open_database(ONE)
    told, mine = endpoint(), endpoint()
    waiting, other = task(), task()
    with Transactions(engine)() as transaction:
        transaction.endpoints.add(told)
        transaction.endpoints.add(mine)
        add_predictions(transaction, waiting.prediction, other.prediction)
        for one in (waiting, other):
            transaction.reviews.add(one)
            held_task = one.claimed(ANN.id, START, timedelta(0))
            transaction.reviews.save(held_task.skipped(ANN.id, "it says fever", START))
    unguarded(
        engine,
        "UPDATE webhook_endpoints SET secrets = "
        f"(SELECT secrets FROM webhook_endpoints WHERE id = '{told.id}') WHERE id = '{mine.id}'",
        "UPDATE review_skips SET reason = "
        f"(SELECT reason FROM review_skips WHERE task_id = '{waiting.id}') "
        f"WHERE task_id = '{other.id}'",
    )
    with Transactions(engine)(read_only=True) as transaction:
        assert transaction.endpoints.get(mine.id).secrets == ()
        assert [skip.reason for skip in transaction.reviews.get(other.id).skips] == [UNREADABLE]


@pytest.mark.parametrize(
    ("column", "planted"), [("text", "never said"), ("metadata", '{"ward": "east"}')]
)
def test_plain_text_beside_sealed_texts_is_refused(
    open_database: Open, column: str, planted: str
) -> None:
    engine = open_database(ONE)
    encryption.note_key(engine, START)
    one = stored(engine)
    unguarded(engine, f"UPDATE predictions SET {column} = '{planted}' WHERE id = '{one}'")
    assert text_of(engine, one) == UNREADABLE
    with pytest.raises(encryption.NotDone, match=f"predictions.{column} of {one}"):
        encryption.reseal(engine, silent)


def test_what_was_erased_opens_under_a_key(open_database: Open) -> None:
    engine = open_database(ONE)
    one = stored(engine)
    with Transactions(engine)() as transaction:
        assert transaction.texts.purge([one], START) == 1
    assert text_of(engine, one) is None


def test_a_key_is_refused_for_a_database_that_was_filled_without_one(open_database: Open) -> None:
    before = stored(open_database())
    late = open_database(ONE, noted=False)
    assert encryption.unsealed(open_database()) is None
    assert "without encryption" in (encryption.unsealed(late) or "")
    assert text_of(late, before) == UNREADABLE
    with pytest.raises(encryption.NotDone):
        encryption.reseal(late, silent)


def test_a_damaged_value_is_named_and_does_not_stop_the_others(open_database: Open) -> None:
    old = open_database(ONE)
    damaged, sound = stored(old), stored(old)
    unguarded(old, f"UPDATE predictions SET text = text || 'AAAA' WHERE id = '{damaged}'")
    both = open_database(TWO, ONE)
    with pytest.raises(encryption.NotDone, match=damaged):
        encryption.reseal(both, silent)
    assert text_of(open_database(TWO), sound) == "fever"
    with pytest.raises(encryption.NotDone):
        encryption.retire(both)
    assert encryption.missing_keys(open_database(TWO)) is not None


def test_the_old_key_stays_while_a_server_writes_under_it(open_database: Open) -> None:
    old, both = open_database(ONE, TWO), open_database(TWO, ONE)
    with pytest.raises(encryption.NotDone, match="restart every server"):
        # A server that was not restarted writes during every pass.
        encryption.reseal(both, lambda fraction, _: None if fraction else stored(old))
    stored(old)
    with pytest.raises(encryption.NotDone, match="restart every server"):
        encryption.retire(both)
    encryption.reseal(both, silent)
    with pytest.raises(encryption.NotDone, match="restart every server"):
        encryption.retire(both, lambda: True)  # as with a file of a job
    assert encryption.foreign(old) is None
    encryption.retire(both)
    assert encryption.foreign(old) is not None
    assert encryption.foreign(both) is None


def test_nothing_is_written_under_a_retired_key(open_database: Open) -> None:
    old, both = open_database(ONE, TWO), open_database(TWO, ONE)
    encryption.retire(both)
    with pytest.raises(StorageUnavailable, match="was retired"):
        stored(old)
    with pytest.raises(StorageUnavailable, match="was retired"), encryption.writing(old):
        pytest.fail("a file became complete")
    stored(both)
    assert encryption.unreadable(open_database(TWO)) is None


def test_a_server_without_a_key_in_use_does_not_write(open_database: Open) -> None:
    """It could not read what the others write, and would export it with holes."""
    old = open_database(ONE)
    open_database(TWO, ONE)
    with pytest.raises(StorageUnavailable, match="SETWISE_ENCRYPTION_KEYS lacks"):
        stored(old)


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)  # SQLite has one writer
def test_the_old_key_waits_for_a_transaction_that_writes_under_it(open_database: Open) -> None:
    old, both = open_database(ONE, TWO), open_database(TWO, ONE)
    outcome: list[BaseException | None] = []

    def retire() -> None:
        try:
            encryption.retire(both)
        except encryption.NotDone as error:
            outcome.append(error)
        else:
            outcome.append(None)

    thread = threading.Thread(target=retire)
    with Transactions(old)() as transaction:
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        add_predictions(transaction, prediction(document=Document("note", "fever")))
    thread.join()
    assert isinstance(outcome[0], encryption.NotDone)
    assert encryption.foreign(old) is None


def test_values_under_a_key_that_is_gone_are_counted(open_database: Open) -> None:
    old = open_database(ONE)
    for _ in range(3):
        stored(old)
    both = open_database(TWO, ONE)
    stored(both)
    # As before 0.2.0, when a server could write on under a retired key.
    unguarded(both, f"DELETE FROM encryption_keys WHERE id = '{TextCipher([ONE]).sealing_id}'")
    assert encryption.unreadable(both) is None
    fault = encryption.unreadable(open_database(TWO)) or ""
    assert encryption.unreadable(open_database(TWO), newest=None) == fault
    assert f"3 of predictions.text (key {TextCipher([ONE]).sealing_id})" in fault
    assert "3 of predictions.metadata" in fault
    assert encryption.unreadable(open_database(TWO), newest=1) is None
    keyless = encryption.unreadable(open_database()) or ""
    assert all(TextCipher([key]).sealing_id in keyless for key in (ONE, TWO))


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_a_start_reads_no_more_of_a_long_history_whose_columns_are_empty(
    open_database: Open,
) -> None:
    """No document has features here, so no newest value of theirs is ever found."""
    engine = open_database(ONE)
    columns = [column.name for column in tables.predictions.c if column.name != "id"]
    named = ", ".join(columns)

    def steps(rows: int) -> int:
        first = stored(engine)
        with engine.begin() as connection:
            connection.execute(
                text(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < :rows)"
                    f" INSERT INTO predictions (id, {named}) SELECT substr(id, 1, 24)"
                    f" || printf('%06d%06d', :rows, i), {named} FROM n, predictions WHERE id = :id"
                ),
                {"rows": rows, "id": first},
            )
        counted = 0

        def count() -> None:
            nonlocal counted
            counted += 1

        with engine.connect() as connection:
            connection.connection.driver_connection.set_progress_handler(count, 100)  # type: ignore[union-attr]
        assert encryption.unreadable(engine, newest=20) is None
        return counted

    few, many = steps(20), steps(2_000)
    assert many < 1.5 * few + 50


def test_a_server_reads_and_writes_while_keys_change(open_database: Open) -> None:
    old = open_database(ONE)
    encryption.note_key(old, START)
    ids = [stored(old, words=f"fever {number}") for number in range(40)]
    server, operator = open_database(TWO, ONE), open_database(TWO, ONE)
    encryption.note_key(server, START)
    event, faults, added = threading.Event(), [], list[str]()

    def serve() -> None:
        number = 0
        while not event.is_set():
            try:
                assert text_of(server, ids[number % 40]) == f"fever {number % 40}"
                added.append(stored(server))
            except Exception as error:  # noqa: BLE001 -- whatever it is fails the test
                faults.append(error)
                return
            number += 1

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert encryption.reseal(operator, silent) == 80
    finally:
        event.set()
        thread.join()
    assert not faults
    encryption.retire(operator)
    alone = open_database(TWO)
    assert [text_of(alone, one) for one in ids] == [f"fever {number}" for number in range(40)]
    assert all(text_of(alone, one) == "fever" for one in added)


def test_what_was_planted_in_a_purged_row_is_purged_again(open_database: Open) -> None:
    engine = open_database(ONE)
    planted = stored(engine)
    for hour in range(2):
        with Transactions(engine)() as transaction:
            count = transaction.texts.purge([planted], START + timedelta(hours=hour))
        assert count == (hour == 0)
        assert text_of(engine, planted) is None
        unguarded(engine, f"UPDATE predictions SET text = 'planted' WHERE id = '{planted}'")
        assert text_of(engine, planted) == UNREADABLE


def _killed_half_way(url: str) -> None:
    encryption._ROWS_AT_ONCE = 3
    engine = create(url, cipher=TextCipher([TWO, ONE]))
    written = 0

    real = encryption._reseal_some

    def some(*arguments: object) -> object:
        nonlocal written
        written += 1
        if written == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    encryption._reseal_some = some
    encryption.reseal(engine, silent)


def test_a_killed_change_of_keys_goes_on_where_it_stopped(
    open_database: Open, database_url: str
) -> None:
    old = open_database(ONE)
    encryption.note_key(old, START)
    ids = [stored(old) for _ in range(20)]
    process = multiprocessing.get_context("spawn").Process(
        target=_killed_half_way, args=(database_url,)
    )
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    both = open_database(TWO, ONE)
    rest = encryption.reseal(both, silent)
    assert 0 < rest < 40
    encryption.retire(both)
    assert all(text_of(open_database(TWO), one) == "fever" for one in ids)


def test_a_sealed_column_takes_no_value_without_its_row(open_database: Open) -> None:
    engine = open_database(ONE)
    one = stored(engine)
    change = update(tables.predictions).where(tables.predictions.c.id == one)
    with engine.begin() as connection:
        connection.execute(change.values(text=InRow(None, ()), document_id=None))
    with engine.begin() as connection, pytest.raises(Exception, match="value"):
        connection.execute(change.values(text="fever"))
