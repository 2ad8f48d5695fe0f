"""A decision is stored at once, may be taken back for a while, and is told nobody before."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.audit_trail import PREDICTION_CREATED
from setwise.service.domain.reviews import Annotation, ReviewState, ReviewTask
from setwise.service.services.reviews import MOST_UNDOABLE, Reviews
from tests.fakes import LOTTERY, FakeClock, FakeIds, FakePredictors
from tests.samples import ANN, BEN, CLIENT, add_predictions, task
from tests.sqlite import Database


@dataclass
class Desk:
    window: timedelta = timedelta(seconds=20)
    database: Database = field(default_factory=Database)
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=FakeIds)
    predictors: FakePredictors = field(default_factory=FakePredictors)

    def __post_init__(self) -> None:
        parts = (self.database, self.now, self.new_id)
        reviews = Reviews(*parts, self.predictors, LOTTERY, undo_window=self.window)
        self.claim, self.release = reviews.claim, reviews.release
        self.expire, self.complete = reviews.expire_leases, reviews.complete
        self.decide, self.undo = reviews.decide, reviews.undo
        self.settle, self.settle_of = reviews.submit_decisions, reviews.submit_decisions_of
        self.mine, self.my_task = reviews.mine, reviews.my_task
        self.done_within = reviews.done_within

    def claimed(self, count: int = 1, caller: Caller = ANN) -> list[ReviewTask]:
        """Return fresh tasks, all of them the caller's."""
        with self.database() as transaction:
            for one in (task() for _ in range(count)):
                add_predictions(transaction, one.prediction)
                transaction.reviews.add(one)
        found = [self.claim(caller) for _ in range(count)]
        assert all(found)
        return found

    def stored(self, task_id: str) -> ReviewTask:
        return self.database.contents.reviews[task_id]

    def annotations(self) -> list[Annotation]:
        return list(self.database.contents.annotations.values())

    def messages(self) -> int:
        return len(self.database.contents.messages)

    def actions(self) -> list[str]:
        events = self.database.contents.events.values()
        return [event.action for event in events if event.action != PREDICTION_CREATED]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_decision_is_kept_and_nobody_is_told_yet(desk: Desk) -> None:
    (one,) = desk.claimed()
    decided = desk.decide(ANN, one.id, ["b", "a"], "sure", one.version)
    assert decided.undo_s == 20
    kept = desk.stored(one.id)
    assert kept == decided.task
    assert (kept.state, kept.version) == (ReviewState.LEASED, one.version + 1)
    assert kept.decision is not None
    assert (kept.decision.labels, kept.decision.comment) == (("a", "b"), "sure")
    assert desk.annotations() == []
    assert desk.messages() == 0
    assert desk.actions() == ["review.claimed", "review.decided"]


def test_the_newest_decisions_can_be_undone_and_older_ones_are_final(desk: Desk) -> None:
    first, *others = desk.claimed(MOST_UNDOABLE + 1)
    desk.now.advance(seconds=7)
    desk.decide(ANN, first.id, ["a"], "why", first.version)
    for one in others:
        assert desk.annotations() == []
        desk.now.advance(seconds=1)
        desk.decide(ANN, one.id, ["b"], None, one.version)
    assert desk.stored(first.id).state is ReviewState.COMPLETED
    assert desk.stored(first.id).decision is None
    (said,) = desk.annotations()
    assert (said.reviewer, said.labels, said.comment) == (ANN.id, ("a",), "why")
    assert said.seconds == 7, "the time until the decision, not until it became final"
    assert said.suggestion_shown
    assert desk.messages() == 1
    assert desk.done_within(ANN, timedelta(hours=1)) == MOST_UNDOABLE + 1
    by = [e.actor.name for e in desk.database.contents.events.values() if e.subject == first.id]
    assert by == ["Ann", "Ann", "Ann"]
    for one in reversed(others):
        desk.undo(ANN, one.id)
    assert [one.id for one in desk.mine(ANN)] == [one.id for one in others]


def test_the_last_decision_becomes_final_by_itself(desk: Desk) -> None:
    (one,) = desk.claimed()
    desk.decide(ANN, one.id, [], None, one.version)
    desk.now.advance(seconds=19)
    assert desk.settle() == 0
    desk.now.advance(seconds=1)
    assert desk.settle() == 1
    assert desk.settle() == 0
    assert [said.labels for said in desk.annotations()] == [()]


def test_a_decision_that_is_taken_back_leaves_the_task_as_it_was(desk: Desk) -> None:
    (one,) = desk.claimed()
    desk.decide(ANN, one.id, ["a"], None, one.version)
    desk.now.advance(seconds=19)
    back = desk.undo(ANN, one.id)
    assert (back.state, back.decision, back.version) == (ReviewState.LEASED, None, one.version + 2)
    assert back.lease is not None
    assert (back.lease.holder, back.lease.claimed_at) == (ANN.id, one.lease.claimed_at)
    desk.now.advance(minutes=1)
    assert desk.settle() == 0
    assert desk.annotations() == []
    assert desk.actions() == ["review.claimed", "review.decided", "review.undone"]
    desk.decide(ANN, one.id, ["b"], None, back.version)
    desk.now.advance(seconds=20)
    desk.settle()
    assert [said.labels for said in desk.annotations()] == [("b",)]


