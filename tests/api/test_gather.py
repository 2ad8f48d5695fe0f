"""Requests that are predicted together: who shares a group, and what a failure costs the others."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from setwise.service.api.http.gather import PredictionQueue, characters
from setwise.service.domain.errors import StorageUnavailable
from setwise.service.domain.predictions import Document, Submission
from tests.samples import CLIENT

PATIENCE_S = 60.0


class Handler:
    """Doubles numbers, group by group, and can be held at its door."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.entered = threading.Semaphore(0)
        self.door = threading.Event()
        self.door.set()

    def __call__(self, asked: Sequence[int]) -> list[int | Exception]:
        self.groups.append(list(asked))
        self.entered.release()
        assert self.door.wait(PATIENCE_S)
        if -1 in asked:
            raise StorageUnavailable("the disk is full")
        return [ValueError(f"{one} is odd") if one % 2 else 2 * one for one in asked]

    async def busy(self) -> None:
        """Return once a group has entered."""
        assert await asyncio.to_thread(self.entered.acquire, timeout=PATIENCE_S)


@contextmanager
def queue_of(handler: Handler, **options: Any) -> Iterator[PredictionQueue]:
    queue = PredictionQueue(handler, **{"weigh": lambda _: 0, **options})
    try:
        yield queue
    finally:
        handler.door.set()
        queue.close()


async def ask(queue: PredictionQueue, *requests: list[int]) -> list[Any]:
    return await asyncio.gather(*(queue(one) for one in requests), return_exceptions=True)


