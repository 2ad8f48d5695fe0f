"""HEAD, Allow and conditional requests."""

from collections.abc import Callable
from typing import Any

import pytest

from setwise.service.domain.accounts.callers import Role
from tests.api.test_idempotency import EVERY, HOOKS, Request, added_hook, counts, do
from tests.kit.edge import Service, assert_problem, described

POLICY = "/v1/admin/policy"
FIXED = {"threshold": {"mode": "fixed", "value": 0.8}}


def _put(service: Service, path: str, body: Any, if_match: str | None) -> Any:
    headers = {} if if_match is None else {"If-Match": if_match}
    return service.send("PUT", path, by="admin", json=body, headers=headers)


@pytest.mark.parametrize("path", ["/v1/predictions", POLICY, "/healthz", "/docs", "/v1/nowhere"])
def test_head_answers_like_get_without_a_body(service: Service, path: str) -> None:
    got = service.get(path, by="admin")
    head = service.send("HEAD", path, by="admin")
    assert head.status_code == got.status_code
    assert head.content == b""
    assert set(head.headers) == set(got.headers)
    assert head.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/predictions", "GET, HEAD, POST"),
        (POLICY, "GET, HEAD, PUT"),
        (f"{HOOKS}/x", "DELETE, GET, HEAD, PUT"),
        ("/v1/reviews/claim", "GET, HEAD, POST"),
        ("/healthz", "GET, HEAD"),
    ],
)
def test_a_refused_method_is_told_all_that_are_allowed(
    service: Service, path: str, methods: str
) -> None:
    response = service.send("PATCH", path, by="admin")
    assert_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == methods


@pytest.mark.parametrize("weak", ["", "W/"])
def test_what_the_client_has_is_not_sent_again(service: Service, weak: str) -> None:
    first = service.get(POLICY, by="admin")
    tag = f"{weak}{first.headers['etag']}"
    for known in (tag, f'"other", {tag}', "*"):
        for method in ("GET", "HEAD"):
            headers = {"If-None-Match": known}
            same = service.send(method, POLICY, by="admin", headers=headers)
            assert (same.status_code, same.content) == (304, b""), known
            assert same.headers["etag"] == first.headers["etag"]
            assert "content-type" not in same.headers
    service.fix_threshold(0.5)
    assert service.get(POLICY, by="admin", headers={"If-None-Match": tag}).status_code == 200


def test_what_changes_without_a_version_is_sent_again(service: Service) -> None:
    path = f"/v1/admin/annotators/{service.key('ann', Role.REVIEWER)}"
    known = {"If-None-Match": service.get(path, by="admin").headers["etag"]}
    assert service.get(path, by="admin", headers=known).status_code == 304
    service.predict("0.4")
    task = service.post("/v1/reviews/claim", by="ann").json()
    body = {"labels": ["a"]}
    versioned = {"If-Match": f'"{task["version"]}"'}
    response = service.post(
        f"/v1/reviews/{task['id']}/complete", by="ann", json=body, headers=versioned
    )
    assert response.status_code == 200
    read = service.get(path, by="admin", headers=known)
    assert read.json()["answers"] == 1
    placed_response = _put(service, path, {"group": "default"}, read.headers["etag"])
    assert placed_response.status_code == 200, placed_response.text


def _changed(
    path: Callable[[Service], str], method: str = "PUT", **content: Any
) -> Callable[[Service], Request]:
    def request(service: Service) -> Request:
        address = path(service)
        headers = {"If-Match": service.get(address, by="admin").headers["etag"]}
        return {"method": method, "path": address, "by": "admin", "headers": headers, **content}

    return request


def _annotator(service: Service) -> str:
    return f"/v1/admin/annotators/{service.key('ann', Role.REVIEWER)}"


def _label(service: Service) -> str:
    do(service, "/v1/labels", json={"label": "J12.82"})
    return "/v1/admin/labels/J12.82"


VERSIONED: dict[str, Callable[[Service], Request]] = {
    "complete_review": EVERY["complete_review"],
    "roll_back_model": EVERY["roll_back_model"],
    "roll_back_calibration": EVERY["roll_back_calibration"],
    "change_policy": _changed(lambda _: POLICY, json=FIXED),
    "change_webhook": _changed(added_hook, json={"url": "https://example.com/b"}),
    "delete_webhook": _changed(added_hook, "DELETE"),
    "place_annotator": _changed(_annotator, json={"group": "default"}),
    "change_label": _changed(_label, json={"state": "accepted"}),
    "remove_label": _changed(_label, "DELETE"),
    "change_group": _changed(lambda _: "/v1/admin/groups/default", json={"name": "All"}),
}
"""A request that names the present version, for each operation that takes one."""

TAKE_VERSIONS = {
    operation["operationId"]: parameter["required"]
    for methods in described()["paths"].values()
    for operation in methods.values()
    for parameter in operation.get("parameters", [])
    if parameter["name"] == "if-match"
}


@pytest.mark.parametrize(("name", "required"), TAKE_VERSIONS.items(), ids=str)
def test_what_has_changed_since_is_not_overwritten(
    service: Service, name: str, required: bool
) -> None:
    request = {"method": "POST", **VERSIONED[name](service)}
    headers = request.pop("headers")
    before = counts(service)
    for tag in ('"99"', '"x"', '"-2"', '"99999999999"', '"²"', f"W/{headers['If-Match']}"):
        stale = service.send(**request, headers={"If-Match": tag.encode()})
        assert_problem(stale, 412, "stale-version")
    for tag in ("", '""', ","):
        response = service.send(**request, headers={"If-Match": tag})
        assert_problem(response, 422, "invalid-request", "/header/If-Match")
    if required:
        assert_problem(service.send(**request), 428, "version-required")
    assert counts(service) == before
    assert service.send(**request, headers=headers).status_code < 300
    if name not in {"place_annotator", "complete_review"}:  # which do nothing the second time
        again = service.send(**request, headers=headers)
        assert again.status_code in {404, 412}, again.text


def test_the_table_has_every_operation_that_takes_a_version() -> None:
    assert VERSIONED.keys() == TAKE_VERSIONS.keys()


def test_any_version_of_what_is_there_can_be_named(service: Service) -> None:
    body = service.post(HOOKS, by="admin", json={"url": "https://example.com/a"}).json()
    path = f"{HOOKS}/{body['id']}"
    response = _put(service, path, {"url": "https://example.com/b"}, "*")
    assert response.status_code == 200
    named_response = _put(service, path, {"url": "https://example.com/c"}, '"1", "2", W/"3"')
    assert named_response.status_code == 200
    weak = _put(service, path, {"url": "https://example.com/d"}, 'W/"3"')
    assert_problem(weak, 412, "stale-version")
    nothing = _put(service, "/v1/admin/groups/new", {"name": "New"}, "*")
    assert_problem(nothing, 412, "stale-version")


def test_a_preview_takes_the_threshold_as_the_policy_has_it(service: Service) -> None:
    service.fix_threshold(0.8)
    for text in ("0.6", "0.9"):
        service.predict(text)
    shape = service.get(POLICY, by="admin").json()["threshold"] | {"value": 0.5}
    path = "/v1/admin/policy/preview"
    whole = service.post(path, by="lead", json={"threshold": shape})
    assert whole.status_code == 200, whole.text
    assert whole.json() == service.post(path, by="lead", json={"threshold": 0.5}).json()
    wrong = service.post(path, by="lead", json={"threshold": {"value": 0.5}})
    assert wrong.status_code == 422
