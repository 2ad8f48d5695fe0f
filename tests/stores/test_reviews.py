"""The review queue."""

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.predictions import Candidate, Document, Reason
from setwise.service.domain.reviews import (
    EVERYTHING,
    Annotation,
    HeldDecision,
    QueueFilter,
    ReviewKind,
    ReviewState,
    ReviewTask,
    rival_answers,
)
from setwise.service.domain.routing.audits import Selection
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, Segment
from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.samples import ANN, BEN, CAT, LEAD, add_predictions, prediction, task

QUARTER = timedelta(minutes=15)


def store(begin: Transactions, *tasks: ReviewTask) -> None:
    with begin() as transaction:
        for one in tasks:
            add_predictions(transaction, one.prediction)
            transaction.reviews.add(one)


def save(begin: Transactions, changed: ReviewTask) -> ReviewTask:
    with begin() as transaction:
        transaction.reviews.save(changed)
    return changed


def read(begin: Transactions, task_id: str) -> ReviewTask | None:
    with begin(read_only=True) as transaction:
        return transaction.reviews.get(task_id)


def next_for(
    begin: Transactions,
    reviewer: Caller,
    now: datetime = START,
    *,
    escalated: bool = False,
    only: str | None = None,
    wanted: QueueFilter = EVERYTHING,
    segment: Segment = ALL_DOCUMENTS,
) -> ReviewTask | None:
    with begin() as transaction:
        return transaction.reviews.next_for(
            reviewer.id, now, escalated=escalated, only=only, filters=wanted, segment=segment
        )


def annotation(of: ReviewTask) -> Annotation:
    return Annotation(
        id=prediction().id,
        task_id=of.id,
        prediction_id=of.prediction.id,
        reviewer=ANN.id,
        labels=("a", "d"),
        comment=None,
        agreed=False,
        chosen_rank=None,
        suggestion_shown=True,
        seconds=12.5,
        created_at=START,
    )


def test_a_task_comes_back_as_it_was_in_every_state(begin: Transactions) -> None:
    waiting = task()
    store(begin, waiting)
    assert read(begin, waiting.id) == waiting
    leased_task = save(begin, waiting.claimed(ANN.id, START, QUARTER))
    assert read(begin, waiting.id) == leased_task
    extended_task = save(begin, leased_task.extended(ANN.id, START + QUARTER, QUARTER))
    assert read(begin, waiting.id) == extended_task
    skipped_task = save(begin, extended_task.skipped(ANN.id, 'not "mine"', START))
    assert read(begin, waiting.id) == skipped_task
    again = save(begin, skipped_task.claimed(BEN.id, START, QUARTER))
    escalated_task = save(begin, again.skipped(BEN.id, "hard", START - QUARTER))
    assert escalated_task.state is ReviewState.SKIPPED
    assert read(begin, waiting.id) == escalated_task
    last = save(begin, escalated_task.claimed(LEAD.id, START, QUARTER))
    completed_task = save(begin, last.completed(LEAD.id, last.version))
    assert read(begin, waiting.id) == completed_task


def test_the_oldest_claimable_task_is_next(begin: Transactions) -> None:
    leased_task, oldest, newer = task(), task(), task()
    store(begin, newer, oldest, leased_task)
    save(begin, leased_task.claimed(ANN.id, START, QUARTER))
    assert next_for(begin, BEN) == oldest
    assert next_for(begin, BEN) == oldest  # nothing was committed
    save(begin, oldest.claimed(BEN.id, START, QUARTER))
    assert next_for(begin, CAT) == newer


def test_a_task_whose_lease_ran_out_is_next_before_newer_ones(begin: Transactions) -> None:
    silent, newer = task(), task()
    store(begin, silent, newer)
    leased_task = save(begin, silent.claimed(ANN.id, START, QUARTER))
    just_before = START + QUARTER - timedelta(microseconds=1)
    assert next_for(begin, BEN, just_before) == newer
    assert next_for(begin, BEN, START + QUARTER) == leased_task


