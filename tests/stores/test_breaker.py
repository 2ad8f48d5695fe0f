"""Audits that end at once, in threads and in processes that are killed: each counts once."""

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import Engine, func, select

from setwise.models.guarantees.drift import drift_statistic
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.breaker import BreakerRule, TripCause
from setwise.service.domain.predictions import Document, Reason, Submission
from setwise.service.domain.reviews import ReviewKind, ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions, all_predicted
from setwise.service.stores import tables
from setwise.service.stores.database import new_id, utc_now
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.building import predict_one
from tests.fakes import LOTTERY, START, FakePredictors
from tests.kit.loop import unlike
from tests.samples import ADMIN, ANN, CLIENT, change, reset, trip

ROOT = Path(__file__).parents[2]
WRONG = 8


def _statistic(wrong: int) -> float:
    """Return the statistic after so many wrong audits in a row."""
    return float(drift_statistic([False] * wrong, 0.8)[-1])


# The last of the audits trips it, and no fewer do.
RULE = BreakerRule(run_length=(_statistic(WRONG - 1) + _statistic(WRONG)) / 2)


def _contradicted(begin: Transactions, n: int) -> None:
    """Have ``n`` sets audited, each of them called wrong, so that leads are to decide."""
    office = (begin, utc_now, new_id)
    audits = AuditPlan(certification_rate=1.0)
    Policies(*office).change(ADMIN, change(threshold=0.8, target_accuracy=0.8, audits=audits), None)
    predictions = Predictions(FakePredictors(), *office, LOTTERY)
    predictions.predict(
        [Submission(CLIENT, Document(text=unlike("0.9", place))) for place in range(n)]
    )
    reviews = building.reviews(*office, most_leases=n)
    while (task := reviews.queue.claim(ANN)) is not None:
        reviews.complete(ANN, task.id, ["c"], None, task.version)


def _leads(begin: Transactions, n: int) -> list[tuple[Caller, ReviewTask]]:
    claim = building.queue(begin, utc_now).claim
    held = []
    for number in range(n):
        lead = Caller(new_id(), f"lead {number}", Role.LEAD)
        task = claim(lead)
        assert task is not None
        assert task.kind is ReviewKind.ADJUDICATION
        held.append((lead, task))
    return held


def test_audits_that_end_at_one_instant_trip_it_together_and_once(engine: Engine) -> None:
    begin = Transactions(engine)
    _contradicted(begin, WRONG)
    breaker = building.breaker(begin, rule=RULE)
    complete = building.reviews(begin, utc_now, annotated=breaker.annotated).complete
    barrier = Barrier(WRONG)

    def settle(lead: Caller, task: ReviewTask) -> None:
        barrier.wait(timeout=120)
        complete(lead, task.id, ["c"], None, task.version)

    with ThreadPoolExecutor(WRONG) as pool:
        for done in [pool.submit(settle, *held) for held in _leads(begin, WRONG)]:
            done.result()
    state = building.breaker(begin, rule=RULE).get(SYSTEM)
    assert state.trip is not None
    assert len(state.trips) == 1
    assert state.trip.evidence.outcomes == "0" * WRONG
    assert breaker.watch() is None


def test_a_trip_does_not_meet_a_change_of_policy_halfway(engine: Engine) -> None:
    begin = Transactions(engine)
    _contradicted(begin, WRONG)
    breaker = building.breaker(begin, rule=RULE)
    complete = building.reviews(begin, utc_now, annotated=breaker.annotated).complete
    barrier = Barrier(2 * WRONG)
    change_policy = Policies(begin, utc_now, new_id).change
    audits = AuditPlan(certification_rate=1.0)
    wanted_change = change(
        threshold=0.85, target_accuracy=0.8, audits=audits, reason="to change it"
    )

    def together(call: Callable[[], object]) -> object:
        barrier.wait(timeout=120)
        return call()

    calls: list[Callable[[], object]] = [lambda: change_policy(ADMIN, wanted_change, None)] * WRONG
    calls += [
        lambda lead=lead, task=task: complete(lead, task.id, ["c"], None, task.version)
        for lead, task in _leads(begin, WRONG)
    ]
    with ThreadPoolExecutor(2 * WRONG) as pool:
        for done in [pool.submit(together, call) for call in calls]:
            done.result()
    state = building.breaker(begin, rule=RULE).get(SYSTEM)
    assert state.trip is not None, "no change of the policy starts sending again"
    assert len(state.trips) == 1


