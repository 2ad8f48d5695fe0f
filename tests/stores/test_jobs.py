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
        found = transaction.jobs.claim(*asked, MINUTE)
    assert due == (found is not None)
    return found


def save(begin: Transactions, changed: Job, token: int | None = None) -> bool:
    with begin() as transaction:
        return transaction.jobs.save(changed, token=changed.token if token is None else token)


def read(begin: Transactions, job_id: str) -> Job | None:
    with begin(read_only=True) as transaction:
        return transaction.jobs.get(job_id)


def test_a_job_comes_back_as_it_was_through_its_life(begin: Transactions) -> None:
    queued = job("fit", key="k", payload={"noise": "none", "rates": [0.25, None]})
    assert enqueue(begin, queued) == [True]
    assert read(begin, queued.id) == queued
    claimed = claim(begin)
    assert claimed == queued.claimed(START, MINUTE)
    assert read(begin, queued.id) == claimed
    told = claimed.continued(START + MINUTE, MINUTE, progress=0.1 + 0.2, message="fold 2 of 5")
    assert save(begin, told)
    assert read(begin, queued.id) == told
    failed = told.failed("boom", START, RetryRule())
    assert save(begin, failed)
    assert read(begin, queued.id) == failed
    again = claim(begin, minutes=9)
    assert again is not None
    done = again.succeeded({"brier": 0.05}, START)
    assert save(begin, done)
    assert read(begin, queued.id) == done


def test_jobs_are_claimed_in_the_order_in_which_they_fall_due(begin: Transactions) -> None:
    late = job("fit", due_at=START + 2 * MINUTE)
    early = job("fit", due_at=START + MINUTE)
    future = job("fit", due_at=START + 9 * MINUTE)
    other = job("export")
    enqueue(begin, late, early, future, other)
    claimed = [claim(begin, "fit", "purge", minutes=3) for _ in range(3)]
    assert [one and one.id for one in claimed] == [early.id, late.id, None]


def test_an_abandoned_job_comes_before_those_that_wait(begin: Transactions) -> None:
    abandoned = job("fit")
    enqueue(begin, abandoned)
    claim(begin)
    enqueue(begin, job("fit"))
    taken = claim(begin, minutes=1)
    assert taken is not None
    assert (taken.id, taken.token, taken.attempt) == (abandoned.id, 2, 2)


def test_a_live_job_is_left_to_its_worker(begin: Transactions) -> None:
    enqueue(begin, job("fit"))
    claim(begin)
    assert claim(begin, minutes=0.999) is None


def test_one_job_of_a_key_is_unfinished_at_a_time(begin: Transactions) -> None:
    first, second, third = (job("fit", key="k") for _ in range(3))
    assert enqueue(begin, first, second, job("fit"), job("fit")) == [True, False, True, True]
    claimed = claim(begin)
    assert claimed is not None
    assert claimed.key == "k"
    assert enqueue(begin, second) == [False]
    save(begin, claimed.succeeded(None, START))
    assert enqueue(begin, third) == [True]


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.RUNNING])
def test_a_write_with_a_stale_token_is_refused(begin: Transactions, state: JobState) -> None:
    enqueue(begin, job("fit"))
    lost = claim(begin)
    taken = claim(begin, minutes=1)
    assert lost is not None
    assert taken is not None
    late = (
        lost.succeeded({"from": "the dead"}, START)
        if state is JobState.SUCCEEDED
        else lost.continued(START, MINUTE, progress=0.9, message=None)
    )
    assert not save(begin, late, token=lost.token)
    assert read(begin, taken.id) == taken


def test_a_job_that_nobody_runs_takes_no_writes(begin: Transactions) -> None:
    queued = job("fit")
    enqueue(begin, queued)
    assert not save(begin, replace(queued, message="hello"))
    claimed = claim(begin)
    assert claimed is not None
    done = claimed.succeeded(None, START)
    assert save(begin, done)
    assert not save(begin, claimed.failed("late", START, RetryRule()))
    assert read(begin, queued.id) == done


def page(begin: Transactions, after: str | None = None, limit: int = 50, **wanted: object):
    with begin(read_only=True) as transaction:
        return transaction.jobs.page(JobFilter(**wanted), after=after, limit=limit)


def test_jobs_are_listed_newest_first_and_filtered(begin: Transactions) -> None:
    mine, other = job("fit", owner_id="me"), job("export", owner_id="you")
    done = job("fit", owner_id="them")
    enqueue(begin, mine, other, done)
    with begin() as transaction:
        transaction.jobs.change(done.cancelled(START))
    ids = [one.id for one in page(begin).items]
    assert ids == [done.id, other.id, mine.id]
    first = page(begin, limit=2)
    assert [one.id for one in first.items] == [done.id, other.id]
    assert [one.id for one in page(begin, first.next_after, 2).items] == [mine.id]
    assert page(begin, owner_id="me").items == (mine,)
    assert page(begin, kind="export").items == (other,)
    assert page(begin, state=JobState.CANCELLED).items == (done.cancelled(START),)


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
    lost, taken = claim(begin), claim(begin, minutes=1)
    assert lost is not None
    assert taken is not None

    def keep(one: Job, state: dict[str, object]) -> bool:
        with begin() as transaction:
            return transaction.jobs.checkpoint(
                replace(one, checkpoint=state, attempt=1), token=one.token
            )

    assert not keep(lost, {"line": 1})
    assert keep(taken, {"line": 2})
    stored = read(begin, taken.id)
    assert stored is not None
    assert (stored.checkpoint, stored.attempt) == ({"line": 2}, 1)
    assert save(begin, taken.continued(START, MINUTE, progress=0.5, message="on"))
    stored = read(begin, taken.id)
    assert stored is not None
    assert (stored.checkpoint, stored.progress) == ({"line": 2}, 0.5)


def test_a_cancelled_job_takes_no_more_writes_of_its_worker(begin: Transactions) -> None:
    enqueue(begin, job("fit", owner_id="me"))
    claimed = claim(begin)
    assert claimed is not None
    with begin() as transaction:
        found = transaction.jobs.get(claimed.id, for_update=True)
        assert found is not None
        transaction.jobs.change(found.cancelled(START))
    assert not save(begin, claimed.succeeded({"late": True}, START))
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