def test_nobody_is_offered_what_they_have_skipped(begin: Transactions) -> None:
    first, second = task(), task()
    store(begin, first, second)
    skipped_task = save(begin, first.claimed(ANN.id, START, QUARTER).skipped(ANN.id, "why", START))
    assert next_for(begin, ANN) == second
    assert next_for(begin, BEN) == skipped_task
    undone = save(begin, skipped_task.unskipped(ANN.id, START, QUARTER))
    with begin() as transaction:
        transaction.reviews.withdraw_skip(first.id, ANN.id)
    assert next_for(begin, ANN) == undone
    skipped_task = save(begin, undone.claimed(ANN.id, START, QUARTER).skipped(ANN.id, "why", START))
    twice = save(
        begin, skipped_task.claimed(LEAD.id, START, QUARTER).skipped(LEAD.id, "why", START)
    )
    assert next_for(begin, LEAD, escalated=True) == second
    assert next_for(begin, BEN, escalated=True) == twice


def test_escalated_tasks_go_to_leads_alone_and_first(begin: Transactions) -> None:
    older, hard = task(), task()
    store(begin, older, hard)
    for reviewer in (ANN, BEN):
        claimed_task = save(begin, hard.claimed(reviewer.id, START, QUARTER))
        hard = save(begin, claimed_task.skipped(reviewer.id, "hard", START))
    assert next_for(begin, CAT) == older
    assert next_for(begin, LEAD, escalated=True) == hard
    held_task = save(begin, hard.claimed(LEAD.id, START, QUARTER))
    assert next_for(begin, LEAD, escalated=True) == older
    # When the lead goes silent the task still is no plain reviewer's.
    later = START + 2 * QUARTER
    assert next_for(begin, CAT, later) == older
    assert next_for(begin, LEAD, later, escalated=True) == held_task


def test_whoever_wants_one_task_gets_no_other(begin: Transactions) -> None:
    first, second, hard = task(), task(), task()
    store(begin, first, second, hard)
    assert next_for(begin, ANN, only=second.id) == second
    held_task = save(begin, second.claimed(BEN.id, START, QUARTER))
    assert next_for(begin, ANN, only=second.id) is None
    assert next_for(begin, ANN, START + QUARTER, only=second.id) == held_task
    for reviewer in (ANN, BEN):
        claimed_task = save(begin, hard.claimed(reviewer.id, START, QUARTER))
        hard = save(begin, claimed_task.skipped(reviewer.id, "hard", START))
    assert next_for(begin, CAT, only=hard.id) is None, "it waits for a lead"
    assert next_for(begin, LEAD, only=hard.id, escalated=True) == hard
    assert next_for(begin, LEAD, only=first.id, escalated=True) == first
    assert next_for(begin, ANN, only="no id") is None


def test_an_older_version_overwrites_none_and_a_completed_task_is_nobodys(
    begin: Transactions,
) -> None:
    only = task()
    store(begin, only)
    stale = only.claimed(ANN.id, START, QUARTER)
    newer = save(begin, stale.claimed(BEN.id, START + QUARTER, QUARTER))
    with pytest.raises(StaleVersion):
        save(begin, stale)
    assert read(begin, only.id) == newer
    completed_task = save(begin, newer.completed(BEN.id, newer.version))
    for version in (completed_task.version, completed_task.version + 10):
        with pytest.raises(StaleVersion):
            save(begin, replace(only, version=version))
    assert read(begin, only.id) == completed_task
    for escalated in (False, True):
        assert next_for(begin, CAT, START + timedelta(days=9), escalated=escalated) is None


def test_only_live_leases_of_the_reviewer_are_counted(begin: Transactions) -> None:
    tasks = [task() for _ in range(4)]
    store(begin, *tasks)
    save(begin, tasks[0].claimed(ANN.id, START, QUARTER))
    save(begin, tasks[1].claimed(ANN.id, START, 2 * QUARTER))
    save(begin, tasks[2].claimed(BEN.id, START, QUARTER))
    with begin() as transaction:
        assert transaction.reviews.held_by(ANN.id, START) == 2
        assert transaction.reviews.held_by(ANN.id, START + QUARTER) == 1
        assert transaction.reviews.held_by(CAT.id, START) == 0