def test_no_decision_is_lost_while_nobody_settles_it(desk: Desk) -> None:
    """Not even if every worker rests for a week: the lease runs out, the task stays decided."""
    (one,) = desk.claimed()
    desk.decide(ANN, one.id, ["a"], None, one.version)
    desk.now.advance(days=7)
    assert desk.expire() == 0
    assert desk.claim(BEN) is None
    assert desk.settle() == 1
    assert [(said.reviewer, said.labels) for said in desk.annotations()] == [(ANN.id, ("a",))]


def test_the_window_closes_for_undoing_before_it_opens_for_settling(desk: Desk) -> None:
    (one,) = desk.claimed()
    desk.decide(ANN, one.id, ["a"], None, one.version)
    desk.now.advance(seconds=20)
    with pytest.raises(errors.ReviewAlreadyDecided):
        desk.undo(ANN, one.id)
    desk.settle()
    with pytest.raises(errors.ReviewAlreadyDecided):
        desk.undo(ANN, one.id)


def test_only_who_decided_takes_it_back(desk: Desk) -> None:
    (one,) = desk.claimed()
    with pytest.raises(errors.LeaseLost):
        desk.undo(ANN, one.id)
    desk.decide(ANN, one.id, ["a"], None, one.version)
    with pytest.raises(errors.LeaseLost):
        desk.undo(BEN, one.id)
    with pytest.raises(errors.Forbidden):
        desk.undo(CLIENT, one.id)


def test_the_same_decision_sent_again_changes_nothing(desk: Desk) -> None:
    (one,) = desk.claimed()
    first = desk.decide(ANN, one.id, ["a", "b"], None, one.version)
    desk.now.advance(seconds=5)
    again = desk.decide(ANN, one.id, ["b", "a"], None, one.version)
    assert again.task == first.task
    assert again.undo_s == 15
    desk.now.advance(seconds=15)
    desk.settle()
    late = desk.decide(ANN, one.id, ["a", "b"], None, one.version)
    assert late.undo_s == 0
    assert len(desk.annotations()) == 1
    assert Counter(desk.actions())["review.decided"] == 1


def test_another_tab_cannot_decide_otherwise(desk: Desk) -> None:
    (one,) = desk.claimed()
    decided = desk.decide(ANN, one.id, ["a"], None, one.version).task
    for seen in (one.version, decided.version):
        with pytest.raises(errors.ReviewAlreadyDecided):
            desk.decide(ANN, one.id, ["b"], None, seen)
        with pytest.raises(errors.ReviewAlreadyDecided):
            desk.complete(ANN, one.id, ["b"], None, seen)
    with pytest.raises(errors.ReviewAlreadyDecided):
        desk.release(ANN, one.id)


def test_what_could_not_be_completed_cannot_be_decided(desk: Desk) -> None:
    (one,) = desk.claimed()
    with pytest.raises(errors.InvalidRequest):
        desk.decide(ANN, one.id, ["nonsense"], None, one.version)
    with pytest.raises(errors.VersionRequired):
        desk.decide(ANN, one.id, ["a"], None, None)
    with pytest.raises(errors.StaleVersion):
        desk.decide(ANN, one.id, ["a"], None, one.version - 1)
    with pytest.raises(errors.LeaseLost):
        desk.decide(BEN, one.id, ["a"], None, one.version)
    with pytest.raises(errors.Forbidden):
        desk.decide(CLIENT, one.id, ["a"], None, one.version)
    with pytest.raises(errors.ReviewNotFound):
        desk.decide(ANN, task().id, ["a"], None, 1)
    assert desk.stored(one.id) == one


def test_a_decision_stays_good_when_the_model_changes_before_it_is_final(desk: Desk) -> None:
    (one,) = desk.claimed()
    desk.decide(ANN, one.id, ["d"], None, one.version)
    desk.predictors.predictor = None
    desk.now.advance(seconds=20)
    assert desk.settle() == 1


def test_without_a_window_a_decision_is_final_at_once() -> None:
    desk = Desk(window=timedelta(0))
    (one,) = desk.claimed()
    assert desk.decide(ANN, one.id, ["a"], None, one.version).undo_s == 0
    assert desk.stored(one.id).state is ReviewState.COMPLETED


def test_a_decided_task_is_off_the_desk_and_counts_as_done(desk: Desk) -> None:
    first, second = desk.claimed(2)
    desk.claimed(1, BEN)
    assert [one.id for one in desk.mine(ANN)] == [first.id, second.id]
    desk.decide(ANN, first.id, ["a"], None, first.version)
    assert [one.id for one in desk.mine(ANN)] == [second.id]
    assert desk.done_within(ANN, timedelta(hours=1)) == 1
    desk.settle_of(ANN.id)
    assert desk.done_within(ANN, timedelta(hours=1)) == 1
    desk.now.advance(hours=2)
    assert desk.done_within(ANN, timedelta(hours=1)) == 0
    with pytest.raises(errors.ReviewNotFound):
        desk.my_task(BEN, second.id)
