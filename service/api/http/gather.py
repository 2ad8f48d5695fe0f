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

FEATURE_CHARACTERS = 20
"""A feature costs about as much as a word with its spaces."""


def characters(submission: Submission) -> int:
    """Return about how many characters a model reads of a document."""
    document = submission.document
    return len(document.text or "") + FEATURE_CHARACTERS * len(document.features or ())


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
    characters: int
    context: Context
    answer: "asyncio.Future[Sequence[SubmissionOutcome]]"


class PredictionQueue:
    """Passes everything that arrived while it was busy to ``predict`` together.

    A single request is predicted at once and alone; groups grow with the load. Requests with one
    document and requests with several take turns, so a lone caller waits for one group of batches,
    not for all of them. A request is answered when its group is committed. One thread does the
    work, because each group is one transaction and SQLite has one writer.

    ``predict``: If it raises, every request of the group gets that error.
    ``largest``: Most submissions in a group.
    ``longest``: Most characters in a group of several documents; a request with more is divided.
    Who waits for a group waits for all of it, and long documents take more time than short ones.
    ``weigh``: Returns the characters of a submission.
    ``most_waiting``: Submissions that may wait. Further requests are refused, so that a slow
    database cannot make memory or delays grow without limit.
    ``together``: Traces a group as a part of its requests.
    """

    def __init__(
        self,
        predict: Predict,
        *,
        largest: int = 256,
        longest: int = 250_000,
        weigh: Callable[[Submission], int] = characters,
        most_waiting: int = 16_384,
        together: Together = untraced,
    ) -> None:
        self._predict = predict
        self._together = together
        self._largest = largest
        self._longest = longest
        self._weigh = weigh
        self._most_waiting = most_waiting
        self._lone: deque[_Request] = deque()
        self._batches: deque[_Request] = deque()
        self._batches_next = False
        self._n_waiting = 0
        self._changed = Condition()
        self._closed = False
        self._thread: Thread | None = None

    async def __call__(self, submissions: Sequence[Submission]) -> Sequence[SubmissionOutcome]:
        """Return the outcome of each submission, once all of them are committed.

        Raises `StorageUnavailable` if too many submissions wait, or the service stops.
        """
        parts = self._parts(submissions)
        waiting = self._lone if len(submissions) == 1 else self._batches
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[Sequence[SubmissionOutcome]]]
        answers = [loop.create_future() for _ in parts]
        with self._changed:
            if self._closed:
                raise StorageUnavailable("The service is stopping.")
            if (self._lone or self._batches) and self._n_waiting + len(
                submissions
            ) > self._most_waiting:
                raise StorageUnavailable(f"{self._n_waiting} documents wait for the database.")
            if self._thread is None:
                self._thread = Thread(target=self._work, name="predictions", daemon=True)
                self._thread.start()
            for (part, length), answer in zip(parts, answers, strict=True):
                waiting.append(_Request(part, length, copy_context(), answer))
            self._n_waiting += len(submissions)
            self._changed.notify()
        outcomes = await asyncio.gather(*answers)
        return [outcome for part in outcomes for outcome in part]

    def _parts(self, submissions: Sequence[Submission]) -> list[tuple[Sequence[Submission], int]]:
        """Return the submissions in parts that a group can hold, with their characters."""
        parts: list[tuple[list[Submission], int]] = [([], 0)]
        for submission in submissions:
            length = self._weigh(submission)
            part, total = parts[-1]
            if part and total + length > self._longest:
                parts.append(([submission], length))
            else:
                parts[-1] = ([*part, submission], total + length)
        return list(parts)

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
            while not (self._lone or self._batches or self._closed):
                self._changed.wait()
            batches = bool(self._batches) and (self._batches_next or not self._lone)
            waiting = self._batches if batches else self._lone
            self._batches_next = not batches
            group: list[_Request] = []
            size = length = 0
            while waiting:
                size += len(waiting[0].submissions)
                length += waiting[0].characters
                if group and (size > self._largest or length > self._longest):
                    break
                group.append(waiting.popleft())
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
