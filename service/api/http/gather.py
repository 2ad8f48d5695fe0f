"""The queue of predictions, which groups those that wait together."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from threading import Condition, Thread

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.domain.predictions import Submission, SubmissionOutcome

GATHERING_S = 0.005
"""Pause after a group of several.

Under load the callers send again within that time. Without the pause the first of them would get a
separate transaction.
"""

Predict = Callable[[Sequence[Submission]], Sequence[SubmissionOutcome]]
"""Returns each submission's prediction, or why there is none, in order."""


Together = Callable[[Sequence[Context]], AbstractContextManager[object]]
"""Returns a context around a group, given the contexts of its requests, for their traces."""


def untraced(_: Sequence[Context]) -> AbstractContextManager[object]:
    """Return a context that does nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class _Request:
    submissions: Sequence[Submission]
    context: Context
    answer: "asyncio.Future[Sequence[SubmissionOutcome]]"


class PredictionQueue:
    """Passes everything that arrived while it was busy to ``predict`` together.

    A single request is predicted at once and alone; groups grow with the load. A request is
    answered when its group is committed. One thread does the work, because each group is one
    transaction and SQLite has one writer.

    ``predict``: If it raises, every request of the group gets that error.
    ``largest``: Most submissions in a group; a request is never split.
    ``most_waiting``: Submissions that may wait. Further requests are refused, so that a slow
    database cannot make memory or delays grow without limit.
    ``together``: Traces a group as a part of its requests.
    """

    def __init__(
        self,
        predict: Predict,
        *,
        largest: int = 256,
        most_waiting: int = 16_384,
        together: Together = untraced,
    ) -> None:
        self._predict = predict
        self._together = together
        self._largest = largest
        self._most_waiting = most_waiting
        self._waiting: deque[_Request] = deque()
        self._n_waiting = 0
        self._changed = Condition()
        self._closed = False
        self._thread: Thread | None = None

    async def __call__(self, submissions: Sequence[Submission]) -> Sequence[SubmissionOutcome]:
        """Return the outcome of each submission, once all of them are committed.

        Raises `StorageUnavailable` if too many submissions wait, or the service stops.
        """
        answer: asyncio.Future[Sequence[SubmissionOutcome]] = (
            asyncio.get_running_loop().create_future()
        )
        with self._changed:
            if self._closed:
                raise StorageUnavailable("The service is stopping.")
            if self._waiting and self._n_waiting + len(submissions) > self._most_waiting:
                raise StorageUnavailable(f"{self._n_waiting} documents wait for the database.")
            if self._thread is None:
                self._thread = Thread(target=self._work, name="predictions", daemon=True)
                self._thread.start()
            self._waiting.append(_Request(submissions, copy_context(), answer))
            self._n_waiting += len(submissions)
            self._changed.notify()
        return await answer

    def close(self) -> None:
        """Refuse new requests and return when all waiting ones are answered."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while group := self._next_group():
            _answer(group, self._outcomes(group))
            if len(group) > 1:
                time.sleep(GATHERING_S)

    def _next_group(self) -> list[_Request]:
        """Wait for the next group and return it; empty after closing."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            group: list[_Request] = []
            size = 0
            while self._waiting:
                size += len(self._waiting[0].submissions)
                if group and size > self._largest:
                    break
                group.append(self._waiting.popleft())
                self._n_waiting -= len(group[-1].submissions)
            return group

    def _outcomes(self, group: Sequence[_Request]) -> "Sequence[SubmissionOutcome] | Exception":
        try:
            with self._together([request.context for request in group]):
                return self._predict(
                    [submission for request in group for submission in request.submissions]
                )
        except BaseException as error:  # noqa: BLE001 -- every request waits for an answer
            return error if isinstance(error, Exception) else RuntimeError(repr(error))


def _answer(group: Sequence[_Request], outcomes: Sequence[SubmissionOutcome] | Exception) -> None:
    first = 0
    for request in group:
        own: Sequence[SubmissionOutcome] | Exception = outcomes
        if not isinstance(outcomes, Exception):
            own = outcomes[first : first + len(request.submissions)]
        first += len(request.submissions)
        with suppress(RuntimeError):  # the loop has closed, so no request waits there
            request.answer.get_loop().call_soon_threadsafe(_settle, request.answer, own)


def _settle(
    answer: "asyncio.Future[Sequence[SubmissionOutcome]]",
    outcomes: Sequence[SubmissionOutcome] | Exception,
) -> None:
    if answer.done():  # its request was cancelled
        return
    if isinstance(outcomes, Exception):
        answer.set_exception(outcomes)
    else:
        answer.set_result(outcomes)
