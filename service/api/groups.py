"""Many requests handled in one go: the fixed costs of a transaction are paid once for a group."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from service.domain.errors import StorageUnavailable

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Asked, Answered]):
    asked: Asked
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Answered]"


class Grouped(Generic[Asked, Answered]):
    """Handles whatever has arrived while the last group was handled as the next one.

    A thread or two handle one group after another. Nobody waits for a group to fill: a request that
    comes alone is handled at once and alone, and groups grow with the load. Answers leave when
    the whole group is done, which for a transaction means that it is committed.

    Parameters
    ----------
    handle : callable
        Takes the requests of a group and gives for each, in order, the answer or what is to be
        raised. If it raises, that is every answer of the group.
    largest : int
        Most requests of a group.
    most_waiting : int
        Requests that may wait; further ones are refused, so that a slow database makes neither
        memory nor delays grow without end.
    at_once : int
        Groups under way: with two, one is computed while the other waits for the disk.
    name : str
        Of the threads.
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
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self._lock = Lock()
        self._waiting: deque[_Waiting[Asked, Answered]] = deque()
        self._idle = at_once
        self._closed = False

    async def __call__(self, asked: Asked) -> Answered:
        """Return the answer, once its whole group is done.

        Raises
        ------
        StorageUnavailable
            If too many requests wait, or the service stops.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answered] = loop.create_future()
        with self._lock:
            if self._closed:
                raise StorageUnavailable("The service is stopping.")
            if len(self._waiting) >= self._most_waiting:
                raise StorageUnavailable(
                    f"{self._most_waiting} requests wait for the database already."
                )
            self._waiting.append(_Waiting(asked, loop, answer))
            if self._idle:
                self._idle -= 1
                self._threads.submit(self._work)
        return await answer

    def close(self) -> None:
        """Refuse new requests and return when those that wait are answered."""
        with self._lock:
            self._closed = True
        self._threads.shutdown(wait=True)

    def _work(self) -> None:
        while group := self._next_group():
            try:
                answers = self._handle([waiting.asked for waiting in group])
                pairs = list(zip(group, answers, strict=True))
            except BaseException as error:  # noqa: BLE001 -- somebody waits for each answer
                failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
                pairs = [(waiting, failure) for waiting in group]
            _deliver(pairs)

    def _next_group(self) -> list[_Waiting[Asked, Answered]]:
        with self._lock:
            size = min(self._largest, len(self._waiting))
            if not size:
                self._idle += 1
            return [self._waiting.popleft() for _ in range(size)]


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
