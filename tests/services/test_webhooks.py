"""Webhooks: a trail of changes without secrets; routing, claiming, recording, and messages."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.predictions import Document, IdempotencyKey
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
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from setwise.service.services.reviews import Reviews
from setwise.service.services.webhooks import Webhooks
from setwise.service.stores.transaction import Transaction
from setwise.service.stores.upkeep.inspection import first_due
from tests.building import predict_one, webhooks
from tests.fakes import LOTTERY, FakeClock, FakeIds, FakePredictors
from tests.samples import ADMIN, ANN, CLIENT, change, message
from tests.sqlite import Database

WANTED = EndpointChange("https://b.example/hooks", "billing")


@pytest.fixture
def parts() -> tuple[Database, FakeClock, FakeIds]:
    return Database(), FakeClock(), FakeIds()


Parts = tuple[Database, FakeClock, FakeIds]


def service(parts: Parts, **options: object) -> Webhooks:
    return webhooks(*parts, **{"new_secret": lambda: "whsec_c2VjcmV0", **options})


def test_every_change_is_in_the_audit_trail_without_a_secret(parts: Parts) -> None:
    database = parts[0]
    hooks = service(parts)
    hook, secret = hooks.add(ADMIN.calling_from(None, "r-1"), WANTED)
    hooks.change(ADMIN, hook.id, WANTED, hook.version)
    hooks.rotate_secret(ADMIN, hook.id)
    delivery = hooks.try_out(ADMIN, hook.id)
    hooks.replay(ADMIN, delivery.id)
    hooks.replay_dead(ADMIN, hook.id)
    hooks.delete(ADMIN.calling_from(None, "r-2"), hook.id)
    events = list(database.contents.events.values())
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


def test_private_addresses_are_taken_where_the_settings_allow_them(parts: Parts) -> None:
    hooks = service(parts, allow_private=True)
    hook, _ = hooks.add(ADMIN, EndpointChange("http://10.0.0.1:8080/hooks"))
    assert hooks.page(ADMIN) == [hook]


def test_the_grace_of_a_rotation_is_a_setting(parts: Parts) -> None:
    hook, old = service(parts).add(ADMIN, WANTED)
    hooks = service(parts, new_secret=lambda: "whsec_bmV3", grace=timedelta(minutes=5))
    rotated, new = hooks.rotate_secret(ADMIN, hook.id)
    now = parts[1]()
    assert rotated.signing(now) == (new, old)
    assert rotated.signing(now + timedelta(minutes=5)) == (new,)


@dataclass
class Post:
    """A service in memory that has something to tell."""

    database: Database = field(default_factory=Database)
    clock: FakeClock = field(default_factory=FakeClock)
    ids: FakeIds = field(default_factory=FakeIds)

    @property
    def parts(self) -> tuple[Database, FakeClock, FakeIds]:
        return self.database, self.clock, self.ids

    @property
    def hooks(self) -> Webhooks:
        return webhooks(*self.parts)

    def predict(self, text: str, name: str | None = None, key: str | None = None) -> None:
        predictions = Predictions(FakePredictors(), *self.parts, LOTTERY)
        idempotency = IdempotencyKey(key, "digest") if key else None
        predict_one(predictions, CLIENT, Document(id=name, text=text), idempotency=idempotency)

    def add(self, *events: MessageType) -> Endpoint:
        return self.hooks.add(ADMIN, EndpointChange("https://b.example/", events=events))[0]

    def claim(self, room: int = 100, share: int = 100, **busy: int) -> list[Parcel]:
        self.hooks.route()
        return self.hooks.claim(busy, room=room, share=share)

    def record(self, *parcels: Parcel, status: int) -> list[Delivery]:
        return self.hooks.record(
            [(p.delivery, ReceiverResponse(self.clock(), 0.1, status)) for p in parcels]
        )

    @property
    def messages(self) -> list[Message]:
        return list(self.database.contents.messages.values())

    def actions(self) -> list[str]:
        return [event.action for event in self.database.contents.events.values()]


@pytest.fixture
def post() -> Post:
    post = Post()
    Policies(*post.parts).change(SYSTEM, change(threshold=0.5), None)
    return post


def test_a_sent_set_leaves_one_message_and_a_reviewed_one_none(post: Post) -> None:
    post.predict("0.9")
    post.predict("0.1")
    (told,) = post.messages
    (sent, _) = post.database.contents.predictions.values()
    assert (told.type, told.data["prediction_id"]) == ("prediction.auto_sent", sent.id)


def test_a_repeated_request_tells_once(post: Post) -> None:
    for _ in range(3):
        post.predict("0.9", key="k")
    predictions = Predictions(FakePredictors(), *post.parts, LOTTERY)
    with pytest.raises(errors.IdempotencyMismatch):
        predict_one(
            predictions, CLIENT, Document(text="0.9"), idempotency=IdempotencyKey("k", "other")
        )
    assert len(post.messages) == 1


def test_a_completed_review_leaves_one_message_however_often_it_is_sent(post: Post) -> None:
    post.predict("0.1", "note-1")
    task = Reviews(*post.parts, FakePredictors(), LOTTERY).claim(ANN)
    assert task is not None
    for _ in range(2):
        Reviews(*post.parts, FakePredictors(), LOTTERY).complete(
            ANN, task.id, ["a"], "no b", task.version
        )
    (told,) = post.messages
    assert told.type is MessageType.REVIEW_COMPLETED
    assert told.data["labels"] == ["a"]
    assert "no b" not in str(told.data)
    assert told.document_key == f"{CLIENT.id}/note-1"


def test_each_endpoint_gets_what_it_wants(post: Post) -> None:
    everything, reviews = post.add(), post.add(MessageType.REVIEW_COMPLETED)
    post.predict("0.9")
    assert [parcel.endpoint for parcel in post.claim()] == [everything]
    post.predict("0.1")
    task = Reviews(*post.parts, FakePredictors(), LOTTERY).claim(ANN)
    assert task is not None
    Reviews(*post.parts, FakePredictors(), LOTTERY).complete(ANN, task.id, [], None, task.version)
    assert {parcel.endpoint.id for parcel in post.claim()} == {everything.id, reviews.id}


def test_what_nobody_wants_is_routed_to_nobody_once(post: Post) -> None:
    post.predict("0.9")
    assert post.hooks.route() == 1
    assert post.hooks.route() == 0
    post.add()
    assert post.claim() == []


@pytest.mark.parametrize("wanted", [True, False])
def test_many_messages_are_routed_whatever_the_size_of_a_transaction(
    post: Post, wanted: bool
) -> None:
    if wanted:
        post.add()
    with post.database() as transaction:
        for _ in range(2_100):
            transaction.outbox.add(message())
    assert post.hooks.route() == 2_100
    assert len(post.claim(room=3_000, share=3_000)) == 2_100 * wanted


def test_an_endpoint_that_comes_while_messages_are_routed_to_nobody_gets_them(post: Post) -> None:
    class Raced(Database):
        def __call__(
            self, *, read_only: bool = False, snapshot: bool = False
        ) -> AbstractContextManager[Transaction]:
            if not read_only and not post.database.contents.endpoints:
                post.add()
            return post.database(read_only=read_only)

    post.predict("0.9")
    assert webhooks(Raced(), post.clock, post.ids).route() == 0
    assert len(post.claim()) == 1


def test_messages_that_come_while_others_are_routed_wait_for_the_next_round(post: Post) -> None:
    """Or a busy service would route for ever and deliver nothing."""

    class Busy(Database):
        def __call__(
            self, *, read_only: bool = False, snapshot: bool = False
        ) -> AbstractContextManager[Transaction]:
            with post.database() as transaction:
                transaction.outbox.add(message())
            return post.database(read_only=read_only)

    post.add()
    route = webhooks(Busy(), post.clock, post.ids).route
    assert route() == 1
    assert route() == 2


def test_nobody_waits_for_a_courier_that_has_nothing_to_write(post: Post) -> None:
    slow, disabled = post.add(), post.add()
    post.predict("0.9", "note-1")
    post.predict("0.8", "note-1")
    assert len(post.claim()) == 2  # the second ones wait for them
    post.hooks.change(ADMIN, disabled.id, EndpointChange(disabled.url, enabled=False))
    with post.database():  # whoever wants to write now has to wait
        assert post.claim() == []
        post.clock.advance(seconds=60)
        assert post.claim(room=4, share=4, **{slow.id: 4}) == []
    assert [parcel.endpoint for parcel in post.claim()] == [slow]


def test_while_an_endpoint_is_disabled_its_deliveries_wait(post: Post) -> None:
    hook = post.add()
    post.hooks.change(ADMIN, hook.id, EndpointChange(hook.url, enabled=False))
    for text in ("0.8", "0.9"):
        post.predict(text, "note-1")
    assert post.claim() == []
    post.hooks.change(ADMIN, hook.id, EndpointChange("https://new.example/"))
    (first,) = post.claim()
    assert first.endpoint.url == "https://new.example/"
    post.record(first, status=200)
    assert len(post.claim()) == 1


def test_the_first_failure_is_visible_until_the_message_arrives(post: Post) -> None:
    hook = post.add()
    post.predict("0.9", "note-1")
    post.predict("0.8", "note-1")  # waits behind the first and has not failed
    (parcel,) = post.claim()
    assert post.hooks.failing(ADMIN) == {}
    post.record(parcel, status=500)
    assert post.hooks.failing(ADMIN) == {hook.id: 1}
    due = first_due(post.database.engine)
    assert (due.failing, due.dead) == (1, 0)
    with post.database(read_only=True) as transaction:
        lines = transaction.backlog.read().deliveries
    assert (lines["pending"].count, lines["failing"].count) == (2, 1)
    post.clock.advance(days=1)
    (again,) = post.claim()
    assert post.hooks.failing(ADMIN) == {hook.id: 1}  # a second attempt is under way
    post.record(again, status=200)
    assert post.hooks.failing(ADMIN) == {}


def test_an_endpoint_that_is_gone_is_disabled_and_its_message_waits(post: Post) -> None:
    hook, other = post.add(), post.add()
    post.predict("0.9")
    post.predict("0.8")
    parcels = [parcel for parcel in post.claim() if parcel.endpoint.id == hook.id]
    recorded = post.record(*parcels, status=410)
    assert {delivery.state for delivery in recorded} == {DeliveryState.PENDING}
    stored = post.database.contents.endpoints
    assert stored[hook.id].disabled_because == "it answered 410 Gone"
    assert stored[other.id].enabled
    assert post.actions().count("webhook.disabled") == 1
    post.clock.advance(days=9)
    assert {parcel.endpoint.id for parcel in post.claim()} == {other.id}
    post.hooks.change(ADMIN, hook.id, EndpointChange(hook.url))
    assert [parcel.endpoint.id for parcel in post.claim()] == [hook.id, hook.id]


def test_an_endpoint_that_is_deleted_while_it_answers_leaves_only_a_log(post: Post) -> None:
    hook = post.add()
    post.predict("0.9")
    (parcel,) = post.claim()
    post.hooks.delete(ADMIN, hook.id)
    for status in (410, 200):
        assert post.record(parcel, status=status) == []
    (delivery,) = post.database.contents.deliveries.values()
    assert delivery.state is DeliveryState.CANCELLED
    assert len(post.database.contents.attempts) == 2


def test_an_endpoint_gets_its_share_and_leaves_room_to_others(post: Post) -> None:
    slow, quick = post.add(), post.add()
    for _ in range(10):
        post.predict("0.9")
    first = post.claim(room=16, share=4)
    assert [p.endpoint.id for p in first].count(slow.id) == 4
    assert [p.endpoint.id for p in first].count(quick.id) == 4
    # The slow one still works on its four; the other one's next come all the same.
    assert {p.endpoint.id for p in post.claim(room=12, share=4, **{slow.id: 4})} == {quick.id}
    # With room for one, the less busy endpoint has it.
    (only,) = post.claim(room=1, share=4, **{quick.id: 2, slow.id: 1})
    assert only.endpoint.id == slow.id


def test_the_given_schedule_decides(post: Post) -> None:
    post.add()
    post.predict("0.9")
    (parcel,) = post.claim()
    schedule = RetryDelays((timedelta(0), timedelta(hours=1)), 1.0)
    hooks = webhooks(*post.parts, draw=lambda: 0.5, backoff=schedule)
    (again,) = hooks.record([(parcel.delivery, ReceiverResponse(post.clock(), 1, 500))])
    assert again.due_at == post.clock() + timedelta(hours=1.5)


def test_a_call_acknowledges_a_thousand_messages_at_most(post: Post) -> None:
    acknowledge = post.hooks.acknowledge
    ids = [post.ids() for _ in range(1_001)]
    assert acknowledge(CLIENT, ids[:1_000]) == 0
    with pytest.raises(errors.InvalidRequest) as refused:
        acknowledge(CLIENT, ids)
    assert [fault.pointer for fault in refused.value.faults] == ["/ids"]
