"""The review queue, one verb at a time."""

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.reviews import Annotation, ReviewState
from tests import building
from tests.kit.clinic import Clinic
from tests.samples import ANN, BEN, CAT, LEAD


def test_a_claim_lasts_a_quarter_of_an_hour(clinic: Clinic) -> None:
    clinic.store()
    task = clinic.claimed()
    assert task.lease is not None
    assert (task.lease.expires_at - clinic.now()).total_seconds() == 15 * 60


def test_a_claimed_task_goes_to_nobody_else_until_its_lease_ends(clinic: Clinic) -> None:
    (only,) = clinic.store()
    clinic.claimed(ANN)
    clinic.now.advance(minutes=14, seconds=59)
    assert clinic.claim(BEN) is None
    clinic.now.advance(seconds=1)
    task = clinic.claimed(BEN)
    assert (task.id, task.version) == (only.id, 3)
    events = clinic.contents.events.values()
    claims = [event for event in events if event.action == "review.claimed"]
    assert [event.detail["taken_from"] for event in claims] == [None, ANN.id]


def test_a_released_task_is_the_next_one_again(clinic: Clinic) -> None:
    first, _ = clinic.store(*["review"] * 2)
    clinic.queue.release(ANN.calling_from(None, "r-1"), clinic.claimed(ANN).id)
    assert clinic.claimed(BEN).id == first.id
    assert clinic.deeds()[1] == ("Ann", "review.released")


def test_a_skipped_task_goes_to_others_and_then_to_a_lead(clinic: Clinic) -> None:
    (only,) = clinic.store()
    clinic.queue.skip(ANN, clinic.claimed(ANN).id, "illegible")
    assert clinic.claim(ANN) is None
    task = clinic.queue.skip(BEN, clinic.claimed(BEN).id, "not my field")
    assert task.state is ReviewState.SKIPPED
    assert clinic.claim(CAT) is None
    assert clinic.claimed(LEAD).id == only.id
    skips = clinic.queue.get(LEAD, only.id).skips
    assert [skip.reason for skip in skips] == [
        "illegible",
        "not my field",
    ]


@pytest.mark.parametrize("reason", ["", " ", "x" * 501, "\x00"])
def test_a_skip_needs_a_reason_that_can_be_kept(clinic: Clinic, reason: str) -> None:
    clinic.store()
    task = clinic.claimed()
    with pytest.raises(errors.InvalidRequest) as refusal:
        clinic.queue.skip(ANN, task.id, reason)
    assert {fault.pointer for fault in refusal.value.faults} == {"/reason"}
    assert clinic.queue.get(ANN, task.id) == task


def test_agreement_with_the_model_is_recorded(clinic: Clinic) -> None:
    clinic.store()
    task = clinic.claimed()
    clinic.now.advance(seconds=12.5)
    annotation = clinic.reviews.complete(ANN, task.id, ["b", "a"], "clear", task.version)
    expected = Annotation(
        id=annotation.id,
        task_id=task.id,
        prediction_id=task.prediction.id,
        reviewer=ANN.id,
        labels=("a", "b"),  # in the order of the vocabulary
        comment="clear",
        agreed=True,
        chosen_rank=0,
        suggestion_shown=True,
        seconds=12.5,
        created_at=clinic.now(),
        version=task.version,
    )
    assert annotation == expected
    assert clinic.contents.annotations == {task.id: annotation}
    assert clinic.queue.get(ANN, task.id).state is ReviewState.COMPLETED


@pytest.mark.parametrize(
    ("labels", "kept", "rank"),
    [
        (["a"], ("a",), 1),
        ([], (), 2),
        (["d", "c"], ("c", "d"), None),
        (["old-code", "d"], ("d", "old-code"), None),
    ],
)
def test_a_correction_records_which_candidate_was_chosen_if_any(
    clinic: Clinic, labels: list[str], kept: tuple[str, ...], rank: int | None
) -> None:
    clinic.store()
    task = clinic.claimed()
    annotation = clinic.reviews.complete(ANN, task.id, labels, None, task.version)
    assert (annotation.labels, annotation.agreed, annotation.chosen_rank) == (kept, False, rank)


