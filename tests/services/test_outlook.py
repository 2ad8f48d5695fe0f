"""How many more audits would prove a threshold, and how long they take."""

import math
from random import Random

import pytest

from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.predictions import Document, Submission
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.audits import AuditPlan
from tests import building
from tests.kit.databases import Database
from tests.kit.loop import RIGHT, WRONG, Loop
from tests.samples import ADMIN, ANN, CLIENT, LEAD, change

RATES = AuditPlan(certification_rate=0.1, ramp_up_rate=0.4, gold_reread_rate=1.0)
A_WEEK = 40


@pytest.fixture
def loop() -> Loop:
    return Loop(Database())


def week(loop: Loop, draw: Random) -> int:
    """Let a week's documents arrive, right as often as confidences say; return how many audits."""
    wrong, audits = set(), 0
    for _ in range(A_WEEK):
        confidence = draw.choice([0.95, 0.9, 0.6])
        (prediction,) = loop.predict(str(confidence))
        if draw.random() >= confidence:
            wrong.add(prediction.name)
    for who in (ANN, LEAD):
        while (task := loop.claim(who)) is not None:
            labels = WRONG if task.prediction.name in wrong else RIGHT
            loop.reviews.complete(who, task.id, labels, None, task.version)
            audits += task.kind is ReviewKind.AUDIT
    loop.now.advance(weeks=1)
    return audits


def weeks_expected_and_needed(seed: int) -> tuple[int, int]:
    """Return the weeks to a certificate that the outlook names, and how many it takes."""
    loop, draw = Loop(Database()), Random(seed)
    loop.plan(RATES, target=0.75)
    week(loop, draw)
    (outlook,) = loop.outlooks.of_segments(ADMIN)
    (pace,) = outlook.paces
    assert outlook.documents_a_week == A_WEEK
    assert (pace.rate, pace.audits_a_week) == (0.4, 0.4 * A_WEEK)
    assert pace.weeks is not None
    weeks = 0
    while not loop.outlooks.of_segments(ADMIN)[0].certified:
        week(loop, draw)
        weeks += 1
        loop.certify_if_due()
        assert weeks < 20, "no certificate comes"
    (proved,) = loop.outlooks.of_segments(ADMIN)
    assert (proved.further_audits, proved.next_attempt_in, proved.paces) == (None, None, ())
    return pace.weeks, weeks


def test_a_certificate_comes_in_the_weeks_that_the_outlook_names() -> None:
    expected, needed = weeks_expected_and_needed(3)
    assert 1 <= needed <= expected


@pytest.mark.verify
def test_four_certificates_in_five_come_in_the_weeks_that_the_outlook_names() -> None:
    """The number of audits is meant for a single attempt; an earlier one may succeed, too."""
    pairs = [weeks_expected_and_needed(seed) for seed in range(20)]
    assert sum(needed <= expected for expected, needed in pairs) >= 14  # 2.2 standard errors
    assert sum(needed for _, needed in pairs) > sum(expected for expected, _ in pairs) / 3


def test_audits_that_are_drawn_since_the_attempt_are_no_longer_missing(loop: Loop) -> None:
    draw = Random(0)
    loop.plan(RATES)
    week(loop, draw)
    attempt = loop.certify()
    assert attempt.further_audits is not None
    (before,) = loop.outlooks.of_segments(ADMIN)
    assert (before.further_audits, before.reason) == (attempt.further_audits, attempt.reason)
    audits = week(loop, draw)
    (after,) = loop.outlooks.of_segments(ADMIN)
    assert 0 < audits < before.further_audits
    assert after.further_audits == before.further_audits - audits


def test_three_times_the_rate_takes_a_third_of_the_weeks(loop: Loop) -> None:
    loop.plan(AuditPlan(certification_rate=0.01, gold_reread_rate=1.0))
    loop.predict(*["0.9"] * 40)
    loop.now.advance(weeks=1)
    (outlook,) = loop.outlooks.of_segments(ADMIN, 0.03)
    assert outlook.further_audits is not None
    assert outlook.next_attempt_in is not None
    audits = max(outlook.further_audits, outlook.next_attempt_in)
    assert [pace.weeks for pace in outlook.paces] == [
        math.ceil(audits / (40 * rate)) for rate in (0.01, 0.03)
    ]


def test_a_lower_target_takes_fewer_hours_of_reading(loop: Loop) -> None:
    loop.plan(AuditPlan(certification_rate=0.9, gold_reread_rate=1.0), target=0.85)
    loop.predict(*["0.95"] * 40)
    read = 0
    while (task := loop.claim(ANN)) is not None:
        loop.now.advance(seconds=36)
        loop.reviews.complete(ANN, task.id, RIGHT, None, task.version)
        read += task.blind
    assert read
    usual, lower = (loop.outlooks.of_segments(ADMIN, None, aim)[0] for aim in (None, 0.7))
    assert (usual.target, lower.target) == (0.85, 0.7)
    for found in (usual, lower):
        assert found.further_audits is not None
        assert found.hours == pytest.approx(0.01 * found.further_audits)
        (pace,) = found.paces
        assert pace.hours_a_week == pytest.approx(0.01 * pace.audits_a_week)
    assert lower.further_audits < usual.further_audits
    assert lower.next_attempt_in is None


