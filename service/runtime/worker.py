"""Claims due jobs, runs them outside transactions, and records their results.

While a job runs, a second thread renews its lease: a dead worker loses the job, a busy one keeps
it. Every write carries the job's fencing token, so the writes of a worker that lost its lease are
rejected.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from setwise.service.domain import errors
from setwise.service.domain.jobs import Job
from setwise.service.runtime import disk
from setwise.service.runtime.polling import POLL_S, poll
from setwise.service.services.jobs import Jobs

STORE_EVERY_S = 1.0
"""How often progress is stored, which also detects whether the job was cancelled."""

HOPELESS = (
    errors.InvalidRequest,
    errors.NotFound,
    errors.Forbidden,
    errors.NotEnoughReviews,
    errors.RatesUnknown,
    errors.StorageDamaged,
)
"""Errors in the request or in a stored file: a retry would fail in the same way."""

MISSING = (errors.ModelUnavailable, errors.StorageFull, errors.StorageUnavailable)
"""Errors of what a job needs, such as a model that is being loaded: it has not been tried."""

log = structlog.get_logger(__name__)


class Interrupted(Exception):
    """A job stops early, because its worker stops or has lost it."""


class JobReport:
    """Reports the progress of a running job, which calls it at safe points.

    It raises `Interrupted` if the job should stop because the worker stops, the job was cancelled,
    or another worker has it. The next worker that claims the job finishes it.
    """

    def __init__(self, job: Job, jobs: Jobs, stopping: threading.Event) -> None:
        self.job = job
        self._jobs = jobs
        self._stopping = stopping
        self._stored_at = time.monotonic()
        self._lock = threading.Lock()
        self.lost = threading.Event()
        self.progress: float | None = None
        self.message: str | None = None

    def __call__(self, progress: float, message: str = "") -> None:
        """Report the finished share, in [0, 1], and the current step."""
        self.progress, self.message = progress, message
        if time.monotonic() - self._stored_at >= STORE_EVERY_S:
            self.store()
        if self.lost.is_set() or self._stopping.is_set():
            raise Interrupted

    def checkpoint(self, state: Mapping[str, object]) -> None:
        """Store the state from which another worker can resume."""
        with self._lock:
            try:
                self.job = self._jobs.checkpoint(self.job, state)
            except errors.LeaseLost as error:
                self.lost.set()
                raise Interrupted from error

    def store(self) -> None:
        """Renew the lease and store progress, or mark the job as lost."""
        with self._lock:  # called by the job's thread and the thread that renews the lease
            try:
                self._jobs.renew(self.job, progress=self.progress, message=self.message)
            except errors.LeaseLost:
                self.lost.set()
            except errors.ServiceError as error:  # retried while the lease lasts
                log.warning("job.not_renewed", reason=error.detail)
            self._stored_at = time.monotonic()


Handler = Callable[[Job, JobReport], Mapping[str, object] | None]


@dataclass(frozen=True)
class Task:
    """The function for a kind of job; its interval if it recurs.

    Long jobs run in a separate thread, so that no short job waits for hours.
    """

    run: Handler
    every: timedelta | None = None
    long: bool = False


class Worker:
    """Runs one short and one long job at a time until stopped.

    ``tasks``: The task for each kind of job; jobs of other kinds are left to other workers.
    ``poll_s``: Pause before checking an empty queue again, in seconds.
    """

    def __init__(self, jobs: Jobs, tasks: Mapping[str, Task], *, poll_s: float = POLL_S) -> None:
        self._jobs = jobs
        self._tasks = tasks
        self._poll_s = poll_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start running jobs in a thread of this process."""
        self._thread = threading.Thread(target=self.run, name="worker", daemon=True)
        self._thread.start()

    def stop(self, *, patience_s: float = 20.0) -> None:
        """Stop claiming jobs, and wait at most ``patience_s`` for running ones.

        Another worker claims an unfinished job once its lease has expired.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(patience_s)

    def run(self) -> None:
        """Run jobs until `stop` is called."""
        log.info("worker.started", kinds=sorted(self._tasks))
        lanes: dict[bool, list[str]] = {False: [], True: []}
        for kind, task in self._tasks.items():
            lanes[task.long].append(kind)
        beside = threading.Thread(
            target=self._poll, args=(lanes[True],), name="worker-long", daemon=True
        )
        beside.start()
        self._poll(lanes[False])
        beside.join()
        log.info("worker.stopped")

    def _poll(self, kinds: Sequence[str]) -> None:
        if kinds:
            step = partial(self._run_due, kinds)
            poll(step, self._stopping, poll_s=self._poll_s, name="worker")

    def _run_due(self, kinds: Sequence[str]) -> None:
        self.schedule(kinds)
        while not self._stopping.is_set() and self.run_one(kinds):
            pass

    def schedule(self, kinds: Sequence[str] | None = None) -> None:
        """Queue each recurring job that is not queued yet."""
        for kind in self._tasks if kinds is None else kinds:
            if self._tasks[kind].every is not None:
                self._jobs.enqueue(kind, key=kind)

    def run_one(self, kinds: Sequence[str] | None = None) -> bool:
        """Run the next due job of these kinds; return False without one."""
        job = self._jobs.claim(list(self._tasks if kinds is None else kinds))
        if job is None:
            return False
        with structlog.contextvars.bound_contextvars(job_id=job.id, kind=job.kind):
            try:
                self._run(job, self._tasks[job.kind])
            except errors.LeaseLost:
                log.warning("job.lost", attempt=job.attempt)
        return True

    def _run(self, job: Job, task: Task) -> None:
        report = JobReport(job, self._jobs, self._stopping)
        try:
            with self._held(job, report), disk.needed():
                self._jobs.authorise(job)
                result = task.run(job, report)
        except Interrupted:
            if not report.lost.is_set():
                self._jobs.give_back(report.job)
                log.info("job.returned")
        except HOPELESS as error:
            self._record(
                partial(self._jobs.fail, code=error.code(), hopeless=True), report.job, error.detail
            )
            log.info("job.refused", reason=error.detail)
        except errors.StorageSlow as error:  # it would be as slow again and again
            self._record(partial(self._jobs.fail, code=error.code()), report.job, error.detail)
            log.warning("job.failed", attempt=job.attempt, reason=error.detail)
        except MISSING as error:
            self._record(self._jobs.postpone, report.job, error.detail)
            log.info("job.waits", reason=error.detail)
        except errors.ServiceError as error:
            self._record(partial(self._jobs.fail, code=error.code()), report.job, error.detail)
            log.warning("job.failed", attempt=job.attempt, reason=error.detail)
        except Exception as error:
            log.exception("job.failed", attempt=job.attempt)
            # Its message could quote a document, so store only its type.
            self._record(self._jobs.fail, report.job, type(error).__name__)
        else:
            if task.every is not None:
                self._record(self._jobs.repeat, report.job, task.every)
            else:
                self._record(self._jobs.succeed, report.job, result)
            log.debug("job.done", result=result)

    def _record(self, save: Callable[..., Job], job: Job, outcome: object) -> None:
        """Store what became of a job as soon as the database answers, unless the worker stops.

        Otherwise its lease would expire, and the next worker would count another attempt.
        """
        while True:
            try:
                save(job, outcome)
            except errors.StorageUnavailable as error:
                log.warning("job.unrecorded", reason=error.detail)
                if self._stopping.wait(self._poll_s):
                    return
            else:
                return

    @contextmanager
    def _held(self, job: Job, report: JobReport) -> Iterator[None]:
        """Keep renewing the job's lease inside the block."""
        done = threading.Event()
        interval_s = self._jobs.lease.total_seconds() / 3

        def renew() -> None:
            while not (done.wait(interval_s) or report.lost.is_set()):
                report.store()

        keeper = threading.Thread(target=renew, name=f"lease-{job.kind}", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            done.set()
            keeper.join()
