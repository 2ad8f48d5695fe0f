"""Many people and programs at once, on real databases: nothing is given, sent or stored twice."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest
from sqlalchemy import Engine, func, select

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.policy import FIRST_POLICY_VERSION
from setwise.service.domain.predictions import Document, IdempotencyKey, Prediction
from setwise.service.domain.reviews import ReviewKind, ReviewState
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from setwise.service.stores import tables
from setwise.service.stores.database import new_id, utc_now
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.building import jobs, predict_one
from tests.fakes import LOTTERY, START, FakeClock, FakePredictors
from tests.samples import ADMIN, ANN, BEN, CLIENT, LEAD, add_predictions, change, model, task

THREADS = 20
Result = TypeVar("Result")


@pytest.fixture
def begin(engine: Engine) -> Transactions:
    """Open transactions on connections that are there already, so that threads do meet."""
    begin = Transactions(engine)
    with ExitStack() as stack:
        for _ in range(THREADS):
            stack.enter_context(begin(read_only=True)).policies.current()
    return begin


def at_once(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run ``calls`` on a thread each, all let go at one instant."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Result]) -> Result:
        barrier.wait(timeout=120)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def fill(begin: Transactions, count: int) -> list[str]:
    tasks = [task() for _ in range(count)]
    with begin() as transaction:
        for one in tasks:
            add_predictions(transaction, one.prediction)
            transaction.reviews.add(one)
    return [one.id for one in tasks]


def reviewers(count: int = THREADS) -> list[Caller]:
    return [Caller(new_id(), f"reviewer {number}", Role.REVIEWER) for number in range(count)]


def count(engine: Engine, table: str) -> int:
    with engine.connect() as connection:
        return connection.execute(
            select(func.count()).select_from(tables.metadata.tables[table])
        ).scalar_one()


def test_twenty_claims_at_once_get_twenty_tasks(begin: Transactions) -> None:
    expected = fill(begin, THREADS + 5)[:THREADS]
    claim = building.queue(begin, utc_now).claim
    tasks = at_once([lambda who=who: claim(who) for who in reviewers()])
    assert sorted(one.id for one in tasks if one) == expected


def test_twenty_reviewers_empty_the_queue_without_meeting(
    begin: Transactions, engine: Engine
) -> None:
    every = fill(begin, 150)
    held: dict[str, str] = {}
    guard = threading.Lock()
    met: list[str] = []
    reviews = building.reviews(begin)
    claim, complete, release, skip = (
        reviews.queue.claim,
        reviews.complete,
        reviews.queue.release,
        reviews.queue.skip,
    )

    def work(who: Caller, number: int) -> list[str]:
        done = []
        turn = number
        while (found := claim(who)) is not None:
            with guard:
                if found.id in held:
                    met.append(found.id)
                held[found.id] = who.id
            turn += 1
            with guard:
                del held[found.id]  # from here on somebody else may be given it
            if turn % 7 == 0:
                release(who, found.id)
            elif turn % 11 == 0 and not found.skips:
                skip(who, found.id, "not mine")
            else:
                complete(who, found.id, ["a"], None, found.version)
                done.append(found.id)
        return done

    done = at_once([lambda who=who, n=n: work(who, n) for n, who in enumerate(reviewers())])
    settled = [one for part in done for one in part]
    assert met == []
    assert Counter(settled).most_common(1)[0][1] == 1
    # Somebody who had skipped the last ones may have seen an empty queue; nothing is lost.
    left = building.reports(begin).summary(SYSTEM)
    assert len(settled) + left.waiting == len(every)
    assert left.leased == left.skipped == 0
    assert left.waiting <= 2 * THREADS
    assert count(engine, "annotations") == len(settled)


def test_an_expired_lease_goes_to_one_of_many(begin: Transactions) -> None:
    (only,) = fill(begin, 1)
    now = FakeClock()
    claim = building.queue(begin, now).claim
    task = claim(ADMIN)
    assert task is not None
    now.advance(hours=1)
    tasks = at_once([lambda who=who: claim(who) for who in reviewers()])
    assert [one.id for one in tasks if one] == [only]
    with pytest.raises(errors.StaleVersion):
        building.reviews(begin, now).complete(ADMIN, only, [], None, task.version)


def test_one_person_in_many_windows_holds_no_more_than_allowed(begin: Transactions) -> None:
    fill(begin, THREADS)
    claim = building.queue(begin, utc_now, most_leases=3).claim
    (who,) = reviewers(1)

    def window() -> str | None:
        with suppress(errors.TooManyLeases):
            task = claim(who)
            return task and task.id
        return None

    claimed = [one for one in at_once([window] * THREADS) if one]
    assert len(claimed) == len(set(claimed)) == 3


def test_reapers_and_reviewers_at_once_leave_each_task_with_one_holder(begin: Transactions) -> None:
    fill(begin, 30)
    now = FakeClock()
    claim = building.queue(begin, now, most_leases=100).claim
    for _ in range(30):
        claim(ADMIN)
    now.advance(hours=1)
    reap = building.queue(begin, now).expire_leases
    calls: list[Callable[[], object]] = [reap] * 5
    calls += [lambda who=who: claim(who) for who in reviewers(15)]
    results = at_once(calls)
    ids = [one.id for one in results[5:] if one]
    assert len(ids) == len(set(ids))
    # On PostgreSQL a claim passes over what a reaper is just returning, and may find nothing.
    counts = building.reports(begin).summary(SYSTEM)
    assert (counts.waiting, counts.leased) == (30 - len(ids), len(ids))
    with begin(read_only=True) as transaction:
        page = transaction.reviews.page(state=ReviewState.LEASED, reason=None, after=None, limit=50)
    assert sorted(ids) == [one.id for one in page.items]


def test_one_idempotency_key_at_twenty_doors_makes_one_prediction(
    begin: Transactions, engine: Engine
) -> None:
    predictions = Predictions(FakePredictors(), begin, utc_now, new_id, LOTTERY)
    key = IdempotencyKey("order-1", "digest")

    def post() -> Prediction:
        return predict_one(predictions, CLIENT, Document(text="0.4"), idempotency=key)

    answers = at_once([post] * THREADS)
    assert len({answer.id for answer in answers}) == 1
    for table in ("predictions", "review_tasks", "idempotency_keys"):
        assert count(engine, table) == 1
    with begin(read_only=True) as transaction:
        (event,) = transaction.audit_trail.page(after=None, limit=2).items
    assert event.subject == answers[0].id


def test_of_two_bodies_under_one_key_one_is_stored_and_the_other_refused(
    begin: Transactions, engine: Engine
) -> None:
    predictions = Predictions(FakePredictors(), begin, utc_now, new_id, LOTTERY)

    def post(text: str) -> str:
        try:
            key = IdempotencyKey("k", text)
            prediction = predict_one(predictions, CLIENT, Document(text=text), idempotency=key)
        except errors.IdempotencyMismatch:
            return "refused"
        assert prediction.document.text is not None
        return prediction.document.text

    answers = at_once([lambda t=t: post(t) for t in ["0.4", "0.5"] * 8])
    (stored,) = set(answers) - {"refused"}
    assert Counter(answers) == {stored: 8, "refused": 8}
    assert count(engine, "predictions") == 1


def test_of_many_changes_of_one_policy_one_wins(begin: Transactions, engine: Engine) -> None:
    verb = Policies(begin, utc_now, new_id).change

    def replace(threshold: float) -> bool:
        with suppress(errors.StaleVersion):
            verb(ADMIN, change(threshold=threshold), FIRST_POLICY_VERSION)
            return True
        return False

    results = at_once([lambda n=n: replace(n / THREADS) for n in range(THREADS)])
    assert results.count(True) == 1
    assert count(engine, "policies") == 2
    assert count(engine, "audit_events") == 1


def test_admins_who_revoke_each_other_leave_one(begin: Transactions) -> None:
    keys = building.keys(begin)
    new_keys = [keys.create(SYSTEM, f"admin {n}", Role.ADMIN)[0] for n in range(THREADS)]

    def try_to(key_id: str) -> bool:
        with suppress(errors.LastAdmin):
            keys.revoke(SYSTEM, key_id)
            return True
        return False

    results = at_once([lambda k=k: try_to(k.id) for k in new_keys])
    assert results.count(True) == THREADS - 1
    assert sum(not key.revoked for key in keys.all(SYSTEM)) == 1


def test_an_artifact_that_many_add_is_registered_once(begin: Transactions, engine: Engine) -> None:
    def add() -> bool:
        with suppress(errors.DuplicateModel), begin() as transaction:
            transaction.models.add(model("sha256:aa"))
            return True
        return False

    assert at_once([add] * THREADS).count(True) == 1
    assert count(engine, "models") == 1


def test_twenty_workers_do_every_job_once(begin: Transactions) -> None:
    enqueue = jobs(begin).enqueue
    asked = [enqueue("fit") for _ in range(60)]
    claim, succeed_job = jobs(begin).claim, jobs(begin).succeed

    def worker() -> list[str]:
        done = []
        while (job := claim(["fit"])) is not None:
            done.append(succeed_job(job).id)
        return done

    done = [one for part in at_once([worker] * THREADS) for one in part]
    assert sorted(done) == sorted(job.id for job in asked if job)


def test_an_abandoned_job_goes_to_one_of_many_and_its_first_worker_is_fenced_off(
    begin: Transactions,
) -> None:
    now = FakeClock(START)
    office = jobs(begin, now, lease=timedelta(seconds=60))
    office.enqueue("fit")
    claim = office.claim
    lost_job = claim(["fit"])
    assert lost_job is not None
    now.advance(seconds=60)
    (taken_job,) = [job for job in at_once([lambda: claim(["fit"])] * THREADS) if job]
    assert taken_job.token == 2
    with pytest.raises(errors.LeaseLost):
        office.succeed(lost_job)
    office.succeed(taken_job)


def test_one_of_many_requests_for_the_same_job_is_stored(begin: Transactions) -> None:
    enqueue = jobs(begin).enqueue
    stored_jobs = at_once([lambda: enqueue("fit", key="fit")] * THREADS)
    assert sum(job is not None for job in stored_jobs) == 1


def test_two_readers_who_finish_at_once_and_differ_make_one_adjudication(
    begin: Transactions,
) -> None:
    reviews = building.reviews(begin)
    claim, complete = reviews.queue.claim, reviews.complete
    for _ in range(10):
        one = task()
        with begin() as transaction:
            add_predictions(transaction, one.prediction)
            transaction.reviews.add(one)
            transaction.reviews.add(replace(task(one.prediction), kind=ReviewKind.OVERLAP))
        held = [(who, claim(who), [label]) for who, label in ((ANN, "a"), (BEN, "b"))]
        at_once(
            [
                lambda who=who, it=it, said=said: complete(who, it.id, said, None, it.version)
                for who, it, said in held
                if it is not None
            ]
        )
        judged_task = claim(LEAD)
        assert judged_task is not None
        assert judged_task.kind is ReviewKind.ADJUDICATION
        assert judged_task.answers == (("a",), ("b",))
        complete(LEAD, judged_task.id, ["a"], None, judged_task.version)
        assert claim(LEAD) is None
