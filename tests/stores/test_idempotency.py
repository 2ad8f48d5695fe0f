"""Requests with idempotency keys, and which of their responses an erasure deletes."""

import hashlib

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.predictions import Document
from setwise.service.stores.idempotency import ERASED, KeyedRequest
from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.samples import ANN, CLIENT, add_predictions, prediction, task

KEYS = [(ANN.id, "b"), (ANN.id, "ä"), (CLIENT.id, "B"), (CLIENT.id, "a"), (CLIENT.id, "a" * 200)]


def store(begin: Transactions, owner_id: str, key: str, response: bytes | None) -> None:
    request = KeyedRequest(owner_id, key, hashlib.sha256(key.encode()), lambda: START)
    with begin() as transaction:
        transaction.idempotency.claim(request)
        if response is not None:
            transaction.idempotency.finish(request, response)


def pages(begin: Transactions, limit: int) -> list[list[tuple[str, str, bytes]]]:
    """Return the stored responses page by page."""
    read: list[list[tuple[str, str, bytes]]] = [[]]
    after = None
    while True:
        with begin(read_only=True) as transaction:
            page = transaction.idempotency.responses(after, limit)
        read.append(page)
        if len(page) < limit:
            return read[1:]
        after = page[-1][:2]


def test_pages_of_responses_have_each_once_whatever_their_size(begin: Transactions) -> None:
    for owner_id, key in KEYS:
        store(begin, owner_id, key, key.encode())
    store(begin, SYSTEM.id, "unfinished", None)
    whole = [(owner_id, key, key.encode()) for owner_id, key in KEYS]
    for limit in (1, 2, 5, 9):
        listed = [row for page in pages(begin, limit) for row in page]
        assert sorted(listed) == sorted(whole)
        assert listed == pages(begin, 9)[0]


def test_a_forgotten_response_leaves_its_request_and_every_other_one(begin: Transactions) -> None:
    for owner_id, key in KEYS:
        store(begin, owner_id, key, b"response")
    # The same key of another owner is another request.
    store(begin, ANN.id, "a", b"response")
    with begin() as transaction:
        transaction.idempotency.forget([KEYS[0], (CLIENT.id, "a"), (CLIENT.id, "unknown")])
        transaction.idempotency.forget([])
    with begin(read_only=True) as transaction:
        kept = {
            (owner_id, key): transaction.idempotency.get(owner_id, key)
            for owner_id, key in [*KEYS, (ANN.id, "a")]
        }
    assert all(kept.values())
    forgotten = {name for name, request in kept.items() if request and request.response == ERASED}
    assert forgotten == {KEYS[0], (CLIENT.id, "a")}


def test_what_names_erased_documents_is_found_by_their_predictions_and_reviews(
    begin: Transactions,
) -> None:
    predictions = [prediction(document=Document(f"note-{n}", "words")) for n in range(3)]
    reviews = [task(one) for one in predictions]
    with begin() as transaction:
        add_predictions(transaction, *predictions)
        transaction.reviews.add_all(reviews)
        transaction.texts.purge([predictions[0].id], START)
    with begin(read_only=True) as transaction:
        texts = transaction.texts
        assert texts.named_with([predictions[0].id, predictions[2].id]) == {
            predictions[0].id, predictions[2].id, reviews[0].id, reviews[2].id,
        }  # fmt: skip
        assert texts.named_with([]) == set()
        assert texts.any_purged([predictions[0].id])
        assert texts.any_purged([reviews[2].id, reviews[0].id])
        assert not texts.any_purged([predictions[1].id, reviews[2].id, prediction().id])
        assert not texts.any_purged([])
        # Of more than fit in one statement.
        others = [prediction().id for _ in range(1_200)]
        assert texts.any_purged([*others, reviews[0].id])
        assert texts.named_with([*others, predictions[1].id]) == {
            *others,
            predictions[1].id,
            reviews[1].id,
        }
