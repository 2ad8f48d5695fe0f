"""The cockpit's numbers."""

from dataclasses import replace
from datetime import date, timedelta

import pytest
from sqlalchemy import Engine

from setwise.service.domain.effort import Reading, ReadingTime
from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.predictions import (
    Decision,
    Document,
    Prediction,
    PredictionFilter,
    Reason,
)
from setwise.service.domain.reports import UNDECIDED, ReviewDay, Share, standing
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.audits import AuditPlan, AuditRole, Selection
from setwise.service.pages.figures.work import accuracy, promise, undecided
from setwise.service.services.analysis.cockpit import Cockpit
from setwise.service.services.analysis.labels import LabelBasis
from setwise.service.services.analysis.mistakes import mistakes
from setwise.service.services.analysis.over_time import Granularity, Period, Queue, over_time, queue
from setwise.service.services.analysis.what_if import STEPS, WhatIf
from setwise.service.services.policy import Policies
from setwise.service.stores.database import new_id
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.fakes import START, FakeClock
from tests.samples import (
    ADMIN,
    ANN,
    LEAD,
    add_predictions,
    annotation,
    change,
    checked,
    outcome,
    prediction,
    task,
)

TODAY = START.date()
DRAWN = Selection(AuditRole.CERTIFICATION, 0.01, 0.1)


def made(confidence: float, *, days_ago: float = 0, audit: bool = False) -> Prediction:
    """Return a prediction as a threshold of 0.8 and audits of a tenth would route it."""
    sure = confidence >= 0.8
    one = prediction(
        confidence=confidence,
        document=Document(text="x", metadata={"site": "north"}),
        decision=Decision.AUTO if sure and not audit else Decision.REVIEW,
        reason=Reason.BELOW_THRESHOLD
        if not sure
        else Reason.AUDIT
        if audit
        else Reason.ABOVE_THRESHOLD,
        created_at=START - timedelta(days=days_ago),
    )
    return one._replace(selection=DRAWN if sure else Selection(AuditRole.NONE, 0.5, 1.0))


def store(
    begin: Transactions, *found: Prediction, right: bool | None = None, seconds: float = 30
) -> None:
    """Store predictions, each read by Ann and found right or wrong, or waiting to be read."""
    with begin() as transaction:
        for one in found:
            add_predictions(transaction, one)
            if one.decision is Decision.AUTO:
                continue
            kind = ReviewKind.AUDIT if one.reason is Reason.AUDIT else ReviewKind.REVIEW
            work = replace(task(one), kind=kind, created_at=one.created_at)
            transaction.reviews.add(work)
            if right is not None:
                labels = ("a", "b") if right else ("a", "c")
                held_task = work.claimed(ANN.id, one.created_at, timedelta(minutes=15))
                transaction.reviews.save(held_task)
                transaction.reviews.save(held_task.completed(ANN.id, held_task.version))
                said = replace(annotation(work, *labels, minutes=0), kind=kind, seconds=seconds)
                transaction.reviews.annotate(said)


def read(begin: Transactions, period: Period | None = None) -> Cockpit:
    return building.reports(begin, FakeClock()).cockpit(LEAD, period)


def what_if(begin: Transactions, **question: object) -> WhatIf:
    return Policies(begin, FakeClock(), new_id).preview(LEAD, **question)


@pytest.fixture(scope="module")
def database(module_engine: Engine) -> Transactions:
    """Return a database that no test changes."""
    return fill(Transactions(module_engine))


def fill(begin: Transactions) -> Transactions:
    Policies(begin, FakeClock(), new_id).change(ADMIN, change(threshold=0.8), None)
    store(begin, *(made(0.9) for _ in range(90)))
    store(begin, *(made(0.9, audit=True, days_ago=1) for _ in range(9)), right=True)
    store(begin, made(0.9, audit=True, days_ago=1), right=False)
    store(begin, *(made(0.5, days_ago=2) for _ in range(20)), right=False, seconds=90)
    store(begin, *(made(0.5) for _ in range(5)))
    return begin


def test_an_empty_service_has_a_cockpit_too(begin: Transactions) -> None:
    cockpit = read(begin)
    assert (cockpit.documents, cockpit.sent, cockpit.checked) == (0, 0, 0)
    assert (cockpit.accuracy.value, cockpit.effort.hours_without, cockpit.effort.hours) == (
        None,
        None,
        0.0,
    )
    assert cockpit.reliability is None
    assert len(cockpit.rows) == 35
    assert cockpit.certificate.certified is False
    assert cockpit.queue.empty_in_days == 0.0


