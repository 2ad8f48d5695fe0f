"""The courier: real calls to a receiver, in order, at least once, never lost."""

import subprocess
import sys
import textwrap
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import Engine, update

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.domain.webhooks import (
    Delivery,
    DeliveryState,
    EndpointChange,
    Message,
    MessageType,
    Parcel,
    ReceiverResponse,
    RetryDelays,
    signing_secret,
)
from setwise.service.runtime import courier as courier_module
from setwise.service.runtime.courier import MOST_CLAIMED, SHARE, Courier, Lane
from setwise.service.runtime.sender import HttpSender
from setwise.service.services.webhooks import Webhooks
from setwise.service.stores import tables
from setwise.service.stores.database import create, new_id, utc_now
from setwise.service.stores.transaction import Transaction, Transactions
from tests.building import webhooks
from tests.kit.databases import ON_BOTH
from tests.kit.waiting import PATIENCE_S, eventually
from tests.ports import held_port
from tests.receiver import Received, Receiver
from tests.samples import ADMIN, CLIENT

ROOT = Path(__file__).parents[2]
SECRET = signing_secret(b"s" * 32)
QUICK = RetryDelays(delays=(timedelta(0), *[timedelta(milliseconds=30)] * 7), jitter=0.0)


def service(begin: Transactions, *, lease: timedelta = timedelta(seconds=60)) -> Webhooks:
    return webhooks(
        begin, lease=lease, backoff=QUICK, allow_private=True, new_secret=lambda: SECRET
    )


@contextmanager
def running(*couriers: Courier) -> Iterator[None]:
    for courier in couriers:
        courier.start()
    try:
        yield
    finally:
        for courier in couriers:
            courier.stop()


def courier(begin: Any, send: Any = None, **options: timedelta) -> Courier:
    send = send or HttpSender(allow_private=True, now=utc_now, patience_s=PATIENCE_S)
    return Courier(service(begin, **options), send, utc_now, poll_s=0.02)


class Fake:
    """A sender that asks a function instead of an endpoint."""

    def __init__(self, answer: Callable[[Parcel], ReceiverResponse]) -> None:
        self._answer = answer

    def __call__(self, parcel: Parcel) -> ReceiverResponse:
        return self._answer(parcel)

    def close(self) -> None:
        pass


class Noted:
    """Opens transactions, and notes of each whether it is only to read."""

    def __init__(self, begin: Transactions) -> None:
        self.begin, self.opened = begin, list[bool]()

    def __call__(
        self, *, read_only: bool = False, snapshot: bool = False
    ) -> AbstractContextManager[Transaction]:
        self.opened.append(read_only)
        return self.begin(read_only=read_only, snapshot=snapshot)

    def wait_for_turns(self) -> None:
        """Wait until a courier has looked for work at least twice from now on."""
        before = len(self.opened)
        eventually(lambda: len(self.opened) > before + 5)


def add(begin: Transactions, url: str) -> str:
    return service(begin).add(ADMIN, EndpointChange(url))[0].id


def tell(begin: Transactions, n: int, *, documents: int = 0) -> list[str]:
    """Write ``n`` messages, each in a transaction of its own; returns their ids."""
    ids = []
    for number in range(n):
        name = new_id()
        key = f"{CLIENT.id}/note-{number % documents}" if documents else name
        data = {"document": key, "number": number}
        kind = MessageType.PREDICTION_AUTO_SENT
        with begin() as transaction:
            transaction.outbox.add(Message(name, kind, CLIENT.id, key, data, utc_now()))
        ids.append(name)
    return ids


def deliveries(begin: Transactions) -> Sequence[Delivery]:
    with begin(read_only=True) as transaction:
        return transaction.deliveries.page(
            state=None, endpoint_id=None, after=None, limit=1_000
        ).items


def states(begin: Transactions) -> Counter[DeliveryState]:
    return Counter(delivery.state for delivery in deliveries(begin))


def attempts(begin: Transactions) -> Counter[int]:
    return Counter(delivery.attempt for delivery in deliveries(begin))


