"""A decision is stored at once, may be taken back for a while, and is told nobody before."""

from collections import Counter
from datetime import timedelta

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.reviews import ReviewKind, ReviewState, ReviewTask
from setwise.service.services.reviews.decisions import MOST_UNDOABLE
from tests.kit.clinic import Clinic
from tests.samples import ANN, BEN, CLIENT, task


@pytest.fixture
def clinic() -> Clinic:
    return Clinic(reviewing={"undo_window": timedelta(seconds=20)})


def waiting(
    clinic: Clinic, count: int = 1, caller: Caller = ANN, kind: ReviewKind = ReviewKind.REVIEW
) -> list[ReviewTask]:
    """Return fresh tasks, all of them the caller's."""
    clinic.store(*[kind] * count)
    return [clinic.claimed(caller) for _ in range(count)]


def test_a_decision_is_kept_and_nobody_is_told_yet(clinic: Clinic) -> None:
    (one,) = waiting(clinic)
    decision = clinic.reviews.decide(ANN, one.id, ["b", "a"], "sure", one.version)
    assert decision.undo_s == 20
    task = clinic.contents.reviews[one.id]
    assert task == decision.task
    assert (task.state, task.version) == (ReviewState.LEASED, one.version + 1)
    assert task.decision is not None
    assert (task.decision.labels, task.decision.comment) == (("a", "b"), "sure")
    assert clinic.annotations() == []
    assert len(clinic.messages()) == 0
    assert clinic.actions() == ["review.claimed", "review.decided"]


def test_the_newest_decisions_can_be_undone_and_older_ones_are_final(clinic: Clinic) -> None:
    first, *others = waiting(clinic, MOST_UNDOABLE + 1)
    clinic.now.advance(seconds=7)
    clinic.reviews.decide(ANN, first.id, ["a"], "why", first.version)
    for one in others:
        assert clinic.annotations() == []
        clinic.now.advance(seconds=1)
        clinic.reviews.decide(ANN, one.id, ["b"], None, one.version)
    assert clinic.contents.reviews[first.id].state is ReviewState.COMPLETED
    assert clinic.contents.reviews[first.id].decision is None
    (annotation,) = clinic.annotations()
    assert (annotation.reviewer, annotation.labels, annotation.comment) == (ANN.id, ("a",), "why")
    assert annotation.seconds == 7, "the time until the decision, not until it became final"
    assert annotation.suggestion_shown
    assert len(clinic.messages()) == 1
    assert clinic.reviews.done_within(ANN, timedelta(hours=1)) == MOST_UNDOABLE + 1
    by = [e.actor.name for e in clinic.contents.events.values() if e.subject == first.id]
    assert by == ["Ann", "Ann", "Ann"]
    for one in reversed(others):
        clinic.reviews.undo(ANN, one.id)
    assert [one.id for one in clinic.queue.mine(ANN)] == [one.id for one in others]


def test_the_last_decision_becomes_final_by_itself(clinic: Clinic) -> None:
    (one,) = waiting(clinic)
    clinic.reviews.decide(ANN, one.id, [], None, one.version)
    clinic.now.advance(seconds=19)
    assert clinic.reviews.submit_decisions() == 0
    clinic.now.advance(seconds=1)
    assert clinic.reviews.submit_decisions() == 1
    assert clinic.reviews.submit_decisions() == 0
    assert [said.labels for said in clinic.annotations()] == [()]


def test_a_decision_that_is_taken_back_leaves_the_task_as_it_was(clinic: Clinic) -> None:
    (one,) = waiting(clinic)
    clinic.reviews.decide(ANN, one.id, ["a"], None, one.version)
    clinic.now.advance(seconds=19)
    back = clinic.reviews.undo(ANN, one.id)
    assert (back.state, back.decision, back.version) == (ReviewState.LEASED, None, one.version + 2)
    assert back.lease is not None
    assert (back.lease.holder, back.lease.claimed_at) == (ANN.id, one.lease.claimed_at)
    clinic.now.advance(minutes=1)
    assert clinic.reviews.submit_decisions() == 0
    assert clinic.annotations() == []
    assert clinic.actions() == ["review.claimed", "review.decided", "review.undone"]
    clinic.reviews.decide(ANN, one.id, ["b"], None, back.version)
    clinic.now.advance(seconds=20)
    clinic.reviews.submit_decisions()
    assert [said.labels for said in clinic.annotations()] == [("b",)]


