"""Durable jobs: run once, retried, given up; their results and files."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from setwise.service.domain.errors import (
    JobNeeded,
    JobNotFound,
    JobUnfinished,
    LeaseLost,
    ResultNotFound,
)
from setwise.service.domain.jobs import Job, JobState, RetryRule
from tests.fakes import START
from tests.kit.clinic import Clinic
from tests.samples import ADMIN, CLIENT, OTHER_CLIENT, job

RULE = RetryRule(attempts=3, first_delay=timedelta(seconds=10), factor=2)
KINDS = ["fit", "purge"]


@pytest.fixture
def clinic() -> Clinic:
    return Clinic(working={"retries": RULE})


def stored(clinic: Clinic, job: Job) -> Job:
    return clinic.contents.jobs[job.id]


def claimed(clinic: Clinic) -> Job:
    job = clinic.jobs.claim(KINDS)
    assert job is not None
    return job


def test_a_job_is_done_once(clinic: Clinic) -> None:
    asked = clinic.jobs.enqueue("fit", payload={"noise": "none"})
    assert asked is not None
    job = claimed(clinic)
    assert (job.id, job.payload, job.state) == (asked.id, {"noise": "none"}, JobState.RUNNING)
    assert clinic.jobs.claim(KINDS) is None
    finished_job = clinic.jobs.succeed(job, {"brier": 0.05})
    assert stored(clinic, job) == finished_job
    assert finished_job.result == {"brier": 0.05}
    clinic.now.advance(days=1)
    assert clinic.jobs.claim(KINDS) is None


def test_nobody_waits_for_a_worker_that_finds_no_job(clinic: Clinic) -> None:
    clinic.jobs.enqueue("fit", after=timedelta(seconds=30))
    with clinic.begin():  # whoever wants to write now has to wait
        assert clinic.jobs.claim(KINDS) is None
    clinic.now.advance(seconds=30)
    assert clinic.jobs.claim(KINDS) is not None


def test_a_worker_takes_only_kinds_that_it_knows(clinic: Clinic) -> None:
    clinic.jobs.enqueue("export")
    assert clinic.jobs.claim(KINDS) is None
    assert clinic.jobs.claim([]) is None
    assert clinic.jobs.claim(["export"]) is not None


def test_a_live_worker_keeps_its_job_and_says_how_far_it_is(clinic: Clinic) -> None:
    clinic.jobs.enqueue("fit")
    job = claimed(clinic)
    for fold in range(1, 6):
        clinic.now.advance(seconds=50)
        job = clinic.jobs.renew(job, progress=fold / 5, message=f"fold {fold} of 5")
        assert clinic.jobs.claim(KINDS) is None
    assert (stored(clinic, job).progress, stored(clinic, job).message) == (1.0, "fold 5 of 5")


ENDINGS: dict[str, Callable[[Clinic, Job], object]] = {
    "renew": lambda clinic, job: clinic.jobs.renew(job, progress=0.9),
    "succeed": lambda clinic, job: clinic.jobs.succeed(job, {"from": "the dead"}),
    "repeat": lambda clinic, job: clinic.jobs.repeat(job, timedelta(seconds=30)),
    "fail": lambda clinic, job: clinic.jobs.fail(job, "boom"),
    "give back": lambda clinic, job: clinic.jobs.give_back(job),
    "postpone": lambda clinic, job: clinic.jobs.postpone(job, "no model"),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_another_worker_takes_over_from_a_dead_one_and_is_not_disturbed_if_it_wakes(
    clinic: Clinic, ending
) -> None:
    clinic.jobs.enqueue("fit")
    job = claimed(clinic)
    clinic.now.advance(seconds=60)
    taken_job = claimed(clinic)
    assert (taken_job.id, taken_job.attempt, taken_job.token) == (job.id, 2, 2)
    with pytest.raises(LeaseLost, match="passed to another worker"):
        ending(clinic, job)
    assert stored(clinic, taken_job) == taken_job
    clinic.jobs.succeed(taken_job)


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_a_finished_job_takes_no_more_writes(clinic: Clinic, ending) -> None:
    clinic.jobs.enqueue("fit")
    job = claimed(clinic)
    finished_job = clinic.jobs.succeed(job)
    with pytest.raises(LeaseLost):
        ending(clinic, job)
    assert stored(clinic, job) == finished_job


def test_a_job_that_kills_its_workers_is_given_up(clinic: Clinic) -> None:
    poison = clinic.jobs.enqueue("fit")
    harmless = clinic.jobs.enqueue("fit")
    assert poison is not None
    assert harmless is not None
    for _ in range(3):
        assert claimed(clinic).id == poison.id  # and the worker dies
        clinic.now.advance(seconds=60)
    assert claimed(clinic).id == harmless.id
    assert stored(clinic, poison).state is JobState.FAILED
    assert stored(clinic, poison).error == "gave up: 3 workers died or went silent on it"
    assert stored(clinic, poison).error_code == "workers-lost"


def test_a_job_that_gets_further_is_not_given_up(clinic: Clinic) -> None:
    asked = clinic.jobs.enqueue("fit")
    assert asked is not None
    for block in range(3 * RULE.attempts):
        job = claimed(clinic)
        job = clinic.jobs.checkpoint(job, {"block": block})
        clinic.jobs.renew(job, progress=0.5)  # and the worker dies
        clinic.now.advance(seconds=60)
    for _ in range(RULE.attempts - 1):  # it gets no further
        clinic.jobs.checkpoint(claimed(clinic), {"block": block})
        clinic.now.advance(seconds=60)
    assert clinic.jobs.claim(KINDS) is None
    assert stored(clinic, asked).error_code == "workers-lost"


def test_a_duty_of_the_service_cannot_be_cancelled(clinic: Clinic) -> None:
    duty = clinic.jobs.enqueue("erase_traces")
    assert duty is not None
    with pytest.raises(JobNeeded):
        clinic.jobs.cancel(ADMIN, duty.id)
    assert stored(clinic, duty) == duty


def test_recurring_work_keeps_one_row_and_waits_for_its_next_turn(clinic: Clinic) -> None:
    clinic.jobs.enqueue("purge", key="purge")
    for _ in range(RULE.attempts + 2):  # turns are no attempts
        clinic.jobs.repeat(claimed(clinic), timedelta(seconds=30))
        assert clinic.jobs.enqueue("purge", key="purge") is None
        clinic.now.advance(seconds=29)
        assert clinic.jobs.claim(KINDS) is None
        clinic.now.advance(seconds=1)
    assert len(clinic.contents.jobs) == 1


def store(clinic: Clinic, *parts: bytes, finished: bool = True) -> Job:
    new_job = job("scoring", owner_id=CLIENT.id)
    with clinic.begin() as transaction:
        transaction.jobs.enqueue(new_job)
        if finished:
            transaction.jobs.change(new_job.cancelled(START))
    for number, part in enumerate(parts):
        clinic.disk.stored[f"jobs/{new_job.id}/result/{number:08d}.jsonl"] = part
    return new_job


def test_a_result_is_read_part_by_part_in_order(clinic: Clinic) -> None:
    job = store(clinic, b"a\n" * 50_000, b"b\n")
    for caller in (CLIENT, ADMIN):
        result = clinic.jobs.result(caller, job.id)
        assert result.name == f"scoring-{job.id}.jsonl"
        chunks = list(result.chunks)
        assert b"".join(chunks) == b"a\n" * 50_000 + b"b\n"
        assert max(map(len, chunks)) <= 65_536
    with pytest.raises(JobNotFound):
        clinic.jobs.result(OTHER_CLIENT, job.id)


def test_there_is_no_result_before_the_end_or_without_a_file(clinic: Clinic) -> None:
    with pytest.raises(JobUnfinished):
        clinic.jobs.result(CLIENT, store(clinic, b"a", finished=False).id)
    with pytest.raises(ResultNotFound):
        clinic.jobs.result(CLIENT, store(clinic).id)


def test_files_go_when_their_time_is_over(clinic: Clinic) -> None:
    job, running = (store(clinic, b"a", finished=finished) for finished in (True, False))
    begun = f"{int(START.timestamp() * 1000):012x}"
    orphan = f"{begun[:8]}-{begun[8:]}-7000-8000-00000000dead"  # no job ever had this id
    clinic.disk.stored[f"jobs/{orphan}/upload/documents"] = b"a"
    swept = []
    for days in (0.5, 1, 6):  # a file is kept for seven
        clinic.now.advance(days=days)
        swept.append(clinic.jobs.sweep_files())
    assert swept == [0, 1, 1]
    assert clinic.disk.names("jobs") == [running.id]
    assert job.id != running.id
