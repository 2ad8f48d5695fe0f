"""Files over HTTP: documents in, results and exports out."""

import errno
import json
from contextlib import nullcontext

import pytest

from setwise.service.api import models
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.runtime.schedule import tasks
from setwise.service.runtime.worker import Worker
from tests.edge import Service, assert_problem

NDJSON = {"Content-Type": "application/x-ndjson"}
CONTENT = b'{"id": "a", "text": "0.4"}\nnonsense\n{"id": "b", "text": "0.9"}\n'


def run_jobs(service: Service) -> None:
    """Run everything that is due, as a worker does."""
    worker = Worker(service.services.jobs, tasks(service.services), poll_s=1)
    while worker.run_one():
        pass


def submit(service: Service, content: bytes = CONTENT, *, by: str = "client", **headers: str):
    return service.post("/v1/jobs/scoring", by=by, content=content, headers={**NDJSON, **headers})


def test_a_file_is_scored_and_its_result_downloaded(service: Service) -> None:
    service.fix_threshold(0.8)
    accepted = submit(service)
    assert accepted.status_code == 202
    path = accepted.headers["location"]
    assert accepted.json()["state"] == "queued"
    assert_problem(service.get(f"{path}/result", by="client"), 409, "job-unfinished")
    run_jobs(service)
    done = service.get(path, by="client").json()
    assert (done["state"], done["progress"]) == ("succeeded", 1.0)
    assert done["result"] == {
        "documents": 3,
        "predicted": 2,
        "faulty": 1,
        "location": f"{path}/result",
    }
    result = service.get(done["result"]["location"], by="client")
    assert result.headers["content-type"] == "application/x-ndjson"
    assert result.headers["content-disposition"].endswith('.jsonl"')
    first, second, third = map(json.loads, result.text.splitlines())
    assert [first["line"], second["line"], third["line"]] == [1, 2, 3]
    assert third["prediction"]["decision"] == "auto"
    assert "JSON" in second["problem"]["detail"]
    listed = {p["id"]: p for p in service.get("/v1/predictions", by="client").json()["items"]}
    assert [first["prediction"], third["prediction"]] == [
        listed[first["prediction"]["id"]],
        listed[third["prediction"]["id"]],
    ]
    assert_problem(service.get(f"{path}/result", by="lead"), 404, "job-not-found")


def test_a_file_sent_twice_under_one_key_is_one_job(service: Service) -> None:
    key = {"Idempotency-Key": "monday"}
    first, second = submit(service, **key), submit(service, **key)
    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json() == second.json()
    assert_problem(submit(service, b"other", **key), 422, "idempotency-mismatch")


def test_a_file_may_be_larger_than_a_body(service: Service) -> None:
    many = CONTENT * 10_000
    assert len(many) > service.services.files.longest_line
    assert submit(service, many).status_code == 202


def test_what_is_no_file_is_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_problem(submit(service, b""), 422, "invalid-request", "")
    typed = submit(service, **{"Content-Type": "application/json"})
    assert_problem(typed, 415, "unsupported-media-type")
    object.__setattr__(service.services.files, "max_upload_bytes", 20)
    assert_problem(submit(service), 413, "upload-too-large")
    assert service.files.stored == {}


def test_a_job_that_makes_no_file_has_no_result(service: Service) -> None:
    accepted = submit(service)
    service.services.jobs.cancel(SYSTEM, accepted.json()["id"])
    path = accepted.headers["location"]
    assert_problem(service.get(f"{path}/result", by="client"), 404, "result-not-found")


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


class Full:
    """A file on a disk without space."""

    def write(self, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_an_upload_to_a_full_disk_is_a_problem_and_stores_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.files.stored["jobs/other/result/0.jsonl"] = b""
    monkeypatch.setattr(service.files, "create", lambda _: nullcontext(Full()))
    sent = {"content": b'{"text": "0.5"}\n', "headers": {"Content-Type": "application/jsonl"}}
    assert_problem(service.post("/v1/jobs/scoring", by="client", **sent), 507, "storage-full")
    assert list(service.files.stored) == ["jobs/other/result/0.jsonl"]
    assert service.get("/v1/jobs", by="client").json()["items"] == []


def test_an_artifact_to_a_full_disk_is_a_problem(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.tempfile, "TemporaryFile", lambda: nullcontext(Full()))
    sent = {"content": b"PK", "headers": {"Content-Type": "application/zip"}}
    assert_problem(service.post("/v1/admin/models", by="admin", **sent), 507, "storage-full")