def test_pages_go_oldest_first_and_can_be_narrowed(begin: Transactions) -> None:
    tasks = [task() for _ in range(4)] + [task(prediction(reason=Reason.OUT_OF_DOMAIN))]
    store(begin, *tasks)
    tasks[1] = save(begin, tasks[1].claimed(ANN.id, START, QUARTER))
    tasks[2] = save(begin, tasks[2].claimed(BEN.id, START, QUARTER).skipped(BEN.id, "y", START))

    def page(state=None, reason=None, after=None, limit=50):
        with begin(read_only=True) as transaction:
            return transaction.reviews.page(state=state, reason=reason, after=after, limit=limit)

    first = page(limit=3)
    assert first.items == tuple(tasks[:3])
    last = page(after=first.next_after, limit=3)
    assert (last.items, last.next_after) == (tuple(tasks[3:]), None)
    assert page(state=ReviewState.LEASED).items == (tasks[1],)
    assert page(reason=Reason.OUT_OF_DOMAIN).items == (tasks[4],)
    assert page(state=ReviewState.LEASED, reason=Reason.OUT_OF_DOMAIN).items == ()


def test_what_waits_comes_oldest_first_whether_leads_alone_may_claim_it_or_not(
    begin: Transactions,
) -> None:
    lead = ReviewKind.ADJUDICATION
    tasks = [task() if number % 3 else replace(task(), kind=lead) for number in range(7)]
    store(begin, *tasks)
    save(begin, tasks[4].claimed(ANN.id, START, QUARTER))
    waiting, after = [], None
    for most in (2, 3, 2):
        with begin(read_only=True) as transaction:
            page = transaction.reviews.page(
                state=ReviewState.WAITING, reason=None, after=after, limit=most
            )
        waiting += page.items
        after = page.next_after
    assert waiting == tasks[:4] + tasks[5:]
    assert after is None


def test_open_tasks_are_counted_by_state(begin: Transactions) -> None:
    tasks = [task() for _ in range(6)]
    store(begin, *tasks)
    with begin(read_only=True) as transaction:
        assert transaction.reviews.open_counts() == {ReviewState.WAITING: 6}
    claimed_tasks = [save(begin, one.claimed(ANN.id, START, QUARTER)) for one in tasks[:4]]
    once = save(begin, claimed_tasks[0].skipped(ANN.id, "y", START))
    again = save(begin, once.claimed(BEN.id, START, QUARTER))
    save(begin, again.skipped(BEN.id, "y", START))
    for one in claimed_tasks[1:3]:
        save(begin, one.completed(ANN.id, one.version))
    with begin(read_only=True) as transaction:
        assert transaction.reviews.open_counts() == {
            ReviewState.WAITING: 2,
            ReviewState.LEASED: 1,
            ReviewState.SKIPPED: 1,
        }
        assert transaction.reviews.count_escalated() == 1, "it was skipped twice"


def test_annotations_come_back_as_they_were_and_are_counted(begin: Transactions) -> None:
    plain, commented_task = task(), task()
    store(begin, plain, commented_task)
    first = annotation(plain)
    second = replace(annotation(commented_task), comment="", chosen_rank=0, labels=(), agreed=True)
    with begin() as transaction:
        transaction.reviews.annotate(first)
        transaction.reviews.annotate(second)
    with begin(read_only=True) as transaction:
        assert transaction.reviews.annotation_of(plain.id) == first
        assert transaction.reviews.annotation_of(commented_task.id) == second
        assert transaction.reviews.count_answers(ANN.id, START) == 2
        assert transaction.reviews.count_answers(ANN.id, START + timedelta(seconds=1)) == 0
        assert transaction.reviews.count_answers(BEN.id, START) == 0


def test_expiry_returns_the_oldest_silent_tasks_up_to_a_limit(begin: Transactions) -> None:
    tasks = [task() for _ in range(5)]
    store(begin, *tasks)
    leased_tasks = [save(begin, one.claimed(ANN.id, START, QUARTER)) for one in tasks[:3]]
    alive = save(begin, tasks[3].claimed(BEN.id, START, 2 * QUARTER))
    with begin() as transaction:
        expired_tasks = transaction.reviews.expire_leases(START + QUARTER, limit=2)
        assert expired_tasks == [one.expired() for one in leased_tasks[:2]]
    assert read(begin, tasks[0].id) == expired_tasks[0]
    with begin() as transaction:
        rest = transaction.reviews.expire_leases(START + QUARTER, limit=2)
        assert rest == [leased_tasks[2].expired()]
    assert read(begin, alive.id) == alive
    assert read(begin, tasks[4].id) == tasks[4]


