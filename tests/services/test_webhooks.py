"""Webhooks: a trail of changes without secrets; routing, claiming, recording, and messages."""

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta

import pytest

from setwise.service.domain import errors
from setwise.service.domain.predictions import IdempotencyKey
from setwise.service.domain.webhooks import (
    Delivery,
    DeliveryState,
    Endpoint,
    EndpointChange,
    Message,
    MessageType,
    Parcel,
    ReceiverResponse,
    RetryDelays,
)
from setwise.service.services.webhooks import Webhooks
from setwise.service.stores.transaction import Transaction
from setwise.service.stores.upkeep.inspection import first_due
from tests.building import webhooks
from tests.kit.clinic import Clinic
from tests.samples import ADMIN, ANN, CLIENT, message

WANTED = EndpointChange("https://b.example/hooks", "billing")


def service(clinic: Clinic, **options: object) -> Webhooks:
    return webhooks(*clinic.parts, **{"new_secret": lambda: "whsec_c2VjcmV0", **options})


def test_every_change_is_in_the_audit_trail_without_a_secret(clinic: Clinic) -> None:
    hooks = service(clinic)
    hook, secret = hooks.add(ADMIN.calling_from(None, "r-1"), WANTED)
    hooks.change(ADMIN, hook.id, WANTED, hook.version)
    hooks.rotate_secret(ADMIN, hook.id)
    delivery = hooks.try_out(ADMIN, hook.id)
    hooks.replay(ADMIN, delivery.id)
    hooks.replay_dead(ADMIN, hook.id)
    hooks.delete(ADMIN.calling_from(None, "r-2"), hook.id)
    _, *events = clinic.contents.events.values()  # the first is of the policy
    assert [event.action for event in events] == [
        "webhook.added",
        "webhook.changed",
        "webhook.secret_rotated",
        "webhook.tested",
        "delivery.replayed",
        "webhook.replayed",
        "webhook.deleted",
    ]
    assert {event.actor.id for event in events} == {ADMIN.id}
    assert (events[0].request_id, events[-1].request_id) == ("r-1", "r-2")
    assert events[0].detail["url"] == WANTED.url
    assert events[-1].detail["cancelled"] == 1
    assert secret not in str(events)


def test_private_addresses_are_taken_where_the_settings_allow_them(clinic: Clinic) -> None:
    hooks = service(clinic, allow_private=True)
    hook, _ = hooks.add(ADMIN, EndpointChange("http://10.0.0.1:8080/hooks"))
    assert hooks.page(ADMIN) == [hook]


def test_the_grace_of_a_rotation_is_a_setting(clinic: Clinic) -> None:
    hook, old = service(clinic).add(ADMIN, WANTED)
    hooks = service(clinic, new_secret=lambda: "whsec_bmV3", grace=timedelta(minutes=5))
    endpoint, new = hooks.rotate_secret(ADMIN, hook.id)
    now = clinic.now()
    assert endpoint.signing(now) == (new, old)
    assert endpoint.signing(now + timedelta(minutes=5)) == (new,)


@pytest.fixture
def clinic() -> Clinic:
    clinic = Clinic()
    clinic.fix_threshold(0.5)
    return clinic


def predict(
    clinic: Clinic, text: str, name: str | None = None, key: str | None = None, of: str = "digest"
) -> None:
    idempotency = IdempotencyKey(key, of) if key else None
    clinic.predict(text, name=name, idempotency=idempotency)


def add(clinic: Clinic, *events: MessageType) -> Endpoint:
    return clinic.webhooks.add(ADMIN, EndpointChange("https://b.example/", events=events))[0]


def claim(clinic: Clinic, otherwise: int = 100, **room: int) -> list[Parcel]:
    clinic.webhooks.route()
    return clinic.webhooks.claim(room, otherwise=otherwise)


def record(clinic: Clinic, *parcels: Parcel, status: int) -> list[Delivery]:
    return clinic.webhooks.record(
        [(p.delivery, ReceiverResponse(clinic.now(), 0.1, status)) for p in parcels]
    )


def messages(clinic: Clinic) -> list[Message]:
    return list(clinic.contents.messages.values())


def test_a_sent_set_leaves_one_message_and_a_reviewed_one_none(clinic: Clinic) -> None:
    predict(clinic, "0.9")
    predict(clinic, "0.1")
    (message,) = messages(clinic)
    (prediction, _) = clinic.contents.predictions.values()
    assert (message.type, message.data["prediction_id"]) == ("prediction.auto_sent", prediction.id)