def test_labels_are_those_of_audited_sets_unless_all_checked_ones_are_asked_for(
    database: Transactions,
) -> None:
    reports = building.reports(database, FakeClock())
    trust = reports.labels(LEAD, ["a", "b"])
    assert (trust.documents, trust.drawn) == (10, True)
    assert [(each.row.label, each.row.missing, each.row.extra) for each in trust.labels] == [
        ("b", 0, 1),
        ("c", 1, 0),
        ("a", 0, 0),
    ]
    assert [each.of_model for each in trust.labels] == [True, False, True]
    assert trust.labels[2].row.mean_probability == pytest.approx(0.98)
    every = reports.labels(LEAD, ["a", "b"], basis=LabelBasis.CHECKED)
    assert (every.documents, every.drawn) == (30, False)
    assert every.labels[0].row.extra == 21


def test_accuracy_of_what_was_sent_is_that_of_its_audits(begin: Transactions) -> None:
    store(begin, *(made(0.9) for _ in range(90)))
    read_again(begin, *(made(0.9, audit=True) for _ in range(9)), right=True)
    store(begin, made(0.9, audit=True), right=False)
    cockpit = read(begin)
    assert (cockpit.documents, cockpit.sent, cockpit.drawn) == (100, 90, True)
    share = cockpit.accuracy
    assert (share.checked, share.right, share.value) == (10, 9, pytest.approx(0.9))
    # Clopper and Pearson, 9 of 10, each bound at the policy's risk of 10 %.
    assert (share.low, share.high) == pytest.approx((0.6632, 0.9895), abs=1e-4)


@pytest.mark.parametrize(
    ("confidence", "holds", "says"),
    [
        (0.9, True, "The confidences promise 90.0 %."),
        (0.999, False, "The confidences promise 99.9 %, more than the checks allow."),
        (0.8, True, "The confidences promise 80.0 %."),
    ],
)
def test_the_promise_is_the_confidence_of_the_sets_whose_accuracy_is_known(
    begin: Transactions, confidence: float, holds: bool, says: str
) -> None:
    store(begin, *(made(confidence) for _ in range(90)), made(0.5))
    read_again(begin, *(made(confidence, audit=True) for _ in range(9)), right=True)
    store(begin, made(confidence, audit=True), right=False)
    cockpit = read(begin)
    assert cockpit.promised == pytest.approx(confidence)
    assert cockpit.weeks[-1].promised == pytest.approx(confidence)
    assert (cockpit.promise_holds, promise(cockpit)) == (holds, says)
    assert [row.promised for row in cockpit.weeks[:-1]] == [None] * (len(cockpit.weeks) - 1)


def test_without_checks_the_promise_stands_alone(begin: Transactions) -> None:
    store(begin, made(0.9), made(0.8))
    cockpit = read(begin)
    assert (cockpit.promise_holds, promise(cockpit)) == (None, "The confidences promise 85.0 %.")


def read_again(begin: Transactions, *found: Prediction, right: bool) -> None:
    """Store audits with which the auditor agrees, and which a lead then finds right or wrong."""
    with begin() as transaction:
        for one in found:
            add_predictions(transaction, one)
            for kind, agrees in ((ReviewKind.AUDIT, True), (ReviewKind.ADJUDICATION, right)):
                work = replace(task(one), kind=kind, created_at=one.created_at)
                transaction.reviews.add(work)
                said = annotation(work, *(("a", "b") if agrees else ("c",)))
                settles = kind is ReviewKind.ADJUDICATION
                transaction.reviews.annotate(replace(said, kind=kind, settles=settles))
        transaction.commit()