def test_nobody_is_given_two_tasks_of_one_prediction(begin: Transactions) -> None:
    first = task()
    second = replace(task(first.prediction), kind=ReviewKind.OVERLAP)
    with begin() as transaction:
        add_predictions(transaction, first.prediction)
        transaction.reviews.add_all([first, second])
    held_task = save(begin, first.claimed(ANN.id, START, QUARTER))
    assert next_for(begin, ANN) is None
    assert next_for(begin, BEN) == second
    assert next_for(begin, ANN, START + QUARTER) == held_task, "her own lease has run out"
    save(begin, held_task.completed(ANN.id, held_task.version))
    with begin() as transaction:
        transaction.reviews.annotate(annotation(held_task))
    assert next_for(begin, ANN, START + 2 * QUARTER) is None
    assert next_for(begin, BEN) == second


def test_who_has_read_a_suggestion_is_offered_no_blind_task_of_it(begin: Transactions) -> None:
    new_prediction = prediction()
    shown, blind, other = task(new_prediction), task(new_prediction), task()
    blind, other = (replace(one, kind=ReviewKind.OVERLAP) for one in (blind, other))
    with begin() as transaction:
        add_predictions(transaction, new_prediction, other.prediction)
        transaction.reviews.add_all([blind, shown, other])
        assert transaction.reviews.open_blind(ANN.id, [new_prediction.id])
        transaction.reviews.note_reader(ANN.id, [new_prediction.id], START)
        transaction.reviews.note_reader(ANN.id, [new_prediction.id], START)
        assert not transaction.reviews.open_blind(ANN.id, [new_prediction.id])
        assert transaction.reviews.open_blind(ANN.id, None)
    assert next_for(begin, ANN, only=blind.id) is None
    assert next_for(begin, ANN) == shown
    assert next_for(begin, ANN, only=other.id) == other
    assert next_for(begin, BEN, only=blind.id) == blind
    with begin() as transaction:
        transaction.reviews.note_reader(BEN.id, None, START)
    assert next_for(begin, BEN) == shown
    assert next_for(begin, BEN, only=other.id) is None


def test_who_holds_a_blind_task_keeps_it_whatever_they_read(begin: Transactions) -> None:
    held_task = replace(task(), kind=ReviewKind.AUDIT)
    store(begin, held_task)
    held_task = save(begin, held_task.claimed(ANN.id, START, QUARTER))
    with begin() as transaction:
        transaction.reviews.note_reader(ANN.id, None, START)
    save(begin, held_task.released(ANN.id))
    assert next_for(begin, ANN) is not None


def test_an_adjudication_comes_with_the_answers_that_differ_and_goes_to_leads(
    begin: Transactions,
) -> None:
    audit = replace(task(), kind=ReviewKind.AUDIT)
    store(begin, audit)
    given = replace(annotation(audit), kind=ReviewKind.AUDIT, settles=False)
    verdict = replace(
        task(audit.prediction),
        kind=ReviewKind.ADJUDICATION,
        answers=rival_answers(audit.prediction.scored.labels, [given]),
    )
    leased_task = save(begin, audit.claimed(ANN.id, START, QUARTER))
    save(begin, leased_task.completed(ANN.id, leased_task.version))
    with begin() as transaction:
        transaction.reviews.annotate(given)
        transaction.reviews.add(verdict)
    assert verdict.answers == (("a", "b"), ("a", "d"))
    assert read(begin, verdict.id) == verdict
    assert next_for(begin, BEN) is None
    assert next_for(begin, LEAD, escalated=True) == verdict
    with begin(read_only=True) as transaction:
        assert transaction.reviews.annotations_of(audit.prediction.id) == [given]
        blind = transaction.reviews.page(
            state=None, reason=audit.prediction.reason, after=None, limit=9
        )
    assert [one.kind for one in blind.items] == [ReviewKind.ADJUDICATION]


def decided(of: ReviewTask, minutes: float = 0) -> ReviewTask:
    """Return Ann's task decided some minutes after the start, for a minute."""
    at = START + timedelta(minutes=minutes)
    decision = HeldDecision(("a",), "sûre 👍", "Ann", at, at + timedelta(minutes=1))
    return of.decided(ANN.id, of.version, decision, QUARTER)


