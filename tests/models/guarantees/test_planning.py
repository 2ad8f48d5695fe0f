"""Plans of audits: weeks until a drop is found, costs, and which plan is recommended."""

from itertools import product

import numpy as np
import pytest

from setwise.models.guarantees import planning
from setwise.models.guarantees.drift import bet_factors
from setwise.models.guarantees.planning import (
    YEAR,
    Goals,
    Prices,
    Rates,
    plans,
    weeks_to_find,
)
from setwise.models.guarantees.workload import Workload

USUAL = {"target": 0.9, "sent_a_week": 500.0, "audit_rate": 0.04}


def test_the_audits_until_an_alarm_are_distributed_as_by_enumeration():
    target, found, missed, again, run_length = 0.6, 0.3, 0.3, 0.5, 12.0
    wrong, right = bet_factors(target)
    # A miss that is read again stands for two errors.
    chances = (found, missed * again, 1 - found - missed * again)
    factors = (wrong, right + 2 * (wrong - right), right)
    by_audit = np.zeros(7)  # probability of the first alarm at each audit, over all outcomes
    for outcomes in product(range(3), repeat=7):
        capital = np.zeros(len(wrong))
        for place, outcome in enumerate(outcomes):
            capital = (capital + 1) * factors[outcome]
            if capital.mean() >= run_length:
                by_audit[place] += np.prod([chances[one] for one in outcomes])
                break
    needed = planning._audits_to_alarm(found, missed, again, target, run_length, seed=0)
    simulated = [np.mean(needed <= n) for n in range(1, 8)]
    # Four standard errors of a share among 400 runs.
    np.testing.assert_allclose(simulated, by_audit.cumsum(), atol=4 * 0.025)
    assert 0.2 < by_audit.sum() < 0.9


def test_three_times_the_audits_find_a_drop_in_a_third_of_the_weeks():
    seldom = weeks_to_find(0.02, **USUAL)
    often = weeks_to_find(0.02, **{**USUAL, "audit_rate": 0.12})
    assert (often.audits, often.audits_at_most) == (seldom.audits, seldom.audits_at_most)
    assert seldom.weeks == 45
    assert often.weeks == 15
    assert seldom.weeks_at_most > seldom.weeks


def test_large_drops_are_found_sooner_and_missed_errors_delay():
    weeks = [weeks_to_find(drop, **USUAL).weeks for drop in (0.02, 0.05, 0.1, 0.3)]
    assert weeks == sorted(weeks, reverse=True)
    missed = weeks_to_find(0.1, **USUAL, miss_rate=0.3)
    reread = weeks_to_find(0.1, **USUAL, miss_rate=0.3, reread_rate=0.5)
    assert missed.weeks > reread.weeks >= weeks[2]


def test_a_drop_that_auditors_overlook_is_found_by_second_readings_alone():
    hidden = weeks_to_find(0.1, **USUAL, miss_rate=0.99)
    assert (hidden.audits, hidden.weeks, hidden.weeks_at_most) == (None, None, None)
    assert weeks_to_find(0.1, **USUAL, miss_rate=0.99, reread_rate=0.2).weeks < 60


def test_without_audits_there_are_no_weeks():
    idle = weeks_to_find(0.1, target=0.9, sent_a_week=500, audit_rate=0.0)
    assert idle.audits is not None
    assert idle.weeks is None


def test_equal_seeds_give_equal_delays():
    planning._audits_to_alarm.cache_clear()
    first = weeks_to_find(0.05, **USUAL)
    planning._audits_to_alarm.cache_clear()
    assert weeks_to_find(0.05, **USUAL) == first


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"drop": 0.0}, "drop"),
        ({"drop": 0.95}, "drop"),
        ({"target": 1.0}, "target"),
        ({"sent_a_week": -1.0}, "sent_a_week"),
        ({"audit_rate": 1.1}, "audit_rate"),
        ({"reread_rate": float("nan")}, "reread_rate"),
        ({"miss_rate": -0.1}, "miss_rate"),
        ({"run_length": 1.0}, "run_length"),
    ],
)
def test_values_out_of_range_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        weeks_to_find(**{"drop": 0.05, **USUAL, **wrong})