def test_a_certificate_in_force_proves_every_lower_target(loop: Loop) -> None:
    loop.plan(AuditPlan(certification_rate=0.9, gold_reread_rate=1.0), target=0.75)
    loop.predict(*["0.95"] * 60)
    loop.read()
    assert loop.certify().threshold is not None
    loop.predict(*["0.95"] * 8)
    loop.read(wrong_below=1.0)
    assert loop.certify().threshold is None, "a later attempt proves nothing, and ends nothing"
    certified = {
        target: loop.outlooks.of_segments(ADMIN, None, target)[0].certified
        for target in (0.5, 0.75, 0.9)
    }
    assert certified == {0.5: True, 0.75: True, 0.9: False}


def test_before_a_blind_reading_no_hours_are_named(loop: Loop) -> None:
    loop.plan(RATES)
    loop.predict(*["0.9"] * 40)
    (outlook,) = loop.outlooks.of_segments(ADMIN)
    assert (outlook.hours, outlook.paces[0].hours_a_week) == (None, None)


def test_what_cannot_be_sent_is_not_counted(loop: Loop) -> None:
    loop.plan(RATES, confidence_floor=0.5)
    loop.predict("0.9", "0.4")
    loop.predictions.predict([Submission(CLIENT, Document(text="unknown"))])  # out of domain
    loop.now.advance(weeks=1)
    (outlook,) = loop.outlooks.of_segments(ADMIN)
    assert outlook.documents_a_week == 1.0


def test_audits_from_which_nothing_is_proved_do_not_count(loop: Loop) -> None:
    loop.plan(AuditPlan(certification_rate=1.0, gold_reread_rate=1.0))
    loop.predict(*["0.9"] * 10)
    loop.now.advance(weeks=1)
    (outlook,) = loop.outlooks.of_segments(ADMIN)
    assert outlook.paces[0].audits_a_week == pytest.approx(9.0)


def test_confidences_below_the_target_need_no_number_of_audits(loop: Loop) -> None:
    loop.plan(RATES, target=0.9)
    loop.predict(*["0.6"] * 20)
    (outlook,) = loop.outlooks.of_segments(ADMIN)
    assert (outlook.certified, outlook.further_audits, outlook.paces) == (False, None, ())
    assert outlook.reason == "below-target"


def test_without_second_readings_no_number_of_audits_proves_anything(loop: Loop) -> None:
    loop.plan(AuditPlan(certification_rate=0.1))
    loop.predict(*["0.95"] * 20)
    (outlook,) = loop.outlooks.of_segments(ADMIN)
    assert (outlook.further_audits, outlook.reason) == (None, "miss-rate-unknown")


def test_a_fixed_threshold_has_no_next_attempt(loop: Loop) -> None:
    fixed = change(threshold_mode=ThresholdMode.FIXED, threshold=0.5, audits=RATES)
    loop.change_policy(ADMIN, fixed, None)
    loop.predict("0.9")
    (outlook,) = loop.outlooks.of_segments(ADMIN)
    assert outlook.next_attempt_in is None


def test_the_cockpit_names_the_same_next_attempt_after_a_change_of_rules(
    loop: Loop,
) -> None:
    audits = AuditPlan(certification_rate=1.0, gold_reread_rate=1.0)
    loop.plan(audits)
    loop.predict(*["0.95"] * 8)
    loop.read()
    reports = building.reports(loop.begin, loop.now, outlooks=loop.outlooks)
    before = reports.glance(LEAD).certificate.progress
    loop.plan(audits, rules=[{"kind": "at_most", "n": 7}])
    loop.predict(*["0.95"] * 3)
    loop.read()
    (outlook,) = loop.outlooks.of_segments(ADMIN)
    progress = reports.glance(LEAD).certificate.progress
    assert outlook.next_attempt_in == progress.missing
    assert before.audits > progress.audits > 0


def test_before_the_first_prediction_there_is_no_outlook(loop: Loop) -> None:
    assert loop.outlooks.of_segments(ADMIN) == []


@pytest.mark.parametrize("number", [0.0, 1.5, -0.1, math.nan])
@pytest.mark.parametrize("name", ["rate", "target"])
def test_a_number_out_of_range_is_refused(loop: Loop, name: str, number: float) -> None:
    with pytest.raises(InvalidRequest) as caught:
        loop.outlooks.of_segments(ADMIN, **{name: number})
    assert [fault.pointer for fault in caught.value.faults] == [f"/query/{name}"]


def test_audits_that_do_not_count_before_a_lead_has_read_them_again_are_named(loop: Loop) -> None:
    loop.plan(RATES, target=0.75)
    loop.predict(*["0.95"] * 40)
    while (task := loop.claim(ANN)) is not None:
        loop.reviews.complete(ANN, task.id, RIGHT, None, task.version)
    (outlook,) = loop.outlooks.of_segments(ADMIN)
    assert outlook.too_recent > 0
    while (task := loop.claim(LEAD)) is not None:
        loop.reviews.complete(LEAD, task.id, RIGHT, None, task.version)
    (outlook,) = loop.outlooks.of_segments(ADMIN)
    assert outlook.too_recent == 0
