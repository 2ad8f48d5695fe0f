"""From audits that speak against the target to a stop, and from a new certificate on again."""

from dataclasses import replace
from datetime import timedelta

import pytest

from setwise.models.guarantees.drift import drift_statistic
from setwise.models.guarantees.paths.spending import risk_on_demand
from setwise.service.domain.audit_trail import EventFilter
from setwise.service.domain.breaker import BreakerRule, Freshness, Position, TripCause
from setwise.service.domain.errors import (
    BreakerNotTripped,
    CertificateNeeded,
    InvalidRequest,
)
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason, Submission
from setwise.service.domain.recalibration import Calibration
from setwise.service.domain.routing.audits import AuditMode, AuditPlan
from setwise.service.domain.webhooks import MessageType
from setwise.service.stores.transaction import Transactions
from tests.kit.databases import ON_BOTH, Database
from tests.kit.loop import HALF, Loop, certified, unlike
from tests.samples import (
    ADMIN,
    ANN,
    CLIENT,
    LEAD,
    calibration,
    change,
    model,
)

QUICK = BreakerRule(run_length=200.0, freshness=Freshness(20, timedelta(days=2)))
ALL = AuditPlan(certification_rate=1.0, gold_reread_rate=1.0)
SENT_ALL = AuditPlan(certification_rate=1.0, mode=AuditMode.SEND)


@pytest.fixture
def loop(begin: Transactions) -> Loop:
    return Loop(begin, rule=QUICK)


def fixed(loop: Loop, audits: AuditPlan = ALL) -> None:
    wanted_change = change(
        threshold=0.8, target_accuracy=0.8, audits=audits, reason="to see it watched"
    )
    loop.change_policy(ADMIN, wanted_change, None)


def tripped(loop: Loop) -> list[Prediction]:
    """Find sent sets wrong until the breaker trips; returns the predictions."""
    predictions = loop.predict(*["0.9"] * 30)
    loop.read(wrong_below=1.0)
    assert loop.gate.trip_id is not None
    return predictions


def reasons(made: list[Prediction]) -> set[Reason]:
    return {one.reason for one in made if one.reason is not Reason.AUDIT}


@ON_BOTH
def test_wrong_audits_stop_sending_from_the_next_prediction_on(loop: Loop) -> None:
    certified(loop)
    assert reasons(loop.predict(*["0.95"] * 8)) == {Reason.ABOVE_THRESHOLD}
    tripped(loop)
    later = loop.predict(*["0.95"] * 8)
    assert {one.decision for one in later} == {Decision.REVIEW}
    assert reasons(later) == {Reason.BREAKER}
    assert {one.threshold for one in later} == {0.9}
    assert reasons(loop.predict("0.3")) == {Reason.BELOW_THRESHOLD}


def test_decisions_that_may_still_be_taken_back_count_once_they_stand(loop: Loop) -> None:
    fixed(loop)
    loop.predict(*["0.9"] * 20)
    loop.settle(ANN, wrong_below=1.0)
    while (task := loop.claim(LEAD)) is not None:
        loop.reviews.decide(LEAD, task.id, ["c"], None, task.version)
        if (trip := loop.gate.trip_id) is not None:
            break
    assert trip is not None


def test_right_audits_keep_it_closed(loop: Loop) -> None:
    certified(loop)
    loop.predict(*["0.9"] * 60)
    loop.read()
    state = loop.breaker(LEAD)
    assert state.watch.position is Position.WATCHING
    assert state.trip is None
    counts = state.watch.counts()
    assert counts.right == counts.audits > 20
    assert state.false_alarm_bound == counts.audits / 200


