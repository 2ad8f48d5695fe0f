"""What is encrypted in the database, by which key, and how the key is changed."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.documents import Comment, CommentKind
from setwise.service.domain.predictions import Document
from setwise.service.domain.reviews import Annotation, HeldDecision
from setwise.service.domain.text import UNREADABLE
from setwise.service.stores import tables
from setwise.service.stores.columns.ciphers import TextCipher
from setwise.service.stores.database import create
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import encryption, grants
from tests.fakes import START
from tests.samples import ANN, add_predictions, endpoint, prediction, task

ONE, TWO = bytes(range(32)), bytes(range(1, 33))
SECRETS = (
    "marker-text",
    "marker-meta",
    "marker-answer",
    "marker-comment",
    "marker-decision",
    "marker-reason",
    "whsec_",
)
PLACES = {
    "predictions.text",
    "predictions.features",
    "predictions.answer",
    "predictions.metadata",
    "annotations.comment",
    "comments.text",
    "review_skips.reason",
    "review_tasks.decided_comment",
    "webhook_endpoints.secrets",
}

Open = Callable[..., Engine]


@pytest.fixture
def open_database(database_url: str) -> Iterator[Open]:
    """Open the same database under other keys."""
    with ExitStack() as stack:

        def engine(*keys: bytes) -> Engine:
            made = create(database_url, cipher=TextCipher(keys) if keys else None)
            stack.callback(made.dispose)
            encryption.note_key(made, START)
            return made

        yield engine


def fill(engine: Engine) -> tuple[str, str]:
    """Store something in every sealed column; returns the ids of a prediction and an endpoint."""
    document = Document("note-1", "marker-text", metadata={"ward": "marker-meta", "n": 1.5})
    waiting = task(prediction(document=document))
    answer = {"scores": {"marker-answer": 0.5}}
    vector = prediction(document=Document("note-2", None, {"bp": 0.1 + 0.2}, answer=answer))
    told = endpoint()
    with Transactions(engine)() as transaction:
        add_predictions(transaction, waiting.prediction, vector)
        transaction.reviews.add(waiting)
        skipped_task = waiting.claimed(ANN.id, START, timedelta(0))
        transaction.reviews.save(skipped_task.skipped(ANN.id, "marker-reason", START))
        decided_task = task(vector)
        transaction.reviews.add(decided_task)
        decision = HeldDecision(("a",), "marker-decision", ANN.name, START, START)
        claimed_task = decided_task.claimed(ANN.id, START, timedelta(0))
        transaction.reviews.save(
            claimed_task.decided(ANN.id, claimed_task.version, decision, timedelta(0))
        )
        transaction.reviews.annotate(
            Annotation(
                id=prediction().id,
                task_id=waiting.id,
                prediction_id=waiting.prediction.id,
                reviewer=ANN.id,
                labels=("a",),
                comment="marker-comment",
                agreed=False,
                chosen_rank=None,
                suggestion_shown=True,
                seconds=1.0,
                created_at=START,
            )
        )
        transaction.endpoints.add(told)
        thread = prediction().id
        remark = "marker-comment"
        transaction.comments.add(
            Comment(
                thread, waiting.prediction.id, thread, CommentKind.COMMENT, ANN.id, remark, START
            )
        )
    return waiting.prediction.id, told.id


def dump(engine: Engine) -> str:
    """Return everything that the database holds, as it holds it."""
    found = []
    with engine.connect() as connection:
        for name in (
            "predictions",
            "annotations",
            "review_tasks",
            "review_skips",
            "comments",
            "webhook_endpoints",
        ):
            for row in connection.execute(text(f"SELECT * FROM {name}")):
                found.append(json.dumps([str(value) for value in row]))
    return "\n".join(found)


def read(engine: Engine, ids: tuple[str, str]) -> tuple[object, ...]:
    with Transactions(engine)(read_only=True) as transaction:
        kept = transaction.predictions.get(ids[0])
        (annotation,) = transaction.reviews.annotations_of(ids[0])
        endpoint = transaction.endpoints.get(ids[1])
        assert kept is not None
        assert endpoint is not None
        return kept.document, annotation.comment, endpoint.secrets


def test_every_column_that_people_write_into_is_sealed() -> None:
    assert {place.name for place in encryption.sealed_columns()} == PLACES


def test_without_a_key_everything_is_plain(open_database: Open) -> None:
    engine = open_database()
    fill(engine)
    assert all(secret in dump(engine) for secret in SECRETS)


def test_with_a_key_nothing_is_and_it_reads_the_same(open_database: Open) -> None:
    engine = open_database(ONE)
    ids = fill(engine)
    held = dump(engine)
    assert not any(secret in held for secret in SECRETS)
    document, comment, secrets = read(engine, ids)
    assert document == Document("note-1", "marker-text", metadata={"ward": "marker-meta", "n": 1.5})
    assert comment == "marker-comment"
    assert secrets == endpoint().secrets


def test_without_its_key_nothing_can_be_read(open_database: Open) -> None:
    ids = fill(open_database(ONE))
    for other in (open_database(), open_database(TWO)):
        document, comment, secrets = read(other, ids)
        assert document == Document("note-1", metadata={}, unreadable=True)
        assert comment == UNREADABLE
        assert secrets == ()


def test_a_plain_text_that_looks_sealed_stays_what_it_is(open_database: Open) -> None:
    engine = open_database()
    for written in ("sw1:0a1b2c3d:AAAA", "sw0:x", "sw1:", "sw0:sw1:x"):
        one = prediction(document=Document(None, written))
        with Transactions(engine)() as transaction:
            add_predictions(transaction, one)
            kept = transaction.predictions.get(one.id)
            assert kept is not None
            assert kept.document.text == written


def test_a_server_knows_at_its_start_which_key_it_lacks(open_database: Open) -> None:
    assert encryption.missing_keys(open_database()) is None
    old = open_database(ONE)
    encryption.note_key(old, START)
    encryption.note_key(old, START)
    assert encryption.missing_keys(old) is None
    for lacking in (open_database(), open_database(TWO)):
        fault = encryption.missing_keys(lacking)
        assert fault is not None
        assert TextCipher([ONE]).sealing_id in fault
    assert encryption.missing_keys(open_database(TWO, ONE)) is None


def silent(fraction: float, message: str) -> None:
    assert 0 <= fraction <= 1
    assert message


def test_a_new_key_takes_over_and_the_old_one_can_go(open_database: Open) -> None:
    old = open_database(ONE)
    encryption.note_key(old, START)
    ids = fill(old)
    content = read(old, ids)
    both = open_database(TWO, ONE)
    encryption.note_key(both, START)
    # 10, because two of them are metadata
    assert encryption.reseal(both, silent) == 10
    assert encryption.reseal(both, silent) == 0
    encryption.retire(both)
    alone = open_database(TWO)
    assert encryption.missing_keys(alone) is None
    assert read(alone, ids) == content
    held = dump(alone)
    assert not any(secret in held for secret in SECRETS)
    assert TextCipher([ONE]).sealing_id not in held


def test_many_rows_are_sealed_in_batches(
    open_database: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encryption, "_ROWS_AT_ONCE", 3)
    old = open_database(ONE)
    with Transactions(old)() as transaction:
        add_predictions(transaction, *(prediction() for _ in range(10)))
        transaction.commit()
    assert encryption.reseal(open_database(TWO, ONE), silent) == 20
    assert TextCipher([ONE]).sealing_id not in dump(old)


def test_encrypting_takes_a_key(open_database: Open) -> None:
    with pytest.raises(ValueError, match="SETWISE_ENCRYPTION_KEYS"):
        encryption.reseal(open_database(), silent)


@pytest.mark.parametrize(
    "change",
    [
        "text = 'other words'",
        "metadata = '{\"ward\": 4}'",
        "features = '{}'",
        "answer = '{}'",
        "document_id = 'other'",
        "purged_at = NULL",
        "labels = labels",
        "candidates = candidates, text = NULL",
    ],
)
def test_history_can_lose_its_words_but_never_change_them(open_database: Open, change: str) -> None:
    engine = open_database()
    fill(engine)
    table = "annotations" if "labels" in change else "predictions"
    with pytest.raises(IntegrityError, match="history"), engine.begin() as connection:
        connection.execute(text(f"UPDATE {table} SET {change}"))


def test_a_comment_is_never_changed(open_database: Open) -> None:
    engine = open_database()
    fill(engine)
    with pytest.raises(IntegrityError, match="history"), engine.begin() as connection:
        connection.execute(text("UPDATE annotations SET comment = 'never said'"))


@pytest.mark.parametrize("table", ["predictions", "annotations"])
def test_every_other_column_of_history_is_guarded(open_database: Open, table: str) -> None:
    """A migration that adds a column renews the trigger ``<table>_keep_rows``."""
    engine = open_database()
    fill(engine)
    for column in tables.metadata.tables[table].columns:
        if column.name in grants.HISTORY[table]:
            continue
        change = f'UPDATE {table} SET "{column.name}" = "{column.name}"'
        with pytest.raises(IntegrityError, match="history"), engine.begin() as connection:
            connection.execute(text(change))