def test_a_decision_comes_back_as_it_was_and_goes_again(begin: Transactions) -> None:
    waiting = task()
    store(begin, waiting)
    leased_task = save(begin, waiting.claimed(ANN.id, START, QUARTER))
    held_task = save(begin, decided(leased_task))
    assert read(begin, waiting.id) == held_task
    reopened_task = save(begin, held_task.reopened(ANN.id, START, QUARTER))
    assert read(begin, waiting.id) == reopened_task
    settled_task = save(begin, decided(reopened_task).finished())
    assert read(begin, waiting.id) == settled_task


def test_a_decided_task_is_never_taken_away(begin: Transactions) -> None:
    first = task()
    other = replace(task(first.prediction), kind=ReviewKind.OVERLAP)
    store(begin, first)
    with begin() as transaction:
        transaction.reviews.add(other)
    held_task = save(begin, decided(save(begin, first.claimed(ANN.id, START, QUARTER))))
    late = START + timedelta(days=9)
    assert next_for(begin, BEN, late) == other
    assert next_for(begin, ANN, late) is None, "she reads the document already"
    with begin() as transaction:
        assert transaction.reviews.expire_leases(late, limit=9) == []
        assert transaction.reviews.held_by(ANN.id, START) == 0
    assert read(begin, first.id) == held_task


def test_decisions_are_listed_by_the_end_of_their_window(begin: Transactions) -> None:
    tasks = [task() for _ in range(3)]
    store(begin, *tasks)
    leased_tasks = [save(begin, one.claimed(ANN.id, START, QUARTER)) for one in tasks[:2]]
    last = save(begin, tasks[2].claimed(BEN.id, START, QUARTER))
    save(begin, decided(leased_tasks[0], minutes=5))
    save(begin, decided(leased_tasks[1], minutes=2))
    with begin(read_only=True) as transaction:
        reviews = transaction.reviews
        in_order = [tasks[1].id, tasks[0].id]
        assert reviews.decided(limit=9) == in_order
        assert reviews.decided(limit=1) == in_order[:1]
        assert reviews.decided(reviewer=ANN.id, limit=9) == in_order
        assert reviews.decided(reviewer=BEN.id, limit=9) == []
        assert reviews.decided(before=START + timedelta(minutes=3), limit=9) == in_order[:1]
        assert reviews.leased_to(BEN.id, START) == [last]
        assert reviews.leased_to(ANN.id, START) == []
        assert reviews.leased_to(BEN.id, START + QUARTER) == []


def test_a_postponed_task_comes_after_all_that_waited_then(begin: Transactions) -> None:
    first, second, third = task(), task(), task()
    later = START + QUARTER
    new = replace(task(), created_at=later + QUARTER)
    store(begin, first, second, third, new)
    postponed_task = save(begin, first.claimed(ANN.id, START, QUARTER).postponed(ANN.id, later))
    assert read(begin, first.id) == postponed_task
    taken = []
    while (one := next_for(begin, ANN)) is not None:
        taken.append(save(begin, one.claimed(BEN.id, START, QUARTER)).id)
    assert taken == [second.id, third.id, first.id, new.id], "it is not behind what came later"


HOUR, DAY = timedelta(hours=1), timedelta(days=1)
REQUESTS: tuple[tuple[int, timedelta | None, timedelta], ...] = (
    (0, None, timedelta(0)),
    (0, None, HOUR),
    (0, 7 * DAY, timedelta(0)),  # as early as without a due time
    (0, 60 * DAY, HOUR),  # not behind those that came later
    (0, 2 * DAY, HOUR),
    (0, DAY, HOUR),
    (1, None, 2 * HOUR),
    (1, DAY, 3 * HOUR),
    (2, None, 4 * HOUR),
    (2, -20_000 * DAY, 5 * HOUR),
    (2, -DAY, 5 * HOUR),
)
"""Priority, due time after the start and time of arrival after it."""
IN_ORDER = [9, 10, 8, 7, 6, 5, 4, 0, 2, 1, 3]


def requested(priority: int, due: timedelta | None, came: timedelta) -> ReviewTask:
    document = Document(
        "x", "fever", priority=priority, due_at=None if due is None else START + due
    )
    return replace(task(prediction(document=document)), created_at=START + came)


def claimed_in_turn(begin: Transactions) -> list[str]:
    ids = []
    while (waiting := next_for(begin, ANN)) is not None:
        ids.append(save(begin, waiting.claimed(BEN.id, START, QUARTER)).id)
    return ids


