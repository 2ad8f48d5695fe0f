"""The worker: claims, runs, records; and what happens when it cannot."""

import errno
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
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
from setwise.service.stores.transaction import Transaction
from tests.kit.clinic import Clinic
from tests.kit.waiting import PATIENCE_S, eventually
from tests.samples import job

RETRIES = RetryRule(attempts=2, first_delay=timedelta(seconds=5))


@pytest.fixture
def clinic() -> Clinic:
    return Clinic(working={"retries": RETRIES})


@pytest.fixture
def short_leases() -> Clinic:
    return Clinic(working={"lease": timedelta(seconds=0.06)})


def worker_on(clinic: Clinic, **tasks: Task) -> Worker:
    return Worker(clinic.jobs, tasks, poll_s=0.01)


def test_a_job_is_run_once_and_its_result_kept(clinic: Clinic) -> None:
    ran: list[object] = []

    def add(job: Job, report: JobReport) -> dict[str, object]:
        ran.append(job.payload)
        return {"sum": 5}

    worker = worker_on(clinic, add=Task(add))
    clinic.jobs.enqueue("add", payload={"a": 2, "b": 3})
    assert worker.run_one()
    assert not worker.run_one()
    assert ran == [{"a": 2, "b": 3}]
    assert (clinic.job.state, clinic.job.result) == (JobState.SUCCEEDED, {"sum": 5})


def test_jobs_of_other_kinds_are_left_to_others(clinic: Clinic) -> None:
    clinic.jobs.enqueue("mystery")
    assert not worker_on(clinic, add=Task(lambda job, report: None)).run_one()
    assert clinic.job.state is JobState.QUEUED


def test_a_failed_job_is_tried_again_and_then_given_up(clinic: Clinic) -> None:
    def fail(job: Job, report: JobReport) -> None:
        raise ModelDamaged("no model")

    worker = worker_on(clinic, fail=Task(fail))
    clinic.jobs.enqueue("fail")
    with structlog.testing.capture_logs() as lines:
        assert worker.run_one()
    (line,) = lines
    assert (line["log_level"], line["reason"]) == ("warning", "no model")
    assert (clinic.job.state, clinic.job.error) == (JobState.QUEUED, "no model")
    assert not worker.run_one()  # not due yet
    clinic.now.advance(seconds=5)
    assert worker.run_one()
    assert clinic.job.state is JobState.FAILED


def test_a_job_waits_for_its_model_without_an_attempt(clinic: Clinic) -> None:
    lacking = ["a model is being loaded"] * 3

    def score(job: Job, report: JobReport) -> None:
        if lacking:
            raise ModelUnavailable(lacking.pop())

    worker = worker_on(clinic, score=Task(score))
    clinic.jobs.enqueue("score")
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            assert worker.run_one()
            job = clinic.job
            assert (job.state, job.attempt) == (JobState.QUEUED, 0)
            assert (job.message, job.error) == ("a model is being loaded", None)
            assert not worker.run_one()  # not due yet
            clinic.now.advance(seconds=5)
    assert {(line["event"], line["log_level"]) for line in lines} == {("job.waits", "info")}
    assert worker.run_one()
    assert (clinic.job.state, clinic.job.attempt) == (JobState.SUCCEEDED, 1)


@pytest.mark.parametrize(
    "error", [StorageFull("no space left"), OSError(errno.ENOSPC, "No space left on device")]
)
def test_a_job_waits_for_room_on_the_disk_without_an_attempt(
    clinic: Clinic, error: Exception
) -> None:
    lacking = [error]

    def write(job: Job, report: JobReport) -> None:
        if lacking:
            raise lacking.pop()

    worker = worker_on(clinic, write=Task(write))
    clinic.jobs.enqueue("write")
    assert worker.run_one()
    job = clinic.job
    assert (job.state, job.attempt, job.error) == (JobState.QUEUED, 0, None)
    assert "no space left" in job.message.lower()
    clinic.now.advance(seconds=5)
    assert worker.run_one()
    assert clinic.job.state is JobState.SUCCEEDED


def test_what_can_only_fail_again_is_not_tried_again(clinic: Clinic) -> None:
    def fail(job: Job, report: JobReport) -> None:
        raise InvalidRequest("no such file")

    clinic.jobs.enqueue("fail")
    with structlog.testing.capture_logs() as lines:
        assert worker_on(clinic, fail=Task(fail)).run_one()
    assert (clinic.job.state, clinic.job.error) == (JobState.FAILED, "no such file")
    assert clinic.job.error_code == "invalid-request"
    assert lines == [{"event": "job.refused", "reason": "no such file", "log_level": "info"}]


