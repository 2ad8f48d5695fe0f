"""Requests that are handled together: who shares a group, and what a failure costs whom."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from setwise.service.api import gather as groups
from setwise.service.api.gather import Grouped
from setwise.service.domain.errors import StorageUnavailable

PATIENCE_S = 60.0


class Timer:
    """Counts the time that handlers say they take, and none that a busy machine adds."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def timer(monkeypatch: pytest.MonkeyPatch) -> Timer:
    """Let groups be timed by a timer of the test."""
    made = Timer()
    monkeypatch.setattr(groups, "time", SimpleNamespace(monotonic=made.monotonic))
    return made


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
def grouped(handler: Handler, **options: Any) -> Iterator[Grouped[int, int]]:
    made = Grouped[int, int](handler, name="test", **options)
    try:
        yield made
    finally:
        handler.door.set()
        made.close()


async def ask(group: Grouped[int, int], *asked: int) -> list[int | BaseException]:
    return await asyncio.gather(*(group(one) for one in asked), return_exceptions=True)


async def done_by_thread(group: Grouped[int, int]) -> None:
    """Return once the thread, whose answers came before, has left what comes to the loop."""
    while not group._loop_is_next:  # noqa: ASYNC110 -- set in a thread, which tells nobody
        await asyncio.sleep(0.001)


def test_a_request_that_comes_alone_is_handled_at_once() -> None:
    handler = Handler()
    with grouped(handler) as group:
        assert asyncio.run(ask(group, 2)) == [4]
        assert asyncio.run(ask(group, 4)) == [8]  # also from another event loop
    assert handler.groups == [[2], [4]]


def test_what_arrives_meanwhile_is_the_next_group_in_order_and_bounded() -> None:
    handler = Handler()

    async def scenario(group: Grouped[int, int]) -> list[int | BaseException]:
        handler.door.clear()
        first = asyncio.create_task(group(0))
        await handler.busy()
        rest = asyncio.create_task(ask(group, 2, 4, 6, 8, 10))
        await asyncio.sleep(0)  # each of them is in line now
        await asyncio.sleep(0)
        handler.door.set()
        return [await first, *await rest]

    with grouped(handler, largest=3) as group:
        assert asyncio.run(scenario(group)) == [0, 4, 8, 12, 16, 20]
    assert handler.groups == [[0], [2, 4, 6], [8, 10]]


def test_a_faulty_request_fails_alone() -> None:
    with grouped(Handler()) as group:
        even, odd, other = asyncio.run(ask(group, 2, 3, 4))
    assert (even, other) == (4, 8)
    assert isinstance(odd, ValueError)


