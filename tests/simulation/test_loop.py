"""The whole loop on SQLite: what owners are promised holds in a world whose truth is known."""

from dataclasses import replace
from pathlib import Path

import pytest

from setwise.service.domain.breaker import Position
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.recalibration import Noise
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.routing.segments import Segmentation
from setwise.service.services.analysis.plans import Arrivals, PlanRequest, plan_audits
from setwise.service.simulation.loop import Week, simulate, summary
from setwise.service.simulation.office import START, opened
from setwise.service.simulation.plan import BadPlan, Drift, Group, Plan, Sites
from setwise.service.simulation.streams import HeldOutStream, SyntheticStream
from tests.trained import Artifacts, write_documents

pytestmark = pytest.mark.slow

# A lenient target is soon proved, and a nervous breaker soon trips, so that few documents suffice.
PLAN = Plan(
    weeks=6,
    documents=150,
    target=0.8,
    risk=0.2,
    groups=(Group(0.1, 1), Group(0.3, 1)),
    audits=AuditPlan(certification_rate=0.6, gold_reread_rate=0.5),
    run_length=200.0,
    recertify_every=0,
    drift=Drift(5, 0.7),
)


@pytest.fixture(scope="module")
def weeks() -> list[Week]:
    return simulate(PLAN, SyntheticStream(0))


def test_nothing_is_sent_before_a_certificate_and_then_what_it_promises(weeks: list[Week]) -> None:
    assert PLAN.drift is not None
    first = next(week.week for week in weeks if week.certified)
    assert 1 < first < PLAN.drift.week
    for week in weeks[: first - 1]:
        assert (week.sent, week.threshold, week.breaker) == (0, None, Position.IDLE)
    calm = [week for week in weeks if week.week < PLAN.drift.week]
    sent = sum(week.sent for week in calm)
    assert sent > 30
    assert sum(week.right for week in calm) / sent >= PLAN.target
    assert all(week.trips == 0 for week in calm)


def test_a_fixed_threshold_sends_what_a_bad_site_gets_wrong() -> None:
    plan = replace(PLAN, weeks=1, drift=None, sites=Sites(2, 0.6), fixed_threshold=0.7)
    (week,) = simulate(plan, SyntheticStream(0))
    assert week.sent > week.bad_sent > 2 * week.bad_right > 0


def test_each_site_has_a_threshold_of_its_own_unless_they_share_one() -> None:
    for divided in (True, False):
        plan = replace(PLAN, weeks=1, documents=20, sites=Sites(2, 0.6, divided), drift=None)
        with opened(plan, SyntheticStream(0)) as office:
            segmentation = office.services.policy.get(office.owner).segmentation
        assert segmentation == (Segmentation("site", most=2) if divided else None)
        assert sum(week.sent for week in simulate(plan, SyntheticStream(0))) == 0


def test_the_breaker_stops_what_drift_has_made_wrong(weeks: list[Week]) -> None:
    assert PLAN.drift is not None
    drifting = weeks[PLAN.drift.week - 1]
    assert drifting.accuracy is not None
    assert drifting.accuracy < PLAN.target
    assert sum(week.trips for week in weeks) == 1
    tripped = next(week.week for week in weeks if week.trips)
    for week in weeks[tripped - 1 :]:
        assert (week.breaker, week.certified) == (Position.TRIPPED, False)
    for week in weeks[tripped:]:
        assert week.sent == 0


def test_a_refusal_says_how_many_audits_are_missing(weeks: list[Week]) -> None:
    for week in weeks:
        assert week.breaker is Position.TRIPPED or (week.threshold is None) == (not week.certified)
        assert not (week.certified and week.lacking)


def test_everything_that_was_not_sent_was_read(weeks: list[Week]) -> None:
    """In mode hold an audited document waits, so whatever was not sent has a reader."""
    for week in weeks:
        assert week.documents == PLAN.documents
        assert week.reviews + week.audits == week.documents - week.sent
        assert 0 < week.adjudications < week.audits
        read = week.reviews + week.audits + week.adjudications
        assert week.hours == pytest.approx(read * PLAN.minutes / 60.0)