@pytest.fixture
def large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim the largest blocks from the first one on."""
    monkeypatch.setattr(courier_module, "QUICK_S", courier_module.AHEAD_S)


def hears_nothing_more(begin: Transactions, hook: str) -> bool:
    with begin(read_only=True) as transaction:
        endpoint = transaction.endpoints.get(hook)
    assert endpoint is not None
    return not endpoint.enabled


@pytest.fixture
def real(engine: Engine) -> Transactions:
    return Transactions(engine)


def test_every_message_arrives_in_order_for_each_document_in_spite_of_failures(
    real: Transactions,
) -> None:
    lock, counts = threading.Lock(), Counter[str]()

    def fail_some(call: Received) -> int:
        """Fail the first call about odd messages, and the first two about every third one."""
        number = call.message["data"]["number"]
        with lock:
            counts[call.id] += 1
            return 500 if counts[call.id] <= max(number % 2, 2 * (number % 3 == 0)) else 200

    with Receiver(fail_some, secrets=[SECRET]) as receiver:
        add(real, receiver.url)
        lines = tell(real, 60, documents=7)
        with running(courier(real), courier(real)):
            eventually(lambda: states(real) == {DeliveryState.DELIVERED: 60})
    assert set(receiver.ids()) == set(lines)
    first: dict[str, list[int]] = defaultdict(list)
    for call in receiver.calls:
        numbers = first[call.message["data"]["document"]]
        if call.message["data"]["number"] not in numbers:
            numbers.append(call.message["data"]["number"])
    assert sum(map(len, first.values())) == 60
    assert all(numbers == sorted(numbers) for numbers in first.values())
    assert Counter(Counter(receiver.ids()).values()) == {1: 20, 2: 20, 3: 20}


@ON_BOTH
def test_couriers_side_by_side_send_each_message_once(real: Transactions) -> None:
    second = threading.Event()

    def answer(_: Received) -> int:
        """Keep the first call until there is another beside it."""
        if receiver.most_at_once > 1:
            second.set()
        return 204 if second.wait(PATIENCE_S / 2) else 500

    with Receiver(answer, secrets=[SECRET]) as receiver:
        add(real, receiver.url)
        lines = tell(real, 60)
        with running(*(courier(real) for _ in range(4))):
            eventually(lambda: states(real) == {DeliveryState.DELIVERED: 60})
    assert Counter(receiver.ids()) == dict.fromkeys(lines, 1)
    assert receiver.most_at_once > 1


@ON_BOTH
def test_routers_side_by_side_make_one_delivery_of_each_message(real: Transactions) -> None:
    add(real, "https://b.example/")
    stop = threading.Event()

    def route() -> int:
        count, one = 0, service(real).route
        while not stop.is_set():
            count += one()
        return count + one()

    with ThreadPoolExecutor() as pool:
        routers = [pool.submit(route) for _ in range(3)]
        tell(real, 60)
        stop.set()
        assert sum(router.result() for router in routers) == 60
    assert states(real) == {DeliveryState.PENDING: 60}


def test_a_courier_writes_only_when_there_is_something_to_write(real: Transactions) -> None:
    noted = Noted(real)
    with running(courier(noted, Fake(lambda _: ReceiverResponse(utc_now(), 0.0, status=200)))):
        add(real, "https://b.example/")
        noted.wait_for_turns()
        assert noted.opened.count(False) == 0
        tell(real, 1)
        eventually(lambda: states(real) == {DeliveryState.DELIVERED: 1})
        noted.wait_for_turns()
        assert noted.opened.count(False) == 3  # it routes, claims and records


def test_an_endpoint_that_hangs_holds_up_nobody_else(begin: Transactions) -> None:
    release = threading.Event()
    with (
        Receiver(lambda _: 204 if release.wait(PATIENCE_S) else 500, secrets=[SECRET]) as hanging,
        Receiver(secrets=[SECRET]) as quick,
    ):
        for receiver in (hanging, quick):
            add(begin, receiver.url)
        lines = tell(begin, 40)
        with running(courier(begin)):
            eventually(lambda: len(quick.calls) == 40)
            assert len(hanging.calls) <= 4
            release.set()
            eventually(lambda: states(begin) == {DeliveryState.DELIVERED: 80})
    assert set(hanging.ids()) == set(lines)


def test_a_receiver_that_was_away_gets_everything_when_it_is_back(real: Transactions) -> None:
    with held_port() as port, Receiver(secrets=[SECRET], port=port) as receiver:
        hook = add(real, receiver.url)
        with running(courier(real)):
            early = tell(real, 5)
            eventually(lambda: states(real) == {DeliveryState.DELIVERED: 5})
            receiver.stop()
            late = tell(real, 5)
            eventually(lambda: states(real)[DeliveryState.DEAD] == 5)
            with Receiver(secrets=[SECRET], port=port) as again:
                assert service(real).replay_dead(ADMIN, hook) == 5
                eventually(lambda: states(real) == {DeliveryState.DELIVERED: 10})
    assert sorted(receiver.ids()) == sorted(early)
    assert sorted(again.ids()) == sorted(late)


def test_a_receiver_that_is_gone_hears_nothing_more(
    begin: Transactions, large_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier_module, "SHARE", 1)
    with Receiver(lambda _: 410, secrets=[SECRET]) as receiver:
        hook = add(begin, receiver.url)
        noted = Noted(begin)
        tell(begin, 3)
        with running(courier(noted)):
            eventually(lambda: hears_nothing_more(begin, hook))
            tell(begin, 3)
            eventually(lambda: attempts(begin) == Counter({0: 5, 1: 1}))
            noted.wait_for_turns()
        assert states(begin) == {DeliveryState.PENDING: 6}
    assert len(receiver.calls) == 1


def test_an_endpoint_that_answers_quickly_gets_larger_blocks() -> None:
    lane = Lane()
    assert lane.room() == SHARE
    quick = ReceiverResponse(utc_now(), 0.001, status=204)
    rooms = []
    for _ in range(30):
        rooms.append(lane.room())
        lane.claimed += rooms[-1]
        while lane.claimed:
            lane.note(quick)
    assert rooms == sorted(rooms)
    assert rooms[-1] == MOST_CLAIMED
    lane.claimed = MOST_CLAIMED
    for _ in range(MOST_CLAIMED // 2 - 1):
        lane.note(quick)
        assert lane.room() == 0  # until half of the block is left
    lane.note(quick)
    assert lane.room() == MOST_CLAIMED // 2


@pytest.mark.parametrize(
    "answer",
    [
        ReceiverResponse(utc_now(), 2.0, status=204),
        ReceiverResponse(utc_now(), 0.001, status=503),
        ReceiverResponse(utc_now(), 0.001, error="no connection"),
    ],
)
def test_one_slow_or_failed_answer_ends_the_larger_blocks(answer: ReceiverResponse) -> None:
    lane = Lane()
    lane.claimed = 1_000
    while lane.claimed > 1:
        lane.note(ReceiverResponse(utc_now(), 0.0, status=204))
    lane.note(answer)
    assert (lane.claimed, lane.room()) == (0, SHARE)


def test_what_waits_too_long_for_its_endpoint_is_given_back_unsent(
    begin: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier_module, "HELD_S", -1.0)
    sent: list[int] = []

    def send(parcel: Parcel) -> ReceiverResponse:
        sent.append(parcel.delivery.attempt)
        return ReceiverResponse(utc_now(), 0.0, status=200)

    add(begin, "https://b.example/")
    tell(begin, 1)
    with running(courier(begin, Fake(send))):
        eventually(lambda: any(one.token > 2 for one in deliveries(begin)))  # claimed again
        assert sent == []
        monkeypatch.setattr(courier_module, "HELD_S", PATIENCE_S)
        eventually(lambda: states(begin) == {DeliveryState.DELIVERED: 1})
    assert sent == [1]


def test_a_courier_that_stops_gives_back_what_it_has_not_begun(
    begin: Transactions, large_blocks: None
) -> None:
    begun, release = threading.Semaphore(0), threading.Event()

    def send(parcel: Parcel) -> ReceiverResponse:
        begun.release()
        assert release.wait(PATIENCE_S)
        return ReceiverResponse(utc_now(), 0.0, status=200)

    add(begin, "https://b.example/")
    tell(begin, 10)
    one = courier(begin, Fake(send))
    one.start()
    for _ in range(SHARE):
        assert begun.acquire(timeout=PATIENCE_S)
    eventually(lambda: attempts(begin) == Counter({1: 10}))  # claimed
    one._stopping.set()
    release.set()
    one.stop(patience_s=PATIENCE_S)
    assert states(begin) == {DeliveryState.DELIVERED: SHARE, DeliveryState.PENDING: 10 - SHARE}
    assert attempts(begin) == Counter({1: SHARE, 0: 10 - SHARE})
    assert {one.lease_expires_at for one in deliveries(begin)} == {None}


def test_a_fault_of_our_own_is_counted_and_does_not_stop_the_others(begin: Transactions) -> None:
    def send(parcel: Parcel) -> ReceiverResponse:
        if parcel.delivery.message.data["number"] == 0:
            raise ZeroDivisionError("with a document in its words")
        return ReceiverResponse(utc_now(), 0.0, status=200)

    add(begin, "https://b.example/")
    tell(begin, 3)
    with structlog.testing.capture_logs() as logs, running(courier(begin, Fake(send))):
        eventually(lambda: states(begin) == {DeliveryState.DELIVERED: 2, DeliveryState.DEAD: 1})
    with begin(read_only=True) as transaction:
        (dead,) = transaction.deliveries.page(
            state=DeliveryState.DEAD, endpoint_id=None, after=None, limit=9
        ).items
        attempts = transaction.deliveries.attempts(dead.id)
    assert len(attempts) == len(QUICK.delays)
    assert {one.answer.error for one in attempts} == {"a fault of Setwise: ZeroDivisionError"}
    assert [log["log_level"] for log in logs if log["event"] == "delivery.dead"] == ["error"]


def test_answers_that_could_not_be_recorded_are_recorded_later(begin: Transactions) -> None:
    """The database goes away between the call and its record: no second call."""
    down = threading.Event()
    sent: list[str] = []
    mask: list[bool] = []

    def open_transaction(*, read_only: bool = False) -> object:
        if down.is_set():
            mask.append(read_only)
            raise StorageUnavailable("The database is not available: it sleeps.")
        return begin(read_only=read_only)

    def send(parcel: Parcel) -> ReceiverResponse:
        sent.append(parcel.delivery.message.id)
        down.set()
        return ReceiverResponse(utc_now(), 0.0, status=200)

    add(begin, "https://b.example/")
    lines = tell(begin, 1)
    with running(courier(open_transaction, Fake(send))):
        eventually(lambda: len(mask) > 1)
        assert states(begin) == {DeliveryState.PENDING: 1}
        down.clear()
        eventually(lambda: states(begin) == {DeliveryState.DELIVERED: 1})
    assert sent == lines


def test_a_courier_that_stops_waits_for_the_answer_under_way(begin: Transactions) -> None:
    event = threading.Event()

    def slow(call: Received) -> int:
        event.set()
        return 200 if one._stopping.wait(PATIENCE_S) else 500

    with Receiver(slow, secrets=[SECRET]) as receiver:
        add(begin, receiver.url)
        tell(begin, 1)
        one = courier(begin)
        one.start()
        assert event.wait(PATIENCE_S)
        one.stop()
    assert states(begin) == {DeliveryState.DELIVERED: 1}


KILLED = textwrap.dedent(
    """
    import os, sys, signal
    sys.path.insert(0, sys.argv[2])
    from setwise.service.stores.database import create
    from setwise.service.stores.transaction import Transactions
    from setwise.service.runtime.courier import Courier
    from tests.runtime.test_courier import courier

    class Dying(Courier):
        def _record(self):
            if self._unrecorded:  # sent, but nobody knows of it yet
                os.kill(os.getpid(), signal.SIGKILL)

    begin = Transactions(create(sys.argv[1]))
    alive = courier(begin)
    Dying(alive._webhooks, alive._send, alive._now, poll_s=0.02).run()
    """
)


@ON_BOTH
@pytest.mark.slow
def test_what_a_killed_courier_sent_is_sent_again_under_the_same_id(database_url: str) -> None:
    engine = create(database_url)
    begin = Transactions(engine)
    with Receiver(secrets=[SECRET]) as receiver:
        add(begin, receiver.url)
        lines = tell(begin, 3, documents=1)
        process = subprocess.run(
            [sys.executable, "-c", KILLED, database_url, ROOT], check=False, timeout=PATIENCE_S
        )
        assert process.returncode == -9
        assert receiver.ids() == lines[:1]
        assert states(begin) == {DeliveryState.PENDING: 3}
        lease_expires_at = tables.deliveries.c.lease_expires_at
        with engine.begin() as connection:  # as if its minute had passed
            expired = update(tables.deliveries).where(lease_expires_at.is_not(None))
            connection.execute(expired.values(lease_expires_at=utc_now()))
        with running(courier(begin)):
            eventually(lambda: states(begin) == {DeliveryState.DELIVERED: 3})
    assert receiver.ids() == [lines[0], *lines]
    first, second = receiver.calls[:2]
    assert (first.id, first.body) == (second.id, second.body)
    engine.dispose()