def test_errors_that_auditors_overlook_are_counted_for_all_that_nobody_read_again(
    begin: Transactions,
) -> None:
    audits = AuditPlan(certification_rate=0.1, gold_reread_rate=0.25)
    policies = Policies(begin, FakeClock(), new_id)
    version = policies.change(ADMIN, change(threshold=0.8, audits=audits), None).version

    def audited(n: int) -> list[Prediction]:
        predictions = (made(0.9, audit=True, days_ago=1) for _ in range(n))
        return [one._replace(policy_version=version) for one in predictions]

    store(begin, *(made(0.9) for _ in range(90)))
    store(begin, *audited(60), right=True)
    read_again(begin, *audited(18), right=True)
    read_again(begin, *audited(2), right=False)
    store(begin, *audited(20), right=False)
    cockpit, found_share = read(begin), what_if(begin, threshold=0.8).now.accuracy
    # Of 80 agreements a quarter is read again, and two of these twenty are wrong.
    share = cockpit.accuracy
    assert (share.checked, share.agreed, share.reread, share.overlooked) == (100, 80, 20, 2)
    assert share.value == pytest.approx(1 - 0.2 - 0.8 * 0.1)
    assert share.low < 0.65 < 0.79 < share.high
    for same in (found_share, cockpit.weeks[-1].accuracy):
        assert (same.value, same.low, same.high) == pytest.approx(
            (share.value, share.low, share.high)
        )
    sentence = "of 80 agreements 20 were read again, 2 of them found wrong"
    assert sentence in share.correction


def test_agreements_that_nobody_reads_again_leave_the_accuracy_without_a_lower_bound(
    database: Transactions,
) -> None:
    share = read(database).accuracy
    assert (share.value, share.low) == (pytest.approx(0.9), 0.0)
    assert share.high == pytest.approx(0.9949, abs=1e-4)
    assert "No lead has read any of the 9 agreements again" in share.correction


@pytest.mark.parametrize("mode", [Decision.AUTO, Decision.REVIEW])
def test_audits_count_whether_or_not_the_set_was_sent_before(
    begin: Transactions, mode: Decision
) -> None:
    read_again(begin, made(0.9, audit=True)._replace(decision=mode), right=False)
    assert read(begin).accuracy.overlooked == 1


def test_contradictions_that_a_lead_has_yet_to_decide_are_counted_and_said(
    begin: Transactions,
) -> None:
    fill(begin)
    assert read(begin).undecided == 0
    waits, prediction = (made(0.9, audit=True, days_ago=1) for _ in range(2))
    with begin() as transaction:
        for one in (waits, prediction):
            add_predictions(transaction, one)
            work = replace(task(one), kind=ReviewKind.AUDIT, created_at=one.created_at)
            transaction.reviews.add(work)
            said = replace(annotation(work, "c"), kind=ReviewKind.AUDIT, settles=False)
            transaction.reviews.annotate(said)
        lead = replace(
            task(prediction), kind=ReviewKind.ADJUDICATION, created_at=prediction.created_at
        )
        transaction.reviews.add(lead)
        transaction.reviews.annotate(
            replace(annotation(lead, "a", "b"), kind=ReviewKind.ADJUDICATION)
        )
        transaction.commit()
    cockpit = read(begin)
    assert (cockpit.undecided, cockpit.accuracy.checked, cockpit.accuracy.right) == (1, 12, 10)
    assert undecided(cockpit) == "; 1 contradiction that a lead has yet to decide counts as wrong"
    assert f"{UNDECIDED} Waiting for a lead: 1." in accuracy(cockpit).method


def test_reported_outcomes_do_not_mix_with_audits(begin: Transactions) -> None:
    fill(begin)
    with begin() as transaction:
        sent_filter = PredictionFilter(decision=Decision.AUTO)
        for one in transaction.predictions.page(sent_filter, after=None, limit=100).items:
            transaction.outcomes.add(outcome(one, "c"))
        transaction.commit()
    cockpit = read(begin)
    assert cockpit.accuracy.checked == 10
    assert (cockpit.reported.checked, cockpit.reported.right) == (90, 0)


def test_what_a_threshold_would_send_weighs_each_check(database: Transactions) -> None:
    answer = what_if(database, threshold=0.4)
    assert answer.now.sent == 100
    assert answer.now.accuracy.value == pytest.approx(0.9)
    assert (answer.then.sent, answer.then.coverage) == (125, 1.0)
    # 90 % of a hundred confident ones are right, none of 25 others.
    assert answer.then.accuracy.value == pytest.approx(90 / 125)
    sent = [each.sent for each in answer.curve]
    assert sent == sorted(sent, reverse=True)
    assert answer.seconds == read(database).effort.total.each_s
    unsupported_what_if = what_if(database, target_accuracy=0.85)
    assert unsupported_what_if.advice is not None
    assert (unsupported_what_if.then.sent, unsupported_what_if.advice.threshold) == (0, None)
    assert unsupported_what_if.advice.checks_missing is not None


