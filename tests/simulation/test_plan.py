"""What can be simulated, and what a plan that cannot says."""

import math
from dataclasses import replace

import pytest

from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.simulation.plan import BadPlan, Drift, Group, Lapse, Plan, read_groups

PLAN = Plan()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weeks": 0}, "weeks: 0 must be from 1 to 1000"),
        ({"documents": 0}, "documents: 0 must be from 1"),
        ({"target": 1.0}, "target: 1 must be above 0 and below 1"),
        ({"risk": 0.0}, "risk: 0 must be above 0"),
        ({"risk": math.nan}, "risk: nan must"),
        ({"miss_rate": -0.1}, "miss-rate: -0.1 must be from 0"),
        ({"run_length": 10.0}, "run-length: 10 must be from 100"),
        ({"minutes": 0.0}, "minutes: 0 must be above 0"),
        ({"minutes": math.nan}, "minutes: nan must be above 0"),
        ({"recertify_every": -1}, "recertify-every: -1"),
        ({"audits": AuditPlan(certification_rate=1.5)}, "certification-rate: is 1.5"),
        ({"audits": AuditPlan(0.9, 0.2)}, "training-rate: is 0.2; with the certification"),
        ({"fixed_threshold": 1.2}, "threshold: 1.2 must be from 0 to 1"),
        ({"drift": Drift(31, 0.2)}, "drift-week: 31 must be from 1 to 30"),
        ({"drift": Drift(5, 0.0)}, "drift: 0 must be above 0"),
        ({"groups": (Group(0.99, 2),)}, "an error rate and the miss rate of 0.02 sum to 1.01"),
    ],
)
def test_a_plan_that_cannot_be_says_what_would_be_right(changes, said):
    with pytest.raises(BadPlan) as refused:
        replace(PLAN, **changes)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "'' is not a group"),
        (".1,x3", "'x3' is not a group"),
        (".1,.2x1.5", "'.2x1.5' is not a group"),
        (".1,1.0", "the error rate 1 must be from 0 to below 1"),
        (".1,nan", "the error rate nan"),
        (".1x0,.2", "has no people"),
        (".1", "name 2 to 50 people"),
        (".1x51", "name 2 to 50 people"),
    ],
)
def test_annotators_that_cannot_be_are_refused(written, said):
    with pytest.raises(BadPlan, match=said):
        read_groups(written)


def test_a_group_may_have_many_people():
    assert read_groups(" .1x4, 0.5") == (Group(0.1, 4), Group(0.5, 1))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"drift": Drift(3, 0.2, over=0)}, "drift-over: 0 must be from 1"),
        ({"lapse": Lapse(31, 0.9)}, "lapse-week: 31 must be from 1 to 30"),
        ({"lapse": Lapse(3, -0.1)}, "lapse-rate: -0.1 must be from 0 to 1"),
        ({"sure_miss_rate": 1.0}, "sure-miss-rate: 1 must be from 0 and below 1"),
    ],
)
def test_drift_and_lapses_that_cannot_be_are_refused(changes, said):
    with pytest.raises(BadPlan, match=said):
        Plan(**changes)


def test_reviewers_miss_more_where_the_model_is_sure_and_after_a_lapse():
    plan = Plan(miss_rate=0.02, sure_miss_rate=0.8, lapse=Lapse(9, 0.99))
    assert plan.misses(0.0, 1) == 0.02
    assert plan.misses(0.9, 8) == pytest.approx(0.722)
    assert plan.misses(0.1, 9) == 0.99
