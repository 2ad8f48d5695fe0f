"""What documents are searched by equals what follows from the stored facts."""

import random
import threading
from collections import defaultdict
from dataclasses import replace

import pytest
from sqlalchemy import Engine, Table, select

from setwise.service.domain.documents import DocumentFilter, Order
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason
from setwise.service.domain.reviews import ReviewKind
from setwise.service.stores import tables
from setwise.service.stores.columns.ciphers import TextCipher
from setwise.service.stores.database import create
from setwise.service.stores.transaction import Transaction, Transactions
from setwise.service.stores.upkeep.encryption import note_key
from tests.fakes import START
from tests.samples import add_predictions, annotation, outcome, prediction, task

LABELS = "abcdef"
KINDS = (ReviewKind.REVIEW, ReviewKind.AUDIT, ReviewKind.OVERLAP, ReviewKind.ADJUDICATION)


def final_labels(transaction: Transaction, made: Prediction) -> set[str] | None:
    """Return the labels that were sent last, as the facts say."""
    answers = transaction.reviews.annotations_of(made.id)
    annotations = [answer for answer in answers if answer.settles]
    sent = [(answer.created_at, answer.labels) for answer in annotations]
    if made.decision is Decision.AUTO:
        sent.append((made.created_at, made.scored.labels))
    first = min(sent, default=None)
    if first is None:
        return None
    for each in transaction.outcomes.of(made.id):
        if each.created_at > first[0]:
            sent.append((each.created_at, each.labels))
    return set(max(sent)[1])


def act(transaction: Transaction, made: Prediction, draw: random.Random) -> bool:
    """Store random facts about a prediction; return whether its text is purged."""
    kinds, number = iter(draw.sample(KINDS, len(KINDS))), 0
    for minute in range(1, draw.randint(1, 7)):
        labels = draw.sample(LABELS, draw.randint(0, 3))
        if draw.random() < 0.5:
            number += 1
            transaction.outcomes.add(outcome(made, *labels, number=number, minutes=minute))
        elif (kind := next(kinds, None)) is not None:
            review = replace(task(made), kind=kind)
            transaction.reviews.add(review)
            answer = replace(annotation(review, *labels, minutes=minute), kind=kind)
            transaction.reviews.annotate(replace(answer, settles=draw.random() < 0.6))
    if draw.random() < 0.3:
        transaction.texts.purge([made.id], START)
        return True
    return False


def indexed(transaction: Transaction, table: Table) -> dict[str, set[str]]:
    labels = defaultdict(set)
    for label, prediction_id in transaction._connection.execute(select(table)):
        labels[prediction_id].add(label)
    return dict(labels)


def with_word(transaction: Transaction, word: str) -> list[str]:
    wanted_filter = DocumentFilter(text=word)
    page = transaction.documents.page(wanted_filter, Order.OLDEST, after=None, limit=100)
    return [listed.prediction.id for listed in page.items]


def test_random_histories_are_found_by_what_follows_from_them(begin: Transactions) -> None:
    draw = random.Random(7)
    documents = []
    for number in range(30):
        new_prediction = prediction(document=Document(id=None, text=f"common word{number}"))
        if draw.random() < 0.5:
            new_prediction = new_prediction._replace(
                decision=Decision.AUTO, reason=Reason.ABOVE_THRESHOLD
            )
        documents.append(new_prediction)
    with begin() as transaction:
        add_predictions(transaction, *documents)
        assert transaction.texts.index_words(15) == 15
        ids = {
            new_prediction.id
            for new_prediction in documents
            if act(transaction, new_prediction, draw)
        }
        late = [
            new_prediction.id for new_prediction in documents[15:] if new_prediction.id not in ids
        ]
        assert transaction.texts.index_words(30) == len(late)
    with begin(read_only=True) as transaction:
        by_id = {
            new_prediction.id: final_labels(transaction, new_prediction)
            for new_prediction in documents
        }
        sent = {made_id: labels for made_id, labels in by_id.items() if labels}
        assert indexed(transaction, tables.final_labels) == sent
        predicted_by_id = {
            new_prediction.id: set(new_prediction.scored.labels) for new_prediction in documents
        }
        assert indexed(transaction, tables.prediction_labels) == predicted_by_id
        kept_ids = [
            new_prediction.id for new_prediction in documents if new_prediction.id not in ids
        ]
        assert with_word(transaction, "common") == kept_ids
        for number, new_prediction in enumerate(documents):
            matches = [] if new_prediction.id in ids else [new_prediction.id]
            assert with_word(transaction, f'"word{number}"') == matches
    assert ids
    assert any(labels is None for labels in by_id.values())