def test_a_failed_group_fails_whole_and_the_next_one_is_served() -> None:
    handler = Handler()

    async def scenario(group: Grouped[int, int]) -> list[int | BaseException]:
        handler.door.clear()
        first = asyncio.create_task(group(0))
        await handler.busy()
        failing = asyncio.create_task(ask(group, 2, -1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        handler.door.set()
        outcomes = [await first, *await failing]
        return [*outcomes, await group(6)]

    with grouped(handler) as group:
        first, *failed, later = asyncio.run(scenario(group))
    assert (first, later) == (0, 12)
    assert [str(one) for one in failed] == ["the disk is full"] * 2
    assert all(isinstance(one, StorageUnavailable) for one in failed)


def test_nobody_is_answered_before_the_group_is_done() -> None:
    handler = Handler()

    async def scenario(group: Grouped[int, int]) -> None:
        handler.door.clear()
        asked = asyncio.create_task(group(2))
        await handler.busy()
        done, _ = await asyncio.wait([asked], timeout=0.05)
        assert not done
        handler.door.set()
        assert await asked == 4

    with grouped(handler) as group:
        asyncio.run(scenario(group))


def test_a_full_line_refuses_further_requests_and_keeps_those_in_it() -> None:
    handler = Handler()

    async def scenario(group: Grouped[int, int]) -> None:
        handler.door.clear()
        first = asyncio.create_task(group(0))
        await handler.busy()
        waiting = [asyncio.create_task(group(one)) for one in (2, 4)]
        await asyncio.sleep(0)
        with pytest.raises(StorageUnavailable, match="2 requests wait"):
            await group(6)
        handler.door.set()
        assert await asyncio.gather(first, *waiting) == [0, 4, 8]
        assert await group(6) == 12

    with grouped(handler, most_waiting=2) as group:
        asyncio.run(scenario(group))


def test_closing_answers_everybody_in_line_and_refuses_newcomers() -> None:
    handler = Handler()

    async def scenario(group: Grouped[int, int]) -> None:
        handler.door.clear()
        first = asyncio.create_task(group(0))
        await handler.busy()
        waiting = asyncio.create_task(group(2))
        await asyncio.sleep(0)
        closing = asyncio.create_task(asyncio.to_thread(group.close))
        while not group._closed:  # noqa: ASYNC110 -- set in a thread, which tells nobody
            await asyncio.sleep(0.01)
        with pytest.raises(StorageUnavailable, match="stopping"):
            await group(4)
        handler.door.set()
        assert [await first, await waiting] == [0, 4]
        await closing

    with grouped(handler) as group:
        asyncio.run(scenario(group))


def test_a_request_that_is_given_up_leaves_the_others_their_answers() -> None:
    handler = Handler()

    async def scenario(group: Grouped[int, int]) -> int:
        handler.door.clear()
        impatient = asyncio.create_task(group(2))
        await handler.busy()
        other = asyncio.create_task(group(4))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.sleep(0)
        handler.door.set()
        return await other

    with grouped(handler) as group:
        assert asyncio.run(scenario(group)) == 8


def test_those_who_were_answered_together_are_awaited_for_a_moment(timer: Timer) -> None:
    class Slow(Handler):
        def __call__(self, asked: Sequence[int]) -> list[int | Exception]:
            answers = super().__call__(asked)
            timer.now += 2.0 if asked[0] == 2 else 0.0
            return answers

    handler = Slow()

    async def caller(group: Grouped[int, int], place: int) -> None:
        await group(2)
        await asyncio.sleep(0.005 * place)  # each comes after a thread would have taken the first
        await group(4)

    async def scenario(group: Grouped[int, int]) -> None:
        handler.door.clear()
        first = asyncio.create_task(group(0))
        await handler.busy()
        callers = asyncio.gather(*(caller(group, place) for place in range(5)))
        await asyncio.sleep(0)
        handler.door.set()
        await asyncio.gather(first, callers)

    with grouped(handler) as group:
        asyncio.run(scenario(group))
    assert handler.groups == [[0], [2] * 5, [4] * 5]


class Brief(Handler):
    """Notes who handled each group; refuses while others hold the lock, takes time if told to."""

    def __init__(self, timer: Timer) -> None:
        super().__init__()
        self.timer = timer
        self.by: list[str] = []
        self.locked = False
        self.each_s = 0.0

    def __call__(self, asked: Sequence[int]) -> list[int | Exception]:
        self.by.append("thread")
        self.timer.now += self.each_s * len(asked)
        return super().__call__(asked)

    def brief(self, asked: Sequence[int]) -> list[int | Exception]:
        if self.locked:
            return [StorageUnavailable("locked") for _ in asked]
        answers = self(asked)
        self.by[-1] = "loop"
        assert threading.current_thread() is threading.main_thread()
        return answers


@contextmanager
def brief(handler: Brief, **options: Any) -> Iterator[Grouped[int, int]]:
    with grouped(handler, brief=handler.brief, **options) as group:
        yield group


def test_the_event_loop_itself_handles_what_comes_at_about_one_time_as_a_group(
    timer: Timer,
) -> None:
    handler = Brief(timer)

    async def scenario(group: Grouped[int, int]) -> list[int | BaseException]:
        asked = [asyncio.create_task(group(one)) for one in (2, 4)]
        await asyncio.sleep(0)  # they are in line, and others come while the loop looks
        asked += [asyncio.create_task(group(one)) for one in (6, 7)]
        return await asyncio.gather(*asked, return_exceptions=True)

    with brief(handler) as group:
        *even, odd = asyncio.run(scenario(group))
    assert even == [4, 8, 12]
    assert isinstance(odd, ValueError)
    assert (handler.groups, handler.by) == ([[2, 4, 6, 7]], ["loop"])


def test_more_than_the_largest_group_takes_the_event_loop_several(timer: Timer) -> None:
    handler = Brief(timer)
    with brief(handler, largest=3) as group:
        assert asyncio.run(ask(group, *range(0, 16, 2))) == list(range(0, 32, 4))
    assert handler.groups == [[0, 2, 4], [6, 8, 10], [12, 14]]
    assert set(handler.by) == {"loop"}


def test_a_request_that_is_not_small_goes_to_a_thread_with_its_group(timer: Timer) -> None:
    handler = Brief(timer)
    with brief(handler, small=lambda one: one < 100) as group:
        assert asyncio.run(ask(group, 2, 100)) == [4, 200]
        asyncio.run(done_by_thread(group))
        assert asyncio.run(ask(group, 4)) == [8]
    assert handler.by == ["thread", "loop"]


def test_what_is_locked_is_left_to_a_thread_with_all_that_comes_until_it_is_done(
    timer: Timer,
) -> None:
    handler = Brief(timer)

    async def scenario(group: Grouped[int, int]) -> list[int | BaseException]:
        handler.locked = True
        handler.door.clear()
        first = asyncio.create_task(ask(group, 2, 4))
        await handler.busy()  # the event loop is free meanwhile
        second = asyncio.create_task(ask(group, 6))
        await asyncio.sleep(0.05)
        assert handler.by == ["thread"]
        handler.locked = False
        handler.door.set()
        answers = [*await first, *await second]
        await done_by_thread(group)
        return [*answers, *await ask(group, 8)]

    with brief(handler) as group:
        assert asyncio.run(scenario(group)) == [4, 8, 12, 16]
    assert handler.groups == [[2, 4], [6], [8]]
    assert (handler.by[0], handler.by[-1]) == ("thread", "loop")


def test_a_group_that_would_take_long_goes_to_a_thread_until_groups_are_short_again(
    timer: Timer,
) -> None:
    handler = Brief(timer)
    handler.each_s = 0.02
    with brief(handler) as group:
        assert asyncio.run(ask(group, 2)) == [4]  # nothing is known yet
        assert asyncio.run(ask(group, 4, 6)) == [8, 12]  # twice that would be too long
        handler.each_s = 0.0
        assert asyncio.run(ask(group, 8, 10)) == [16, 20]
        asyncio.run(done_by_thread(group))
        assert asyncio.run(ask(group, 12, 14)) == [24, 28]
    assert handler.by == ["loop", "thread", "thread", "loop"]


def test_closing_answers_those_whom_the_event_loop_was_to_handle(timer: Timer) -> None:
    handler = Brief(timer)

    async def scenario(group: Grouped[int, int]) -> None:
        waiting = asyncio.create_task(group(2))
        await asyncio.sleep(0)
        group.close()
        with pytest.raises(StorageUnavailable, match="stopping"):
            await group(4)
        assert await waiting == 4

    with brief(handler) as group:
        asyncio.run(scenario(group))
    assert handler.by == ["thread"]
