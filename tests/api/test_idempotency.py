"""``Idempotency-Key`` on every POST of the API."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, update

from setwise.service.api.http.callers import TokenBucket
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.settings import Settings
from setwise.service.stores import tables
from setwise.service.stores.idempotency import ERASED
from tests.api.test_files import run_jobs
from tests.kit import edge
from tests.kit.edge import Service, assert_problem, build_service, described
from tests.samples import ADMIN, CLIENT, calibration, job, model, trip_breaker

ADMIN_ = "/v1/admin"
DOCUMENT = described()
HOOKS = f"{ADMIN_}/webhooks"
Request = dict[str, Any]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/v1/predictions", {"json": {"document": {"text": "0.5"}}}),
        ("/v1/predictions/batch", {"json": {"documents": [{"text": "0.5"}, {"text": "0.6"}]}}),
        ("/v1/jobs/scoring", {"content": b'{"text": "0.5"}\n'}),
        ("/v1/jobs/export", {"json": {"what": "predictions"}}),
    ],
)
def test_a_repeated_response_is_marked(
    service: Service, path: str, content: dict[str, Any]
) -> None:
    kind = "application/x-ndjson" if "content" in content else "application/json"
    for mark in (None, "true", "true"):
        headers = {"Idempotency-Key": "k", "Content-Type": kind}
        response = service.post(path, by="client", headers=headers, **content)
        assert response.status_code < 300, response.text
        assert response.headers.get("Idempotent-Replayed") == mark


def test_a_batch_with_one_new_prediction_is_no_repeated_response(service: Service) -> None:
    documents = [{"text": "0.5"}, {"text": "x" * 2_000}]
    for _ in range(2):
        response = service.post(
            "/v1/predictions/batch",
            by="client",
            json={"documents": documents},
            headers={"Idempotency-Key": "k"},
        )
        assert "Idempotent-Replayed" not in response.headers


def test_a_key_that_names_a_document_is_not_found_in_the_database(service: Service) -> None:
    one = service.predict().json()["id"]
    name, file = "note-17 of Mrs Doe", {"content-type": "application/x-ndjson"}
    headers = {"Idempotency-Key": name}
    about = f"/v1/documents/{one}/comments"
    for path, by, content in (
        (about, "lead", {"json": {"text": "a remark"}, "headers": headers}),
        ("/v1/jobs/scoring", "client", {"content": b"{}\n", "headers": headers | file}),
    ):
        first, again = (service.post(path, by=by, **content) for _ in range(2))
        assert first.status_code < 300, first.text
        assert first.json()["id"] == again.json()["id"]
    assert "Mrs Doe" not in repr(service.database.contents)


def do(service: Service, path: str, by: str = "admin", **content: Any) -> dict[str, Any]:
    response = service.post(path, by=by, **content)
    assert response.status_code < 300, response.text
    body: dict[str, Any] = response.json()
    return body


def stored_models(service: Service) -> list[str]:
    models = [
        replace(model(f"sha256:{name}"), summary={"calibrator_version": "sha256:own"})
        for name in ("one", "two")
    ]
    with service.database() as transaction:
        for one in models:
            transaction.models.add(one)
            transaction.models.activate(one.id, service.clock(), one.id)
        new_calibration = calibration(models[-1], "sha256:learnt")
        transaction.calibrations.add(new_calibration)
    return [models[0].id, models[1].id, new_calibration.id]


def queued_job(service: Service) -> str:
    new_job = job("scoring", owner_id=SYSTEM.id)
    with service.database() as transaction:
        transaction.jobs.enqueue(new_job)
    return new_job.id


def open_task(service: Service) -> tuple[str, dict[str, Any]]:
    service.predict("0.41")
    task = do(service, "/v1/reviews/claim", "reviewer")
    return f"/v1/reviews/{task['id']}", {"by": "reviewer", "etag": f'"{task["version"]}"'}


def added_hook(service: Service) -> str:
    body = do(service, HOOKS, json={"url": "https://example.com/hook"})
    return f"{HOOKS}/{body['id']}"


def tried_delivery(service: Service) -> str:
    do(service, f"{added_hook(service)}/test")
    (found,) = service.get(f"{ADMIN_}/deliveries", by="admin").json()["items"]
    return f"{ADMIN_}/deliveries/{found['id']}/replay"


def trip(service: Service) -> None:
    service.fix_threshold(0.8)
    with service.database() as transaction:
        trip_breaker(transaction)


def _review(service: Service, verb: str, **body: Any) -> Request:
    path, held_body = open_task(service)
    versioned = {"headers": {"If-Match": held_body["etag"]}} if verb == "complete" else {}
    return {"path": f"{path}/{verb}", "by": "reviewer", **versioned, **body}


def _to(path: str, by: str = "admin", **content: Any) -> Request:
    return {"path": path, "by": by, **content}


_DOCUMENT = {"document": {"id": "note", "text": "0.5"}}
_NDJSON = {"Content-Type": "application/x-ndjson"}
_PERSON = {"login": "cy", "name": "Cy", "role": "lead", "password": "correct horse battery"}


def _tripped(service: Service) -> Request:
    trip(service)
    return _to(f"{ADMIN_}/breaker/reset", json={"uncertified": True})


def _cancelled(service: Service) -> Request:
    path = f"/v1/jobs/{queued_job(service)}"
    do(service, f"{path}/cancel")
    return _to(f"{path}/retry")


def _calibrator_to_leave(service: Service) -> Request:
    path = f"{ADMIN_}/calibrations"
    do(service, f"{path}/{stored_models(service)[2]}/activate")
    return _to(f"{path}/rollback", headers={"If-Match": '"sha256:learnt"'})


def _leaving_a_model(service: Service) -> Request:
    stored_models(service)
    return _to(f"{ADMIN_}/models/rollback", headers={"If-Match": '"sha256:two"'})


def _key_to_revoke(service: Service) -> Request:
    return _to(f"{ADMIN_}/keys/{service.key('old', CLIENT.role)}/revoke")


def _audited(service: Service) -> str:
    """Return the address of comments whose reader is kept from the open blind review."""
    service.fix_threshold(0.8, audits=AuditPlan(certification_rate=1.0))
    return f"/v1/documents/{service.predict('0.9').json()['id']}/comments"


def _with_model(path: str, place: int = 0, **content: Any) -> Callable[[Service], Request]:
    return lambda service: _to(
        f"{ADMIN_}/{path}".format(dict(enumerate(stored_models(service)))[place]), **content
    )


EVERY: dict[str, Callable[[Service], Request]] = {
    "predict": lambda _: _to("/v1/predictions", "client", json=_DOCUMENT),
    "predict_batch": lambda _: _to(
        "/v1/predictions/batch", "client", json={"documents": [_DOCUMENT["document"]]}
    ),
    "report_outcome": lambda service: _to(
        f"/v1/predictions/{service.predict('0.5').json()['id']}/outcome",
        "client",
        json={"labels": ["a"], "source": "billing"},
    ),
    "claim_review": lambda service: (service.predict("0.4"), _to("/v1/reviews/claim", "reviewer"))[
        1
    ],
    "extend_lease": lambda service: _review(service, "heartbeat"),
    "release_review": lambda service: _review(service, "release"),
    "skip_review": lambda service: _review(service, "skip", json={"reason": "page two is missing"}),
    "complete_review": lambda service: _review(service, "complete", json={"labels": ["a"]}),
    "propose_label": lambda _: _to("/v1/labels", "reviewer", json={"label": "J12.82"}),
    "act_on_documents": lambda service: _to(
        "/v1/documents/actions",
        json={"action": "prioritize", "ids": [service.predict("0.4").json()["id"]]},
    ),
    "reopen_document": lambda service: (
        service.fix_threshold(0.8),
        _to(
            f"/v1/documents/{service.predict('0.9').json()['id']}/reopen",
            json={"reason": "the patient called"},
        ),
    )[1],
    "add_comment": lambda service: _to(
        _audited(service), json={"text": "Is the date right?", "kind": "flagged"}
    ),
    "add_webhook": lambda _: _to(HOOKS, json={"url": "https://example.com/hook"}),
    "rotate_secret": lambda service: _to(f"{added_hook(service)}/rotate-secret"),
    "try_webhook": lambda service: _to(f"{added_hook(service)}/test"),
    "replay_dead": lambda service: _to(f"{added_hook(service)}/replay"),
    "replay_delivery": lambda service: _to(tried_delivery(service)),
    "acknowledge": lambda service: (
        service.fix_threshold(0.5),
        service.predict("0.9"),
        _to(
            "/v1/outbox/acknowledge",
            "client",
            json={"ids": [service.get("/v1/outbox", by="client").json()["items"][0]["id"]]},
        ),
    )[2],
    "add_model": lambda _: _to(
        f"{ADMIN_}/models", content=b"three", headers={"Content-Type": "application/zip"}
    ),
    "activate_model": _with_model("models/{}/activate"),
    "roll_back_model": _leaving_a_model,
    "retrain_model": _with_model("models/retrain", json={}),
    "verify_model": _with_model("models/{}/verify"),
    "begin_shadow": _with_model("models/{}/shadow"),
    "compare_model": _with_model("models/{}/compare", json={}),
    "score_file": lambda _: _to(
        "/v1/jobs/scoring", "client", content=b'{"id": "a", "text": "0.5"}\n', headers=_NDJSON
    ),
    "export_job": lambda _: _to("/v1/jobs/export", "client", json={"what": "predictions"}),
    "request_certification": lambda _: _to(f"{ADMIN_}/certifications"),
    "reset_breaker": _tripped,
    "request_calibration": _with_model("calibrations", json={}),
    "activate_calibration": _with_model("calibrations/{}/activate", 2),
    "roll_back_calibration": _calibrator_to_leave,
    "cancel_job": lambda service: _to(f"/v1/jobs/{queued_job(service)}/cancel"),
    "retry_job": _cancelled,
    "preview_policy": lambda _: _to(f"{ADMIN_}/policy/preview", json={"target_accuracy": 0.9}),
    "erase_document": lambda service: (
        service.predict("0.5"),
        _to(f"{ADMIN_}/erasures", json={"document_id": "note 0.5"}),
    )[1],
    "create_person": lambda _: _to(f"{ADMIN_}/people", json=_PERSON),
    "invite_person": lambda service: _to(
        f"{ADMIN_}/people/{service.person('cy', CLIENT.role.LEAD)}/invite", json={}
    ),
    "create_key": lambda _: _to(f"{ADMIN_}/keys", json={"name": "new", "role": "client"}),
    "rotate_key": lambda service: _to(f"{ADMIN_}/keys/{service.key('old', CLIENT.role)}/rotate"),
    "revoke_key": _key_to_revoke,
}
"""A request that succeeds, for each POST operation of the document."""

OWN_MEMORY = {"predict", "predict_batch", "score_file"}
"""These store the key with what they make, so a repeat reads it."""


SHOWN_ONCE = ("add_webhook", "rotate_secret", "invite_person", "create_key", "rotate_key")
"""Their responses show a secret that nothing shows again."""


def counts(service: Service) -> dict[str, int]:
    with service.database.engine.connect() as connection:
        return {
            name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in tables.metadata.tables.items()
        }


def _documented(name: str, status: int) -> dict[str, Any]:
    """Return the response that the document has for an operation."""
    (found,) = (
        operation["responses"][str(status)]
        for operations in DOCUMENT["paths"].values()
        for operation in operations.values()
        if operation["operationId"] == name
    )
    return dict(found)


def send_keyed(service: Service, wanted: Request) -> Any:
    headers = {**wanted.get("headers", {}), "Idempotency-Key": "monday-17"}
    return service.send(**{"method": "POST", **wanted, "headers": headers})


def test_every_post_of_the_document_has_its_request_here() -> None:
    posts = [
        operations["post"] for operations in DOCUMENT["paths"].values() if "post" in operations
    ]
    assert {operation["operationId"] for operation in posts} == set(EVERY)
    for operation in posts:
        names = [one["name"] for one in operation["parameters"]]
        assert [name.lower() for name in names].count("idempotency-key") == 1, operation
        if operation["operationId"] not in OWN_MEMORY:
            assert "request-unfinished" in json.dumps(operation["responses"]["409"])
        assert "idempotency-mismatch" in json.dumps(operation["responses"]["422"])


@pytest.mark.parametrize("name", EVERY)
def test_a_request_with_a_key_takes_effect_once(service: Service, name: str) -> None:
    body = EVERY[name](service)
    first = send_keyed(service, body)
    assert first.status_code < 300, first.text
    before = counts(service)
    again = send_keyed(service, body)
    assert again.content == first.content
    assert counts(service) == before
    assert again.headers.get("location") == first.headers.get("location")
    response: dict[str, Any] = _documented(name, first.status_code)
    for header in ("ETag", "Location"):
        assert (header in first.headers) == (header in response["headers"]), header
    if name not in OWN_MEMORY:
        assert again.status_code == first.status_code
        assert again.headers["idempotent-replayed"] == "true"
        assert again.headers.get("etag") == first.headers.get("etag")
        other = send_keyed(service, {**body, "path": body["path"] + "?other"})
        assert_problem(other, 422, "idempotency-mismatch")
    shows = any(mark in first.text for mark in ("whsec_", "/join?secret=", '"key":"sw_'))
    assert shows == (name in SHOWN_ONCE)


def _add_hook(
    service: Service, key: str = "k", url: str = "https://example.com/a", **rest: Any
) -> Any:
    headers = {"Idempotency-Key": key, **rest}
    return service.post(HOOKS, by="admin", json={"url": url}, headers=headers)


def _hooks(service: Service) -> int:
    return len(service.get(HOOKS, by="admin").json()["items"])


def test_a_key_stands_for_one_body_of_one_caller(service: Service) -> None:
    _add_hook(service)
    assert_problem(_add_hook(service, url="https://example.com/b"), 422, "idempotency-mismatch")
    assert_problem(_add_hook(service, key=" "), 422, "invalid-request", "/header/Idempotency-Key")
    other = service.services.keys.create(SYSTEM, "second", ADMIN.role)
    service.secrets["second"] = other[1]
    response = service.post(
        HOOKS, by="second", json={"url": "https://example.com/a"}, headers={"Idempotency-Key": "k"}
    )
    assert response.status_code == 201
    assert _hooks(service) == 2


def test_a_refused_request_leaves_its_key_free(service: Service) -> None:
    assert _add_hook(service, url="nonsense").status_code == 422
    assert _add_hook(service).status_code == 201
    comments = _audited(service)
    for kind, status in (("resolved", 422), ("flagged", 201)):
        sent = send_keyed(
            service, _to(comments, json={"text": "whose note is this?", "kind": kind})
        )
        assert sent.status_code == status


def test_a_repeat_after_a_crash_before_the_response_was_stored_makes_no_second_thing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = _to(_audited(service), json={"text": "Is the date right?"})
    with monkeypatch.context() as patch:
        patch.setattr(type(service.services.idempotency), "finish", lambda *_: None)
        assert send_keyed(service, about).status_code == 201
    for why in ("is in progress", "is not stored"):
        again = assert_problem(send_keyed(service, about), 409, "request-unfinished")
        assert why in again["detail"]
        service.clock.advance(minutes=1)
    assert len(service.get(about["path"], by="admin").json()["items"]) == 1


def test_a_damaged_response_is_reported_and_not_repeated(service: Service) -> None:
    _add_hook(service)
    for content in (b"", b"short", bytes(60)):
        with service.database.engine.begin() as connection:
            connection.execute(update(tables.idempotent_requests).values(response=content))
        again = assert_problem(_add_hook(service), 409, "request-unfinished")
        assert "is damaged in the database" in again["detail"]
    assert _hooks(service) == 1


@pytest.mark.parametrize("name", SHOWN_ONCE)
def test_a_secret_is_stored_with_its_effect_so_a_crash_before_the_response_loses_none(
    service: Service, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    request = EVERY[name](service)
    with monkeypatch.context() as patch:
        patch.setattr(type(service.services.idempotency), "finish", lambda *_: None)
        first = send_keyed(service, request)
    before = counts(service)
    again = send_keyed(service, request)
    assert again.headers["idempotent-replayed"] == "true"
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert counts(service) == before
    other = send_keyed(service, {**request, "path": request["path"] + "?other"})
    assert_problem(other, 422, "idempotency-mismatch")


def test_what_digests_say_of_requests_and_files_depends_on_the_pepper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A comment may be one word, which a plain hash in the database would give away."""
    digests: list[set[str]] = []
    for pepper in (b"one", b"another"):
        monkeypatch.setattr(edge, "PEPPER", pepper)
        service = build_service(Settings())
        about = f"/v1/documents/{service.predict('0.5').json()['id']}/comments"
        for path, by, content in (
            (about, "lead", {"json": {"text": "no"}}),
            ("/v1/predictions", "client", {"json": _DOCUMENT}),
            ("/v1/jobs/scoring", "client", {"content": b'{"text": "1"}\n' * 2, "headers": _NDJSON}),
        ):
            assert send_keyed(service, _to(path, by, **content)).status_code < 300
        run_jobs(service)
        keyed = (tables.idempotent_requests, tables.idempotency_keys)
        rows = [row for table in keyed for row in service.database.contents._rows(table)]
        (body,) = service.database.contents._rows(tables.jobs)
        digests.append({row["request_digest"] for row in rows} | {body["payload"]["digest"]})
    assert [len(of_pepper) for of_pepper in digests] == [4, 4]  # two lines are alike
    assert not digests[0] & digests[1]