def test_a_text_waits_until_its_words_are_indexed(begin: Transactions) -> None:
    new_prediction = prediction(document=Document(id=None, text="fever"))
    features = prediction(document=Document(id=None, features={"f": 1.0}))
    with begin() as transaction:
        add_predictions(transaction, new_prediction, features)
    with begin() as transaction:
        assert transaction.texts.unindexed
        assert with_word(transaction, "fever") == []
        assert transaction.texts.index_words(9) == 1
    with begin() as transaction:
        assert with_word(transaction, "fever") == [new_prediction.id]
        assert not transaction.texts.unindexed
        assert transaction.texts.index_words(9) == 0


TEXTS = (
    "Reizhusten und Fie\u0300ber, E11.9",
    "患者发烧三天",
    "dry cough, C++",
    "มีไข้ a cough",
    "FIEVRE? C#",
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Husten", [0]),
        ("fié", [0, 4]),
        ("发烧", [1]),
        ("烧", [1]),
        ('"发烧"', [1]),
        ("患者", [1]),
        ("ไข้", [3]),
        ("cough", [2, 3]),
        ("y", [2]),
        ("ou dr", [2]),
        ('"dry cough"', [2]),
        ('"ry cough"', []),
        ('"cou"', []),
        ("e11", [0]),
        ("11.9", [0]),
        ("c++", [2]),
        ("c#", [4]),
        ('"c"', []),
        ("u h", [0, 2, 3]),
        ("天三", []),
    ],
)
def test_parts_of_words_are_found_in_any_script(
    begin: Transactions, query: str, found: list[int]
) -> None:
    predictions = [prediction(document=Document(id=None, text=text)) for text in TEXTS]
    with begin() as transaction:
        add_predictions(transaction, *predictions)
        transaction.texts.index_words(9)
    with begin(read_only=True) as transaction:
        assert with_word(transaction, query) == [predictions[place].id for place in found]


def test_any_part_of_long_texts_of_four_bytes_a_letter_is_indexed(begin: Transactions) -> None:
    draw = random.Random(1)
    text = "".join(chr(draw.randrange(0x20000, 0x2A000)) for _ in range(100_000))
    new_prediction = prediction(document=Document(id=None, text=text))
    with begin() as transaction:
        add_predictions(transaction, new_prediction)
        transaction.texts.index_words(9)
    with begin() as transaction:
        assert with_word(transaction, text[70_000:70_005]) == [new_prediction.id]
        transaction.texts.purge([new_prediction.id], START)
        assert with_word(transaction, text[70_000:70_005]) == []


def test_words_are_erased_that_another_process_is_indexing(begin: Transactions) -> None:
    new_prediction = prediction(document=Document(id=None, text="fever"))
    with begin() as transaction:
        add_predictions(transaction, new_prediction)

    def erase() -> None:
        with begin() as transaction:
            transaction.texts.purge([new_prediction.id], START)

    eraser = threading.Thread(target=erase)
    with begin() as transaction:
        transaction.texts.index_words(9)
        eraser.start()
        eraser.join(0.3)
        assert eraser.is_alive()  # it waits
    eraser.join()
    with begin(read_only=True) as transaction:
        assert with_word(transaction, "fever") == []
        assert transaction.predictions.get(new_prediction.id).document.text is None  # type: ignore[union-attr]


def test_nothing_is_indexed_of_encrypted_texts(engine: Engine, database_url: str) -> None:
    sealed = create(database_url, cipher=TextCipher([bytes(32)]))
    note_key(sealed, START)
    with Transactions(sealed)() as transaction:
        add_predictions(transaction, prediction())
    sealed.dispose()
    kept = tables.searched_places if engine.dialect.name == "sqlite" else tables.searched_texts
    with engine.connect() as connection:
        for table in (kept, tables.unindexed_texts):
            assert connection.execute(select(table.c.prediction_id)).all() == []
