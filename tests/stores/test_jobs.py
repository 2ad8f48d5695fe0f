"""Durable jobs."""

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import timedelta

import pytest

from setwise.service.domain.errors import JobUnfinished
from setwise.service.domain.jobs import ALONE, Job, JobFilter, JobState, RetryRule
from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.samples import job

MINUTE = timedelta(minutes=1)


def enqueue(begin: Transactions, *jobs: Job) -> list[bool]:
    with begin() as transaction:
        return [transaction.jobs.enqueue(one) for one in jobs]


def claim(begin: Transactions, *kinds: str, minutes: float = 0) -> Job | None:
    asked = kinds or ("fit",), START + minutes * MINUTE
    with begin(read_only=True) as transaction:
        due = transaction.jobs.any_due(*asked)
    with begin() as transaction:
        job = transaction.jobs.claim(*asked, MINUTE)
    assert due == (job is not None)
    return job


def save(begin: Transactions, changed: Job, token: int | None = None) -> bool:
    with begin() as transaction:
        return transaction.jobs.save(changed, token=changed.token if token is None else token)


def read(begin: Transactions, job_id: str) -> Job | None:
    with begin(read_only=True) as transaction:
        return transaction.jobs.get(job_id)


def test_a_job_comes_back_as_it_was_through_its_life(begin: Transactions) -> None:
    queued_job = job("fit", key="k", payload={"noise": "none", "rates": [0.25, None]})
    assert enqueue(begin, queued_job) == [True]
    assert read(begin, queued_job.id) == queued_job
    claimed_job = claim(begin)
    assert claimed_job == queued_job.claimed(START, MINUTE)
    assert read(begin, queued_job.id) == claimed_job
    told = claimed_job.continued(START + MINUTE, MINUTE, progress=0.1 + 0.2, message="fold 2 of 5")
    assert save(begin, told)
    assert read(begin, queued_job.id) == told
    failed_job = told.failed("boom", START, RetryRule())
    assert save(begin, failed_job)
    assert read(begin, queued_job.id) == failed_job
    again = claim(begin, minutes=9)
    assert again is not None
    finished_job = again.succeeded({"brier": 0.05}, START)
    assert save(begin, finished_job)
    assert read(begin, queued_job.id) == finished_job


def test_jobs_are_claimed_in_the_order_in_which_they_fall_due(begin: Transactions) -> None:
    late = job("fit", due_at=START + 2 * MINUTE)
    early = job("fit", due_at=START + MINUTE)
    future = job("fit", due_at=START + 9 * MINUTE)
    other = job("export")
    enqueue(begin, late, early, future, other)
    jobs = [claim(begin, "fit", "purge", minutes=3) for _ in range(3)]
    assert [one and one.id for one in jobs] == [early.id, late.id, None]


def test_an_abandoned_job_comes_before_those_that_wait(begin: Transactions) -> None:
    abandoned_job = job("fit")
    enqueue(begin, abandoned_job)
    claim(begin)
    enqueue(begin, job("fit"))
    taken_job = claim(begin, minutes=1)
    assert taken_job is not None
    assert (taken_job.id, taken_job.token, taken_job.attempt) == (abandoned_job.id, 2, 2)


def test_a_live_job_is_left_to_its_worker(begin: Transactions) -> None:
    enqueue(begin, job("fit"))
    claim(begin)
    assert claim(begin, minutes=0.999) is None


def test_one_job_of_a_key_is_unfinished_at_a_time(begin: Transactions) -> None:
    first, second, third = (job("fit", key="k") for _ in range(3))
    assert enqueue(begin, first, second, job("fit"), job("fit")) == [True, False, True, True]
    claimed_job = claim(begin)
    assert claimed_job is not None
    assert claimed_job.key == "k"
    assert enqueue(begin, second) == [False]
    save(begin, claimed_job.succeeded(None, START))
    assert enqueue(begin, third) == [True]


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.RUNNING])
def test_a_write_with_a_stale_token_is_refused(begin: Transactions, state: JobState) -> None:
    enqueue(begin, job("fit"))
    lost_job = claim(begin)
    taken_job = claim(begin, minutes=1)
    assert lost_job is not None
    assert taken_job is not None
    late = (
        lost_job.succeeded({"from": "the dead"}, START)
        if state is JobState.SUCCEEDED
        else lost_job.continued(START, MINUTE, progress=0.9, message=None)
    )
    assert not save(begin, late, token=lost_job.token)
    assert read(begin, taken_job.id) == taken_job


def test_a_job_that_nobody_runs_takes_no_writes(begin: Transactions) -> None:
    queued_job = job("fit")
    enqueue(begin, queued_job)
    assert not save(begin, replace(queued_job, message="hello"))
    claimed_job = claim(begin)
    assert claimed_job is not None
    finished_job = claimed_job.succeeded(None, START)
    assert save(begin, finished_job)
    assert not save(begin, claimed_job.failed("late", START, RetryRule()))
    assert read(begin, queued_job.id) == finished_job


def page(begin: Transactions, after: str | None = None, limit: int = 50, **wanted: object):
    with begin(read_only=True) as transaction:
        return transaction.jobs.page(JobFilter(**wanted), after=after, limit=limit)


