"""Exports over HTTP."""

import json

from tests.api.test_files import run_jobs
from tests.edge import Service, assert_problem


def test_an_export_streams_what_the_caller_may_see(service: Service) -> None:
    made = [service.predict(text).json() for text in ("0.1", "0.2", "0.3")]
    response = service.get("/v1/exports/predictions", by="client")
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.headers["content-disposition"] == 'attachment; filename="predictions.jsonl"'
    rows = [json.loads(line) for line in response.text.splitlines()]
    assert [{k: v for k, v in row.items() if k != "client_id"} for row in rows] == made
    rest = service.get(f"/v1/exports/predictions?after={made[1]['id']}&format=csv", by="lead")
    assert rest.headers["content-type"] == "text/csv; charset=utf-8"
    assert len(rest.text.splitlines()) == 2
    assert rest.text.startswith("id,document_id,labels,")


def test_an_auditor_takes_the_audit_trail_along(service: Service) -> None:
    service.predict("0.1")
    response = service.get("/v1/exports/audit-events", by="auditor")
    assert response.status_code == 200
    assert "prediction.created" in response.text


def test_refusals_are_problems(service: Service) -> None:
    get = service.get
    assert_problem(get("/v1/exports/audit-events", by="lead"), 403, "forbidden")
    assert_problem(get("/v1/exports/keys", by="admin"), 422, "invalid-request", "/path/what")
    wrong = get("/v1/exports/outcomes?format=xml&more=1", by="admin")
    assert_problem(wrong, 422, "invalid-request", "/query/format", "/query/more")
    wrong = get("/v1/exports/outcomes?after=x", by="admin")
    assert_problem(wrong, 422, "invalid-request", "/query/after")


def test_a_job_makes_an_export_for_download(service: Service) -> None:
    service.predict("0.1")
    body = {"what": "predictions", "format": "csv", "created_from": "2026-01-01T00:00:00Z"}
    accepted = service.post("/v1/jobs/export", by="client", json=body)
    assert accepted.status_code == 202, accepted.text
    run_jobs(service)
    done = service.get(accepted.headers["location"], by="client").json()
    assert (done["state"], done["result"]["rows"]) == ("succeeded", 1)
    result = service.get(done["result"]["location"], by="client")
    assert result.headers["content-type"].startswith("text/csv")
    query = "format=csv&created_from=2026-01-01T00:00:00Z"
    assert result.text == service.get(f"/v1/exports/predictions?{query}", by="client").text
    body = {"what": "everything", "content": "yes"}
    refused = service.post("/v1/jobs/export", by="client", json=body)
    assert_problem(refused, 422, "invalid-request", "/what", "/content")
