"""Any order of claims, heartbeats, skips and silences leaves the queue right.

A state machine compares the services with a model of the queue.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from setwise.service.domain.accounts.callers import Caller, Role
from setwise.service.domain.errors import Conflict, ServiceError, StaleVersion, TooManyLeases
from setwise.service.domain.reviews import ReviewState, ReviewTask
from tests import building
from tests.fakes import FakeClock, FakeIds
from tests.kit.databases import Database
from tests.samples import ADMIN, ANN, BEN, CAT, LEAD, add_predictions, task

LEASE = timedelta(minutes=15)
MOST_LEASES = 3
people = st.sampled_from([ANN, BEN, CAT, LEAD])


class QueueMachine(RuleBasedStateMachine):
    """Five services, four people, a clock, in any order.

    What the machine knows of a task is what the services have answered: its last version, who holds
    it until when, who skipped it, whether it is settled. It never looks into the database.
    """

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.begin = Database()
        self.now = FakeClock()
        parts = (self.begin, self.now, FakeIds(0x2000_0000))
        self.reviews = building.reviews(*parts, lease=LEASE, most_leases=MOST_LEASES)
        self.queue = self.reviews.queue
        self.versions: dict[str, int] = {}
        self.leases: dict[str, tuple[str, object]] = {}
        self.skips: dict[str, list[str]] = {}
        self.settled: dict[str, ReviewTask] = {}

    @initialize(count=st.integers(1, 6))
    def fill(self, count: int) -> None:
        with self.begin() as transaction:
            for _ in range(count):
                one = task()
                add_predictions(transaction, one.prediction)
                transaction.reviews.add(one)
                self.versions[one.id] = one.version
                self.skips[one.id] = []

    @rule(target=held, who=people)
    def claim(self, who: Caller) -> object:
        live = [holder for holder, ends in self.leases.values() if ends > self.now()]
        if live.count(who.id) >= MOST_LEASES:
            try:
                self.queue.claim(who)
            except TooManyLeases:
                return multiple()
            raise AssertionError(f"{who.name} holds more than {MOST_LEASES} tasks")
        expected = self.expected_for(who)
        task = self.queue.claim(who)
        assert (task and task.id) == expected
        if task is None:
            return multiple()
        self.note(task)
        return task.id, who, task.version

    def expected_for(self, who: Caller) -> str | None:
        """Return the task that ``who`` should be given: hard ones first to leads, then by age."""
        leads = who.role is not Role.REVIEWER
        claimable = [
            one
            for one in self.versions
            if one not in self.settled
            and who.id not in self.skips[one]
            and (leads or len(self.skips[one]) < 2)
            and not (one in self.leases and self.leases[one][1] > self.now())
        ]
        return min(claimable, key=lambda one: (len(self.skips[one]) < 2, one), default=None)

    @rule(lease=held)
    def extend(self, lease: tuple[str, Caller, int]) -> None:
        one, who, _ = lease
        if self.holds(one, who):
            task = self.queue.extend(who, one)
            assert task.version == self.versions[one]
            assert task.lease is not None
            self.leases[one] = (who.id, task.lease.expires_at)
        else:
            self.refused(lambda: self.queue.extend(who, one))

    @rule(lease=held)
    def release(self, lease: tuple[str, Caller, int]) -> None:
        one, who, _ = lease
        if self.holds(one, who):
            self.note(self.queue.release(who, one))
        else:
            self.refused(lambda: self.queue.release(who, one))

    @rule(lease=held)
    def skip(self, lease: tuple[str, Caller, int]) -> None:
        one, who, _ = lease
        if self.holds(one, who):
            task = self.queue.skip(who, one, "hard")
            self.skips[one].append(who.id)
            self.note(task)
            assert (task.state is ReviewState.SKIPPED) == (len(self.skips[one]) >= 2)
        else:
            self.refused(lambda: self.queue.skip(who, one, "hard"))

    @rule(lease=held)
    def complete(self, lease: tuple[str, Caller, int]) -> None:
        one, who, version = lease
        if self.holds(one, who) and version == self.versions[one]:
            annotation = self.reviews.complete(who, one, ["a"], None, version)
            assert annotation.reviewer == who.id
            self.settled[one] = self.queue.get(ADMIN, one)
            self.note(self.settled[one])
        else:
            before = self.queue.get(ADMIN, one)
            try:
                self.reviews.complete(who, one, ["b"], "too late", version)
            except (Conflict, StaleVersion):
                assert self.queue.get(ADMIN, one) == before
            else:
                raise AssertionError("a lost lease completed a task")

    @rule(minutes=st.sampled_from([1, 14, 15]))
    def wait(self, minutes: int) -> None:
        self.now.advance(minutes=minutes)

    @rule()
    def reap(self) -> None:
        silent = [one for one, (_, ends) in self.leases.items() if ends <= self.now()]
        assert self.queue.expire_leases() == len(silent)
        for one in silent:
            del self.leases[one]
            self.versions[one] += 1

    @precondition(lambda self: self.settled)
    @rule(who=people, data=st.data())
    def touch_what_is_settled(self, who: Caller, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(sorted(self.settled)))
        for verb in (self.queue.extend, self.queue.release):
            self.refused(lambda verb=verb: verb(who, one))

    @invariant()
    def every_task_is_as_the_answers_said(self) -> None:
        by_id = {one.id: one for one in self.queue.page(ADMIN, limit=200).items}
        assert {one: task.version for one, task in by_id.items()} == self.versions
        for one, found_task in by_id.items():
            lease = found_task.lease and (found_task.lease.holder, found_task.lease.expires_at)
            assert lease == self.leases.get(one)
            assert [skip.reviewer for skip in found_task.skips] == self.skips[one]
        assert {one: by_id[one] for one in self.settled} == self.settled

    def holds(self, one: str, who: Caller) -> bool:
        return one in self.leases and self.leases[one][0] == who.id

    def note(self, answered: ReviewTask) -> None:
        assert answered.version == self.versions[answered.id] + 1
        self.versions[answered.id] = answered.version
        if answered.lease is None:
            self.leases.pop(answered.id, None)
        else:
            self.leases[answered.id] = (answered.lease.holder, answered.lease.expires_at)

    @staticmethod
    def refused(call: Callable[[], object]) -> None:
        try:
            call()
        except ServiceError:
            return
        raise AssertionError("somebody changed a task that was not theirs")


class TestQueue(QueueMachine.TestCase):
    settings = settings(max_examples=8, stateful_step_count=25)


@pytest.mark.verify
class TestQueueAtLength(QueueMachine.TestCase):
    settings = settings(max_examples=300, stateful_step_count=40)