async def in_line() -> None:
    """Return once each task that was just made waits in the queue."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_a_request_that_comes_alone_is_handled_at_once() -> None:
    handler = Handler()
    with queue_of(handler) as queue:
        assert asyncio.run(ask(queue, [2])) == [[4]]
        assert asyncio.run(ask(queue, [4])) == [[8]]  # also from another event loop
    assert handler.groups == [[2], [4]]


def test_what_arrives_meanwhile_is_the_next_group_in_order_and_bounded() -> None:
    handler = Handler()

    async def scenario(queue: PredictionQueue) -> list[Any]:
        handler.door.clear()
        first = asyncio.create_task(queue([0]))
        await handler.busy()
        rest = asyncio.create_task(ask(queue, [2], [4], [6], [8], [10]))
        await in_line()
        handler.door.set()
        return [await first, *await rest]

    with queue_of(handler, largest=3) as queue:
        assert asyncio.run(scenario(queue)) == [[0], [4], [8], [12], [16], [20]]
    assert handler.groups == [[0], [2, 4, 6], [8, 10]]


@pytest.mark.parametrize("lone", [True, False])
def test_a_group_holds_few_documents_if_they_are_long(lone: bool) -> None:
    handler = Handler()
    requests = [[number] if lone else [number, 0] for number in (2, 4, 6, 30, 4)]

    async def scenario(queue: PredictionQueue) -> None:
        handler.door.clear()
        first = asyncio.create_task(queue([0]))
        await handler.busy()
        rest = asyncio.create_task(ask(queue, *requests))
        await in_line()
        handler.door.set()
        await asyncio.gather(first, rest)

    with queue_of(handler, longest=10, weigh=int) as queue:
        asyncio.run(scenario(queue))
    _, *groups = handler.groups
    assert [[number for number in group if number] for group in groups] == [[2, 4], [6], [30], [4]]


def test_a_long_batch_is_divided_and_lone_requests_go_between_its_parts() -> None:
    handler = Handler()

    async def scenario(queue: PredictionQueue) -> list[Any]:
        handler.door.clear()
        first = asyncio.create_task(queue([0]))
        await handler.busy()
        rest = asyncio.create_task(ask(queue, [6, 4, 30, 7, 2], [8], [10]))
        await in_line()
        handler.door.set()
        return [await first, *await rest]

    with queue_of(handler, longest=10, weigh=int, largest=5) as queue:
        _, batch, *others = asyncio.run(scenario(queue))
    assert handler.groups == [[0], [6, 4], [8], [30], [10], [7, 2]]
    assert [each for each in batch if not isinstance(each, Exception)] == [12, 8, 60, 4]
    assert str(batch[3]) == "7 is odd"
    assert others == [[16], [20]]


def test_a_batch_of_which_a_part_fails_fails() -> None:
    handler = Handler()
    with queue_of(handler, longest=10, weigh=abs) as queue:
        (answer,) = asyncio.run(ask(queue, [8, 8, -1]))
    assert isinstance(answer, StorageUnavailable)


def test_the_length_of_a_document_is_what_a_model_reads_of_it() -> None:
    def length(**document: Any) -> int:
        return characters(Submission(CLIENT, Document(**document)))

    assert length(text="נפיחות") == 6
    assert length(features={"a": 1.0, "b": 2.0}) == 2 * length(features={"c": 0.5}) > 0
    assert length(answer={"labels": ["a"]}, metadata={"x": "y"}) == 0


def test_batches_share_a_group_and_are_never_split() -> None:
    handler = Handler()

    async def scenario(queue: PredictionQueue) -> list[Any]:
        handler.door.clear()
        first = asyncio.create_task(queue([0]))
        await handler.busy()
        rest = asyncio.create_task(ask(queue, [2, 4, 6, 7], [8], [10, 12], [14], [16, 18]))
        await in_line()
        handler.door.set()
        return [await first, *await rest]

    with queue_of(handler, largest=4) as queue:
        _, batch, *others = asyncio.run(scenario(queue))
    assert batch[:3] == [4, 8, 12]
    assert isinstance(batch[3], ValueError)
    assert others == [[16], [20, 24], [28], [32, 36]]
    assert handler.groups == [[0], [2, 4, 6, 7], [8, 14], [10, 12, 16, 18]]


def test_a_failed_group_fails_whole_and_the_next_one_is_served() -> None:
    handler = Handler()

    async def scenario(queue: PredictionQueue) -> list[Any]:
        handler.door.clear()
        first = asyncio.create_task(queue([0]))
        await handler.busy()
        failing = asyncio.create_task(ask(queue, [2], [-1]))
        await in_line()
        handler.door.set()
        return [await first, *await failing, await queue([6])]

    with queue_of(handler) as queue:
        first, *items, later = asyncio.run(scenario(queue))
    assert (first, later) == ([0], [12])
    assert [str(one) for one in items] == ["the disk is full"] * 2
    assert all(isinstance(one, StorageUnavailable) for one in items)


def test_no_one_is_answered_before_the_group_is_done() -> None:
    handler = Handler()

    async def scenario(queue: PredictionQueue) -> None:
        handler.door.clear()
        asked = asyncio.create_task(queue([2]))
        await handler.busy()
        done, _ = await asyncio.wait([asked], timeout=0.05)
        assert not done
        handler.door.set()
        assert await asked == [4]

    with queue_of(handler) as queue:
        asyncio.run(scenario(queue))


def test_a_full_queue_refuses_further_requests_and_keeps_those_in_it() -> None:
    handler = Handler()

    async def scenario(queue: PredictionQueue) -> None:
        handler.door.clear()
        first = asyncio.create_task(queue([0]))
        await handler.busy()
        waiting = [asyncio.create_task(queue(one)) for one in ([2, 4], [6])]
        await in_line()
        with pytest.raises(StorageUnavailable, match="3 documents wait"):
            await queue([8])
        handler.door.set()
        assert await asyncio.gather(first, *waiting) == [[0], [4, 8], [12]]
        assert await queue([6, 8, 10, 12]) == [12, 16, 20, 24]  # an empty queue takes any batch

    with queue_of(handler, most_waiting=3) as queue:
        asyncio.run(scenario(queue))


def test_closing_answers_everyone_in_line_and_refuses_newcomers() -> None:
    handler = Handler()

    async def scenario(queue: PredictionQueue) -> None:
        handler.door.clear()
        first = asyncio.create_task(queue([0]))
        await handler.busy()
        waiting = asyncio.create_task(queue([2]))
        await in_line()
        closing = asyncio.create_task(asyncio.to_thread(queue.close))
        while not queue._closed:  # noqa: ASYNC110 -- set in a thread, which wakes no one
            await asyncio.sleep(0.01)
        with pytest.raises(StorageUnavailable, match="stopping"):
            await queue([4])
        handler.door.set()
        assert [await first, await waiting] == [[0], [4]]
        await closing

    with queue_of(handler) as queue:
        asyncio.run(scenario(queue))


def test_a_request_that_is_given_up_leaves_the_others_their_answers() -> None:
    handler = Handler()

    async def scenario(queue: PredictionQueue) -> Any:
        handler.door.clear()
        impatient = asyncio.create_task(queue([2]))
        await handler.busy()
        other = asyncio.create_task(queue([4]))
        await in_line()
        impatient.cancel()
        await in_line()
        handler.door.set()
        return await other

    with queue_of(handler) as queue:
        assert asyncio.run(scenario(queue)) == [8]


def test_a_lone_request_waits_for_one_group_of_batches_at_most() -> None:
    handler = Handler()

    async def scenario(queue: PredictionQueue) -> None:
        handler.door.clear()
        first = asyncio.create_task(queue([0, 0]))
        await handler.busy()
        batches = [asyncio.create_task(queue([each] * 2)) for each in (2, 4, 6)]
        await in_line()
        lone = [asyncio.create_task(queue([each])) for each in (8, 10, 12)]
        await in_line()
        handler.door.set()
        await asyncio.gather(first, *batches, *lone)

    with queue_of(handler, largest=2) as queue:
        asyncio.run(scenario(queue))
    # They take turns, so that the batches are answered too.
    assert handler.groups == [[0, 0], [8, 10], [2, 2], [12], [4, 4], [6, 6]]
