"""Documents are found by any of their properties, alike on both databases."""

from datetime import timedelta

import pytest
from sqlalchemy import Engine

from setwise.service.domain.documents import Audited, DocumentFilter, Order, State
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason
from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.samples import add_predictions, prediction

FEVER = prediction(
    document=Document(id="a", text="Fever and a dry cough; J18.9 suspected."), confidence=0.4
)
COUGH = prediction(
    document=Document(id="b", text="Dry skin. A cough, no fever."),
    confidence=0.9,
    decision=Decision.AUTO,
    reason=Reason.ABOVE_THRESHOLD,
    created_at=START + timedelta(days=1),
)
NUMBERS = prediction(document=Document(features={"bp": 1.0}), confidence=0.9)
ALL = (FEVER, COUGH, NUMBERS)


def found(begin: Transactions, order: Order = Order.OLDEST, **wanted: object) -> list[Prediction]:
    with begin(read_only=True) as transaction:
        filters = DocumentFilter(**wanted)
        page = transaction.documents.page(filters, order, after=None, limit=10)
        assert transaction.documents.count(filters, most=10) == len(page.items)
    return [one.prediction for one in page.items]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, ALL),
        ({"text": "fever"}, (FEVER, COUGH)),
        ({"text": "COUGH fever"}, (FEVER, COUGH)),
        ({"text": '"dry cough"'}, (FEVER,)),
        ({"text": '"cough dry"'}, ()),
        ({"text": "skin' OR 1=1 --"}, ()),
        ({"document_id": "b"}, (COUGH,)),
        ({"labels": FEVER.scored.labels}, ALL),
        ({"labels": ["unknown"]}, ()),
        ({"without_labels": ["unknown"]}, ALL),
        ({"without_labels": FEVER.scored.labels[:1]}, ()),
        ({"confidence_from": 0.4, "confidence_to": 0.9}, (FEVER,)),
        ({"decision": Decision.AUTO}, (COUGH,)),
        ({"reason": Reason.BELOW_THRESHOLD, "text": "fever"}, (FEVER,)),
        ({"state": State.SENT}, (COUGH,)),
        ({"state": State.REVIEWED}, ()),
        ({"audited": Audited.DRAWN}, ()),
        ({"created_from": START + timedelta(days=1)}, (COUGH,)),
        ({"created_before": START + timedelta(days=1)}, (FEVER, NUMBERS)),
        ({"model_version": "another"}, ()),
    ],
)
def test_filters(begin: Transactions, wanted: dict[str, object], expected: object) -> None:
    with begin() as transaction:
        add_predictions(transaction, *ALL)
    assert found(begin, **wanted) == list(expected)


@pytest.mark.parametrize("order", Order)
def test_pages_in_any_order_give_each_document_once(begin: Transactions, order: Order) -> None:
    with begin() as transaction:
        add_predictions(transaction, *ALL)
        whole = transaction.documents.page(DocumentFilter(), order, after=None, limit=10)
        after, pages = None, []
        while True:
            page = transaction.documents.page(DocumentFilter(), order, after=after, limit=1)
            pages += page.items
            after = page.next_after
            if after is None:
                break
    assert pages == list(whole.items)
    assert len(pages) == len(ALL)


def test_the_words_of_a_purged_text_are_not_found(begin: Transactions, engine: Engine) -> None:
    with begin() as transaction:
        add_predictions(transaction, *ALL)
        transaction.texts.purge([FEVER.id], START)
        transaction.texts.forget_words()
    assert found(begin, text="cough") == [COUGH]
    assert found(begin, text="suspected") == []