def test_a_skip_that_is_taken_back_leaves_the_task_with_its_reviewer(clinic: Clinic) -> None:
    (mine,) = waiting(clinic)
    clinic.queue.skip(ANN, mine.id, "wrong key")
    clinic.now.advance(seconds=19)
    again = clinic.reviews.undo(ANN, mine.id)
    assert (again.state, again.skips) == (ReviewState.LEASED, ())
    assert clinic.queue.mine(ANN) == [again] == [clinic.contents.reviews[mine.id]]
    assert clinic.actions()[-1] == "review.undone"


@pytest.mark.parametrize("act", ["claimed", "decided", "skipped", "late"])
def test_a_skip_is_final_once_another_has_the_task_or_its_time_is_over(
    clinic: Clinic, act: str
) -> None:
    (mine,) = waiting(clinic)
    clinic.queue.skip(ANN, mine.id, "hard")
    if act == "late":
        clinic.now.advance(seconds=20)
    else:
        theirs = clinic.claim(BEN)
        assert theirs is not None
        if act == "decided":
            clinic.reviews.complete(BEN, mine.id, ["a"], None, theirs.version)
        if act == "skipped":
            clinic.queue.skip(BEN, mine.id, "hard too")
    before = clinic.contents.reviews[mine.id]
    with pytest.raises((errors.LeaseLost, errors.ReviewAlreadyDecided)):
        clinic.reviews.undo(ANN, mine.id)
    assert clinic.contents.reviews[mine.id] == before


def test_whoever_read_the_suggestion_after_a_skip_does_not_get_the_blind_task_back(
    clinic: Clinic,
) -> None:
    (mine,) = waiting(clinic, kind=ReviewKind.AUDIT)
    clinic.queue.skip(ANN, mine.id, "hard")
    with clinic.begin() as transaction:
        transaction.reviews.note_reader(ANN.id, [mine.prediction.id], clinic.now())
    with pytest.raises(errors.LeaseLost):
        clinic.reviews.undo(ANN, mine.id)
    assert [skip.reason for skip in clinic.contents.reviews[mine.id].skips] == ["hard"]


def test_no_decision_is_lost_while_nobody_settles_it(clinic: Clinic) -> None:
    """Not even if every worker rests for a week: the lease runs out, the task stays decided."""
    (one,) = waiting(clinic)
    clinic.reviews.decide(ANN, one.id, ["a"], None, one.version)
    clinic.now.advance(days=7)
    assert clinic.queue.expire_leases() == 0
    assert clinic.claim(BEN) is None
    assert clinic.reviews.submit_decisions() == 1
    assert [(said.reviewer, said.labels) for said in clinic.annotations()] == [(ANN.id, ("a",))]


def test_the_window_closes_for_undoing_before_it_opens_for_settling(clinic: Clinic) -> None:
    (one,) = waiting(clinic)
    clinic.reviews.decide(ANN, one.id, ["a"], None, one.version)
    clinic.now.advance(seconds=20)
    with pytest.raises(errors.ReviewAlreadyDecided):
        clinic.reviews.undo(ANN, one.id)
    clinic.reviews.submit_decisions()
    with pytest.raises(errors.ReviewAlreadyDecided):
        clinic.reviews.undo(ANN, one.id)


def test_only_who_decided_takes_it_back(clinic: Clinic) -> None:
    (one,) = waiting(clinic)
    with pytest.raises(errors.LeaseLost):
        clinic.reviews.undo(ANN, one.id)
    clinic.reviews.decide(ANN, one.id, ["a"], None, one.version)
    with pytest.raises(errors.LeaseLost):
        clinic.reviews.undo(BEN, one.id)
    with pytest.raises(errors.Forbidden):
        clinic.reviews.undo(CLIENT, one.id)


