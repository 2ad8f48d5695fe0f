"""Files over HTTP: documents in, results and exports out."""

import csv
import errno
import io
import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from setwise.formulas import unguarded
from setwise.service.api import models
from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.files import Exported
from setwise.service.domain.predictions import Document
from setwise.service.domain.routing.audits import AuditRole, Selection
from setwise.service.runtime.schedule import tasks
from setwise.service.runtime.worker import Worker
from setwise.service.settings import Settings
from tests.fakes import START
from tests.kit.edge import Service, assert_problem, build_service
from tests.samples import ANN, add_predictions, annotation, outcome, prediction, task

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
    body = service.get(path, by="client").json()
    assert (body["state"], body["progress"]) == ("succeeded", 1.0)
    assert body["result"] == {
        "documents": 3,
        "predicted": 2,
        "faulty": 1,
        "location": f"{path}/result",
        "message": body["message"],
    }
    assert body["message"].startswith("Finished with errors: 1 of 3 documents refused. Line 2: ")
    result = service.get(body["result"]["location"], by="client")
    assert result.headers["content-type"] == "application/x-ndjson"
    assert result.headers["content-disposition"].endswith('.jsonl"')
    first, second, third = map(json.loads, result.text.splitlines())
    assert [first["line"], second["line"], third["line"]] == [1, 2, 3]
    assert third["prediction"]["decision"] == "auto"
    assert "JSON" in second["problem"]["detail"]
    by_id = {p["id"]: p for p in service.get("/v1/predictions", by="client").json()["items"]}
    assert [first["prediction"], third["prediction"]] == [
        by_id[first["prediction"]["id"]],
        by_id[third["prediction"]["id"]],
    ]
    assert_problem(service.get(f"{path}/result", by="lead"), 404, "job-not-found")


def test_a_file_of_which_nothing_is_predicted_is_a_failed_job(service: Service) -> None:
    path = submit(service, b"nonsense\n" * 3).headers["location"]
    run_jobs(service)
    body = service.get(path, by="client").json()
    assert (body["state"], body["error_code"]) == ("failed", "invalid-request")
    assert body["error"].startswith("None of the 3 documents could be predicted. Line 1: ")
    assert len(service.get(f"{path}/result", by="client").text.splitlines()) == 3


def test_a_file_sent_twice_under_one_key_is_one_job(service: Service) -> None:
    key = {"Idempotency-Key": "monday"}
    first, second = submit(service, **key), submit(service, **key)
    assert (first.status_code, second.status_code) == (202, 202)
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
    items = [service.predict(text).json() for text in ("0.1", "0.2", "0.3")]
    response = service.get("/v1/exports/predictions", by="client")
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.headers["content-disposition"] == 'attachment; filename="predictions.jsonl"'
    rows = [json.loads(line) for line in response.text.splitlines()]
    assert [{k: v for k, v in row.items() if k != "client_id"} for row in rows] == items
    rest = service.get(f"/v1/exports/predictions?after={items[1]['id']}&format=csv", by="lead")
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
    response = service.post("/v1/jobs/export", by="client", json=body)
    assert response.status_code == 202, response.text
    run_jobs(service)
    done = service.get(response.headers["location"], by="client").json()
    assert (done["state"], done["result"]["rows"]) == ("succeeded", 1)
    result = service.get(done["result"]["location"], by="client")
    assert result.headers["content-type"].startswith("text/csv")
    query = "format=csv&created_from=2026-01-01T00:00:00Z"
    assert result.text == service.get(f"/v1/exports/predictions?{query}", by="client").text
    body = {"what": "everything", "content": "yes"}
    refused_response = service.post("/v1/jobs/export", by="client", json=body)
    assert_problem(refused_response, 422, "invalid-request", "/what", "/content")


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


def read_cell(cell: str, value: object) -> object:
    """Return what a cell holds, read as the type that JSON gives the value."""
    match value:
        case None:
            return cell or None
        case bool():
            return {"true": True, "false": False}[cell]
        case int() | float():
            return float(cell)
        case str():
            return unguarded(cell)
    return json.loads(cell)


@pytest.fixture(scope="module")
def lived() -> Service:
    """Return a service whose documents leave no column of an export empty."""
    service = build_service(Settings())
    due = START + timedelta(days=1)
    of = prediction(
        document=Document(
            id="=1+1", text="-fever", metadata={"ward": 3}, priority=2, due_at=due,
            answer={"scores": {"a": 0.5}, "candidates": [{"labels": ["a"]}], "labels": ["b"]},
        )
    )  # fmt: skip
    of = of._replace(
        segment="site=north", rule="wards", selection=Selection(AuditRole.TRAINING, 0.1, 0.25)
    )
    vectors = [prediction(document=Document(features={"age": age})) for age in (3.5, 4.5)]
    reviewed_task, again, waiting = (task(each) for each in (of, *vectors))
    answer = replace(annotation(reviewed_task, "a"), comment="@sure", chosen_rank=2, group="coders")
    with service.database() as transaction:
        add_predictions(transaction, of, *vectors)
        for each in (reviewed_task, again, waiting):
            transaction.reviews.add(each)
        for each in (answer, annotation(again, "b")):
            transaction.reviews.annotate(each)
        for each in (of, vectors[0]):
            transaction.outcomes.add(outcome(each, "a"))
    service.services.selections.assign(
        SYSTEM, [vectors[1].id], service.person("ben", Role.REVIEWER)
    )
    while (skipped := service.services.queue.claim(ANN)) is not None:
        service.services.queue.skip(ANN, skipped.id, "not mine")
    service.get("/v1/exports/outcomes", by="admin", headers={"X-Request-Id": "r-1"})
    return service


@pytest.mark.parametrize(
    ("path", "content"),
    [
        *((f"/v1/exports/{what.value}", False) for what in Exported),
        *((f"/v1/exports/{what}", True) for what in ("predictions", "annotations", "outcomes")),
        ("/v1/documents/export", False),
        ("/v1/documents/export", True),
    ],
)
def test_every_cell_of_every_table_reads_as_its_type(
    lived: Service, path: str, content: bool
) -> None:
    query = f"{path}?content={str(content).lower()}" if content else f"{path}?"
    table = lived.get(f"{query}&format=csv", by="admin").text
    lines = lived.get(f"{query}&format=jsonl", by="admin").text.splitlines()
    rows = {row["id"]: row for row in map(json.loads, lines)}
    columns, *cells = list(csv.reader(io.StringIO(table, newline="")))
    assert len(set(columns)) == len(columns)
    for line in cells:
        row = rows[line[columns.index("id")]]
        assert list(row) == columns
        read = {name: read_cell(cell, row[name]) for name, cell in zip(columns, line, strict=True)}
        assert read == row
        for name in row.keys() & {"at", "created_at", "due_at"}:
            assert row[name] is None or datetime.fromisoformat(read[name]).tzinfo is UTC
    filled = {name for row in rows.values() for name, value in row.items() if value is not None}
    assert filled == set(columns)