PROCESS = textwrap.dedent(
    """
    import sys
    sys.path.insert(0, sys.argv[2])
    from setwise.service.stores.database import create, new_id, utc_now
    from setwise.service.stores.transaction import Transactions
    from setwise.service.domain.accounts.callers import Caller, Role
    from setwise.service.domain.predictions import Document
    from setwise.service.domain.breaker import BreakerRule
    from setwise.service.services.predictions import Predictions
    from tests import building
    from tests.building import predict_one
    from tests.fakes import LOTTERY, FakePredictors
    from tests.samples import CLIENT

    begin = Transactions(create(sys.argv[1]))
    parts = (begin, utc_now, new_id)
    rule = BreakerRule(run_length=float(sys.argv[3]))
    breaker = building.breaker(begin, rule=rule)
    reviews = building.reviews(*parts, annotated=breaker.annotated)
    claim, complete = reviews.queue.claim, reviews.complete
    predictions = Predictions(FakePredictors(), *parts, LOTTERY)
    lead = Caller(new_id(), "lead", Role.LEAD)
    for order in sys.stdin:
        if order.strip() == "predict":
            print(predict_one(predictions, CLIENT, Document(text="0.95")).reason.value, flush=True)
            continue
        task = claim(lead)
        complete(lead, task.id, ["c"], None, task.version)
        print(task.id, flush=True)
    """
)


def _start(database_url: str, run_length: float) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, database_url, ROOT, str(run_length)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _order(process: "subprocess.Popen[str]", order: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{order}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def _end(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(timeout=120)
    process.stdout.close()


@pytest.mark.slow
def test_a_trip_in_one_process_stops_the_next_prediction_of_another(
    database_url: str, engine: Engine
) -> None:
    _contradicted(Transactions(engine), WRONG)
    one, other = (_start(database_url, RULE.run_length) for _ in range(2))
    for turn in range(WRONG):
        # Even while one of them audits, the other goes on sending, until the last fault.
        assert _order(other, "predict") == Reason.AUDIT.value
        assert _order(one if turn % 2 else other, "settle")
    assert _order(one, "predict") == Reason.BREAKER.value
    assert _order(other, "predict") == Reason.BREAKER.value
    _end(one)
    _end(other)


@pytest.mark.slow
def test_no_audit_is_lost_or_counted_twice_when_a_process_is_killed(
    database_url: str, engine: Engine
) -> None:
    begin = Transactions(engine)
    _contradicted(begin, 60)
    one, other = (_start(database_url, 1e300) for _ in range(2))
    for process in (one, other):
        assert process.stdin is not None
        process.stdin.write("settle\n" * 25)
        process.stdin.flush()
    assert one.stdout is not None
    acknowledged = [one.stdout.readline().strip() for _ in range(5)]
    one.send_signal(signal.SIGKILL)  # in the middle of another one
    acknowledged += one.stdout.read().split()
    _end_killed(one)
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.close()
    acknowledged += other.stdout.read().split()
    other.stdout.close()
    assert other.wait() == 0
    with engine.connect() as connection:
        said = tables.annotations.c
        count = connection.execute(
            select(func.count()).where(said.kind == ReviewKind.ADJUDICATION.value)
        ).scalar_one()
    assert count - len(acknowledged) in {0, 1}, "at most the one under way is not acknowledged"
    counts = building.breaker(begin, rule=RULE).get(SYSTEM).watch.counts()
    assert counts.audits == counts.wrong + counts.unfinished == 60
    assert counts.wrong == count
    # The schedule sees, by its own rule, what the killed process counted.
    trip = building.breaker(begin, rule=RULE).watch()
    assert trip is not None
    assert trip.evidence.wrong == count


def _end_killed(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL


def test_trips_and_resets_come_back_as_they_were_stored(begin: Transactions) -> None:
    first, second = trip(TripCause.STALE), trip()
    ended_reset = reset(first)
    with begin() as transaction:
        assert transaction.breakers.newest_trip() is None
        assert transaction.breakers.newest_reset() is None
        transaction.breakers.add(first)
        transaction.breakers.close(ended_reset)
    with begin(read_only=True) as transaction:
        breakers = transaction.breakers
        assert breakers.newest_trip() == breakers.trip(first.id) == first
        assert breakers.newest_trip(sets_evidence_aside=True) is None
        assert breakers.newest_reset() == ended_reset
        assert breakers.trip(second.id) is None
        assert breakers.trip("none") is None
        assert breakers.history(5) == [(first, ended_reset)]


def test_what_was_sent_is_counted_as_far_as_matters(begin: Transactions) -> None:
    office = (begin, utc_now, new_id)
    Policies(*office).change(
        ADMIN, change(threshold=0.8, audits=AuditPlan(certification_rate=1e-9)), None
    )
    predictions = Predictions(FakePredictors(), *office, LOTTERY)
    sent = predictions.predict([Submission(CLIENT, Document(text="0.9")) for _ in range(5)])
    predict_one(predictions, CLIENT, Document(text="0.3"))
    scorer = trip().scorer
    with begin(read_only=True) as transaction:
        unvouched = transaction.breakers.unvouched
        assert unvouched(scorer, since=None, most=9).documents == 5
        assert unvouched(scorer, since=START, most=3).documents == 3
        oldest = unvouched(scorer, since=None, most=9).oldest_at
        assert oldest == min(one.created_at for one in all_predicted(sent))
        assert unvouched(scorer, since=utc_now(), most=9) == (0, None)
        assert unvouched(scorer._replace(model_version="x"), since=None, most=9) == (0, None)