def test_jobs_are_listed_newest_first_and_filtered(begin: Transactions) -> None:
    mine, other = job("fit", owner_id="me"), job("export", owner_id="you")
    finished_job = job("fit", owner_id="them")
    enqueue(begin, mine, other, finished_job)
    with begin() as transaction:
        transaction.jobs.change(finished_job.cancelled(START))
    ids = [one.id for one in page(begin).items]
    assert ids == [finished_job.id, other.id, mine.id]
    first = page(begin, limit=2)
    assert [one.id for one in first.items] == [finished_job.id, other.id]
    assert [one.id for one in page(begin, first.next_after, 2).items] == [mine.id]
    assert page(begin, owner_id="me").items == (mine,)
    assert page(begin, kind="export").items == (other,)
    assert page(begin, state=JobState.CANCELLED).items == (finished_job.cancelled(START),)


def test_a_request_key_names_one_job_of_its_owner_for_good(begin: Transactions) -> None:
    first = job("fit", owner_id="me", request_key="r", checkpoint={"line": 3})
    again = job("fit", owner_id="me", request_key="r")
    theirs = job("fit", owner_id="you", request_key="r")
    assert enqueue(begin, first, again, theirs) == [True, False, True]
    with begin() as transaction:
        transaction.jobs.change(first.cancelled(START))
    assert enqueue(begin, again) == [False]
    with begin(read_only=True) as transaction:
        assert transaction.jobs.requested("me", "r") == first.cancelled(START)
        assert transaction.jobs.requested("me", "s") is None


def test_a_checkpoint_is_kept_by_later_writes_and_fenced(begin: Transactions) -> None:
    enqueue(begin, job("fit"))
    lost_job, taken_job = claim(begin), claim(begin, minutes=1)
    assert lost_job is not None
    assert taken_job is not None

    def keep(one: Job, state: dict[str, object]) -> bool:
        with begin() as transaction:
            return transaction.jobs.checkpoint(
                replace(one, checkpoint=state, attempt=1), token=one.token
            )

    assert not keep(lost_job, {"line": 1})
    assert keep(taken_job, {"line": 2})
    stored_job = read(begin, taken_job.id)
    assert stored_job is not None
    assert (stored_job.checkpoint, stored_job.attempt) == ({"line": 2}, 1)
    assert save(begin, taken_job.continued(START, MINUTE, progress=0.5, message="on"))
    stored_job = read(begin, taken_job.id)
    assert stored_job is not None
    assert (stored_job.checkpoint, stored_job.progress) == ({"line": 2}, 0.5)


def test_a_cancelled_job_takes_no_more_writes_of_its_worker(begin: Transactions) -> None:
    enqueue(begin, job("fit", owner_id="me"))
    claimed_job = claim(begin)
    assert claimed_job is not None
    with begin() as transaction:
        found_job = transaction.jobs.get(claimed_job.id, for_update=True)
        assert found_job is not None
        transaction.jobs.change(found_job.cancelled(START))
    assert not save(begin, claimed_job.succeeded({"late": True}, START))
    assert claim(begin, minutes=9) is None


def test_a_job_is_not_tried_again_beside_another_one_of_its_key(begin: Transactions) -> None:
    old, new = (job("fit", key="k", owner_id="me") for _ in range(2))
    enqueue(begin, old)
    with begin() as transaction:
        transaction.jobs.change(old.cancelled(START))
    enqueue(begin, new)
    with pytest.raises(JobUnfinished), begin() as transaction:
        transaction.jobs.change(old.cancelled(START).retried(START))


def test_of_a_kind_that_runs_alone_one_is_claimed_at_a_time(begin: Transactions) -> None:
    (kind,) = ALONE
    first, second, other = job(kind), job(kind), job("fit")
    enqueue(begin, first, second, other)
    running = claim(begin, kind)
    assert running is not None
    assert claim(begin, kind) is None
    assert claim(begin, kind, "fit") == other.claimed(START, MINUTE)
    # Once the lease of a dead worker has expired, its own job comes first.
    again = claim(begin, kind, minutes=2)
    assert again is not None
    assert (again.id, again.token) == (running.id, 2)
    assert claim(begin, kind, minutes=2) is None
    assert save(begin, again.succeeded(None, START))
    last = claim(begin, kind, minutes=2)
    assert last is not None
    assert {last.id, running.id} == {first.id, second.id}


def test_workers_that_claim_at_the_same_time_get_one_of_a_kind_that_runs_alone(
    begin: Transactions,
) -> None:
    (kind,) = ALONE
    enqueue(begin, job(kind), job(kind))

    def race() -> Job | None:
        with begin() as transaction:
            return transaction.jobs.claim([kind], START, MINUTE)

    with ThreadPoolExecutor() as pool:
        with begin() as transaction:
            first = transaction.jobs.claim([kind], START, MINUTE)
            second = pool.submit(race)
            wait([second], timeout=0.2)  # it waits for this transaction, or has got the other job
        assert first is not None
        assert second.result() is None