def test_the_trip_keeps_what_it_takes_to_decide_the_same_again(loop: Loop) -> None:
    certified(loop)
    tripped(loop)
    trip = loop.breaker(LEAD).trip
    assert trip is not None
    assert trip.cause is TripCause.DRIFT
    evidence = trip.evidence
    outcomes = evidence.outcomes
    target = evidence.target_accuracy
    path = drift_statistic([symbol != "0" for symbol in outcomes], target)
    first = next(place for place, value in enumerate(path) if value >= 200.0)
    assert path[first] == evidence.statistic
    assert outcomes.count("0") == evidence.wrong
    with loop.begin(read_only=True) as transaction:
        every = transaction.evidence.watched(trip.scorer, after=None, limit=999)
    ids = [one.id for one in every]
    assert ids[first] == evidence.alarm_at
    assert (ids[0], ids[-1]) == (evidence.first, evidence.last)


def test_other_programs_and_the_trail_are_told_once(loop: Loop) -> None:
    certified(loop)
    tripped(loop)
    assert loop.watch() is None, "it has tripped already"
    with loop.begin() as transaction:
        messages = [
            one
            for one in transaction.outbox.unrouted(999)
            if one.type is MessageType.POLICY_TRIPPED
        ]
        events = transaction.audit_trail.page(
            EventFilter(action="policy.tripped"), after=None, limit=9
        ).items
    (message,), (event,) = messages, events
    assert message.data["policy_version"] == event.subject == loop.policy.version
    assert message.data["trip_id"] == loop.gate.trip_id
    assert message.data["cause"] == "drift"
    assert message.client_id != CLIENT.id, "no client pulls it"


def test_a_fault_in_the_middle_of_many_agreements_counts_where_it_was_predicted(
    loop: Loop,
) -> None:
    # Audits that find a fault end later, all at once, after those that agree.
    certified(loop)
    predictions = loop.predict(*["0.9", "0.95", "0.95", "0.95", "0.95", "0.95"] * 8)
    loop.settle(ANN, wrong_below=0.92)
    loop.settle(LEAD, wrong_below=0.92)
    watch = loop.breaker(LEAD).watch
    wrong = {one.id for one in predictions if one.scored.confidence == 0.9}
    expected = [one.id not in wrong for one in watch.audits]
    assert not all(expected)
    assert list(watch.path) == drift_statistic(expected, 0.8).tolist()
    assert watch.position is Position.WATCHING


def test_what_leads_find_wrong_though_auditors_agreed_stops_sending(loop: Loop) -> None:
    fixed(loop, AuditPlan(certification_rate=1.0, gold_reread_rate=0.25))
    loop.predict(*["0.9"] * 40)
    loop.settle(ANN)
    before = loop.breaker(LEAD).watch
    waits = [one for one in before.audits if one.agreement_drawn]
    assert 3 < len(waits) < 20
    assert {one.reread_rate for one in waits} == {0.25}
    assert before.counts().unfinished == len(waits)
    assert max(before.path) < 20.0, "what waits counts as right"
    loop.settle(LEAD, wrong_below=1.0)
    state = loop.breaker(LEAD)
    assert state.trip is not None
    counts, evidence = state.watch.counts(), state.trip.evidence
    assert counts.overlooked == counts.reread == counts.wrong > 1
    stands_for = evidence.stands_for
    assert stands_for == {
        str(place): 4.0 for place, one in enumerate(state.watch.audits) if one.agreement_drawn
    }
    path = drift_statistic(
        [symbol != "0" for symbol in evidence.outcomes],
        0.8,
        stands_for=[stands_for.get(str(place), 1.0) for place in range(40)],
    )
    assert path.max() == evidence.statistic >= 200.0


def test_agreements_that_no_lead_reads_in_time_count_as_if_found_wrong(loop: Loop) -> None:
    fixed(loop, AuditPlan(certification_rate=1.0, gold_reread_rate=0.25))
    loop.predict(*["0.9"] * 40)
    loop.settle(ANN)
    loop.now.advance(days=7)
    trip = loop.watch()
    assert trip is not None
    assert trip.cause is TripCause.STALE
    stands_for = trip.evidence.stands_for
    assert len(stands_for) == trip.evidence.overdue
    assert set(stands_for.values()) == {4.0}


