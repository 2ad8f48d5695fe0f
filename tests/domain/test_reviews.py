"""What may happen to a review task, and to whom it belongs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.errors import LeaseLost, ReviewAlreadyDecided, StaleVersion
from setwise.service.domain.predictions import Decision, Document, Priority
from setwise.service.domain.reviews import (
    QueuePlace,
    ReviewKind,
    ReviewState,
    ReviewTask,
    rival_answers,
)
from tests.fakes import START
from tests.samples import ANN, BEN, CAT, annotation, leased, prediction, task

QUARTER = timedelta(minutes=15)
LATER = START + timedelta(hours=1)


def skipped_by(*reviewers: str) -> ReviewTask:
    skipped_task = task()
    for reviewer in reviewers:
        skipped_task = skipped_task.claimed(reviewer, START, QUARTER).skipped(
            reviewer, "why", START
        )
    return skipped_task


def test_a_claim_leases_the_task_for_a_while_and_makes_a_new_version() -> None:
    claimed_task = task().claimed(ANN.id, START, QUARTER)
    assert claimed_task.state is ReviewState.LEASED
    assert claimed_task.version == 2
    assert claimed_task.lease is not None
    assert (claimed_task.lease.holder, claimed_task.lease.claimed_at) == (ANN.id, START)
    assert claimed_task.lease.expires_at == START + QUARTER


def test_a_heartbeat_moves_the_end_of_the_lease_and_nothing_else() -> None:
    task = leased()
    extended_task = task.extended(ANN.id, LATER, QUARTER)
    assert extended_task.version == task.version
    assert extended_task.lease is not None
    assert extended_task.lease.claimed_at == START
    assert extended_task.lease.expires_at == LATER + QUARTER


def test_a_released_task_waits_again() -> None:
    task = leased().released(ANN.id)
    assert (task.state, task.lease, task.version) == (ReviewState.WAITING, None, 3)


def test_one_skip_passes_the_task_to_somebody_else() -> None:
    once = skipped_by(ANN.id)
    assert once.state is ReviewState.WAITING
    assert not once.claimable_by(ANN.id, START, escalated=False)
    assert once.claimable_by(BEN.id, START, escalated=False)


def test_two_skips_pass_the_task_to_a_lead() -> None:
    twice = skipped_by(ANN.id, BEN.id)
    assert twice.state is ReviewState.SKIPPED
    assert [skip.reviewer for skip in twice.skips] == [ANN.id, BEN.id]
    assert not twice.claimable_by(CAT.id, START, escalated=False)
    assert twice.claimable_by(CAT.id, START, escalated=True)


def test_an_escalated_task_stays_so_when_a_lead_gives_it_back_or_goes_silent() -> None:
    task = skipped_by(ANN.id, BEN.id).claimed("lead", START, QUARTER)
    assert task.released("lead").state is ReviewState.SKIPPED
    assert task.expired().state is ReviewState.SKIPPED
    # Neither may a plain reviewer claim it once the lead's lease has run out.
    assert not task.claimable_by(CAT.id, LATER, escalated=False)
    assert task.claimable_by("other lead", LATER, escalated=True)


def test_a_leased_task_can_be_claimed_from_the_instant_its_lease_ends() -> None:
    task = leased()
    assert task.lease is not None
    end = task.lease.expires_at
    just_before = end - timedelta(microseconds=1)
    assert not task.claimable_by(BEN.id, just_before, escalated=False)
    assert task.claimable_by(BEN.id, end, escalated=False)


def test_the_holder_completes_the_task_at_the_version_that_they_saw() -> None:
    task = leased().completed(ANN.id, 2)
    assert (task.state, task.lease, task.version) == (ReviewState.COMPLETED, None, 3)


def test_a_lease_that_ran_out_unclaimed_still_lets_its_holder_finish() -> None:
    task = leased()
    assert task.claimable_by(BEN.id, LATER, escalated=False)
    assert task.completed(ANN.id, 2).state is ReviewState.COMPLETED


@pytest.mark.parametrize("version", [1, 3, -1])
def test_completion_at_another_version_is_refused(version: int) -> None:
    with pytest.raises(StaleVersion, match=f"at version 2, not {version}"):
        leased().completed(ANN.id, version)


def test_a_reviewer_whose_task_was_claimed_again_is_fenced_off() -> None:
    task = leased().claimed(BEN.id, LATER, QUARTER)
    with pytest.raises(StaleVersion):
        task.completed(ANN.id, 2)
    with pytest.raises(LeaseLost):
        task.completed(ANN.id, 3)


CHANGES = {
    "extended": lambda it: it.extended(ANN.id, START, QUARTER),
    "released": lambda it: it.released(ANN.id),
    "skipped": lambda it: it.skipped(ANN.id, "why", START),
    "completed": lambda it: it.completed(ANN.id, it.version),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("other", [task(), leased(BEN)], ids=["waiting", "leased to Ben"])
def test_only_the_holder_changes_a_task(change, other: ReviewTask) -> None:
    with pytest.raises(LeaseLost):
        change(other)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_completed_task_stays_as_it_is(change) -> None:
    task = leased().completed(ANN.id, 2)
    with pytest.raises(ReviewAlreadyDecided):
        change(task)
    assert not task.claimable_by(BEN.id, LATER, escalated=True)


@pytest.mark.parametrize(
    ("answer", "rivals"),
    [(("b", "a"), ()), (("c", "a"), (("a", "b"), ("a", "c")))],
    ids=["an equal set in another order", "another set"],
)
def test_answers_differ_by_their_labels_and_never_by_their_order(
    answer: tuple[str, ...], rivals: tuple[tuple[str, ...], ...]
) -> None:
    audit = replace(annotation(task(), *answer), kind=ReviewKind.AUDIT)
    assert rival_answers(("a", "b"), [audit]) == rivals


@pytest.mark.parametrize(
    ("waiting", "who"),
    [
        (replace(task(), kind=ReviewKind.ADJUDICATION, answers=(("a",), ("b",))), "a lead decides"),
        (replace(task(), kind=ReviewKind.ADJUDICATION), "A lead reads"),
        (replace(task(), kind=ReviewKind.OVERLAP), "Another reviewer"),
        (replace(task(), kind=ReviewKind.AUDIT), "Another reviewer"),
        (replace(task(), kind=ReviewKind.REOPENED), "a reviewer decides again"),
        (skipped_by(ANN.id, BEN.id), "a lead decides"),
        (task(), "no decision yet"),
    ],
)
def test_an_open_review_says_whom_it_waits_for(waiting: ReviewTask, who: str) -> None:
    assert who in waiting.awaited
    assert waiting.awaited.endswith("It waits in the queue.")
    assert waiting.claimed(CAT.id, START, QUARTER).awaited.endswith("It is being read.")


instants = st.datetimes(timezones=st.just(UTC))
priorities = st.sampled_from(Priority)
YEAR = timedelta(days=365)
arrivals = st.integers(0, 40_000).map(lambda days: START + timedelta(days=days))


@given(priorities, st.none() | instants, arrivals, st.sampled_from(ReviewKind), st.booleans())
def test_a_place_depends_on_the_request_alone(
    priority: Priority, due_at: datetime | None, came: datetime, kind: ReviewKind, sent: bool
) -> None:
    document = Document(text="x", priority=priority, due_at=due_at)
    of = prediction(document=document, decision=Decision.AUTO if sent else Decision.REVIEW)
    place = QueuePlace.due(priority, due_at, came)
    assert replace(task(of), kind=kind, created_at=came).place == place
    assert came - YEAR <= place.queued_at <= came, "a due time never delays"


@given(priorities, instants, instants, arrivals)
def test_hurry_never_loses_a_place(
    priority: Priority, due_at: datetime, later: datetime, came: datetime
) -> None:
    due_at, later = sorted((due_at, later))
    places = [QueuePlace.due(priority, due, came) for due in (due_at, later, None)]
    assert places == sorted(places)
    assert priority == 2 or QueuePlace.due(priority + 1, None, came) < places[0]