def test_labels_of_the_model_that_predicted_stay_valid_after_another_is_activated(
    clinic: Clinic,
) -> None:
    clinic.store()
    task = clinic.claimed()
    assert clinic.predictors.predictor is not None
    clinic.predictors.predictor.labels = ("z",)
    annotation = clinic.reviews.complete(ANN, task.id, ["b", "z"], None, task.version)
    assert set(annotation.labels) == {"b", "z"}


def test_unknown_and_repeated_labels_are_refused_with_their_place(clinic: Clinic) -> None:
    clinic.store()
    task = clinic.claimed()
    with pytest.raises(errors.InvalidRequest) as refusal:
        clinic.reviews.complete(ANN, task.id, ["a", "x", "a", "x\x00"], "c" * 4001, task.version)
    assert [fault.pointer for fault in refusal.value.faults] == [
        "/labels/1",
        "/labels/2",
        "/labels/3",
        "/comment",
    ]
    assert clinic.queue.get(ANN, task.id) == task


def test_labels_cannot_be_checked_while_the_model_loads(clinic: Clinic) -> None:
    clinic.store()
    task = clinic.claimed()
    clinic.predictors.unload()
    with pytest.raises(errors.ModelLoading):
        clinic.reviews.complete(ANN, task.id, ["a"], None, task.version)


def test_a_completion_that_is_sent_twice_counts_once(clinic: Clinic) -> None:
    clinic.store()
    task = clinic.claimed()
    first = clinic.reviews.complete(ANN, task.id, ["a", "b"], None, task.version)
    clinic.now.advance(seconds=3)
    assert clinic.reviews.complete(ANN, task.id, ["b", "a"], None, task.version) == first
    assert clinic.deeds().count(("Ann", "review.completed")) == 1


@pytest.mark.parametrize(
    ("caller", "labels", "comment"),
    [(ANN, ["a"], None), (ANN, ["a", "b"], "second thoughts"), (BEN, ["a", "b"], None)],
)
def test_a_completed_task_is_settled(
    clinic: Clinic, caller: Caller, labels: list[str], comment: str | None
) -> None:
    clinic.store()
    task = clinic.claimed()
    first = clinic.reviews.complete(ANN, task.id, ["a", "b"], None, task.version)
    with pytest.raises(errors.ReviewAlreadyDecided):
        clinic.reviews.complete(caller, task.id, labels, comment, task.version + 1)
    assert clinic.contents.annotations == {task.id: first}


def test_a_clock_set_back_does_not_make_a_duration_negative(clinic: Clinic) -> None:
    clinic.store()
    task = clinic.claimed()
    clinic.now.advance(minutes=-5)
    assert clinic.reviews.complete(ANN, task.id, ["a"], None, task.version).seconds == 0.0


def test_the_reaper_returns_silent_tasks_and_says_so(clinic: Clinic) -> None:
    clinic.store(*["review"] * 250)
    wide = building.queue(*clinic.parts, most_leases=1000)
    for _ in range(205):
        wide.claim(ANN)
    task = clinic.claimed(BEN)
    clinic.now.advance(minutes=10)
    clinic.queue.extend(BEN, task.id)
    clinic.now.advance(minutes=5)
    assert clinic.queue.expire_leases() == 205
    assert clinic.queue.expire_leases() == 0
    assert clinic.deeds().count(("system", "review.lease_expired")) == 205
    states = [one.state for one in clinic.contents.reviews.values()]
    assert (states.count(ReviewState.WAITING), states.count(ReviewState.LEASED)) == (249, 1)


def test_audit_rows_hold_neither_reasons_nor_comments_nor_labels(clinic: Clinic) -> None:
    clinic.store()
    clinic.queue.skip(ANN, clinic.claimed(ANN).id, "patient named in text")
    task = clinic.claimed(BEN)
    clinic.reviews.complete(BEN, task.id, ["a"], "patient named in comment", task.version)
    text = str([dict(event.detail) for event in clinic.contents.events.values()])
    assert "patient" not in text
    assert "fever" not in text
