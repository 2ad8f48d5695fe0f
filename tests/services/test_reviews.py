"""The review queue, one verb at a time."""

from dataclasses import dataclass, field

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.audit_trail import PREDICTION_CREATED
from setwise.service.domain.reviews import Annotation, ReviewState, ReviewTask
from setwise.service.services.reviews import Reviews
from tests.fakes import LOTTERY, FakeClock, FakeIds, FakePredictors
from tests.samples import ANN, BEN, CAT, LEAD, add_predictions, task
from tests.sqlite import Database


@dataclass
class Desk:
    database: Database = field(default_factory=Database)
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=FakeIds)
    predictors: FakePredictors = field(default_factory=FakePredictors)

    def __post_init__(self) -> None:
        parts = (self.database, self.now, self.new_id)
        reviews = Reviews(*parts, self.predictors, LOTTERY, most_leases=3)
        self.claim, self.extend, self.release = reviews.claim, reviews.extend, reviews.release
        self.skip, self.complete = reviews.skip, reviews.complete
        self.expire = reviews.expire_leases
        self.get = reviews.get

    def fill(self, count: int = 1) -> list[ReviewTask]:
        tasks = [task() for _ in range(count)]
        with self.database() as transaction:
            for one in tasks:
                add_predictions(transaction, one.prediction)
                transaction.reviews.add(one)
        return tasks

    def claimed(self, caller: Caller = ANN) -> ReviewTask:
        found = self.claim(caller)
        assert found is not None
        return found

    def actions(self) -> list[tuple[str, str]]:
        events = self.database.contents.events.values()
        made = [(event.actor.name, event.action) for event in events]
        return [one for one in made if one[1] != PREDICTION_CREATED]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_claim_lasts_a_quarter_of_an_hour(desk: Desk) -> None:
    desk.fill()
    claimed = desk.claimed()
    assert claimed.lease is not None
    assert (claimed.lease.expires_at - desk.now()).total_seconds() == 15 * 60


def test_a_claimed_task_goes_to_nobody_else_until_its_lease_ends(desk: Desk) -> None:
    (only,) = desk.fill()
    desk.claimed(ANN)
    desk.now.advance(minutes=14, seconds=59)
    assert desk.claim(BEN) is None
    desk.now.advance(seconds=1)
    taken = desk.claimed(BEN)
    assert (taken.id, taken.version) == (only.id, 3)
    events = desk.database.contents.events.values()
    claims = [event for event in events if event.action == "review.claimed"]
    assert [event.detail["taken_from"] for event in claims] == [None, ANN.id]


def test_a_released_task_is_the_next_one_again(desk: Desk) -> None:
    first, _ = desk.fill(2)
    desk.release(ANN.calling_from(None, "r-1"), desk.claimed(ANN).id)
    assert desk.claimed(BEN).id == first.id
    assert desk.actions()[1] == ("Ann", "review.released")


def test_a_skipped_task_goes_to_others_and_then_to_a_lead(desk: Desk) -> None:
    (only,) = desk.fill()
    desk.skip(ANN, desk.claimed(ANN).id, "illegible")
    assert desk.claim(ANN) is None
    escalated = desk.skip(BEN, desk.claimed(BEN).id, "not my field")
    assert escalated.state is ReviewState.SKIPPED
    assert desk.claim(CAT) is None
    assert desk.claimed(LEAD).id == only.id
    assert [skip.reason for skip in desk.get(LEAD, only.id).skips] == ["illegible", "not my field"]


@pytest.mark.parametrize("reason", ["", " ", "x" * 501, "\x00"])
def test_a_skip_needs_a_reason_that_can_be_kept(desk: Desk, reason: str) -> None:
    desk.fill()
    claimed = desk.claimed()
    with pytest.raises(errors.InvalidRequest) as refusal:
        desk.skip(ANN, claimed.id, reason)
    assert {fault.pointer for fault in refusal.value.faults} == {"/reason"}
    assert desk.get(ANN, claimed.id) == claimed


