"""Certificates over HTTP."""

from dataclasses import replace

from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from tests.edge import Service, assert_problem
from tests.samples import ADMIN, change, model


def test_a_certification_runs_as_a_job_and_is_read_by_leads(service: Service) -> None:
    asked = service.post("/v1/admin/certifications", by="admin")
    assert asked.status_code == 202
    job = asked.json()
    assert (job["kind"], job["state"]) == ("certification", "queued")
    assert asked.headers["location"] == f"/v1/jobs/{job['id']}"
    again = service.post("/v1/admin/certifications", by="admin")
    assert again.json()["id"] == job["id"]


def test_a_model_that_does_not_serve_is_certified_by_a_job_of_its_own(service: Service) -> None:
    made = replace(model(), summary={"created_at": "2026-01-02T03:04:05+00:00"})
    with service.database() as transaction:
        transaction.models.add(made)
    known = made.id
    plain = service.post("/v1/admin/certifications", by="admin").json()
    body = {"model_id": known, "trained_on_audits": True}
    asked = service.post("/v1/admin/certifications", by="admin", json=body)
    assert asked.status_code == 202
    assert asked.json()["id"] != plain["id"]
    again = service.post("/v1/admin/certifications", by="admin", json={"model_id": known})
    assert again.json()["id"] == asked.json()["id"]


def test_a_refusal_says_what_lacks(service: Service) -> None:
    audits = AuditPlan(certification_rate=1e-9, gold_reread_rate=1.0)
    wanted = change(threshold_mode=ThresholdMode.CERTIFIED, threshold=None, audits=audits)
    service.services.policy.change(ADMIN, wanted, None)
    assert service.get("/v1/admin/certifications", by="lead").json()["items"] == []
    service.predict("0.9")
    (made,) = service.services.certification.certify(ADMIN.id)
    (shown,) = service.get("/v1/admin/certifications", by="lead").json()["items"]
    assert shown == service.get(f"/v1/admin/certifications/{made.id}", by="lead").json()
    assert (shown["threshold"], shown["reason"]) == (None, "no-audits")
    assert shown["evidence"]["n_predictions"] == 1


def test_audits_are_planned_for_a_described_stream(service: Service) -> None:
    body = {
        "target_accuracy": 0.8,
        "documents_a_week": 1000,
        "distribution": [{"confidence": 0.95, "share": 2}, {"confidence": 0.6, "share": 1}],
        "certification_rates": [0.05, 0.15],
        "ramp_up_rates": [0.3],
        "gold_reread_rates": [0.5],
    }
    planned = service.post("/v1/admin/certifications/plan", by="lead", json=body)
    assert planned.status_code == 200
    found = planned.json()
    assert found["recommended"] == found["items"][0]
    rates = [plan["rates"]["certification_rate"] for plan in found["items"]]
    assert rates == [0.05, 0.15]
    slow, fast = (plan["delay"]["weeks"] for plan in found["items"])
    assert slow > fast


def test_a_plan_without_predictions_says_what_to_send(service: Service) -> None:
    refused = service.post("/v1/admin/certifications/plan", by="lead", json={})
    assert_problem(refused, 422, "invalid-request", "/distribution", "/documents_a_week")