def test_a_job_goes_on_from_its_checkpoint(clinic: Clinic) -> None:
    began_with: list[object] = []

    def count(job: Job, report: JobReport) -> None:
        began_with.append(job.checkpoint)
        report.checkpoint({"done": 7})
        if len(began_with) == 1:
            raise ModelUnavailable("no model")

    worker = worker_on(clinic, count=Task(count))
    clinic.jobs.enqueue("count")
    worker.run_one()
    clinic.now.advance(seconds=5)
    worker.run_one()
    assert began_with == [None, {"done": 7}]
    assert clinic.job.state is JobState.SUCCEEDED


def test_a_cancelled_job_stops_at_its_next_safe_point(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("setwise.service.runtime.worker.STORE_EVERY_S", 0.0)
    cancel = clinic.jobs.cancel
    steps: list[str] = []

    def work_on(job: Job, report: JobReport) -> None:
        report(0.1, "first")
        steps.append("first")
        cancel(SYSTEM, job.id)
        report(0.2, "second")
        steps.append("second")

    with clinic.begin() as transaction:
        transaction.jobs.enqueue(job("x", owner_id=SYSTEM.id))
    worker_on(clinic, x=Task(work_on)).run_one()
    assert steps == ["first"]
    assert (clinic.job.state, clinic.job.message) == (JobState.CANCELLED, "first")


def test_a_cancelled_job_keeps_no_checkpoint_of_what_came_after(clinic: Clinic) -> None:
    cancel = clinic.jobs.cancel

    def work_on(job: Job, report: JobReport) -> None:
        cancel(SYSTEM, job.id)
        report.checkpoint({"done": 1})
        raise AssertionError("not reached")

    with clinic.begin() as transaction:
        transaction.jobs.enqueue(job("x", owner_id=SYSTEM.id))
    worker_on(clinic, x=Task(work_on)).run_one()
    assert (clinic.job.state, clinic.job.checkpoint) == (JobState.CANCELLED, None)


def test_the_words_of_an_unexpected_error_are_not_kept(clinic: Clinic) -> None:
    def fail(job: Job, report: JobReport) -> None:
        raise ValueError("the patient said")

    clinic.jobs.enqueue("fail")
    worker_on(clinic, fail=Task(fail)).run_one()
    assert (clinic.job.error, clinic.job.error_code) == ("ValueError", "internal-error")


def test_a_recurring_job_keeps_one_row_and_waits_for_its_turn(clinic: Clinic) -> None:
    ran = []
    task = Task(lambda job, report: ran.append(job.id), every=timedelta(seconds=30))
    worker = worker_on(clinic, tick=task)
    for _ in range(3):
        worker.schedule()
    assert worker.run_one()
    worker.schedule()
    assert not worker.run_one()
    clinic.now.advance(seconds=30)
    assert worker.run_one()
    assert len(ran) == 2
    assert clinic.job.state is JobState.QUEUED


def test_a_recurring_job_that_was_given_up_is_scheduled_anew(clinic: Clinic) -> None:
    def fail(job: Job, report: JobReport) -> None:
        raise InvalidRequest("no")

    worker = worker_on(clinic, tick=Task(fail, every=timedelta(seconds=30)))
    worker.schedule()
    worker.run_one()
    assert clinic.job.state is JobState.FAILED
    worker.schedule()
    states = [job.state for job in clinic.contents.jobs.values()]
    assert states == [JobState.FAILED, JobState.QUEUED]


def test_a_worker_that_lost_its_lease_drops_its_result(clinic: Clinic) -> None:
    def slow(job: Job, report: JobReport) -> dict[str, object]:
        clinic.now.advance(seconds=61)
        other = clinic.jobs.claim(["slow"])
        assert other is not None
        clinic.jobs.succeed(other, {"by": "other"})
        return {"by": "me"}

    clinic.jobs.enqueue("slow")
    with structlog.testing.capture_logs() as lines:
        assert worker_on(clinic, slow=Task(slow)).run_one()
    assert clinic.job.result == {"by": "other"}
    assert [line["event"] for line in lines] == ["job.lost"]


def test_the_lease_of_a_long_job_is_renewed_with_its_progress(
    short_leases: Clinic,
) -> None:
    clinic = short_leases

    def long(job: Job, report: JobReport) -> None:
        report(0.5, "half way")
        eventually(lambda: (clinic.job.message, clinic.job.progress) == ("half way", 0.5))

    clinic.jobs.enqueue("long")
    worker_on(clinic, long=Task(long)).run_one()
    assert clinic.job.state is JobState.SUCCEEDED


def test_a_long_job_hears_that_it_lost_its_lease(short_leases: Clinic) -> None:
    clinic = short_leases
    event = threading.Event()

    def long(job: Job, report: JobReport) -> None:
        # By a clock that is ahead, so that no renewal in between makes the lease last.
        ahead = replace(clinic.jobs, now=lambda: clinic.now() + timedelta(seconds=1))
        assert ahead.claim(["long"]) is not None
        try:
            eventually(lambda: report(0.1), "the worker hears of it")
        except Interrupted:
            event.set()
            raise

    clinic.jobs.enqueue("long")
    worker_on(clinic, long=Task(long)).run_one()
    assert event.is_set()
    assert clinic.job.state is JobState.RUNNING  # in the other worker's hands
    assert clinic.job.token == 2


def test_a_stopped_worker_gives_its_job_back(clinic: Clinic) -> None:
    event = threading.Event()

    def endless(job: Job, report: JobReport) -> None:
        event.set()
        eventually(lambda: report(0.0), "the worker is told to stop")

    clinic.jobs.enqueue("endless")
    worker = worker_on(clinic, endless=Task(endless))
    worker.start()
    assert event.wait(PATIENCE_S)
    worker.stop()
    assert (clinic.job.state, clinic.job.attempt) == (JobState.QUEUED, 0)


def test_a_worker_outlives_a_silent_database(clinic: Clinic) -> None:
    silent = threading.Event()
    event = threading.Event()
    silent.set()

    def begin(*, read_only: bool = False) -> object:
        if silent.is_set():
            event.set()
            raise StorageUnavailable("asleep")
        return clinic.begin(read_only=read_only)

    finished_event = threading.Event()
    task = Task(lambda job, report: finished_event.set())
    worker = Worker(replace(clinic.jobs, begin=begin), {"x": task}, poll_s=0.01)
    worker.start()
    assert event.wait(PATIENCE_S)
    clinic.jobs.enqueue("x")
    silent.clear()
    assert finished_event.wait(PATIENCE_S)
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
    clinic: Clinic,
    fault: ServiceError,
    after_one: tuple[JobState, int],
    after_two: tuple[JobState, int],
) -> None:
    def fail(job: Job, report: JobReport) -> None:
        raise fault

    clinic.jobs.enqueue("fail")
    worker = worker_on(clinic, fail=Task(fail))
    for state_and_attempts in (after_one, after_two):
        worker.run_one()
        assert (clinic.job.state, clinic.job.attempt) == state_and_attempts
        assert fault.detail in {clinic.job.message, clinic.job.error}
        clinic.now.advance(seconds=5)


