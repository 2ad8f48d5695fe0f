"""The outbox, endpoints and deliveries."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Engine

from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.webhooks import (
    Delivery,
    DeliveryAttempt,
    DeliveryState,
    Endpoint,
    EndpointChange,
    Message,
    MessageType,
    ReceiverResponse,
    RetryDelays,
)
from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.kit.databases import statements_of
from tests.samples import CLIENT, OTHER_CLIENT, delivery, endpoint, message
from tests.stores.test_plans import plans

MINUTE = timedelta(minutes=1)


ACCEPTED = ReceiverResponse(START, 0.25, status=204)


BROKEN = ReceiverResponse(START, 0.1 + 0.2, status=500, excerpt="out of order · נפיחות")


UNANSWERED = ReceiverResponse(START, 15.0, error="no answer in time")


def store(begin: Transactions, *things: Message | Endpoint | Delivery) -> None:
    with begin() as transaction:
        for thing in things:
            if isinstance(thing, Message):
                transaction.outbox.add(thing)
            elif isinstance(thing, Endpoint):
                transaction.endpoints.add(thing)
            else:
                transaction.deliveries.add([thing])


def claim(
    begin: Transactions, to: Endpoint, *, minutes: float = 0, limit: int = 10
) -> list[Delivery]:
    with begin() as transaction:
        return transaction.deliveries.claim(to.id, START + minutes * MINUTE, MINUTE, limit)


def save(begin: Transactions, changed: Delivery, before: Delivery | None = None) -> bool:
    with begin() as transaction:
        return transaction.deliveries.save(before or changed, changed)


def read(begin: Transactions, delivery_id: str) -> Delivery | None:
    with begin(read_only=True) as transaction:
        return transaction.deliveries.get(delivery_id)


def due(begin: Transactions, *, minutes: float = 0) -> frozenset[str]:
    with begin(read_only=True) as transaction:
        return transaction.deliveries.due_endpoints(START + minutes * MINUTE)


def unrouted(begin: Transactions, limit: int = 9) -> list[Message]:
    with begin(read_only=True) as transaction:
        return transaction.outbox.unrouted(limit)


def mark_routed(begin: Transactions, *messages: Message) -> bool:
    with begin() as transaction:
        return transaction.outbox.mark_routed([one.id for one in messages], START)


def test_messages_without_deliveries_come_in_the_order_of_writing_not_of_ids(
    begin: Transactions,
) -> None:
    second, first = message(), message()  # whose ids are in the other order
    store(begin, first)
    store(begin, second)
    assert unrouted(begin, 1) == [first]
    assert unrouted(begin) == [first, second]
    assert mark_routed(begin, first)
    assert unrouted(begin) == [second]
    assert mark_routed(begin, second)
    assert unrouted(begin) == []


def test_a_router_learns_that_another_one_was_faster(begin: Transactions) -> None:
    messages = [message() for _ in range(3)]
    store(begin, *messages)
    assert mark_routed(begin, *messages[:2])
    with begin() as transaction:
        assert not transaction.outbox.mark_routed([one.id for one in messages[1:]], START)
        transaction.roll_back()
    assert unrouted(begin) == [messages[2]]


def test_the_oldest_are_marked_without_being_named(begin: Transactions) -> None:
    messages = [message() for _ in range(4)][::-1]
    store(begin, *messages)
    assert mark_routed(begin, messages[0])
    for limit, count in ((2, 2), (2, 1), (2, 0)):
        with begin() as transaction:
            assert transaction.outbox.mark_oldest_routed(limit, START) == count
        assert unrouted(begin) == (messages[3:] if count == 2 else [])


def test_a_client_pulls_its_own_messages_page_by_page_until_it_has_them(
    begin: Transactions,
) -> None:
    mine = [message() for _ in range(5)][::-1]
    store(begin, *mine[:2], message(client_id=OTHER_CLIENT.id), *mine[2:])

    def pull(after: str | None = None) -> tuple[list[Message], str | None]:
        with begin(read_only=True) as transaction:
            page = transaction.outbox.unacknowledged(CLIENT.id, after=after, limit=2)
        return list(page.items), page.next_after

    assert pull() == (mine[:2], mine[1].id)
    assert pull(mine[1].id) == (mine[2:4], mine[3].id)
    assert pull(mine[3].id) == (mine[4:], None)
    with begin() as transaction:
        ids = [mine[0].id, mine[3].id]
        assert transaction.outbox.acknowledge(OTHER_CLIENT.id, ids, START) == 0
        assert transaction.outbox.acknowledge(CLIENT.id, ids, START) == 2
        assert transaction.outbox.acknowledge(CLIENT.id, [*ids, mine[1].id], START) == 1
    assert pull() == ([mine[2], mine[4]], None)
    # A cursor stays good although the message that it names has gone.
    assert pull(mine[3].id) == ([mine[4]], None)


def test_an_unknown_cursor_leads_nowhere(begin: Transactions) -> None:
    store(begin, message())
    with begin(read_only=True) as transaction:
        page = transaction.outbox.unacknowledged(CLIENT.id, after=message().id, limit=2)
    assert page.items == ()


def test_an_endpoint_comes_back_as_it_was_through_its_life(begin: Transactions) -> None:
    first, second = endpoint(), endpoint(events=(MessageType.REVIEW_COMPLETED,))
    store(begin, second, first)
    changed_endpoint = first.changed(
        EndpointChange("https://b.example/", "new", [MessageType.POLICY_TRIPPED])
    ).rotated("whsec_bmV3", START, MINUTE)
    with begin() as transaction:
        assert transaction.endpoints.all() == [first, second]
        transaction.endpoints.save(replace(changed_endpoint, version=2))
    with begin() as transaction:
        assert transaction.endpoints.get(first.id, for_update=True) == replace(
            changed_endpoint, version=2
        )
        with pytest.raises(StaleVersion):
            transaction.endpoints.save(replace(first, version=2))
        transaction.endpoints.delete(first.id, START)
        with pytest.raises(StaleVersion):
            transaction.endpoints.save(replace(changed_endpoint, version=3))
    with begin(read_only=True) as transaction:
        assert transaction.endpoints.get(first.id) is None
        assert transaction.endpoints.all() == [second]


def test_a_delivery_comes_back_as_it_was_through_its_life(begin: Transactions) -> None:
    told, to = message(), endpoint()
    queued_delivery = delivery(told, to)
    store(begin, told, to, queued_delivery)
    assert read(begin, queued_delivery.id) == queued_delivery
    deliveries = claim(begin, to)
    assert deliveries == [queued_delivery.claimed(START, MINUTE)]
    assert read(begin, queued_delivery.id) == deliveries[0]
    failed_delivery = deliveries[0].answered(BROKEN, START, RetryDelays(), 0.5)
    assert save(begin, failed_delivery)
    assert read(begin, queued_delivery.id) == failed_delivery
    again = claim(begin, to, minutes=9)
    finished_delivery = again[0].answered(ACCEPTED, START, RetryDelays(), 0.5)
    assert save(begin, finished_delivery)
    assert read(begin, queued_delivery.id) == finished_delivery
    assert claim(begin, to, minutes=999) == []


def test_the_log_keeps_every_attempt(begin: Transactions) -> None:
    told, to = message(), endpoint()
    queued_delivery = delivery(told, to)
    store(begin, told, to, queued_delivery)
    attempts = [
        DeliveryAttempt(message().id, queued_delivery.id, number + 1, answer)
        for number, answer in enumerate((BROKEN, UNANSWERED, ACCEPTED))
    ]
    with begin() as transaction:
        transaction.deliveries.log(attempts)
        transaction.deliveries.log([])
    with begin(read_only=True) as transaction:
        assert transaction.deliveries.attempts(queued_delivery.id) == attempts


def test_of_a_document_only_the_first_unfinished_delivery_is_claimed(begin: Transactions) -> None:
    to, other = endpoint(), endpoint()
    messages = [message("billing/note-17") for _ in range(3)][::-1]
    elsewhere = message()
    deliveries = [delivery(one, to) for one in messages]
    store(begin, to, other, *messages, elsewhere, *reversed(deliveries), delivery(elsewhere, to))
    store(begin, delivery(messages[1], other))
    first, free = claim(begin, to)
    assert (first.message, free.message) == (messages[0], elsewhere)
    assert claim(begin, to) == []
    # Another endpoint has an order of its own.
    assert [one.message for one in claim(begin, other)] == [messages[1]]
    # A failure keeps the ones behind it back; its end lets them go.
    save(begin, free.answered(ACCEPTED, START, RetryDelays(), 0.0))
    save(begin, first.answered(BROKEN, START + MINUTE, RetryDelays(), 0.0))
    assert claim(begin, to, minutes=1.01) == []
    again = claim(begin, to, minutes=2)
    assert [one.message for one in again] == [messages[0]]
    save(begin, again[0].answered(ACCEPTED, START, RetryDelays(), 0.0))
    assert [one.message for one in claim(begin, to, minutes=2)] == [messages[1]]


def test_a_dead_delivery_lets_the_ones_behind_it_go(begin: Transactions) -> None:
    to, messages = endpoint(), [message("x/1"), message("x/1")]
    store(begin, to, *messages, *(delivery(one, to) for one in messages))
    (first,) = claim(begin, to)
    save(begin, first.answered(BROKEN, START, RetryDelays(delays=(MINUTE,)), 0.0))
    assert [one.message for one in claim(begin, to)] == [messages[1]]
    with begin() as transaction:
        dead = transaction.deliveries.dead(to.id, 9)
        assert [one.message for one in dead] == [messages[0]]


def test_no_more_are_claimed_than_wanted_and_the_longest_due_first(begin: Transactions) -> None:
    to, messages = endpoint(), [message() for _ in range(4)]
    due = (3, 1, 2, 9)
    store(begin, to, *messages)
    for one, minutes in zip(messages, due, strict=True):
        store(begin, delivery(one, to, due_at=START + minutes * MINUTE))
    assert [one.message for one in claim(begin, to, minutes=4, limit=2)] == [
        messages[1],
        messages[2],
    ]
    assert [one.message for one in claim(begin, to, minutes=4, limit=2)] == [messages[0]]


def test_a_lease_that_ran_out_is_taken_over_and_the_old_holder_refused(begin: Transactions) -> None:
    told, to = message(), endpoint()
    store(begin, told, to, delivery(told, to))
    (lost_delivery,) = claim(begin, to)
    assert claim(begin, to, minutes=0.99) == []
    (taken_delivery,) = claim(begin, to, minutes=1)
    assert (taken_delivery.token, taken_delivery.attempt) == (2, 2)
    assert not save(begin, lost_delivery.answered(BROKEN, START, RetryDelays(), 0.0))
    assert read(begin, taken_delivery.id) == taken_delivery


def test_what_was_cancelled_or_replayed_takes_no_late_answer(begin: Transactions) -> None:
    to, messages = endpoint(), [message(), message()]
    store(begin, to, *messages, *(delivery(one, to) for one in messages))
    first, second = claim(begin, to)
    assert save(begin, first.replayed(START), first)
    with begin() as transaction:
        assert transaction.deliveries.cancel(to.id, START) == 2
    for late in (first, second):
        assert not save(begin, late.answered(ACCEPTED, START, RetryDelays(), 0.0))
        found_delivery = read(begin, late.id)
        assert found_delivery is not None
        assert found_delivery.state is DeliveryState.CANCELLED
    assert claim(begin, to, minutes=9) == []


def test_endpoints_are_due_as_long_as_something_can_be_claimed_for_them(
    begin: Transactions,
) -> None:
    to, idle, deleted_endpoint = endpoint(), endpoint(), endpoint()
    messages = [message("billing/note-17") for _ in range(2)]
    store(begin, to, idle, deleted_endpoint, *messages, delivery(messages[0], deleted_endpoint))
    store(begin, *(delivery(one, to, due_at=START + MINUTE) for one in messages))
    with begin() as transaction:
        transaction.endpoints.delete(deleted_endpoint.id, START)
    assert due(begin) == set()
    assert due(begin, minutes=1) == {to.id}
    (first,) = claim(begin, to, minutes=1)
    assert due(begin, minutes=1) == set()  # the second one of the document waits for the first
    assert due(begin, minutes=2) == {to.id}
    save(begin, first.answered(BROKEN, START + MINUTE, RetryDelays(delays=(MINUTE,)), 0.0))
    assert due(begin, minutes=1) == {to.id}
    with begin() as transaction:
        transaction.endpoints.save(to.gone())
    assert due(begin, minutes=2) == set()


def test_deliveries_are_listed_newest_first_by_state_and_endpoint(begin: Transactions) -> None:
    to, other = endpoint(), endpoint()
    messages = [message() for _ in range(3)]
    deliveries = [delivery(one, to) for one in messages]
    elsewhere = delivery(messages[0], other)
    store(begin, to, other, *messages, *deliveries, elsewhere)
    (first, *_) = claim(begin, to, limit=1)
    finished_delivery = first.answered(ACCEPTED, START, RetryDelays(), 0.0)
    save(begin, finished_delivery)

    def page(**wanted: object) -> tuple[list[str], str | None]:
        asked = {"state": None, "endpoint_id": None, "after": None, "limit": 2, **wanted}
        with begin(read_only=True) as transaction:
            found_page = transaction.deliveries.page(**asked)
        return [one.id for one in found_page.items], found_page.next_after

    assert page() == ([elsewhere.id, deliveries[2].id], deliveries[2].id)
    assert page(after=deliveries[2].id) == ([deliveries[1].id, finished_delivery.id], None)
    assert page(state=DeliveryState.DELIVERED) == ([finished_delivery.id], None)
    assert page(endpoint_id=other.id) == ([elsewhere.id], None)
    assert page(endpoint_id="nonsense") == ([], None)


def test_a_block_takes_as_many_statements_as_a_few(begin: Transactions, engine: Engine) -> None:
    to = endpoint()
    messages = [message() for _ in range(25)]
    store(begin, to, *messages, *(delivery(one, to) for one in messages))
    counts = []
    for limit in (2, 20):
        with statements_of(engine) as statements:
            deliveries = claim(begin, to, limit=limit)
            answers = [ACCEPTED if place % 2 else BROKEN for place in range(limit)]
            with begin() as transaction:
                stored_deliveries = transaction.deliveries.save_all(
                    [
                        (one, one.answered(answer, START, RetryDelays(), 0.5))
                        for one, answer in zip(deliveries, answers, strict=True)
                    ]
                )
        assert [read(begin, one.id) for one in stored_deliveries] == stored_deliveries
        assert len(stored_deliveries) == limit
        counts.append(len(statements))
    assert counts[0] == counts[1]


def test_a_documents_first_delivery_is_looked_up_however_the_queue_has_grown(
    begin: Transactions, engine: Engine
) -> None:
    to = endpoint()
    messages = [message() for _ in range(400)]
    with begin() as transaction:
        transaction.endpoints.add(to)
        transaction.outbox.add_all(messages)
        transaction.deliveries.add([delivery(one, to) for one in messages])
    matches = plans(engine, lambda it: it.deliveries.claim(to.id, START, MINUTE, 100))
    (plan,) = [plan for statement, plan in matches if "earlier" in statement]
    looked_up = {
        "postgresql": r"Index Cond: .*\(document_key = deliveries.document_key\)",
        "sqlite": r"earlier USING \w* ?INDEX ix_deliveries_order .*document_key=\?\)",
    }
    assert re.search(looked_up[engine.dialect.name], plan), plan


def test_of_a_block_only_what_others_have_taken_is_refused(begin: Transactions) -> None:
    to = endpoint()
    messages = [message() for _ in range(3)]
    store(begin, to, *messages, *(delivery(one, to) for one in messages))
    mine = claim(begin, to)
    (taken_delivery,) = claim(begin, to, minutes=1, limit=1)
    with begin() as transaction:
        deliveries = transaction.deliveries.save_all([(one, one.returned()) for one in mine])
    assert {one.id for one in deliveries} == {one.id for one in mine} - {taken_delivery.id}
    assert read(begin, taken_delivery.id) == taken_delivery