def test_agreement_with_the_model_is_recorded(desk: Desk) -> None:
    desk.fill()
    claimed = desk.claimed()
    desk.now.advance(seconds=12.5)
    made = desk.complete(ANN, claimed.id, ["b", "a"], "clear", claimed.version)
    expected = Annotation(
        id=made.id,
        task_id=claimed.id,
        prediction_id=claimed.prediction.id,
        reviewer=ANN.id,
        labels=("a", "b"),  # in the order of the vocabulary
        comment="clear",
        agreed=True,
        chosen_rank=0,
        suggestion_shown=True,
        seconds=12.5,
        created_at=desk.now(),
        version=claimed.version,
    )
    assert made == expected
    assert desk.database.contents.annotations == {claimed.id: made}
    assert desk.get(ANN, claimed.id).state is ReviewState.COMPLETED


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
    desk: Desk, labels: list[str], kept: tuple[str, ...], rank: int | None
) -> None:
    desk.fill()
    claimed = desk.claimed()
    made = desk.complete(ANN, claimed.id, labels, None, claimed.version)
    assert (made.labels, made.agreed, made.chosen_rank) == (kept, False, rank)


def test_labels_of_the_model_that_predicted_stay_valid_after_another_is_activated(
    desk: Desk,
) -> None:
    desk.fill()
    claimed = desk.claimed()
    assert desk.predictors.predictor is not None
    desk.predictors.predictor.labels = ("z",)
    made = desk.complete(ANN, claimed.id, ["b", "z"], None, claimed.version)
    assert set(made.labels) == {"b", "z"}


def test_unknown_and_repeated_labels_are_refused_with_their_place(desk: Desk) -> None:
    desk.fill()
    claimed = desk.claimed()
    with pytest.raises(errors.InvalidRequest) as refusal:
        desk.complete(ANN, claimed.id, ["a", "x", "a", "x\x00"], "c" * 4001, claimed.version)
    assert [fault.pointer for fault in refusal.value.faults] == [
        "/labels/1",
        "/labels/2",
        "/labels/3",
        "/comment",
    ]
    assert desk.get(ANN, claimed.id) == claimed


def test_labels_cannot_be_checked_while_no_model_serves(desk: Desk) -> None:
    desk.fill()
    claimed = desk.claimed()
    desk.predictors.predictor = None
    with pytest.raises(errors.ModelUnavailable):
        desk.complete(ANN, claimed.id, ["a"], None, claimed.version)


def test_a_completion_that_is_sent_twice_counts_once(desk: Desk) -> None:
    desk.fill()
    claimed = desk.claimed()
    first = desk.complete(ANN, claimed.id, ["a", "b"], None, claimed.version)
    desk.now.advance(seconds=3)
    assert desk.complete(ANN, claimed.id, ["b", "a"], None, claimed.version) == first
    assert desk.actions().count(("Ann", "review.completed")) == 1


@pytest.mark.parametrize(
    ("caller", "labels", "comment"),
    [(ANN, ["a"], None), (ANN, ["a", "b"], "second thoughts"), (BEN, ["a", "b"], None)],
)
def test_a_completed_task_is_settled(
    desk: Desk, caller: Caller, labels: list[str], comment: str | None
) -> None:
    desk.fill()
    claimed = desk.claimed()
    first = desk.complete(ANN, claimed.id, ["a", "b"], None, claimed.version)
    with pytest.raises(errors.ReviewAlreadyDecided):
        desk.complete(caller, claimed.id, labels, comment, claimed.version + 1)
    assert desk.database.contents.annotations == {claimed.id: first}


def test_a_clock_set_back_does_not_make_a_duration_negative(desk: Desk) -> None:
    desk.fill()
    claimed = desk.claimed()
    desk.now.advance(minutes=-5)
    assert desk.complete(ANN, claimed.id, ["a"], None, claimed.version).seconds == 0.0


def test_the_reaper_returns_silent_tasks_and_says_so(desk: Desk) -> None:
    desk.fill(250)
    parts = (desk.database, desk.now, desk.new_id, desk.predictors, LOTTERY)
    wide = Reviews(*parts, most_leases=1000)
    for _ in range(205):
        wide.claim(ANN)
    kept = desk.claimed(BEN)
    desk.now.advance(minutes=10)
    desk.extend(BEN, kept.id)
    desk.now.advance(minutes=5)
    assert desk.expire() == 205
    assert desk.expire() == 0
    assert desk.actions().count(("system", "review.lease_expired")) == 205
    states = [one.state for one in desk.database.contents.reviews.values()]
    assert (states.count(ReviewState.WAITING), states.count(ReviewState.LEASED)) == (249, 1)


def test_audit_rows_hold_neither_reasons_nor_comments_nor_labels(desk: Desk) -> None:
    desk.fill()
    desk.skip(ANN, desk.claimed(ANN).id, "patient named in text")
    claimed = desk.claimed(BEN)
    desk.complete(BEN, claimed.id, ["a"], "patient named in comment", claimed.version)
    told = str([dict(event.detail) for event in desk.database.contents.events.values()])
    assert "patient" not in told
    assert "fever" not in told