def test_without_a_question_the_policy_in_force_is_shown(database: Transactions) -> None:
    answer = what_if(database)
    assert (answer.tried, answer.then, answer.advice) == (False, answer.now, None)
    assert what_if(database, threshold=0.8).tried, "even if it is the present one"


def test_a_threshold_of_the_curve_sends_what_lies_at_it(begin: Transactions) -> None:
    grid = [step / STEPS for step in range(STEPS + 1)]
    store(begin, *(made(one) for one in grid))
    answer = what_if(begin, threshold=0.57)
    assert [each.threshold for each in answer.curve] == grid
    assert [each.sent for each in answer.curve] == [*range(201, 0, -1)]
    assert answer.then.sent == sum(one >= 0.57 for one in grid)
    histogram = read(begin).histogram
    assert sum(one.sent + one.audited + one.reviewed for one in histogram) == 201


@pytest.mark.parametrize("threshold", [0.873, 0.8749, 0.875, 0.0])
def test_a_threshold_between_two_steps_sends_no_more_than_it_would(
    begin: Transactions, threshold: float
) -> None:
    confidences = [0.0, 0.86, 0.87, 0.8729, 0.873, 0.8745, 0.8749, 0.875, 0.9, 1.0]
    store(begin, *(made(one) for one in confidences))
    Policies(begin, FakeClock(), new_id).change(ADMIN, change(threshold=threshold), None)
    answer = what_if(begin, threshold=0.874)
    assert answer.now.sent == sum(one >= threshold for one in confidences)
    assert answer.then.sent == sum(one >= 0.874 for one in confidences)
    assert [each.sent for each in answer.curve] == [
        sum(one >= step / STEPS for one in confidences) for step in range(STEPS + 1)
    ]


def test_days_and_weeks_hold_the_same_documents(database: Transactions) -> None:
    days, weeks = read(database), read(database, Period(pace=Granularity.WEEK))
    assert sum(row.documents for row in days.rows) == sum(row.documents for row in weeks.rows)
    assert [row.start for row in days.rows[-3:]] == [
        date(2025, 12, 31),
        date(2026, 1, 1),
        date(2026, 1, 2),
    ]
    assert [(row.sent, row.audited, row.reviewed) for row in days.rows[-3:]] == [
        (0, 0, 20),
        (0, 10, 0),
        (90, 0, 5),
    ]
    assert {row.start.weekday() for row in weeks.rows} == {0}


def test_effort_is_what_was_read_and_what_reading_everything_would_have_taken(
    database: Transactions,
) -> None:
    cockpit = read(database)
    times = {reading: time for reading, time in cockpit.effort.times.items() if time.readings}
    assert times == {
        Reading.BLIND: ReadingTime(10, 300.0),
        Reading.ASSISTED: ReadingTime(20, 1_800.0),
    }
    assert cockpit.effort.hours == pytest.approx(2_100 / 3600)
    assert cockpit.effort.hours_without == pytest.approx((90 + 30) * 70 / 3600)
    assert cockpit.effort.readings_per_sent == pytest.approx(30 / 90)
    assert cockpit.weeks[-1].effort == cockpit.effort


def test_the_queue_is_what_waits_now_and_what_waited_then(database: Transactions) -> None:
    cockpit = read(database)
    assert cockpit.queue.waiting == 5
    assert [row.backlog for row in cockpit.rows[-2:]] == [0, 5]
    assert cockpit.queue.completing == pytest.approx(30 / 7)


def test_every_document_is_in_the_histogram(database: Transactions) -> None:
    by_low = {
        one.low: one for one in read(database).histogram if one.sent + one.audited + one.reviewed
    }
    assert {low: (one.sent, one.audited, one.reviewed) for low, one in by_low.items()} == {
        0.5: (0, 0, 25),
        0.9: (90, 10, 0),
    }


def test_a_longer_time_finds_older_documents(begin: Transactions) -> None:
    fill(begin)
    store(begin, made(0.9, days_ago=100))
    assert read(begin).documents == 125
    assert read(begin, Period(120)).documents == 126


def test_a_range_of_days_counts_what_was_made_on_them(database: Transactions) -> None:
    yesterday = TODAY - timedelta(days=1)
    cockpit = read(database, Period(first=yesterday, last=yesterday))
    assert (cockpit.documents, cockpit.sent, cockpit.accuracy.checked) == (10, 0, 10)
    assert (cockpit.mistakes.checked, cockpit.mistakes.wrong) == (10, 1)
    assert [(row.start, row.documents) for row in cockpit.rows] == [(yesterday, 10)]
    assert cockpit.rows[0].backlog == 0, "what waited at its end"
    assert sum(one.audited for one in cockpit.histogram) == 10
    assert cockpit.queue.waiting == 5, "what waits now"
    assert cockpit.queue.completing == pytest.approx(30 / 7), "over seven days, however short it is"
    assert read(database, Period(first=yesterday, last=date.max)).documents == 105