def test_a_repeated_request_tells_once(clinic: Clinic) -> None:
    for _ in range(3):
        predict(clinic, "0.9", key="k")
    with pytest.raises(errors.IdempotencyMismatch):
        predict(clinic, "0.9", key="k", of="other")
    assert len(messages(clinic)) == 1


def test_a_completed_review_leaves_one_message_however_often_it_is_sent(clinic: Clinic) -> None:
    predict(clinic, "0.1", "note-1")
    task = clinic.claimed()
    for _ in range(2):
        clinic.reviews.complete(ANN, task.id, ["a"], "no b", task.version)
    (message,) = messages(clinic)
    assert message.type is MessageType.REVIEW_COMPLETED
    assert message.data["labels"] == ["a"]
    assert "no b" not in str(message.data)
    assert message.document_key == f"{CLIENT.id}/note-1"


def test_each_endpoint_gets_what_it_wants(clinic: Clinic) -> None:
    everything, reviews = add(clinic), add(clinic, MessageType.REVIEW_COMPLETED)
    predict(clinic, "0.9")
    assert [parcel.endpoint for parcel in claim(clinic)] == [everything]
    predict(clinic, "0.1")
    clinic.answer(ANN, [])
    assert {parcel.endpoint.id for parcel in claim(clinic)} == {everything.id, reviews.id}


def test_what_nobody_wants_is_routed_to_nobody_once(clinic: Clinic) -> None:
    predict(clinic, "0.9")
    assert clinic.webhooks.route() == 1
    assert clinic.webhooks.route() == 0
    add(clinic)
    assert claim(clinic) == []


@pytest.mark.parametrize("wanted", [True, False])
def test_many_messages_are_routed_whatever_the_size_of_a_transaction(
    clinic: Clinic, wanted: bool
) -> None:
    if wanted:
        add(clinic)
    with clinic.begin() as transaction:
        for _ in range(2_100):
            transaction.outbox.add(message())
    assert clinic.webhooks.route() == 2_100
    assert len(claim(clinic, 3_000)) == 2_100 * wanted


def test_an_endpoint_that_comes_while_messages_are_routed_to_nobody_gets_them(
    clinic: Clinic,
) -> None:
    def raced(*, read_only: bool = False) -> AbstractContextManager[Transaction]:
        if not read_only and not clinic.contents.endpoints:
            add(clinic)
        return clinic.begin(read_only=read_only)

    predict(clinic, "0.9")
    assert replace(clinic.webhooks, begin=raced).route() == 0
    assert len(claim(clinic)) == 1


def test_messages_that_come_while_others_are_routed_wait_for_the_next_round(clinic: Clinic) -> None:
    """Or a busy service would route for ever and deliver nothing."""

    def busy(*, read_only: bool = False) -> AbstractContextManager[Transaction]:
        with clinic.begin() as transaction:
            transaction.outbox.add(message())
        return clinic.begin(read_only=read_only)

    add(clinic)
    route = replace(clinic.webhooks, begin=busy).route
    assert route() == 1
    assert route() == 2


def test_nobody_waits_for_a_courier_that_has_nothing_to_write(clinic: Clinic) -> None:
    slow, endpoint = add(clinic), add(clinic)
    predict(clinic, "0.9", "note-1")
    predict(clinic, "0.8", "note-1")
    assert len(claim(clinic)) == 2  # the second ones wait for them
    clinic.webhooks.change(ADMIN, endpoint.id, EndpointChange(endpoint.url, enabled=False))
    with clinic.begin():  # whoever wants to write now has to wait
        assert claim(clinic) == []
        clinic.now.advance(seconds=60)
        assert claim(clinic, **{slow.id: 0}) == []
    assert [parcel.endpoint for parcel in claim(clinic)] == [slow]


def test_while_an_endpoint_is_disabled_its_deliveries_wait(clinic: Clinic) -> None:
    hook = add(clinic)
    clinic.webhooks.change(ADMIN, hook.id, EndpointChange(hook.url, enabled=False))
    for text in ("0.8", "0.9"):
        predict(clinic, text, "note-1")
    assert claim(clinic) == []
    clinic.webhooks.change(ADMIN, hook.id, EndpointChange("https://new.example/"))
    (first,) = claim(clinic)
    assert first.endpoint.url == "https://new.example/"
    record(clinic, first, status=200)
    assert len(claim(clinic)) == 1


