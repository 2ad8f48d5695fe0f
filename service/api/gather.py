"""Many requests handled in one go: the fixed costs of a transaction are paid once for a group."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Generic, TypeVar

from setwise.service.domain.errors import StorageUnavailable

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")

Handle = Callable[[Sequence[Asked]], Sequence[Answered | Exception]]
"""Gives for each request of a group, in order, the answer or what is to be raised."""

GATHERING = 0.4
"""For how much of the time that the last group took the next one may wait to grow as large."""

LONGEST_TURN_S = 0.025
"""For how long the event loop may be kept from everything else by a group.

What suddenly takes longer, such as a disk that begins to hang, keeps it for one group longer."""


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Asked, Answered]):
    asked: Asked
    loop: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Answered]"


_Pair = tuple[_Waiting[Asked, Answered], Answered | Exception]


class Grouped(Generic[Asked, Answered]):
    """Handles whatever has arrived while the last group was handled as the next one.

    A request that comes alone is handled at once and alone, and groups grow with the load. Answers
    leave when the whole group is done, which for a transaction means that it is committed.

    A thread handles groups, and may wait as long as it takes. But with every request the event loop
    and the thread take the interpreter from each other, which costs a short group a fifth of its
    time. So the event loop itself handles a group, between two of its turns, if

    - there is a way to do it that never waits for others (`brief`),
    - each request of it is `small`, and
    - it will take at most `LONGEST_TURN_S`, going by the time that the last group took a request.

    Who finds the storage unavailable in that way, which also means locked by others, is handled by
    the thread after all, and so are those who come until that is done.

    Under load, those who were just answered ask again within a moment: without waiting a little for
    them, the first of them would make a group of its own, and each second group would be next to
    empty at the price of a full one. The event loop waits while each of its turns brings somebody,
    the thread for `GATHERING`.

    Parameters
    ----------
    handle : callable
        If it raises, that is every answer of the group.
    name : str
        Of the thread.
    brief : callable or None
        Does the same without waiting for others. What it answers with `StorageUnavailable` has
        changed nothing.
    small : callable
        Tells whether a request is one that takes about as long as most.
    largest : int
        Most requests of a group.
    most_waiting : int
        Requests that may wait; further ones are refused, so that a slow database makes neither
        memory nor delays grow without end.
    """

    def __init__(
        self,
        handle: Handle[Asked, Answered],
        *,
        name: str,
        brief: Handle[Asked, Answered] | None = None,
        small: Callable[[Asked], bool] = lambda _: True,
        largest: int = 64,
        most_waiting: int = 1_024,
    ) -> None:
        self._handle = handle
        self._brief = brief
        self._small = small
        self._largest = largest
        self._most_waiting = most_waiting
        self._waiting: deque[_Waiting[Asked, Answered]] = deque()
        self._changed = Condition()
        self._loop_is_next = brief is not None
        self._each_s = 0.0
        self._awaited = 1
        self._gather_until = 0.0
        self._closed = False
        self._started = False
        self._thread = Thread(target=self._work, name=name, daemon=True)

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
            self._waiting.append(_Waiting(asked, loop, answer))
            if self._loop_is_next:
                if len(self._waiting) == 1:
                    self._take_turn(loop)
            # The first one wakes a thread; it sleeps again until there are as many as it awaits.
            elif len(self._waiting) in {1, self._awaited}:
                self._wake_thread()
        return await answer

    def close(self) -> None:
        """Refuse new requests and return when those that wait are answered."""
        with self._changed:
            self._closed = True
            if self._loop_is_next and self._waiting:
                self._leave_to_thread()
            self._changed.notify_all()
        if self._started:
            self._thread.join()

    def _is_brief(self) -> bool:
        """Tell whether the next group is one for the event loop."""
        size = min(self._largest, len(self._waiting))
        return (
            self._brief is not None
            and not self._closed
            and size * self._each_s <= LONGEST_TURN_S
            and all(self._small(self._waiting[place].asked) for place in range(size))
        )

    def _take_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        # In a context of its own, not in that of the request which comes first.
        loop.call_soon(self._turn, loop, len(self._waiting), context=Context())

    def _turn(self, loop: asyncio.AbstractEventLoop, seen: int) -> None:
        """Handle a group in the event loop, in whose last turn ``seen`` requests were waiting."""
        with self._changed:
            if not self._loop_is_next or not self._waiting:
                return
            if seen < len(self._waiting) and seen < self._largest:
                self._take_turn(loop)
                return
            if self._brief is None or not self._is_brief():
                self._leave_to_thread()
                return
            group = self._next()
        pairs = self._handled(self._brief, group)
        with self._changed:
            if not self._closed:
                refused = [one for one, given in pairs if isinstance(given, StorageUnavailable)]
                if refused:
                    pairs = [pair for pair in pairs if not isinstance(pair[1], StorageUnavailable)]
                    self._waiting.extendleft(reversed(refused))
                    self._leave_to_thread()
                elif self._waiting:
                    self._take_turn(loop)
        _deliver(pairs, here=loop)

    def _work(self) -> None:
        while group := self._next_group():
            _deliver(self._handled(self._handle, group))
            with self._changed:
                if self._is_brief():
                    self._leave_to_loop()

    def _leave_to_thread(self) -> None:
        self._loop_is_next = False
        self._wake_thread()

    def _leave_to_loop(self) -> None:
        if self._waiting:
            loop = self._waiting[0].loop
            try:
                loop.call_soon_threadsafe(self._turn, loop, len(self._waiting), context=Context())
            except RuntimeError:  # closed meanwhile; the thread clears up behind it
                return
        self._loop_is_next = True

    def _wake_thread(self) -> None:
        if not self._started:
            self._started = True
            self._thread.start()
        self._changed.notify()

    def _next(self) -> "list[_Waiting[Asked, Answered]]":
        size = min(self._largest, len(self._waiting))
        return [self._waiting.popleft() for _ in range(size)]

    def _next_group(self) -> "list[_Waiting[Asked, Answered]]":
        """Return who is next, once there is anybody; nobody when the last was answered."""
        with self._changed:
            while not self._closed:
                left_s = self._gather_until - time.monotonic()
                if not self._waiting or self._loop_is_next:
                    self._changed.wait()
                elif len(self._waiting) < self._awaited and left_s > 0:
                    self._changed.wait(left_s)
                else:
                    break
            return self._next()

    def _handled(
        self, handle: Handle[Asked, Answered], group: "Sequence[_Waiting[Asked, Answered]]"
    ) -> "list[_Pair[Asked, Answered]]":
        started_at = time.monotonic()
        try:
            answers = handle([waiting.asked for waiting in group])
            pairs = list(zip(group, answers, strict=True))
        except BaseException as error:  # noqa: BLE001 -- somebody waits for each answer
            failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
            pairs = [(waiting, failure) for waiting in group]
        now = time.monotonic()
        self._awaited = len(group)
        self._each_s = (now - started_at) / len(group)
        self._gather_until = now + GATHERING * (now - started_at)
        return pairs


def _deliver(
    pairs: Sequence[_Pair[Asked, Answered]], *, here: asyncio.AbstractEventLoop | None = None
) -> None:
    # A loop is woken once for all of its answers.
    for loop in {id(waiting.loop): waiting.loop for waiting, _ in pairs}.values():
        own = [(waiting.answer, given) for waiting, given in pairs if waiting.loop is loop]
        if loop is here:
            _settle(own)
            continue
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