def test_the_first_page_has_the_numbers_of_the_whole_cockpit(database: Transactions) -> None:
    glance = building.reports(database, FakeClock()).glance(LEAD)
    whole = vars(read(database))
    assert vars(glance) == {name: whole[name] for name in vars(glance)}


@pytest.mark.parametrize(
    ("low", "high", "met"),
    [(0.91, 0.99, True), (0.9, 0.99, True), (0.5, 0.89, False), (0.85, 0.9, None)],
)
def test_a_target_between_the_bounds_is_neither_met_nor_missed(
    database: Transactions, low: float, high: float, met: bool | None
) -> None:
    cockpit = read(database)
    assert cockpit.policy.target_accuracy == 0.9
    share = replace(cockpit.accuracy, low=low, high=high)
    assert replace(cockpit, accuracy=share).met is met
    assert replace(cockpit, accuracy=Share(0, 0)).met is None


def test_what_cannot_be_asked_is_refused(begin: Transactions) -> None:
    tomorrow, long_ago = TODAY + timedelta(days=1), TODAY - timedelta(days=400)
    for wrong in (
        Period(0),
        Period(401),
        Period(first=tomorrow),
        Period(first=long_ago),
        Period(first=date.min, last=date.min),
        Period(first=TODAY, last=TODAY - timedelta(days=1)),
        Period(last=TODAY),
    ):
        with pytest.raises(InvalidRequest):
            read(begin, wrong)


# Without a database


def of(labels: str, truth: str, **metadata: object) -> CheckedDocument:
    return checked(
        labels=tuple(labels),
        reviewer=set(labels) == set(truth),
        right=tuple(truth),
        client_id="c",
        metadata=metadata,
        reason=Reason.BELOW_THRESHOLD,
    )


def test_errors_are_counted_by_label_and_by_pair() -> None:
    checks = [of("ab", "ac"), of("ab", "ac"), of("a", "ad"), of("a", "a")]
    seen = mistakes(checks, standing(checks), 0.1, {"c": "clinic"})
    assert (seen.checked, seen.wrong) == (4, 3)
    assert [(one.label, one.missing, one.extra) for one in seen.labels] == [
        ("b", 0, 2),
        ("c", 2, 0),
        ("d", 1, 0),
    ]
    assert [(one.predicted, one.right, one.documents) for one in seen.pairs] == [("b", "c", 2)]
    assert [(one.value, one.accuracy.checked) for one in seen.sizes] == [("1", 2), ("2", 2)]
    assert [(one.field, one.value) for one in seen.sources] == [("client", "clinic")]


def test_metadata_with_few_values_are_sources_and_names_are_not() -> None:
    checks = [of("a", "a", site=n % 3, number=n, flat="x", nested={}) for n in range(30)]
    seen = mistakes(checks, standing(checks), 0.1, {})
    assert {one.field for one in seen.sources} == {"client", "site"}


def test_the_queue_is_forecast_from_the_last_full_days() -> None:
    days = [ReviewDay(TODAY - timedelta(days=n), 7, 14, 0.0) for n in range(1, 8)]
    today = ReviewDay(TODAY, 1000, 0, 0.0)
    found_queue = queue([*days, today], today=TODAY, waiting=70, oldest_s=1.0)
    assert (found_queue.arriving, found_queue.completing, found_queue.empty_in_days) == (
        7.0,
        14.0,
        10.0,
    )
    assert Queue(5, 0.0, 2.0, 2.0, 7).empty_in_days is None


def test_the_backlog_of_the_past_follows_from_what_came_and_went() -> None:
    days = [ReviewDay(TODAY - timedelta(days=n), 10, 4 * n, 0.0) for n in range(3)]
    rows = over_time(
        [],
        days,
        [],
        first=TODAY - timedelta(days=2),
        last=TODAY,
        pace=Granularity.DAY,
        waiting=20,
        known=standing([]),
        risk=0.1,
    )
    assert [row.backlog for row in rows] == [4, 10, 20]
