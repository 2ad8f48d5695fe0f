"""The worker: claims, runs, records; and what happens when it cannot."""

import errno
import threading
import time
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
import structlog

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.errors import (
    InvalidRequest,
    ModelDamaged,
    ModelUnavailable,
    ServiceError,
    StorageDamaged,
    StorageFull,
    StorageSlow,
    StorageUnavailable,
)
from setwise.service.domain.jobs import Job, JobState, RetryRule
from setwise.service.runtime.worker import Interrupted, JobReport, Task, Worker
from setwise.service.services.jobs import Jobs
from setwise.service.stores.transaction import Transaction, Transactions
from tests.building import jobs
from tests.fakes import FakeClock, FakeIds
from tests.sqlite import Database


class World:
    """A job table in memory, and workers on it."""

    def __init__(self, lease: timedelta = timedelta(seconds=60)) -> None:
        self.database, self.clock, self.ids = Database(), FakeClock(), FakeIds()
        self.lease = lease

    def jobs(self, begin: Transactions | None = None) -> Jobs:
        retries = RetryRule(attempts=2, first_delay=timedelta(seconds=5))
        return jobs(begin or self.database, self.clock, self.ids, lease=self.lease, retries=retries)

    def worker(self, **tasks: Task) -> Worker:
        return Worker(self.jobs(), tasks, poll_s=0.01)

    def job(self) -> Job:
        (job,) = self.database.contents.jobs.values()
        return job


@pytest.fixture
def world() -> World:
    return World()


def test_a_job_is_run_once_and_its_result_kept(world: World) -> None:
    ran: list[object] = []

    def add(job: Job, report: JobReport) -> dict[str, object]:
        ran.append(job.payload)
        return {"sum": 5}

    worker = world.worker(add=Task(add))
    world.jobs().enqueue("add", payload={"a": 2, "b": 3})
    assert worker.run_one()
    assert not worker.run_one()
    assert ran == [{"a": 2, "b": 3}]
    assert (world.job().state, world.job().result) == (JobState.SUCCEEDED, {"sum": 5})


def test_jobs_of_other_kinds_are_left_to_others(world: World) -> None:
    world.jobs().enqueue("mystery")
    assert not world.worker(add=Task(lambda job, report: None)).run_one()
    assert world.job().state is JobState.QUEUED


def test_a_failed_job_is_tried_again_and_then_given_up(world: World) -> None:
    def fail(job: Job, report: JobReport) -> None:
        raise ModelDamaged("no model")

    worker = world.worker(fail=Task(fail))
    world.jobs().enqueue("fail")
    with structlog.testing.capture_logs() as lines:
        assert worker.run_one()
    (line,) = lines
    assert (line["log_level"], line["reason"]) == ("warning", "no model")
    assert (world.job().state, world.job().error) == (JobState.QUEUED, "no model")
    assert not worker.run_one()  # not due yet
    world.clock.advance(seconds=5)
    assert worker.run_one()
    assert world.job().state is JobState.FAILED


def test_a_job_waits_for_its_model_without_an_attempt(world: World) -> None:
    lacking = ["a model is being loaded"] * 3

    def score(job: Job, report: JobReport) -> None:
        if lacking:
            raise ModelUnavailable(lacking.pop())

    worker = world.worker(score=Task(score))
    world.jobs().enqueue("score")
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            assert worker.run_one()
            job = world.job()
            assert (job.state, job.attempt) == (JobState.QUEUED, 0)
            assert (job.message, job.error) == ("a model is being loaded", None)
            assert not worker.run_one()  # not due yet
            world.clock.advance(seconds=5)
    assert {(line["event"], line["log_level"]) for line in lines} == {("job.waits", "info")}
    assert worker.run_one()
    assert (world.job().state, world.job().attempt) == (JobState.SUCCEEDED, 1)


@pytest.mark.parametrize(
    "error", [StorageFull("no space left"), OSError(errno.ENOSPC, "No space left on device")]
)
def test_a_job_waits_for_room_on_the_disk_without_an_attempt(
    world: World, error: Exception
) -> None:
    lacking = [error]

    def write(job: Job, report: JobReport) -> None:
        if lacking:
            raise lacking.pop()

    worker = world.worker(write=Task(write))
    world.jobs().enqueue("write")
    assert worker.run_one()
    job = world.job()
    assert (job.state, job.attempt, job.error) == (JobState.QUEUED, 0, None)
    assert "no space left" in job.message.lower()
    world.clock.advance(seconds=5)
    assert worker.run_one()
    assert world.job().state is JobState.SUCCEEDED


def test_what_can_only_fail_again_is_not_tried_again(world: World) -> None:
    def fail(job: Job, report: JobReport) -> None:
        raise InvalidRequest("no such file")

    world.jobs().enqueue("fail")
    with structlog.testing.capture_logs() as lines:
        assert world.worker(fail=Task(fail)).run_one()
    assert (world.job().state, world.job().error) == (JobState.FAILED, "no such file")
    assert world.job().error_code == "invalid-request"
    assert lines == [{"event": "job.refused", "reason": "no such file", "log_level": "info"}]


