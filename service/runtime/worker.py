"""Claims a due job, runs it outside any transaction, and records how it went.

While a job runs a second thread renews its lease, so that a worker that dies is noticed and one
that is merely busy is not. Every record carries the job's fencing token: a worker that lost its
lease all the same is refused, and drops its result.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import structlog

from setwise.service.domain.errors import (
    Forbidden,
    InvalidRequest,
    LeaseLost,
    NotEnoughReviews,
    NotFound,
    RatesUnknown,
    ServiceError,
    StorageUnavailable,
)
from setwise.service.domain.jobs import Job
from setwise.service.services.work import (
    CheckpointJob,
    ClaimJob,
    ContinueJob,
    EnqueueJob,
    FailJob,
    RepeatJob,
    ReturnJob,
    SucceedJob,
)

LONGEST_PAUSE_S = 30.0
"""Between attempts to reach a database that does not answer."""

TELL_EVERY_S = 1.0
"""How often a job that reports at every step writes it down, and learns that it was cancelled."""

HOPELESS = (InvalidRequest, NotFound, Forbidden, NotEnoughReviews, RatesUnknown)
"""Faults of what was asked for: tried again they would only come again."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class JobVerbs:
    """What a worker does with jobs."""

    enqueue: EnqueueJob
    claim: ClaimJob
    proceed: ContinueJob
    checkpoint: CheckpointJob
    succeed: SucceedJob
    repeat: RepeatJob
    fail: FailJob
    give_back: ReturnJob


class Interrupted(Exception):
    """A job stops before its end: the worker is told to, or has lost the job."""


class Report:
    """Handed to a running job, which calls it at safe points to say how far it is.

    Raises `Interrupted` when the job should stop, because the worker does, because the job was
    cancelled, or because another worker has it; whatever it then leaves undone is done by the
    worker that claims it next.
    """

    def __init__(self, job: Job, verbs: JobVerbs, stopping: threading.Event) -> None:
        self._job = job
        self._verbs = verbs
        self._stopping = stopping
        self._told_at = time.monotonic()
        self._lock = threading.Lock()
        self.lost = threading.Event()
        self.progress: float | None = None
        self.message: str | None = None

    def __call__(self, progress: float, message: str = "") -> None:
        """Say that ``progress``, in [0, 1], is done, and what comes now."""
        self.progress, self.message = progress, message
        if time.monotonic() - self._told_at >= TELL_EVERY_S:
            self.tell()
        if self.lost.is_set() or self._stopping.is_set():
            raise Interrupted

    def checkpoint(self, state: Mapping[str, object]) -> None:
        """Keep ``state``, from which the job goes on after whatever ends this worker."""
        try:
            self._verbs.checkpoint(self._job, state)
        except LeaseLost as error:
            self.lost.set()
            raise Interrupted from error

    def tell(self) -> None:
        """Renew the lease and store how far the job is, or learn that it is lost."""
        with self._lock:  # the job's thread and the one that keeps the lease both do so
            try:
                self._verbs.proceed(self._job, progress=self.progress, message=self.message)
            except LeaseLost:
                self.lost.set()
            except ServiceError as error:  # tried again while the lease lasts
                log.warning("job.not_renewed", reason=error.detail)
            self._told_at = time.monotonic()


Handler = Callable[[Job, Report], Mapping[str, object] | None]


@dataclass(frozen=True)
class Task:
    """A kind of job: what runs, and how often if it recurs by itself.

    A ``long`` one runs beside the others, so that no short one waits for hours.
    """

    run: Handler
    every: timedelta | None = None
    long: bool = False


class Worker:
    """Runs jobs until it is stopped: a short one and a long one at a time.

    Parameters
    ----------
    verbs : JobVerbs
    tasks : mapping
        What to do for each kind of job; jobs of other kinds are left to other workers.
    poll_s : float
        Pause between two looks at an empty queue, in seconds.
    """

    def __init__(self, verbs: JobVerbs, tasks: Mapping[str, Task], *, poll_s: float) -> None:
        self._verbs = verbs
        self._tasks = tasks
        self._poll_s = poll_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run in a thread of this process."""
        self._thread = threading.Thread(target=self.run, name="worker", daemon=True)
        self._thread.start()

    def stop(self, *, patience_s: float = 20.0) -> None:
        """Take no more jobs, and wait a while for the present one.

        A job that does not end in time is claimed by another worker once its lease runs out.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(patience_s)

    def run(self) -> None:
        """Run jobs until `stop`."""
        log.info("worker.started", kinds=sorted(self._tasks))
        lanes: dict[bool, list[str]] = {False: [], True: []}
        for kind, task in self._tasks.items():
            lanes[task.long].append(kind)
        beside = threading.Thread(
            target=self._run_lane, args=(lanes[True],), name="worker-long", daemon=True
        )
        beside.start()
        self._run_lane(lanes[False])
        beside.join()
        log.info("worker.stopped")

    def _run_lane(self, kinds: Sequence[str]) -> None:
        pause_s = self._poll_s
        while kinds and not self._stopping.is_set():
            try:
                self.schedule(kinds)
                while not self._stopping.is_set() and self.run_one(kinds):
                    pass
            except StorageUnavailable as error:
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                log.warning("worker.waits", reason=error.detail, seconds=pause_s)
            except Exception:
                pause_s = LONGEST_PAUSE_S
                log.exception("worker.failed", seconds=pause_s)
            else:
                pause_s = self._poll_s
            self._stopping.wait(pause_s)

    def schedule(self, kinds: Sequence[str] | None = None) -> None:
        """Make sure that each recurring job is queued; whoever comes first queues it for all."""
        for kind in self._tasks if kinds is None else kinds:
            if self._tasks[kind].every is not None:
                self._verbs.enqueue(kind, key=kind)

    def run_one(self, kinds: Sequence[str] | None = None) -> bool:
        """Run the next due job, of one of ``kinds`` if given; False when there is none."""
        job = self._verbs.claim(list(self._tasks if kinds is None else kinds))
        if job is None:
            return False
        with structlog.contextvars.bound_contextvars(job_id=job.id, kind=job.kind):
            try:
                self._run(job, self._tasks[job.kind])
            except LeaseLost:
                log.warning("job.lost", attempt=job.attempt)
        return True

    def _run(self, job: Job, task: Task) -> None:
        report = Report(job, self._verbs, self._stopping)
        try:
            with self._held(job, report):
                result = task.run(job, report)
        except Interrupted:
            if not report.lost.is_set():
                self._verbs.give_back(job)
                log.info("job.returned")
        except StorageUnavailable:
            raise  # the job cannot be marked failed either; its lease runs out instead
        except Exception as error:
            log.exception("job.failed", attempt=job.attempt)
            # An unexpected error's own words could quote a document.
            reason = error.detail if isinstance(error, ServiceError) else type(error).__name__
            self._verbs.fail(job, reason, hopeless=isinstance(error, HOPELESS))
        else:
            if task.every is not None:
                self._verbs.repeat(job, task.every)
            else:
                self._verbs.succeed(job, result)
            log.debug("job.done", result=result)

    @contextmanager
    def _held(self, job: Job, report: Report) -> Iterator[None]:
        """Keep the lease on ``job`` alive inside the block."""
        done = threading.Event()
        interval_s = self._verbs.proceed.lease.total_seconds() / 3

        def renew() -> None:
            while not (done.wait(interval_s) or report.lost.is_set()):
                report.tell()

        keeper = threading.Thread(target=renew, name=f"lease-{job.kind}", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            done.set()
            keeper.join()