def test_the_same_decision_sent_again_changes_nothing(clinic: Clinic) -> None:
    (one,) = waiting(clinic)
    first = clinic.reviews.decide(ANN, one.id, ["a", "b"], None, one.version)
    clinic.now.advance(seconds=5)
    again = clinic.reviews.decide(ANN, one.id, ["b", "a"], None, one.version)
    assert again.task == first.task
    assert again.undo_s == 15
    clinic.now.advance(seconds=15)
    clinic.reviews.submit_decisions()
    late = clinic.reviews.decide(ANN, one.id, ["a", "b"], None, one.version)
    assert late.undo_s == 0
    assert len(clinic.annotations()) == 1
    assert Counter(clinic.actions())["review.decided"] == 1


def test_another_tab_cannot_decide_otherwise(clinic: Clinic) -> None:
    (one,) = waiting(clinic)
    task = clinic.reviews.decide(ANN, one.id, ["a"], None, one.version).task
    for count in (one.version, task.version):
        with pytest.raises(errors.ReviewAlreadyDecided):
            clinic.reviews.decide(ANN, one.id, ["b"], None, count)
        with pytest.raises(errors.ReviewAlreadyDecided):
            clinic.reviews.complete(ANN, one.id, ["b"], None, count)
    with pytest.raises(errors.ReviewAlreadyDecided):
        clinic.queue.release(ANN, one.id)


def test_what_could_not_be_completed_cannot_be_decided(clinic: Clinic) -> None:
    (one,) = waiting(clinic)
    with pytest.raises(errors.InvalidRequest):
        clinic.reviews.decide(ANN, one.id, ["nonsense"], None, one.version)
    with pytest.raises(errors.VersionRequired):
        clinic.reviews.decide(ANN, one.id, ["a"], None, None)
    with pytest.raises(errors.StaleVersion):
        clinic.reviews.decide(ANN, one.id, ["a"], None, one.version - 1)
    with pytest.raises(errors.LeaseLost):
        clinic.reviews.decide(BEN, one.id, ["a"], None, one.version)
    with pytest.raises(errors.Forbidden):
        clinic.reviews.decide(CLIENT, one.id, ["a"], None, one.version)
    with pytest.raises(errors.ReviewNotFound):
        clinic.reviews.decide(ANN, task().id, ["a"], None, 1)
    assert clinic.contents.reviews[one.id] == one


def test_a_decision_stays_good_when_the_model_changes_before_it_is_final(clinic: Clinic) -> None:
    (one,) = waiting(clinic)
    clinic.reviews.decide(ANN, one.id, ["d"], None, one.version)
    clinic.predictors.predictor = None
    clinic.now.advance(seconds=20)
    assert clinic.reviews.submit_decisions() == 1


def test_without_a_window_a_decision_is_final_at_once() -> None:
    clinic = Clinic(reviewing={"undo_window": timedelta(0)})
    (one,) = waiting(clinic)
    assert clinic.reviews.decide(ANN, one.id, ["a"], None, one.version).undo_s == 0
    assert clinic.contents.reviews[one.id].state is ReviewState.COMPLETED


def test_a_decided_task_is_off_the_desk_and_counts_as_done(clinic: Clinic) -> None:
    first, second = waiting(clinic, 2)
    waiting(clinic, 1, BEN)
    assert [one.id for one in clinic.queue.mine(ANN)] == [first.id, second.id]
    clinic.reviews.decide(ANN, first.id, ["a"], None, first.version)
    assert [one.id for one in clinic.queue.mine(ANN)] == [second.id]
    assert clinic.reviews.done_within(ANN, timedelta(hours=1)) == 1
    clinic.reviews.submit_decisions_of(ANN.id)
    assert clinic.reviews.done_within(ANN, timedelta(hours=1)) == 1
    clinic.now.advance(hours=2)
    assert clinic.reviews.done_within(ANN, timedelta(hours=1)) == 0
    with pytest.raises(errors.ReviewNotFound):
        clinic.queue.my_task(BEN, second.id)