def test_of_two_concurrent_requests_with_a_key_one_takes_effect(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = type(service.services.idempotency)
    with monkeypatch.context() as patch:
        patch.setattr(memory, "made_before", lambda *_: None)  # as both see it at first
        assert _add_hook(service).status_code == 201
        assert_problem(_add_hook(service), 409, "request-unfinished")
    assert _hooks(service) == 1


def test_stored_responses_hold_no_secret_and_are_purged_after_a_day(service: Service) -> None:
    secret = _add_hook(service).json()["secret"]
    response = service.post(
        f"{ADMIN_}/keys",
        by="admin",
        json={"name": "new", "role": "client"},
        headers={"Idempotency-Key": "other"},
    )
    rows = repr(service.database.contents._rows(tables.idempotent_requests))
    assert secret not in rows
    assert response.json()["key"] not in repr(service.database.contents)
    assert service.services.idempotency.purge() == 0
    service.clock.advance(days=1, seconds=1)
    assert service.services.idempotency.purge() == 2
    assert _add_hook(service).status_code == 201
    assert _hooks(service) == 2


def test_the_key_of_a_prediction_is_known_for_thirty_days(service: Service) -> None:
    headers = {"Idempotency-Key": "monday"}
    first = service.predict("0.5", headers=headers).json()
    service.clock.advance(days=29)
    assert service.services.idempotency.purge() == 0
    assert service.predict("0.5", headers=headers).json() == first
    service.clock.advance(days=2)
    assert service.services.idempotency.purge() == 1
    assert service.predict("0.5", headers=headers).json()["id"] != first["id"]


def test_a_repeated_upload_is_bounded_and_counts_once_against_the_limit(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    zipped = {"Content-Type": "application/zip", "Idempotency-Key": "k"}
    path = f"{ADMIN_}/models"
    assert service.post(path, by="admin", content=b"x", headers=zipped).status_code == 201
    object.__setattr__(service.app.state.edge, "max_upload_bytes", 10)
    large = service.post(path, by="admin", content=b"x" * 11, headers=zipped)
    assert_problem(large, 413, "upload-too-large")
    counted: list[int | None] = []
    monkeypatch.setattr(TokenBucket, "take", lambda _, limit: counted.append(limit) or [])
    service.post(path, by="admin", content=b"x", headers=zipped)
    assert len(counted) == 1


@pytest.mark.parametrize("purged", ["erased", "after its time"])
def test_a_response_about_a_purged_document_is_not_repeated(service: Service, purged: str) -> None:
    word = "Mrs Doe"

    def keyed(path: str, content: dict[str, Any]) -> httpx.Response:
        return service.post(path, headers={"Idempotency-Key": path}, **content)

    document = {"document": {"id": word, "text": "0.41"}}
    one = service.post("/v1/predictions", by="client", json=document).json()["id"]
    comments = f"/v1/documents/{one}/comments"
    requests: list[tuple[str, dict[str, Any]]] = [
        ("/v1/reviews/claim", {"by": "reviewer"}),
        (comments, {"by": "lead", "json": {"text": f"about {word}"}}),
    ]
    others = service.predict("0.9").json()["id"]
    kept = f"/v1/documents/{others}/comments", {"by": "lead", "json": {"text": "fine"}}
    for path, content in (*requests, kept):
        assert keyed(path, content).status_code < 300
        assert keyed(path, content).headers["idempotent-replayed"] == "true"
    if purged == "erased":
        service.services.texts.erase(SYSTEM, prediction_id=one)
    else:
        with service.database() as transaction:
            transaction.texts.purge([one], service.clock())
    if purged == "erased":
        run_jobs(service)
    for path, content in 3 * requests:  # each time, whether the response was deleted before or not
        response = keyed(path, content)
        assert_problem(response, 409, "request-unfinished")
        assert "held a document or label that was erased" in response.json()["detail"]
        assert word not in response.text
    assert keyed(*kept).headers["idempotent-replayed"] == "true"


def test_a_response_that_names_a_removed_label_is_not_repeated(service: Service) -> None:
    name = 'Doe "Jane" \u00e9'
    path, options = open_task(service)
    complete = {"by": "reviewer", "json": {"labels": [name]}}
    requests: list[tuple[str, dict[str, Any], dict[str, str]]] = [
        ("/v1/labels", {"by": "lead", "json": {"label": name}}, {}),
        (f"{path}/complete", complete, {"If-Match": options["etag"]}),
        ("/v1/labels", {"by": "lead", "json": {"label": "Doe"}}, {}),
    ]

    def send(number: int) -> httpx.Response:
        address, content, headers = requests[number]
        return service.post(address, headers={**headers, "Idempotency-Key": str(number)}, **content)

    for number in range(3):
        assert send(number).status_code < 300
        assert send(number).headers["idempotent-replayed"] == "true"
    response = service.send(
        "DELETE", f"/v1/admin/labels/{name}", by="lead", headers={"If-Match": "*"}
    )
    assert response.status_code == 204
    for number in (0, 1):
        body = assert_problem(send(number), 409, "request-unfinished")
        assert "label that was erased" in body["detail"]
    assert send(2).headers["idempotent-replayed"] == "true"


def test_an_erasure_deletes_the_responses_about_a_document(service: Service) -> None:
    path, _ = open_task(service)
    one = service.get(path, by="reviewer").json()["prediction_id"]
    other = service.predict("0.9").json()["id"]
    headers = {"Idempotency-Key": "k"}
    service.post(f"{path}/heartbeat", by="reviewer", headers=headers)
    for about in (one, other):
        comments = f"/v1/documents/{about}/comments"
        assert (
            service.post(
                comments, by="admin", json={"text": about}, headers={"Idempotency-Key": about}
            ).status_code
            == 201
        )
    service.services.texts.erase(SYSTEM, prediction_id=one)
    run_jobs(service)
    rows = service.database.contents._rows(tables.idempotent_requests)
    assert [row["response"] for row in rows].count(ERASED) == len(rows) - 1
    with service.database(read_only=True) as transaction:
        assert len(transaction.idempotency.responses(None, 10)) == 1
