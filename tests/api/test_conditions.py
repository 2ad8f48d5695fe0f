"""HEAD, Allow and conditional requests."""

from typing import Any

import pytest

from setwise.service.domain.callers import Role
from tests.edge import Service, assert_problem

POLICY = "/v1/admin/policy"
HOOKS = "/v1/admin/webhooks"
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
    refused = service.send("PATCH", path, by="admin")
    assert_problem(refused, 405, "method-not-allowed")
    assert refused.headers["allow"] == methods


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
    done = service.post(
        f"/v1/reviews/{task['id']}/complete", by="ann", json=body, headers=versioned
    )
    assert done.status_code == 200
    read = service.get(path, by="admin", headers=known)
    assert read.json()["answers"] == 1
    placed = _put(service, path, {"group": "default"}, read.headers["etag"])
    assert placed.status_code == 200, placed.text


def test_a_policy_is_replaced_at_the_version_that_was_read(service: Service) -> None:
    assert_problem(_put(service, POLICY, FIXED, None), 428, "version-required")
    tag = service.get(POLICY, by="admin").headers["etag"]
    changed = _put(service, POLICY, FIXED, f'"other", {tag}')
    assert changed.status_code == 200
    assert_problem(_put(service, POLICY, FIXED, f'"other", {tag}'), 412, "stale-version")
    assert _put(service, POLICY, FIXED, "*").status_code == 200


def test_any_version_of_what_is_there_can_be_named(service: Service) -> None:
    made = service.post(HOOKS, by="admin", json={"url": "https://example.com/a"}).json()
    path = f"{HOOKS}/{made['id']}"
    changed = _put(service, path, {"url": "https://example.com/b"}, "*")
    assert changed.status_code == 200
    named = _put(service, path, {"url": "https://example.com/c"}, '"1", "2", W/"3"')
    assert named.status_code == 200
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