@pytest.mark.parametrize("same", ["id", "content"])
def test_one_wrong_document_that_is_sent_again_and_again_stops_nothing(same: str) -> None:
    loop = Loop(Database(), rule=QUICK)
    fixed(loop)
    for place in range(12):
        name, text = ("note", unlike("0.9", place)) if same == "id" else (f"note {place}", "0.9")
        loop.predictions.predict([Submission(CLIENT, Document(id=name, text=text))])
    loop.read(wrong_below=1.0)
    watch = loop.breaker(LEAD).watch
    assert (watch.counts().audits, watch.counts().copies) == (1, 11)
    assert watch.position is Position.WATCHING


def test_audits_of_what_would_not_be_sent_do_not_count(loop: Loop) -> None:
    fixed(loop)
    loop.predict(*["0.3"] * 30)
    loop.read(wrong_below=1.0)
    assert loop.breaker(LEAD).watch.counts().audits == 0
    assert loop.gate.trip_id is None


def test_documents_sent_while_they_are_audited_count_as_those_that_were_held(loop: Loop) -> None:
    fixed(loop, SENT_ALL)
    predictions = loop.predict(*["0.9"] * 30)
    assert {one.decision for one in predictions} == {Decision.AUTO}
    loop.read(wrong_below=1.0)
    assert loop.gate.trip_id is not None


def test_another_target_begins_with_audits_of_its_own(loop: Loop) -> None:
    fixed(loop)
    loop.predict(*["0.9"] * 3)
    loop.read(wrong_below=1.0)
    assert loop.breaker(LEAD).watch.counts().wrong == 3
    lower = change(threshold=0.8, target_accuracy=0.7, audits=ALL, reason="a target to begin with")
    loop.change_policy(ADMIN, lower, None)
    assert loop.breaker(LEAD).watch.counts().audits == 0


def test_a_change_of_policy_does_not_start_sending_again(loop: Loop) -> None:
    certified(loop)
    tripped(loop)
    trip = loop.gate.trip_id
    fixed(loop)
    assert loop.gate.trip_id == trip
    assert reasons(loop.predict("0.95")) <= {Reason.BREAKER}


def test_what_was_proved_before_the_alarm_no_longer_counts(loop: Loop) -> None:
    certified(loop)
    tripped(loop)
    loop.plan()
    assert loop.gate.threshold is None, "the old certificate is not found again"
    certification = loop.certify(ADMIN.id)
    assert (certification.threshold, certification.reason) == (None, "no-audits")
    assert certification.evidence.excluded["before the alarm"] > 20
    assert certification.attempt > 1
    assert certification.evidence.risk == risk_on_demand(certification.risk, 1), (
        "new evidence, new risk"
    )


def test_only_a_new_certificate_and_a_person_start_it_again(loop: Loop) -> None:
    certified(loop)
    tripped(loop)
    with pytest.raises(CertificateNeeded, match="None has been tried"):
        loop.reset(ADMIN)
    loop.predict(*["0.9"] * 6)
    loop.read()
    loop.certify(ADMIN.id)
    with pytest.raises(CertificateNeeded, match=r"too-few-audits.*about \d+ more audits"):
        loop.reset(ADMIN)
    loop.predict(*["0.9"] * 100)
    loop.read()
    proof = loop.certify_if_due()
    assert proof is not None
    assert proof.threshold == 0.9
    assert loop.gate.trip_id is not None, "a certificate alone starts nothing"
    assert reasons(loop.predict(*["0.95"] * 8)) == {Reason.BREAKER}
    reset = loop.reset(ADMIN)
    assert reset.certificate_id == proof.id
    assert reasons(loop.predict(*["0.95"] * 8)) == {Reason.ABOVE_THRESHOLD}
    state = loop.breaker(LEAD)
    assert state.watch.counts().wrong == 0, "the detector starts over"
    assert [(one.id, end) for one, end in state.trips] == [(reset.trip_id, reset)]


@pytest.mark.slow
def test_a_refused_reset_does_not_tell_what_a_certification_would_find() -> None:
    # Looking at the evidence until it suffices would spend a risk that nothing accounts for.
    said = set()
    for wrong_below in (0.0, 1.0):
        loop = Loop(Database(), rule=QUICK)
        certified(loop)
        tripped(loop)
        loop.predict(*["0.9"] * 100)
        loop.read(wrong_below=wrong_below)
        with pytest.raises(CertificateNeeded) as error:
            loop.reset(ADMIN)
        said.add(error.value.detail)
    assert len(said) == 1