def test_a_job_goes_on_from_its_checkpoint(world: World) -> None:
    began_with: list[object] = []

    def count(job: Job, report: JobReport) -> None:
        began_with.append(job.checkpoint)
        report.checkpoint({"done": 7})
        if len(began_with) == 1:
            raise ModelUnavailable("no model")

    worker = world.worker(count=Task(count))
    world.jobs().enqueue("count")
    worker.run_one()
    world.clock.advance(seconds=5)
    worker.run_one()
    assert began_with == [None, {"done": 7}]
    assert world.job().state is JobState.SUCCEEDED


def test_a_cancelled_job_stops_at_its_next_safe_point(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("setwise.service.runtime.worker.STORE_EVERY_S", 0.0)
    cancel = world.jobs().cancel
    steps: list[str] = []

    def work_on(job: Job, report: JobReport) -> None:
        report(0.1, "first")
        steps.append("first")
        cancel(SYSTEM, job.id)
        report(0.2, "second")
        steps.append("second")

    world.jobs().enqueue("x")
    world.worker(x=Task(work_on)).run_one()
    assert steps == ["first"]
    assert (world.job().state, world.job().message) == (JobState.CANCELLED, "first")


def test_a_cancelled_job_keeps_no_checkpoint_of_what_came_after(world: World) -> None:
    cancel = world.jobs().cancel

    def work_on(job: Job, report: JobReport) -> None:
        cancel(SYSTEM, job.id)
        report.checkpoint({"done": 1})
        raise AssertionError("not reached")

    world.jobs().enqueue("x")
    world.worker(x=Task(work_on)).run_one()
    assert (world.job().state, world.job().checkpoint) == (JobState.CANCELLED, None)


def test_the_words_of_an_unexpected_error_are_not_kept(world: World) -> None:
    def fail(job: Job, report: JobReport) -> None:
        raise ValueError("the patient said")

    world.jobs().enqueue("fail")
    world.worker(fail=Task(fail)).run_one()
    assert (world.job().error, world.job().error_code) == ("ValueError", "internal-error")


def test_a_recurring_job_keeps_one_row_and_waits_for_its_turn(world: World) -> None:
    ran = []
    task = Task(lambda job, report: ran.append(job.id), every=timedelta(seconds=30))
    worker = world.worker(tick=task)
    for _ in range(3):
        worker.schedule()
    assert worker.run_one()
    worker.schedule()
    assert not worker.run_one()
    world.clock.advance(seconds=30)
    assert worker.run_one()
    assert len(ran) == 2
    assert world.job().state is JobState.QUEUED


def test_a_recurring_job_that_was_given_up_is_scheduled_anew(world: World) -> None:
    def fail(job: Job, report: JobReport) -> None:
        raise InvalidRequest("no")

    worker = world.worker(tick=Task(fail, every=timedelta(seconds=30)))
    worker.schedule()
    worker.run_one()
    assert world.job().state is JobState.FAILED
    worker.schedule()
    states = [job.state for job in world.database.contents.jobs.values()]
    assert states == [JobState.FAILED, JobState.QUEUED]


def test_a_worker_that_lost_its_lease_drops_its_result(world: World) -> None:
    def slow(job: Job, report: JobReport) -> dict[str, object]:
        world.clock.advance(seconds=61)
        other = world.jobs().claim(["slow"])
        assert other is not None
        world.jobs().succeed(other, {"by": "other"})
        return {"by": "me"}

    world.jobs().enqueue("slow")
    with structlog.testing.capture_logs() as lines:
        assert world.worker(slow=Task(slow)).run_one()
    assert world.job().result == {"by": "other"}
    assert [line["event"] for line in lines] == ["job.lost"]


def test_the_lease_of_a_long_job_is_renewed_with_its_progress() -> None:
    world = World(lease=timedelta(seconds=0.06))
    renewed = threading.Event()

    def long(job: Job, report: JobReport) -> None:
        report(0.5, "half way")
        deadline = time.monotonic() + 120
        while world.job().message != "half way" and time.monotonic() < deadline:
            time.sleep(0.005)
        if world.job().progress == 0.5:
            renewed.set()

    world.jobs().enqueue("long")
    world.worker(long=Task(long)).run_one()
    assert renewed.is_set()
    assert world.job().state is JobState.SUCCEEDED


def test_a_long_job_hears_that_it_lost_its_lease() -> None:
    world = World(lease=timedelta(seconds=0.06))
    interrupted = threading.Event()

    def long(job: Job, report: JobReport) -> None:
        # By a clock that is ahead, so that no renewal in between makes the lease last.
        ahead = jobs(
            world.database, lambda: world.clock() + timedelta(seconds=1), lease=world.lease
        )
        assert ahead.claim(["long"]) is not None
        deadline = time.monotonic() + 120
        try:
            while time.monotonic() < deadline:
                report(0.1)
                time.sleep(0.005)
        except Interrupted:
            interrupted.set()
            raise

    world.jobs().enqueue("long")
    world.worker(long=Task(long)).run_one()
    assert interrupted.is_set()
    assert world.job().state is JobState.RUNNING  # in the other worker's hands
    assert world.job().token == 2


def test_a_stopped_worker_gives_its_job_back(world: World) -> None:
    started = threading.Event()

    def endless(job: Job, report: JobReport) -> None:
        while True:
            started.set()
            report(0.0)
            time.sleep(0.005)

    world.jobs().enqueue("endless")
    worker = world.worker(endless=Task(endless))
    worker.start()
    assert started.wait(120)
    worker.stop()
    assert (world.job().state, world.job().attempt) == (JobState.QUEUED, 0)


def test_a_worker_outlives_a_silent_database(world: World) -> None:
    silent = threading.Event()
    asked = threading.Event()
    silent.set()

    def begin(*, read_only: bool = False) -> object:
        if silent.is_set():
            asked.set()
            raise StorageUnavailable("asleep")
        return world.database(read_only=read_only)

    done = threading.Event()
    task = Task(lambda job, report: done.set())
    worker = Worker(world.jobs(begin), {"x": task}, poll_s=0.01)  # type: ignore[arg-type]
    worker.start()
    assert asked.wait(120)
    world.jobs().enqueue("x")
    silent.clear()
    assert done.wait(120)
    worker.stop()


@pytest.mark.parametrize(
    ("fault", "after_one", "after_two"),
    [
        (StorageUnavailable("asleep"), (JobState.QUEUED, 0), (JobState.QUEUED, 0)),
        (StorageSlow("cancelled"), (JobState.QUEUED, 1), (JobState.FAILED, 2)),
        (StorageDamaged("cut off"), (JobState.FAILED, 1), (JobState.FAILED, 1)),
    ],
    ids=["a database that is away", "one that is too slow", "a damaged file"],
)
def test_a_job_waits_for_a_database_that_is_away_and_fails_at_once_on_a_damaged_file(
    world: World,
    fault: ServiceError,
    after_one: tuple[JobState, int],
    after_two: tuple[JobState, int],
) -> None:
    def fail(job: Job, report: JobReport) -> None:
        raise fault

    world.jobs().enqueue("fail")
    worker = world.worker(fail=Task(fail))
    for state_and_attempts in (after_one, after_two):
        worker.run_one()
        assert (world.job().state, world.job().attempt) == state_and_attempts
        assert fault.detail in {world.job().message, world.job().error}
        world.clock.advance(seconds=5)


@pytest.mark.parametrize("fault", [None, StorageUnavailable("asleep"), ModelDamaged("no model")])
def test_what_became_of_a_job_is_stored_once_the_database_is_back(
    world: World, fault: ServiceError | None
) -> None:
    refusals: list[StorageUnavailable] = []

    def begin(*, read_only: bool = False) -> AbstractContextManager[Transaction]:
        if refusals:
            raise refusals.pop()
        return world.database(read_only=read_only)

    def run(job: Job, report: JobReport) -> None:
        refusals.extend([StorageUnavailable("asleep")] * 3)
        if fault is not None:
            raise fault

    world.jobs().enqueue("x")
    retries = RetryRule(attempts=1)
    worker = Worker(
        jobs(begin, world.clock, world.ids, lease=world.lease, retries=retries),
        {"x": Task(run)},
        poll_s=0.01,
    )
    assert worker.run_one()
    assert not refusals
    ends = {type(None): JobState.SUCCEEDED, StorageUnavailable: JobState.QUEUED}
    assert world.job().state is ends.get(type(fault), JobState.FAILED)


def test_a_worker_outlives_its_own_mistakes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("setwise.service.runtime.polling.LONGEST_PAUSE_S", 0.01)
    worker = world.worker(x=Task(lambda job, report: None))
    mistakes = iter([RuntimeError("bug")])
    schedule = worker.schedule

    def faulty(kinds: list[str]) -> None:
        for mistake in mistakes:
            raise mistake
        schedule(kinds)

    monkeypatch.setattr(worker, "schedule", faulty)
    world.jobs().enqueue("x")
    worker.start()
    deadline = time.monotonic() + 120
    while world.job().state is not JobState.SUCCEEDED and time.monotonic() < deadline:
        time.sleep(0.01)
    worker.stop()
    assert world.job().state is JobState.SUCCEEDED


def test_two_workers_never_run_the_same_job(world: World) -> None:
    ran: list[str] = []
    lock = threading.Lock()

    def note(job: Job, report: JobReport) -> None:
        with lock:
            ran.append(job.id)

    for _ in range(40):
        world.jobs().enqueue("note")
    workers = [world.worker(note=Task(note)) for _ in range(4)]
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + 120
    while len(ran) < 40 and time.monotonic() < deadline:
        time.sleep(0.01)
    for worker in workers:
        worker.stop()
    assert sorted(ran) == sorted(world.database.contents.jobs)
