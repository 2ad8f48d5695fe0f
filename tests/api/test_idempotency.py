"""``Idempotency-Key`` on every POST of the API."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select, update

from setwise.service.api.http.callers import TokenBucket
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.settings import Settings
from setwise.service.stores import tables
from tests import edge
from tests.api.test_files import run_jobs
from tests.edge import Service, assert_problem, build_service, described
from tests.loop import settle_all
from tests.samples import ADMIN, ANN, CLIENT, LEAD, calibration, change, job, model

ADMIN_ = "/v1/admin"
DOCUMENT = described()
HOOKS = f"{ADMIN_}/webhooks"
Request = dict[str, Any]


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


class World(Service):
    """A service with one of everything that a POST may be about."""

    def do(self, path: str, by: str = "admin", **content: Any) -> dict[str, Any]:
        made = self.post(path, by=by, **content)
        assert made.status_code < 300, made.text
        found: dict[str, Any] = made.json()
        return found

    def models(self) -> list[str]:
        found = [
            replace(model(f"sha256:{name}"), summary={"calibrator_version": "sha256:own"})
            for name in ("one", "two")
        ]
        with self.database() as transaction:
            for one in found:
                transaction.models.add(one)
                transaction.models.activate(one.id, self.clock(), one.id)
            made = calibration(found[-1], "sha256:learnt")
            transaction.calibrations.add(made)
        return [found[0].id, found[1].id, made.id]

    def job(self) -> str:
        made = job("scoring")
        with self.database() as transaction:
            transaction.jobs.enqueue(made)
        return made.id

    def task(self) -> tuple[str, dict[str, Any]]:
        self.predict("0.41")
        task = self.do("/v1/reviews/claim", "reviewer")
        return f"/v1/reviews/{task['id']}", {"by": "reviewer", "etag": f'"{task["version"]}"'}

    def hook(self) -> str:
        made = self.do(HOOKS, json={"url": "https://example.com/hook"})
        return f"{HOOKS}/{made['id']}"

    def delivery(self) -> str:
        self.do(f"{self.hook()}/test")
        (found,) = self.get(f"{ADMIN_}/deliveries", by="admin").json()["items"]
        return f"{ADMIN_}/deliveries/{found['id']}/replay"

    def trip(self) -> None:
        plan = AuditPlan(certification_rate=1.0, gold_reread_rate=1.0)
        self.services.policy.change(ADMIN, change(threshold=0.8, audits=plan), None)
        for place in range(40):
            self.predict(f"0.9{place:02}")
        for who in (ANN, LEAD):
            settle_all(self.services.reviews, who, lambda _: ["c"])


def _review(world: World, verb: str, **body: Any) -> Request:
    path, held = world.task()
    versioned = {"headers": {"If-Match": held["etag"]}} if verb == "complete" else {}
    return {"path": f"{path}/{verb}", "by": "reviewer", **versioned, **body}


def _to(path: str, by: str = "admin", **content: Any) -> Request:
    return {"path": path, "by": by, **content}


_DOCUMENT = {"document": {"id": "note", "text": "0.5"}}
_NDJSON = {"Content-Type": "application/x-ndjson"}
_PERSON = {"login": "cy", "name": "Cy", "role": "lead", "password": "correct horse battery"}


def _tripped(world: World) -> Request:
    world.trip()
    return _to(f"{ADMIN_}/breaker/reset", json={"uncertified": True})


def _cancelled(world: World) -> Request:
    path = f"/v1/jobs/{world.job()}"
    world.do(f"{path}/cancel")
    return _to(f"{path}/retry")


def _calibrator_to_leave(world: World) -> Request:
    path = f"{ADMIN_}/calibrations"
    world.do(f"{path}/{world.models()[2]}/activate")
    return _to(f"{path}/rollback", headers={"If-Match": '"sha256:learnt"'})


def _leaving_a_model(world: World) -> Request:
    world.models()
    return _to(f"{ADMIN_}/models/rollback", headers={"If-Match": '"sha256:two"'})


def _key_to_revoke(world: World) -> Request:
    return _to(f"{ADMIN_}/keys/{world.key('old', CLIENT.role)}/revoke")


def _audited(world: World) -> str:
    """Return the address of comments whose reader is kept from the open blind review."""
    world.fix_threshold(0.8, audits=AuditPlan(certification_rate=1.0))
    return f"/v1/documents/{world.predict('0.9').json()['id']}/comments"


def _with_model(path: str, place: int = 0, **content: Any) -> Callable[[World], Request]:
    return lambda world: _to(
        f"{ADMIN_}/{path}".format(dict(enumerate(world.models()))[place]), **content
    )


EVERY: dict[str, Callable[[World], Request]] = {
    "predict": lambda _: _to("/v1/predictions", "client", json=_DOCUMENT),
    "predict_batch": lambda _: _to(
        "/v1/predictions/batch", "client", json={"documents": [_DOCUMENT["document"]]}
    ),
    "report_outcome": lambda world: _to(
        f"/v1/predictions/{world.predict('0.5').json()['id']}/outcome",
        "client",
        json={"labels": ["a"], "source": "billing"},
    ),
    "claim_review": lambda world: (world.predict("0.4"), _to("/v1/reviews/claim", "reviewer"))[1],
    "extend_lease": lambda world: _review(world, "heartbeat"),
    "release_review": lambda world: _review(world, "release"),
    "skip_review": lambda world: _review(world, "skip", json={"reason": "page two is missing"}),
    "complete_review": lambda world: _review(world, "complete", json={"labels": ["a"]}),
    "propose_label": lambda _: _to("/v1/labels", "reviewer", json={"label": "J12.82"}),
    "act_on_documents": lambda world: _to(
        "/v1/documents/actions",
        json={"action": "prioritize", "ids": [world.predict("0.4").json()["id"]]},
    ),
    "reopen_document": lambda world: (
        world.fix_threshold(0.8),
        _to(
            f"/v1/documents/{world.predict('0.9').json()['id']}/reopen",
            json={"reason": "the patient called"},
        ),
    )[1],
    "add_comment": lambda world: _to(
        _audited(world), json={"text": "Is the date right?", "kind": "flagged"}
    ),
    "add_webhook": lambda _: _to(HOOKS, json={"url": "https://example.com/hook"}),
    "rotate_secret": lambda world: _to(f"{world.hook()}/rotate-secret"),
    "try_webhook": lambda world: _to(f"{world.hook()}/test"),
    "replay_dead": lambda world: _to(f"{world.hook()}/replay"),
    "replay_delivery": lambda world: _to(world.delivery()),
    "acknowledge": lambda world: (
        world.fix_threshold(0.5),
        world.predict("0.9"),
        _to(
            "/v1/outbox/acknowledge",
            "client",
            json={"ids": [world.get("/v1/outbox", by="client").json()["items"][0]["id"]]},
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
    "cancel_job": lambda world: _to(f"/v1/jobs/{world.job()}/cancel"),
    "retry_job": _cancelled,
    "preview_policy": lambda _: _to(f"{ADMIN_}/policy/preview", json={"target_accuracy": 0.9}),
    "erase_document": lambda world: (
        world.predict("0.5"),
        _to(f"{ADMIN_}/erasures", json={"document_id": "note 0.5"}),
    )[1],
    "create_person": lambda _: _to(f"{ADMIN_}/people", json=_PERSON),
    "invite_person": lambda world: _to(
        f"{ADMIN_}/people/{world.person('cy', CLIENT.role.LEAD)}/invite", json={}
    ),
    "create_key": lambda _: _to(f"{ADMIN_}/keys", json={"name": "new", "role": "client"}),
    "rotate_key": lambda world: _to(f"{ADMIN_}/keys/{world.key('old', CLIENT.role)}/rotate"),
    "revoke_key": _key_to_revoke,
}
"""A request that succeeds, for each POST operation of the document."""

OWN_MEMORY = {"predict", "predict_batch", "score_file"}
"""These store the key with what they make, so a repeat reads it."""


SHOWN_ONCE = ("add_webhook", "rotate_secret", "invite_person", "create_key", "rotate_key")
"""Their responses show a secret that nothing shows again."""


@pytest.fixture
def world(service: Service) -> World:
    return World(**vars(service))


def counts(world: World) -> dict[str, int]:
    with world.database.engine.connect() as connection:
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


def send_keyed(world: World, wanted: Request) -> Any:
    headers = {**wanted.get("headers", {}), "Idempotency-Key": "monday-17"}
    return world.send(**{"method": "POST", **wanted, "headers": headers})


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
def test_a_request_with_a_key_takes_effect_once(world: World, name: str) -> None:
    wanted = EVERY[name](world)
    first = send_keyed(world, wanted)
    assert first.status_code < 300, first.text
    before = counts(world)
    again = send_keyed(world, wanted)
    assert again.content == first.content
    assert counts(world) == before
    assert again.headers.get("location") == first.headers.get("location")
    response: dict[str, Any] = _documented(name, first.status_code)
    for header in ("ETag", "Location"):
        assert (header in first.headers) == (header in response["headers"]), header
    if name not in OWN_MEMORY:
        assert again.status_code == first.status_code
        assert again.headers["idempotent-replayed"] == "true"
        assert again.headers.get("etag") == first.headers.get("etag")
        other = send_keyed(world, {**wanted, "path": wanted["path"] + "?other"})
        assert_problem(other, 422, "idempotency-mismatch")
    shows = any(mark in first.text for mark in ("whsec_", "/join?secret=", '"key":"sw_'))
    assert shows == (name in SHOWN_ONCE)


def _add_hook(world: World, key: str = "k", url: str = "https://example.com/a", **rest: Any) -> Any:
    headers = {"Idempotency-Key": key, **rest}
    return world.post(HOOKS, by="admin", json={"url": url}, headers=headers)


def _hooks(world: World) -> int:
    return len(world.get(HOOKS, by="admin").json()["items"])


def test_a_key_stands_for_one_body_of_one_caller(world: World) -> None:
    _add_hook(world)
    assert_problem(_add_hook(world, url="https://example.com/b"), 422, "idempotency-mismatch")
    assert_problem(_add_hook(world, key=" "), 422, "invalid-request", "/header/Idempotency-Key")
    other = world.services.keys.create(SYSTEM, "second", ADMIN.role)
    world.secrets["second"] = other[1]
    added = world.post(
        HOOKS, by="second", json={"url": "https://example.com/a"}, headers={"Idempotency-Key": "k"}
    )
    assert added.status_code == 201
    assert _hooks(world) == 2


def test_a_refused_request_leaves_its_key_free(world: World) -> None:
    assert _add_hook(world, url="nonsense").status_code == 422
    assert _add_hook(world).status_code == 201
    comments = _audited(world)
    for kind, status in (("resolved", 422), ("flagged", 201)):
        sent = send_keyed(world, _to(comments, json={"text": "whose note is this?", "kind": kind}))
        assert sent.status_code == status


def test_a_repeat_after_a_crash_before_the_response_was_stored_makes_no_second_thing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = _to(_audited(world), json={"text": "Is the date right?"})
    with monkeypatch.context() as patch:
        patch.setattr(type(world.services.idempotency), "finish", lambda *_: None)
        assert send_keyed(world, about).status_code == 201
    for why in ("is in progress", "is not stored"):
        again = assert_problem(send_keyed(world, about), 409, "request-unfinished")
        assert why in again["detail"]
        world.clock.advance(minutes=1)
    assert len(world.get(about["path"], by="admin").json()["items"]) == 1


def test_a_damaged_response_is_reported_and_not_repeated(world: World) -> None:
    _add_hook(world)
    for damaged in (b"", b"short", bytes(60)):
        with world.database.engine.begin() as connection:
            connection.execute(update(tables.idempotent_requests).values(response=damaged))
        again = assert_problem(_add_hook(world), 409, "request-unfinished")
        assert "is damaged in the database" in again["detail"]
    assert _hooks(world) == 1


@pytest.mark.parametrize("name", SHOWN_ONCE)
def test_a_secret_is_stored_with_its_effect_so_a_crash_before_the_response_loses_none(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    request = EVERY[name](world)
    with monkeypatch.context() as patch:
        patch.setattr(type(world.services.idempotency), "finish", lambda *_: None)
        first = send_keyed(world, request)
    before = counts(world)
    again = send_keyed(world, request)
    assert again.headers["idempotent-replayed"] == "true"
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert counts(world) == before
    other = send_keyed(world, {**request, "path": request["path"] + "?other"})
    assert_problem(other, 422, "idempotency-mismatch")


def test_what_digests_say_of_requests_and_files_depends_on_the_pepper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A comment may be one word, which a plain hash in the database would give away."""
    digests: list[set[str]] = []
    for pepper in (b"one", b"another"):
        monkeypatch.setattr(edge, "PEPPER", pepper)
        world = World(**vars(build_service(Settings())))
        about = f"/v1/documents/{world.predict('0.5').json()['id']}/comments"
        for path, by, content in (
            (about, "lead", {"json": {"text": "no"}}),
            ("/v1/predictions", "client", {"json": _DOCUMENT}),
            ("/v1/jobs/scoring", "client", {"content": b'{"text": "1"}\n' * 2, "headers": _NDJSON}),
        ):
            assert send_keyed(world, _to(path, by, **content)).status_code < 300
        run_jobs(world)
        keyed = (tables.idempotent_requests, tables.idempotency_keys)
        rows = [row for table in keyed for row in world.database.contents._rows(table)]
        (scored,) = world.database.contents._rows(tables.jobs)
        digests.append({row["request_digest"] for row in rows} | {scored["payload"]["digest"]})
    assert [len(of_pepper) for of_pepper in digests] == [4, 4]  # two lines are alike
    assert not digests[0] & digests[1]