def test_a_fixed_threshold_goes_on_upon_the_owners_word_alone(loop: Loop) -> None:
    fixed(loop)
    tripped(loop)
    with pytest.raises(CertificateNeeded, match="uncertified: true"):
        loop.reset(ADMIN)
    reset = loop.reset(ADMIN, uncertified=True)
    assert reset.certificate_id is None
    assert loop.gate.certificate_id is None
    assert loop.gate.trip_id is None
    with pytest.raises(BreakerNotTripped):
        loop.reset(ADMIN, uncertified=True)


def test_the_owners_word_is_no_certificate(loop: Loop) -> None:
    certified(loop)
    tripped(loop)
    with pytest.raises(InvalidRequest) as error:
        loop.reset(ADMIN, uncertified=True)
    assert [fault.pointer for fault in error.value.faults] == ["/uncertified"]


def test_it_trips_again_on_what_is_predicted_after_the_reset(loop: Loop) -> None:
    fixed(loop)
    tripped(loop)
    first = loop.gate.trip_id
    loop.reset(ADMIN, uncertified=True)
    tripped(loop)
    assert loop.gate.trip_id != first
    assert [end is None for _, end in loop.breaker(LEAD).trips] == [True, False]


@pytest.mark.parametrize("many", [True, False])
def test_sending_stops_where_audits_grow_stale(loop: Loop, many: bool) -> None:
    rare = AuditPlan(certification_rate=1e-9)
    fixed(loop, rare)
    loop.predict(*["0.9"] * (21 if many else 20))
    assert (loop.watch() is not None) is many
    if not many:
        loop.now.advance(days=2)
        assert loop.watch() is None
        loop.now.advance(seconds=1)
        assert loop.watch() is not None
    trip = loop.breaker(LEAD).trip
    assert trip is not None
    assert trip.cause is TripCause.STALE
    assert trip.evidence.sent_since == (21 if many else 20)
    assert reasons(loop.predict("0.9")) == {Reason.BREAKER}


def test_audits_that_nobody_reads_stop_sending_without_speaking_against_the_evidence(
    loop: Loop,
) -> None:
    certified(loop)
    loop.predict(*["0.9"] * 30)
    loop.now.advance(days=7)
    trip = loop.watch()
    assert trip is not None
    assert trip.cause is TripCause.STALE
    assert trip.evidence.overdue == trip.evidence.unfinished > 8
    outcomes = trip.evidence.outcomes
    assert drift_statistic([each == "1" for each in outcomes], 0.8).max() >= 200.0


def test_audits_within_their_reading_time_stop_nothing(loop: Loop) -> None:
    certified(loop)
    loop.predict(*["0.9"] * 30)
    loop.now.advance(days=1.9)
    assert loop.watch() is None


def test_finished_audits_do_not_vouch_for_what_is_sent_while_another_is_overdue() -> None:
    loop = Loop(Database(), rule=replace(QUICK, reading_time=timedelta(days=1)))
    fixed(loop, HALF)
    loop.predict(*["0.9"] * 4)
    loop.settle(ANN)
    for day in range(3):
        loop.predict(*["0.9"] * 16)
        loop.now.advance(days=1)
        loop.settle(ANN)
        while loop.claim(LEAD) is not None:  # left with the lead for ever
            pass
        assert loop.breaker(LEAD).watch.overdue_since is not None or day == 0
    trip = loop.watch()
    assert trip is not None
    assert trip.cause is TripCause.STALE
    assert trip.evidence.overdue_since is not None


def test_a_finished_audit_vouches_for_what_was_sent_before_it(loop: Loop) -> None:
    fixed(loop, HALF)
    for _ in range(4):
        loop.predict(*["0.9"] * 16)
        loop.now.advance(days=1)
        loop.read()
        loop.now.advance(hours=1)
        assert loop.watch() is None