def workload(**changed):
    usual = {
        "confidences": np.random.default_rng(0).beta(2.2, 0.75, 2_000),
        "documents_a_week": 1_000.0,
        "target": 0.9,
        "risk": 0.1,
        "first_attempt": 348,
        "sendable": 0.9,
    }
    return Workload(**{**usual, **changed})


def test_every_document_of_a_week_is_read_or_sent():
    for plan in plans(workload()):
        for week in (plan.ramp_up, plan.running):
            assert week.audits + week.reviews + week.sent == pytest.approx(1_000)
        assert plan.ramp_up.sent == 0
        assert plan.running.sent == pytest.approx(1_000 * plan.automation)
        assert plan.running.errors < 0.1 * plan.running.sent
        assert plan.retest.weeks <= plan.delay.weeks


def test_costs_are_the_mean_of_the_first_year():
    prices = Prices(audit=3.0, review=2.0, error=50.0)
    (plan,) = plans(workload(), audit=[0.1], ramp_up=[0.2], reread=[0.5], prices=prices)
    read = [
        week.audits + week.rereads + week.adjudications for week in (plan.ramp_up, plan.running)
    ]
    before = 3 * read[0] + 2 * plan.ramp_up.reviews
    after = 3 * read[1] + 2 * plan.running.reviews + 50 * plan.running.errors
    spent = plan.weeks * before + (YEAR - plan.weeks) * after
    assert plan.cost_a_week == pytest.approx(spent / YEAR)


def test_the_cheapest_plan_that_meets_the_goals_comes_first():
    goals = Goals(drop=0.05, certificate_weeks=4, find_weeks=26)
    found = plans(workload(), goals=goals)
    assert len({plan.rates for plan in found}) == len(found)
    meeting = [plan for plan in found if plan.meets]
    assert found[0].meets
    assert meeting == found[: len(meeting)]
    assert found[0].cost_a_week == min(plan.cost_a_week for plan in meeting)
    for plan in found:
        on_time = plan.weeks_at_most is not None and plan.weeks_at_most <= 4
        in_sight = plan.delay.weeks_at_most is not None and plan.delay.weeks_at_most <= 26
        assert plan.meets == (on_time and in_sight)


def test_of_plans_that_miss_the_goals_the_soonest_comes_first():
    found = plans(workload(), goals=Goals(0.05, 1, 1))
    assert not any(plan.meets for plan in found)
    weeks = [plan.delay.weeks_at_most for plan in found if plan.delay is not None]
    assert weeks == sorted(weeks)


def test_without_a_certificate_nothing_is_sent():
    (plan,) = plans(
        workload(confidences=np.full(50, 0.5)), audit=[0.1], ramp_up=[0.5], reread=[0.5]
    )
    assert (plan.weeks, plan.automation, plan.running) == (None, None, None)
    assert plan.delay is plan.retest is None
    assert not plan.meets
    assert plan.cost_a_week == plan.ramp_up.cost(Prices())


def test_more_audits_before_the_certificate_bring_it_sooner():
    slow, fast = sorted(
        plans(workload(), audit=[0.05], ramp_up=[0.1, 0.5], reread=[0.5]), key=lambda x: x.rates
    )
    assert (slow.rates, fast.rates) == (Rates(0.05, 0.1, 0.5), Rates(0.05, 0.5, 0.5))
    assert slow.weeks > fast.weeks
    assert slow.running == fast.running


def test_a_rate_out_of_range_is_refused():
    with pytest.raises(ValueError, match="certification_rate"):
        plans(workload(), audit=[1.5])
    with pytest.raises(ValueError, match="drop"):
        plans(workload(), goals=Goals(drop=0.95))


def test_second_readings_where_sets_may_be_sent_bring_certificates_sooner():
    rates = {"audit": [0.1], "ramp_up": [0.3], "reread": [0.2]}
    (even,) = plans(workload(), **rates)
    (focused,) = plans(workload(), **rates, reread_above=lambda share: 2 * share)
    assert focused.weeks < even.weeks
    assert focused.rates == even.rates
    assert focused.ramp_up == even.ramp_up
