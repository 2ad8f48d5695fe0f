"""Plans of audits: what an installation's plans rest on, and what is refused."""

from dataclasses import replace

import pytest

from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.services.analysis.plans import Bin, PlanRequest
from tests.edge import Service
from tests.samples import ADMIN, LEAD, change

DESCRIBED = PlanRequest(
    target_accuracy=0.8,
    documents_a_week=1_000,
    distribution=[Bin(0.95, 2), Bin(0.6, 1)],
    certification_rates=[0.05, 0.15],
    ramp_up_rates=[0.3],
    gold_reread_rates=[0.5],
)


def pointers(caught: pytest.ExceptionInfo[InvalidRequest]) -> list[str]:
    return [fault.pointer for fault in caught.value.faults]


def test_a_described_distribution_needs_no_predictions(service: Service) -> None:
    found = service.services.certification.plan(LEAD, DESCRIBED)
    assert [plan.rates.certification_rate for plan in found.items] == [0.05, 0.15]
    assert (found.target_accuracy, found.documents_a_week, found.sendable) == (0.8, 1_000, 1.0)
    first = found.items[0]
    assert found.recommended == first
    assert first.automation == pytest.approx(2 / 3 * 0.95, abs=0.05)
    assert found.sentence.startswith("Audit 30% of the documents until the first certificate")


def test_without_predictions_or_a_distribution_it_says_what_is_missing(service: Service) -> None:
    with pytest.raises(InvalidRequest) as caught:
        service.services.certification.plan(LEAD, PlanRequest())
    assert pointers(caught) == ["/distribution", "/documents_a_week"]
    assert "nothing has been predicted yet" in caught.value.faults[0].detail


def test_defaults_come_from_the_installation(service: Service) -> None:
    wanted = change(
        target_accuracy=0.7,
        threshold_mode=ThresholdMode.CERTIFIED,
        threshold=None,
        audits=AuditPlan(certification_rate=1e-9, ramp_up_rate=2e-9, gold_reread_rate=0.4),
        rules=[{"kind": "metadata", "field": "site", "values": ["north"]}],
    )
    service.services.policy.change(ADMIN, wanted, None)
    for number in range(20):
        body = {
            "document": {"id": f"n{number}", "text": "0.9"},
            "metadata": {"site": "north" if number < 5 else "south"},
        }
        assert service.post("/v1/predictions", by="client", json=body).status_code == 201
    found = service.services.certification.plan(LEAD, PlanRequest())
    assert (found.target_accuracy, found.risk) == (0.7, wanted.risk)
    assert found.documents_a_week == 20
    assert found.sendable == 0.75
    assert found.confidences == 15
    assert found.now is not None
    assert found.now.rates == (1e-9, 2e-9, 0.4)


def test_a_quiet_month_leaves_only_the_volume_to_say(service: Service) -> None:
    service.predict("0.9")
    service.clock.advance(weeks=5)
    with pytest.raises(InvalidRequest) as caught:
        service.services.certification.plan(LEAD, PlanRequest())
    assert pointers(caught) == ["/documents_a_week"]
    found = service.services.certification.plan(LEAD, PlanRequest(documents_a_week=50))
    assert (found.confidences, found.sendable) == (1, 1.0)


def test_goals_that_nothing_meets_recommend_nothing(service: Service) -> None:
    found = service.services.certification.plan(LEAD, replace(DESCRIBED, find_weeks=0.1))
    assert found.recommended is None
    assert found.sentence.startswith("None of these plans meets the goals: the soonest finds the ")


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"target_accuracy": 1.0}, "/target_accuracy"),
        ({"risk": float("nan")}, "/risk"),
        ({"miss_rate": 1.0}, "/miss_rate"),
        ({"documents_a_week": -1.0}, "/documents_a_week"),
        ({"error_price": -1.0}, "/error_price"),
        ({"drop": 0.0}, "/drop"),
        ({"drop": 0.9}, "/drop"),
        ({"find_weeks": 0.0}, "/find_weeks"),
        ({"certification_rates": [0.1, 1.5]}, "/certification_rates/1"),
        ({"gold_reread_rates": [0.1] * 7}, "/gold_reread_rates"),
        ({"distribution": []}, "/distribution"),
        ({"distribution": [Bin(1.5, 1)]}, "/distribution/0/confidence"),
        ({"distribution": [Bin(0.5, 0)]}, "/distribution/0/share"),
    ],
)
def test_values_out_of_range_are_named(
    service: Service, wrong: dict[str, object], pointer: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        service.services.certification.plan(LEAD, replace(DESCRIBED, **wrong))
    assert pointers(caught) == [pointer]
