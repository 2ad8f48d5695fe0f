"""The breaker over HTTP."""

from setwise.service.domain.routing.audits import AuditPlan
from tests.kit.edge import Service, assert_problem
from tests.kit.loop import settle_all
from tests.samples import ADMIN, ANN, LEAD, change

ALL = AuditPlan(certification_rate=1.0, gold_reread_rate=1.0)


def _trip(service: Service) -> None:
    """Send sets that are all wrong until the breaker trips."""
    service.services.policy.change(ADMIN, change(threshold=0.8, audits=ALL), None)
    for place in range(40):
        service.predict(f"0.9{place:02}")
    for who in (ANN, LEAD):
        settle_all(service.services.reviews, who, lambda _: ["c"])


def test_the_breaker_is_read_by_leads(service: Service) -> None:
    idle = service.get("/v1/admin/breaker", by="lead").json()
    assert (idle["state"], idle["model_version"], idle["path"]) == ("idle", None, [])
    service.fix_threshold(0.8)
    service.predict("0.9")
    watching = service.get("/v1/admin/breaker", by="auditor").json()
    assert (watching["state"], watching["trip"]) == ("watching", None)
    assert (watching["most_documents"], watching["most_days"]) == (20_000, 30.0)


def test_a_trip_is_shown_everywhere_and_ended_by_an_admin(service: Service) -> None:
    _trip(service)
    body = service.get("/v1/admin/breaker", by="lead").json()
    assert body["state"] == "tripped"
    assert body["trip"] == body["trips"][0]
    assert body["trip"]["cause"] == "drift"
    assert max(body["path"]) >= body["run_length"] == 5_000.0
    assert body["audits"] == body["right"] + body["wrong"] + body["unfinished"] == 40
    policy = service.get("/v1/admin/policy", by="admin").json()
    assert policy["tripped"] is True
    made = service.predict("0.95").json()
    assert (made["decision"], made["reason"]) == ("review", "breaker")
    assert "setwise_breaker_tripped 1.0" in service.get("/metrics").text
    assert_problem(
        service.post("/v1/admin/breaker/reset", by="admin", json={}), 409, "certificate-needed"
    )
    response = service.post("/v1/admin/breaker/reset", by="admin", json={"uncertified": True})
    assert response.status_code == 200, response.text
    assert (response.json()["state"], response.json()["trip"]) == ("watching", None)
    assert response.json()["trips"][0]["reset"]["certificate_id"] is None
    assert service.predict("0.95").json()["reason"] in {"above_threshold", "audit"}


def test_a_policy_that_was_read_can_be_sent_back_without_starting_anything(
    service: Service,
) -> None:
    _trip(service)
    policy = service.get("/v1/admin/policy", by="admin").json()
    policy |= {"tripped": False, "reason": "the audits contradict it, and it sends nothing"}
    back = service.send(
        "PUT", "/v1/admin/policy", by="admin", json=policy, headers={"If-Match": "*"}
    )
    assert back.status_code == 200, back.text
    assert back.json()["tripped"] is True