def test_the_first_failure_is_visible_until_the_message_arrives(clinic: Clinic) -> None:
    hook = add(clinic)
    predict(clinic, "0.9", "note-1")
    predict(clinic, "0.8", "note-1")  # waits behind the first and has not failed
    (parcel,) = claim(clinic)
    assert clinic.webhooks.failing(ADMIN) == {}
    record(clinic, parcel, status=500)
    assert clinic.webhooks.failing(ADMIN) == {hook.id: 1}
    due = first_due(clinic.engine)
    assert (due.failing, due.dead) == (1, 0)
    with clinic.begin(read_only=True) as transaction:
        lines = transaction.backlog.read().deliveries
    assert (lines["pending"].count, lines["failing"].count) == (2, 1)
    clinic.now.advance(days=1)
    (again,) = claim(clinic)
    assert clinic.webhooks.failing(ADMIN) == {hook.id: 1}  # a second attempt is under way
    record(clinic, again, status=200)
    assert clinic.webhooks.failing(ADMIN) == {}


def test_an_endpoint_that_is_gone_is_disabled_and_its_message_waits(clinic: Clinic) -> None:
    hook, other = add(clinic), add(clinic)
    predict(clinic, "0.9")
    predict(clinic, "0.8")
    parcels = [parcel for parcel in claim(clinic) if parcel.endpoint.id == hook.id]
    deliveries = record(clinic, *parcels, status=410)
    assert {delivery.state for delivery in deliveries} == {DeliveryState.PENDING}
    endpoints = clinic.contents.endpoints
    assert endpoints[hook.id].disabled_because == "it answered 410 Gone"
    assert endpoints[other.id].enabled
    assert clinic.actions().count("webhook.disabled") == 1
    clinic.now.advance(days=9)
    assert {parcel.endpoint.id for parcel in claim(clinic)} == {other.id}
    clinic.webhooks.change(ADMIN, hook.id, EndpointChange(hook.url))
    assert [parcel.endpoint.id for parcel in claim(clinic)] == [hook.id, hook.id]


def test_an_endpoint_that_is_deleted_while_it_answers_leaves_only_a_log(clinic: Clinic) -> None:
    hook = add(clinic)
    predict(clinic, "0.9")
    (parcel,) = claim(clinic)
    clinic.webhooks.delete(ADMIN, hook.id)
    for status in (410, 200):
        assert record(clinic, parcel, status=status) == []
    (delivery,) = clinic.contents.deliveries.values()
    assert delivery.state is DeliveryState.CANCELLED
    assert len(clinic.contents.attempts) == 2


def test_each_endpoint_has_room_of_its_own(clinic: Clinic) -> None:
    slow, quick = add(clinic), add(clinic)
    for _ in range(10):
        predict(clinic, "0.9")
    first = Counter(parcel.endpoint.id for parcel in claim(clinic, 4, **{quick.id: 7}))
    assert first == {slow.id: 4, quick.id: 7}
    # The slow one still works on its four; the other one's next come all the same.
    assert Counter(p.endpoint.id for p in claim(clinic, 4, **{slow.id: 0})) == {quick.id: 3}


def test_a_message_that_was_not_sent_has_not_failed_and_can_be_claimed_at_once(
    clinic: Clinic,
) -> None:
    add(clinic)
    predict(clinic, "0.9")
    (parcel,) = claim(clinic)
    (delivery,) = clinic.webhooks.record([(parcel.delivery, None)])
    assert (delivery.attempt, delivery.lease_expires_at) == (0, None)
    assert clinic.contents.attempts == {}
    (again,) = claim(clinic)
    assert again.delivery.attempt == 1
    # The first courier's claim is over.
    assert record(clinic, parcel, status=200) == []


def test_the_given_schedule_decides(clinic: Clinic) -> None:
    add(clinic)
    predict(clinic, "0.9")
    (parcel,) = claim(clinic)
    schedule = RetryDelays((timedelta(0), timedelta(hours=1)), 1.0)
    hooks = webhooks(*clinic.parts, draw=lambda: 0.5, backoff=schedule)
    (again,) = hooks.record([(parcel.delivery, ReceiverResponse(clinic.now(), 1, 500))])
    assert again.due_at == clinic.now() + timedelta(hours=1.5)


def test_a_call_acknowledges_a_thousand_messages_at_most(clinic: Clinic) -> None:
    acknowledge = clinic.webhooks.acknowledge
    ids = [clinic.new_id() for _ in range(1_001)]
    assert acknowledge(CLIENT, ids[:1_000]) == 0
    with pytest.raises(errors.InvalidRequest) as error:
        acknowledge(CLIENT, ids)
    assert [fault.pointer for fault in error.value.faults] == ["/ids"]
