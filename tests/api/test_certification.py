"""Certificates over HTTP."""

from dataclasses import replace

from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.routing.audits import AuditPlan
from tests.kit.edge import Service, assert_problem
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


def test_the_outlook_compares_a_rate_with_the_policy_s(service: Service) -> None:
    path = "/v1/admin/certifications/outlook"
    assert service.get(path, by="lead").json() == {"items": []}
    audits = AuditPlan(certification_rate=0.1, gold_reread_rate=1.0)
    policy = change(threshold_mode=ThresholdMode.CERTIFIED, threshold=None, audits=audits)
    service.services.policy.change(ADMIN, replace(policy, target_accuracy=0.8), None)
    service.predict("0.9")
    (outlook,) = service.get(f"{path}?rate=0.5", by="lead").json()["items"]
    assert (outlook["segment"], outlook["certified"]) == (None, False)
    assert outlook["further_audits"] > 0
    present, other = outlook["paces"]
    assert (present["rate"], other["rate"]) == (0.1, 0.5)
    assert present["weeks"] > other["weeks"]
    refused = service.get(f"{path}?rate=2", by="lead")
    assert_problem(refused, 422, "invalid-request", "/query/rate")
