"""Durable jobs: run once, retried, given up; their results and files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from setwise.service.domain.errors import JobNotFound, JobUnfinished, LeaseLost, ResultNotFound
from setwise.service.domain.jobs import Job, JobState, RetryRule
from tests.building import jobs
from tests.fake_files import FakeFiles
from tests.fakes import START, FakeClock, FakeIds
from tests.samples import ADMIN, CLIENT, OTHER_CLIENT, job
from tests.sqlite import Database

RULE = RetryRule(attempts=3, first_delay=timedelta(seconds=10), factor=2)
KINDS = ["fit", "purge"]


@dataclass
class Yard:
    database: Database = field(default_factory=Database)
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=FakeIds)

    def __post_init__(self) -> None:
        self.jobs = jobs(self.database, self.now, self.new_id, retries=RULE)

    def stored(self, job: Job) -> Job:
        return self.database.contents.jobs[job.id]

    def claimed(self) -> Job:
        job = self.jobs.claim(KINDS)
        assert job is not None
        return job


@pytest.fixture
def yard() -> Yard:
    return Yard()


def test_a_job_is_done_once(yard: Yard) -> None:
    asked = yard.jobs.enqueue("fit", payload={"noise": "none"})
    assert asked is not None
    job = yard.claimed()
    assert (job.id, job.payload, job.state) == (asked.id, {"noise": "none"}, JobState.RUNNING)
    assert yard.jobs.claim(KINDS) is None
    done = yard.jobs.succeed(job, {"brier": 0.05})
    assert yard.stored(job) == done
    assert done.result == {"brier": 0.05}
    yard.now.advance(days=1)
    assert yard.jobs.claim(KINDS) is None


def test_nobody_waits_for_a_worker_that_finds_no_job(yard: Yard) -> None:
    yard.jobs.enqueue("fit", after=timedelta(seconds=30))
    with yard.database():  # whoever wants to write now has to wait
        assert yard.jobs.claim(KINDS) is None
    yard.now.advance(seconds=30)
    assert yard.jobs.claim(KINDS) is not None


def test_a_worker_takes_only_kinds_that_it_knows(yard: Yard) -> None:
    yard.jobs.enqueue("export")
    assert yard.jobs.claim(KINDS) is None
    assert yard.jobs.claim([]) is None
    assert yard.jobs.claim(["export"]) is not None


def test_a_live_worker_keeps_its_job_and_says_how_far_it_is(yard: Yard) -> None:
    yard.jobs.enqueue("fit")
    job = yard.claimed()
    for fold in range(1, 6):
        yard.now.advance(seconds=50)
        job = yard.jobs.renew(job, progress=fold / 5, message=f"fold {fold} of 5")
        assert yard.jobs.claim(KINDS) is None
    assert (yard.stored(job).progress, yard.stored(job).message) == (1.0, "fold 5 of 5")


ENDINGS: dict[str, Callable[[Yard, Job], object]] = {
    "renew": lambda yard, job: yard.jobs.renew(job, progress=0.9),
    "succeed": lambda yard, job: yard.jobs.succeed(job, {"from": "the dead"}),
    "repeat": lambda yard, job: yard.jobs.repeat(job, timedelta(seconds=30)),
    "fail": lambda yard, job: yard.jobs.fail(job, "boom"),
    "give back": lambda yard, job: yard.jobs.give_back(job),
    "postpone": lambda yard, job: yard.jobs.postpone(job, "no model"),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_another_worker_takes_over_from_a_dead_one_and_is_not_disturbed_if_it_wakes(
    yard: Yard, ending
) -> None:
    yard.jobs.enqueue("fit")
    lost = yard.claimed()
    yard.now.advance(seconds=60)
    taken = yard.claimed()
    assert (taken.id, taken.attempt, taken.token) == (lost.id, 2, 2)
    with pytest.raises(LeaseLost, match="passed to another worker"):
        ending(yard, lost)
    assert yard.stored(taken) == taken
    yard.jobs.succeed(taken)


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_a_finished_job_takes_no_more_writes(yard: Yard, ending) -> None:
    yard.jobs.enqueue("fit")
    job = yard.claimed()
    done = yard.jobs.succeed(job)
    with pytest.raises(LeaseLost):
        ending(yard, job)
    assert yard.stored(job) == done


def test_a_job_that_kills_its_workers_is_given_up(yard: Yard) -> None:
    poison = yard.jobs.enqueue("fit")
    harmless = yard.jobs.enqueue("fit")
    assert poison is not None
    assert harmless is not None
    for _ in range(3):
        assert yard.claimed().id == poison.id  # and the worker dies
        yard.now.advance(seconds=60)
    assert yard.claimed().id == harmless.id
    assert yard.stored(poison).state is JobState.FAILED
    assert yard.stored(poison).error == "gave up: 3 workers died or went silent on it"
    assert yard.stored(poison).error_code == "workers-lost"


def test_recurring_work_keeps_one_row_and_waits_for_its_next_turn(yard: Yard) -> None:
    yard.jobs.enqueue("purge", key="purge")
    for _ in range(RULE.attempts + 2):  # turns are no attempts
        yard.jobs.repeat(yard.claimed(), timedelta(seconds=30))
        assert yard.jobs.enqueue("purge", key="purge") is None
        yard.now.advance(seconds=29)
        assert yard.jobs.claim(KINDS) is None
        yard.now.advance(seconds=1)
    assert len(yard.database.contents.jobs) == 1


DAY = timedelta(days=1)


def store(database: Database, files: FakeFiles, *parts: bytes, finished: bool = True):
    made = job("scoring", owner_id=CLIENT.id)
    with database() as transaction:
        transaction.jobs.enqueue(made)
        if finished:
            transaction.jobs.change(made.cancelled(START))
    for number, part in enumerate(parts):
        files.stored[f"jobs/{made.id}/result/{number:08d}.jsonl"] = part
    return made


def test_a_result_is_read_part_by_part_in_order() -> None:
    database, files = Database(), FakeFiles()
    made = store(database, files, b"a\n" * 50_000, b"b\n")
    for caller in (CLIENT, ADMIN):
        result = jobs(database, files=files).result(caller, made.id)
        assert result.name == f"scoring-{made.id}.jsonl"
        chunks = list(result.chunks)
        assert b"".join(chunks) == b"a\n" * 50_000 + b"b\n"
        assert max(map(len, chunks)) <= 65_536
    with pytest.raises(JobNotFound):
        jobs(database, files=files).result(OTHER_CLIENT, made.id)


def test_there_is_no_result_before_the_end_or_without_a_file() -> None:
    database, files = Database(), FakeFiles()
    with pytest.raises(JobUnfinished):
        jobs(database, files=files).result(CLIENT, store(database, files, b"a", finished=False).id)
    with pytest.raises(ResultNotFound):
        jobs(database, files=files).result(CLIENT, store(database, files).id)


def test_files_go_when_their_time_is_over() -> None:
    database, files, clock = Database(), FakeFiles(), FakeClock()
    done, running = (store(database, files, b"a", finished=finished) for finished in (True, False))
    begun = f"{int(START.timestamp() * 1000):012x}"
    orphan = f"{begun[:8]}-{begun[8:]}-7000-8000-00000000dead"  # no job ever had this id
    files.stored[f"jobs/{orphan}/upload/documents"] = b"a"
    sweep = jobs(database, clock, files=files, keep_files=7 * DAY).sweep_files
    clock.advance(days=0.5)
    assert sweep() == 0
    clock.advance(days=1)
    assert sweep() == 1
    clock.advance(days=6)
    assert sweep() == 1
    assert files.names("jobs") == [running.id]
    assert done.id != running.id
