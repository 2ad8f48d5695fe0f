"""Documents are found by any of their properties, alike on both databases."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Engine

from setwise.service.domain.documents import (
    Audited,
    DocumentFilter,
    DocumentState,
    ModelDifference,
    Order,
)
from setwise.service.domain.models import ComparedAnswer
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason
from setwise.service.domain.routing.segments import Segment
from setwise.service.domain.webhooks import DeliveryState, auto_sent
from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.samples import (
    add_predictions,
    annotation,
    delivery,
    endpoint,
    model,
    outcome,
    prediction,
    task,
)

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
NUMBERS = prediction(document=Document(features={"bp": 1.0}), confidence=0.9)._replace(
    segment="site=north"
)
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
        ({"state": DocumentState.SENT}, (COUGH,)),
        ({"state": DocumentState.REVIEWED}, ()),
        ({"audited": Audited.DRAWN}, ()),
        ({"created_from": START + timedelta(days=1)}, (COUGH,)),
        ({"created_before": START + timedelta(days=1)}, (FEVER, NUMBERS)),
        ({"model_version": "another"}, ()),
        ({"of_segment": Segment("site", "north")}, (NUMBERS,)),
    ],
)
def test_filters(begin: Transactions, wanted: dict[str, object], expected: object) -> None:
    with begin() as transaction:
        add_predictions(transaction, *ALL)
        transaction.texts.index_words(len(ALL))
    assert found(begin, **wanted) == list(expected)


def test_the_labels_that_were_sent_last_are_found(begin: Transactions) -> None:
    reviewed_task, mended_task, early = task(), task(), prediction()
    sent_prediction, corrected_prediction = (COUGH._replace(id=prediction().id) for _ in range(2))
    with begin() as transaction:
        add_predictions(transaction, sent_prediction, corrected_prediction, early)
        for one in (reviewed_task, mended_task):
            add_predictions(transaction, one.prediction)
            transaction.reviews.add(one)
        transaction.reviews.annotate(replace(annotation(mended_task, "c"), settles=False))
        transaction.outcomes.add(outcome(corrected_prediction, "a", "z"))
        # Nothing was sent of it, so the outcome replaces nothing.
        transaction.outcomes.add(outcome(early, "z"))
        transaction.reviews.annotate(annotation(reviewed_task, "c", "d"))
        transaction.outcomes.add(outcome(reviewed_task.prediction, "d"))

    assert found(begin, final_labels=["z"]) == [corrected_prediction]
    assert found(begin, final_labels=["d"], without_final_labels=["c"]) == [
        reviewed_task.prediction
    ]
    assert found(begin, final_labels=sent_prediction.scored.labels) == [sent_prediction]
    assert found(begin, without_final_labels=["z"]) == [reviewed_task.prediction, sent_prediction]


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
        transaction.texts.index_words(len(ALL))
        transaction.texts.purge([FEVER.id], START)
        transaction.texts.forget_words()
    assert found(begin, text="cough") == [COUGH]
    assert found(begin, text="suspected") == []


def test_documents_behind_comparisons_and_failed_deliveries(begin: Transactions) -> None:
    of_model, hook = model(), endpoint()
    message = auto_sent(COUGH, prediction().id)
    dead = replace(
        delivery(message, hook), state=DeliveryState.DEAD, finished_at=START + timedelta(days=3)
    )
    with begin() as transaction:
        add_predictions(transaction, *ALL)
        transaction.models.add(of_model)
        transaction.comparisons.add_all(
            ComparedAnswer(
                prediction().id, of_model.id, one.id, ("a",), 0.5, decision,
                Reason.BELOW_THRESHOLD, same, decision is one.decision, START,
            )
            for one, decision, same in (
                (FEVER, Decision.REVIEW, True), (COUGH, Decision.REVIEW, False)
            )
        )  # fmt: skip
        transaction.endpoints.add(hook)
        transaction.outbox.add_all([message])
        transaction.deliveries.add([dead])
    compared = {"candidate": of_model.id}
    assert found(begin, **compared) == [FEVER, COUGH]
    assert found(begin, **compared, difference=ModelDifference.LABELS) == [COUGH]
    assert found(begin, **compared, difference=ModelDifference.ONLY_ACTIVE_SENDS) == [COUGH]
    assert found(begin, **compared, difference=ModelDifference.NEITHER_SENDS) == [FEVER]
    assert found(begin, undelivered_to=hook.id) == [COUGH]
    assert found(begin, undelivered_to=FEVER.id) == []