@pytest.mark.parametrize("seed", [0, 1])
def test_tasks_are_claimed_by_priority_then_due_time_whatever_their_kind(
    begin: Transactions, seed: int
) -> None:
    draw = Random(seed)
    kinds = [ReviewKind.REVIEW, ReviewKind.AUDIT, ReviewKind.OVERLAP]
    tasks = [replace(requested(*each), kind=draw.choice(kinds)) for each in REQUESTS]
    store(begin, *draw.sample(tasks, len(tasks)))
    assert [read(begin, each.id) for each in tasks] == tasks
    assert claimed_in_turn(begin) == [tasks[place].id for place in IN_ORDER]


def test_what_a_lead_puts_first_comes_before_urgent_documents_and_returns_to_its_place(
    begin: Transactions,
) -> None:
    normal, urgent, other = task(), requested(2, None, timedelta(0)), task()
    store(begin, normal, urgent, other)
    first = save(begin, other.prioritized(first=True))
    assert read(begin, other.id) == first
    assert next_for(begin, ANN) == first
    with_priority = QueueFilter(prioritized=True)
    held_task = save(begin, first.claimed(BEN.id, START, QUARTER))
    assert next_for(begin, ANN, wanted=with_priority) == urgent
    back = save(begin, held_task.released(BEN.id).prioritized(first=False))
    assert (read(begin, other.id), back.place) == (back, other.place)
    postponed_task = save(
        begin, urgent.claimed(ANN.id, START, QUARTER).postponed(ANN.id, START + HOUR)
    )
    assert claimed_in_turn(begin) == [normal.id, other.id, postponed_task.id]
    assert next_for(begin, ANN, wanted=with_priority) is None


def test_a_queue_is_chosen_by_segment_and_label_unless_that_tells_of_blind_tasks(
    begin: Transactions,
) -> None:
    def made(label: str, segment: str, kind: ReviewKind = ReviewKind.REVIEW) -> ReviewTask:
        plain = prediction()._replace(segment=segment)
        sets = (Candidate((label,), 0.9, 0.8),)
        score = plain.scored._replace(candidates=sets)
        return replace(task(plain._replace(scored=score)), kind=kind)

    plain, other, blind = (
        made("a", "site=north"),
        made("b", "site=south"),
        made("b", "site=south", ReviewKind.AUDIT),
    )
    store(begin, plain, other, blind)
    with begin(read_only=True) as transaction:
        assert transaction.reviews.segments(most=9) == ["site=north", "site=south"]
    north, south = Segment("site", "north"), Segment("site", "south")
    for wanted_filter, segment, found_task in (
        (QueueFilter(), north, plain),
        (QueueFilter(), south, other),
        (QueueFilter(label="a"), ALL_DOCUMENTS, plain),
        (QueueFilter(label="b"), ALL_DOCUMENTS, other),
        (QueueFilter(label="c"), ALL_DOCUMENTS, blind),
        (QueueFilter(label="b"), north, None),
        (QueueFilter(label="a"), south, blind),
        (QueueFilter(prioritized=True), ALL_DOCUMENTS, None),
    ):
        assert next_for(begin, ANN, wanted=wanted_filter, segment=segment) == found_task


def test_a_document_is_undecided_while_it_or_blindly_a_copy_is_read(begin: Transactions) -> None:
    drawn_selection = Selection(cluster=0.25)
    answered_prediction, namesake, copy, alike, other = (
        prediction(document=Document(id=name, text="fever"))._replace(selection=selection)
        for name, selection in (
            ("note-1", Selection(cluster=0.5)),
            ("note-1", Selection(cluster=0.75)),
            ("note-2", drawn_selection),
            ("note-3", drawn_selection),
            ("note-4", Selection()),
        )
    )
    with begin() as transaction:
        add_predictions(transaction, answered_prediction, namesake, copy, alike, other)
        transaction.reviews.add(task(namesake))
        transaction.reviews.add(replace(task(copy), kind=ReviewKind.AUDIT))
        everything = [answered_prediction, namesake, copy, alike, other]
        assert transaction.reviews.undecided(everything) == {namesake.id, copy.id, alike.id}
        assert transaction.reviews.undecided([]) == frozenset()
        transaction.reviews.add(replace(task(namesake), kind=ReviewKind.OVERLAP))
        assert answered_prediction.id in transaction.reviews.undecided(everything)