def test_equal_seeds_give_equal_weeks_and_other_seeds_others(weeks: list[Week]) -> None:
    short = replace(PLAN, weeks=1, documents=40, drift=None)
    once = simulate(short, SyntheticStream(0))
    assert simulate(short, SyntheticStream(0)) == once
    assert simulate(replace(short, seed=1), SyntheticStream(1)) != once


def test_a_fixed_threshold_sends_at_once_and_never_notices_drift() -> None:
    plan = replace(PLAN, weeks=2, fixed_threshold=0.8, drift=Drift(2, 0.5))
    before, after = simulate(plan, SyntheticStream(0))
    assert {before.certified, after.certified} == {False}
    assert before.threshold == after.threshold == 0.8
    assert before.audits == after.audits == 0
    assert before.accuracy is not None
    assert after.accuracy is not None
    assert before.accuracy > 0.85
    assert after.accuracy < 0.7


def test_a_label_that_the_model_does_not_know_cannot_drift() -> None:
    with pytest.raises(BadPlan, match="drift-label: 'nobody' is not a label of the model"):
        simulate(replace(PLAN, drift=Drift(1, 0.5, "nobody")), SyntheticStream(0))


def test_the_summary_adds_up(weeks: list[Week]) -> None:
    total = summary(weeks)
    assert total["documents"] == PLAN.weeks * PLAN.documents
    assert total["sent"] == sum(week.sent for week in weeks)
    assert total["hours"] == pytest.approx(sum(week.hours for week in weeks))


def test_the_owner_recalibrates_while_nothing_is_certified(
    artifacts: Artifacts, tmp_path: Path
) -> None:
    """Drift makes the model's confidences so wrong that what people said of it is better."""
    data = write_documents(tmp_path / "held-out.jsonl", 300, seed=5)
    plan = replace(
        PLAN,
        weeks=2,
        documents=300,
        audits=AuditPlan(certification_rate=0.1, gold_reread_rate=0.5),
        recalibrate_every=1,
        noise=Noise.NONE,
        drift=Drift(1, 0.6),
    )
    first, _ = simulate(plan, HeldOutStream(artifacts.text, data, 0))
    assert (first.recalibrated, first.certified, first.threshold) == (True, False, None)


@pytest.mark.parametrize("overconfident", [False, True])
def test_certificates_hold_whether_confidences_are_true_or_too_high(overconfident: bool) -> None:
    """Too high, they cost automation, not accuracy."""
    plan = Plan(
        weeks=14 if overconfident else 8,
        documents=300,
        target=0.85,
        groups=(Group(0.1, 2), Group(0.5, 1)),
        audits=AuditPlan(certification_rate=0.6, gold_reread_rate=0.5),
    )
    total = summary(simulate(plan, SyntheticStream(4, overconfident)))
    sent, accuracy = total["sent"], total["accuracy"]
    assert isinstance(sent, int)
    assert sent > (100 if overconfident else 200)  # or the accuracy would say nothing
    assert isinstance(accuracy, float)
    # A certificate may be wrong at the plan's risk, yet not by much.
    assert accuracy > plan.target - 0.02


def test_a_plan_foretells_the_simulated_service(weeks: list[Week]) -> None:
    stream = SyntheticStream(0)
    scored = stream.predictor.score([stream.item(number).document for number in range(2_000)])
    wanted = PlanRequest(
        documents_a_week=PLAN.documents,
        certification_rates=[PLAN.audits.certification_rate],
        ramp_up_rates=[PLAN.audits.certification_rate],
        gold_reread_rates=[PLAN.audits.gold_reread_rate],
        miss_rate=PLAN.miss_rate,
    )
    change = PolicyChange(PLAN.target, PLAN.risk, True, ThresholdMode.CERTIFIED, None)
    policy = change.as_policy("", START, "")
    found = plan_audits(wanted, policy, Arrivals([one.confidence for one in scored]))
    (plan,) = found.items
    first = next(week for week in weeks if week.certified)
    assert plan.weeks is not None
    assert plan.weeks_at_most is not None
    assert abs(first.week - plan.weeks) <= plan.weeks_at_most
    sent = [week.coverage for week in weeks if first.week < week.week < 5]
    assert plan.automation == pytest.approx(sum(sent) / len(sent), abs=0.12)