@pytest.mark.parametrize("fault", [None, StorageUnavailable("asleep"), ModelDamaged("no model")])
def test_what_became_of_a_job_is_stored_once_the_database_is_back(
    clinic: Clinic, fault: ServiceError | None
) -> None:
    refusals: list[StorageUnavailable] = []

    def begin(*, read_only: bool = False) -> AbstractContextManager[Transaction]:
        if refusals:
            raise refusals.pop()
        return clinic.begin(read_only=read_only)

    def run(job: Job, report: JobReport) -> None:
        refusals.extend([StorageUnavailable("asleep")] * 3)
        if fault is not None:
            raise fault

    clinic.jobs.enqueue("x")
    jobs = replace(clinic.jobs, begin=begin, retries=RetryRule(attempts=1))
    worker = Worker(jobs, {"x": Task(run)}, poll_s=0.01)
    assert worker.run_one()
    assert not refusals
    ends = {type(None): JobState.SUCCEEDED, StorageUnavailable: JobState.QUEUED}
    assert clinic.job.state is ends.get(type(fault), JobState.FAILED)


def test_a_worker_outlives_its_own_mistakes(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("setwise.service.runtime.polling.LONGEST_PAUSE_S", 0.01)
    worker = worker_on(clinic, x=Task(lambda job, report: None))
    mistakes = iter([RuntimeError("bug")])
    schedule = worker.schedule

    def faulty(kinds: list[str]) -> None:
        for mistake in mistakes:
            raise mistake
        schedule(kinds)

    monkeypatch.setattr(worker, "schedule", faulty)
    clinic.jobs.enqueue("x")
    worker.start()
    eventually(lambda: clinic.job.state is JobState.SUCCEEDED)
    worker.stop()


def test_two_workers_never_run_the_same_job(clinic: Clinic) -> None:
    ran: list[str] = []
    lock = threading.Lock()

    def note(job: Job, report: JobReport) -> None:
        with lock:
            ran.append(job.id)

    for _ in range(40):
        clinic.jobs.enqueue("note")
    workers = [worker_on(clinic, note=Task(note)) for _ in range(4)]
    for worker in workers:
        worker.start()
    eventually(lambda: len(ran) >= 40)
    for worker in workers:
        worker.stop()
    assert sorted(ran) == sorted(clinic.contents.jobs)