def test_of_two_concurrent_requests_with_a_key_one_takes_effect(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = type(world.services.idempotency)
    with monkeypatch.context() as patch:
        patch.setattr(service, "made_before", lambda *_: None)  # as both see it at first
        assert _add_hook(world).status_code == 201
        assert_problem(_add_hook(world), 409, "request-unfinished")
    assert _hooks(world) == 1


def test_stored_responses_hold_no_secret_and_are_purged_after_a_day(world: World) -> None:
    secret = _add_hook(world).json()["secret"]
    made = world.post(
        f"{ADMIN_}/keys",
        by="admin",
        json={"name": "new", "role": "client"},
        headers={"Idempotency-Key": "other"},
    )
    rows = repr(world.database.contents._rows(tables.idempotent_requests))
    assert secret not in rows
    assert made.json()["key"] not in repr(world.database.contents)
    assert world.services.idempotency.purge() == 0
    world.clock.advance(days=1, seconds=1)
    assert world.services.idempotency.purge() == 2
    assert _add_hook(world).status_code == 201
    assert _hooks(world) == 2


def test_the_key_of_a_prediction_is_known_for_thirty_days(world: World) -> None:
    headers = {"Idempotency-Key": "monday"}
    first = world.predict("0.5", headers=headers).json()
    world.clock.advance(days=29)
    assert world.services.idempotency.purge() == 0
    assert world.predict("0.5", headers=headers).json() == first
    world.clock.advance(days=2)
    assert world.services.idempotency.purge() == 1
    assert world.predict("0.5", headers=headers).json()["id"] != first["id"]


def test_a_repeated_upload_is_bounded_and_counts_once_against_the_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    zipped = {"Content-Type": "application/zip", "Idempotency-Key": "k"}
    path = f"{ADMIN_}/models"
    assert world.post(path, by="admin", content=b"x", headers=zipped).status_code == 201
    object.__setattr__(world.app.state.edge, "max_upload_bytes", 10)
    large = world.post(path, by="admin", content=b"x" * 11, headers=zipped)
    assert_problem(large, 413, "upload-too-large")
    counted: list[int | None] = []
    monkeypatch.setattr(TokenBucket, "take", lambda _, limit: counted.append(limit) or [])
    world.post(path, by="admin", content=b"x", headers=zipped)
    assert len(counted) == 1