def test_a_policy_without_audits_is_not_watched(loop: Loop) -> None:
    fixed(loop, AuditPlan())
    loop.predict(*["0.9"] * 30)
    loop.now.advance(days=99)
    assert loop.watch() is None


def test_what_was_sent_without_audits_is_not_held_against_them(loop: Loop) -> None:
    rare = AuditPlan(certification_rate=1e-9)
    fixed(loop, rare)
    loop.predict(*["0.9"] * 15)
    loop.now.advance(days=1)
    fixed(loop, AuditPlan())
    loop.predict(*["0.9"] * 30)
    loop.now.advance(days=9)
    assert loop.watch() is None
    assert loop.breaker(LEAD).watch.unvouched.documents == 0
    fixed(loop, rare)
    assert loop.watch() is None
    loop.now.advance(seconds=1)
    loop.predict(*["0.9"] * 15)
    fixed(loop, replace(rare, training_rate=1e-9))
    loop.predict(*["0.9"] * 4)
    assert loop.watch() is None
    assert loop.breaker(LEAD).watch.unvouched.documents == 19
    loop.predict(*["0.9"] * 2)
    assert loop.watch() is not None


def test_what_serves_again_begins_afresh(loop: Loop) -> None:
    """Nobody could audit its label sets while something else served."""
    one, other = model("sha256:one"), model("sha256:other")
    learnt_calibration, relearnt = (calibration(one, f"sha256:{n}") for n in (1, 2))
    with loop.begin() as transaction:
        for version in (one, other):
            transaction.models.add(version)
        for version in (learnt_calibration, relearnt):
            transaction.calibrations.add(version)

    def begins_with(served: ModelVersion, calibrator: Calibration | None = None) -> bool:
        """Let something serve, a minute later; tells whether it begins afresh with that."""
        loop.now.advance(minutes=1)
        with loop.begin() as transaction:
            if calibrator is None:
                transaction.models.activate(served.id, loop.now(), loop.new_id())
            else:
                transaction.calibrations.activate(
                    served.id, calibrator.id, loop.now(), loop.new_id()
                )
        with loop.begin(read_only=True) as transaction:
            return transaction.breakers.in_force_since() == loop.now()

    fixed(loop, AuditPlan(certification_rate=1e-9))
    assert not begins_with(one)  # nothing served before
    assert not begins_with(one)
    assert begins_with(other)
    loop.now.advance(minutes=1)
    loop.predict(*["0.9"] * 15)
    assert begins_with(one)
    assert not begins_with(one)
    assert begins_with(one, learnt_calibration)
    assert begins_with(one, relearnt)
    assert not begins_with(one, relearnt)
    assert begins_with(other)
    assert not begins_with(one, learnt_calibration)  # which does not serve
    loop.now.advance(minutes=1)
    loop.predict(*["0.9"] * 3)
    assert loop.breaker(LEAD).watch.unvouched.documents == 3


def test_stale_audits_still_count_for_the_next_certificate(loop: Loop) -> None:
    certified(loop)
    loop.predict(*["0.9"] * 80)
    loop.read()
    loop.now.advance(seconds=1)
    while not any(one.decision is Decision.AUTO for one in loop.predict("0.9")):
        pass
    loop.now.advance(days=3)
    trip = loop.watch()
    assert trip is not None
    with pytest.raises(CertificateNeeded, match="None has been tried"):
        loop.reset(ADMIN)
    loop.read()
    proof = loop.certify_if_due()
    assert proof is not None
    assert loop.reset(ADMIN).certificate_id == proof.id
    assert loop.watch() is None


def test_nothing_is_watched_before_anything_is_predicted_or_sent(loop: Loop) -> None:
    assert loop.watch() is None
    state = loop.breaker(LEAD)
    assert (state.watch.scorer, state.watch.position) == (None, Position.IDLE)
    loop.plan()
    loop.predict("0.9")
    assert loop.watch() is None
    assert loop.breaker(LEAD).watch.position is Position.IDLE
