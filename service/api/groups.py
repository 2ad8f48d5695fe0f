"""Many requests handled in one go: the fixed costs of a transaction are paid once for a group."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Generic, TypeVar

from service.domain.errors import StorageUnavailable

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Asked, Answered]):
    asked: Asked
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Answered]"


GATHERING = 0.125
"""For how much of the time that the last group took the next one may wait to grow as large."""


class Grouped(Generic[Asked, Answered]):
    """Handles whatever has arrived while the last group was handled as the next one.

    A thread or more handle one group after another. A request that comes alone is handled at once
    and alone, and groups grow with the load. Under load, those who were just answered ask again
    within a moment: without waiting a little for them (`GATHERING`), the first of them would make
    a group of its own, and each second group would be next to empty at the price of a full one.
    Answers leave when the whole group is done, which for a transaction means that it is committed.

    Parameters
    ----------
    handle : callable
        Takes the requests of a group and gives for each, in order, the answer or what is to be
        raised. If it raises, that is every answer of the group.
    name : str
        Of the threads.
    at_once : int
        Groups under way.
    largest : int
        Most requests of a group.
    most_waiting : int
        Requests that may wait; further ones are refused, so that a slow database makes neither
        memory nor delays grow without end.
    """

    def __init__(
        self,
        handle: Callable[[Sequence[Asked]], Sequence[Answered | Exception]],
        *,
        name: str,
        at_once: int = 1,
        largest: int = 64,
        most_waiting: int = 1_024,
    ) -> None:
        self._handle = handle
        self._largest = largest
        self._most_waiting = most_waiting
        self._waiting: deque[_Waiting[Asked, Answered]] = deque()
        self._changed = Condition()
        self._awaited = 1
        self._gather_until = 0.0
        self._closed = False
        self._started = False
        self._threads = [
            Thread(target=self._work, name=f"{name}-{place}", daemon=True)
            for place in range(at_once)
        ]

    async def __call__(self, asked: Asked) -> Answered:
        """Return the answer, once its whole group is done.

        Raises
        ------
        StorageUnavailable
            If too many requests wait, or the service stops.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answered] = loop.create_future()
        with self._changed:
            if self._closed:
                raise StorageUnavailable("The service is stopping.")
            if len(self._waiting) >= self._most_waiting:
                raise StorageUnavailable(
                    f"{self._most_waiting} requests wait for the database already."
                )
            if not self._started:
                self._started = True
                for thread in self._threads:
                    thread.start()
            self._waiting.append(_Waiting(asked, loop, answer))
            # The first one wakes a thread; it sleeps again until there are as many as it awaits.
            if len(self._waiting) in {1, self._awaited}:
                self._changed.notify()
        return await answer

    def close(self) -> None:
        """Refuse new requests and return when those that wait are answered."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._started:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while group := self._next_group():
            started_at = time.monotonic()
            try:
                answers = self._handle([waiting.asked for waiting in group])
                pairs = list(zip(group, answers, strict=True))
            except BaseException as error:  # noqa: BLE001 -- somebody waits for each answer
                failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
                pairs = [(waiting, failure) for waiting in group]
            now = time.monotonic()
            self._awaited = len(group)
            self._gather_until = now + GATHERING * (now - started_at)
            _deliver(pairs)

    def _next_group(self) -> list[_Waiting[Asked, Answered]]:
        """Return who is next, once there is anybody; nobody when the last was answered."""
        with self._changed:
            while not self._closed:
                left_s = self._gather_until - time.monotonic()
                if not self._waiting:
                    self._changed.wait()
                elif len(self._waiting) < self._awaited and left_s > 0:
                    self._changed.wait(left_s)
                else:
                    break
            size = min(self._largest, len(self._waiting))
            group = [self._waiting.popleft() for _ in range(size)]
            if self._waiting:
                self._changed.notify()  # there is work for another thread
            return group


def _deliver(pairs: Sequence[tuple[_Waiting[Asked, Answered], Answered | Exception]]) -> None:
    # A loop is woken once for all of its answers.
    for loop in {id(waiting.loop): waiting.loop for waiting, _ in pairs}.values():
        own = [(waiting.answer, given) for waiting, given in pairs if waiting.loop is loop]
        try:
            loop.call_soon_threadsafe(_settle, own)
        except RuntimeError:  # closed meanwhile; nobody waits there any more
            continue


def _settle(answers: "Sequence[tuple[asyncio.Future[Answered], Answered | Exception]]") -> None:
    for future, given in answers:
        if future.done():  # its request was cancelled
            continue
        if isinstance(given, Exception):
            future.set_exception(given)
        else:
            future.set_result(given)
