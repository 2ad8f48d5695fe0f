"""Every answer, whoever makes it, tells browsers to run, frame and keep nothing."""

import asyncio
from dataclasses import replace
from urllib.parse import urljoin

import pytest

from setwise.service.api.http.middleware import EdgeMiddleware
from setwise.service.app import create_app
from setwise.service.settings import Settings
from tests.kit.edge import Service, build_service

ANSWERS = [
    ("GET", "/"),
    ("GET", "/login"),
    ("GET", "/static/setwise.css"),
    ("GET", "/static/none"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/docs"),
    ("GET", "/problems"),
    ("GET", "/openapi.json"),
    ("GET", "/nothing"),
    ("DELETE", "/v1/predictions"),
    ("GET", "/v1/predictions"),
    ("POST", "/v1/predictions"),
]


@pytest.mark.parametrize(("method", "path"), ANSWERS)
def test_every_answer_protects_its_reader(service: Service, method: str, path: str) -> None:
    headers = service.send(method, path, headers={"X-CSRF-Token": "x"}).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] in {"no-referrer", "same-origin"}
    if path in {"/docs", "/openapi.json"}:  # they change with a release
        assert headers["cache-control"] == "no-cache"
    elif not path.startswith("/static/s"):
        assert headers["cache-control"] == "no-store"
    assert "strict-transport-security" not in headers
    for name in ("content-security-policy", "cache-control", "x-content-type-options"):
        assert len(headers.get_list(name)) == 1


def test_a_failure_of_ours_is_protected_too(service: Service) -> None:
    object.__setattr__(service.services.predictions, "page", lambda *_, **__: 1 / 0)
    response = service.get("/v1/predictions", by="client")
    assert response.status_code == 500
    assert response.headers["x-content-type-options"] == "nosniff"


def test_over_tls_browsers_are_told_to_stay_there(service: Service) -> None:
    edge = replace(service.app.state.edge, https=True)
    service.app = create_app(edge)
    assert service.get("/healthz").headers["strict-transport-security"] == "max-age=31536000"


def test_what_an_answer_says_itself_stands(service: Service) -> None:
    items = []

    async def app(scope, receive, send) -> None:
        own = [(b"cache-control", b"public"), (b"content-security-policy", b"sandbox")]
        await send({"type": "http.response.start", "status": 200, "headers": own})

    async def keep(message) -> None:
        items.append(message)

    scope = {"type": "http", "scheme": "https", "method": "GET", "path": "/", "headers": []}
    middleware = EdgeMiddleware(app, edge=service.app.state.edge)
    asyncio.run(middleware(scope, None, keep))  # type: ignore[arg-type]  # nothing is received
    headers = items[0]["headers"]
    assert headers.count((b"cache-control", b"public")) == 1
    assert [value for name, value in headers if name == b"content-security-policy"] == [b"sandbox"]
    assert (b"strict-transport-security", b"max-age=31536000") in headers


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
def test_what_changes_with_a_release_is_compressed_and_asked_for_again(
    service: Service, path: str
) -> None:
    whole = service.get(path, headers={"Accept-Encoding": "identity"})
    response = service.get(path, headers={"Accept-Encoding": "gzip"})
    assert response.headers["content-encoding"] == "gzip"
    assert response.content == whole.content  # the client unpacks it
    assert int(response.headers["content-length"]) < len(whole.content) / 4
    assert response.headers["cache-control"] == "no-cache"
    assert "Accept-Encoding" in whole.headers["vary"]
    again = service.get(path, headers={"If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_long_data_is_compressed_for_whoever_reads_it_also_in_parts(service: Service) -> None:
    for number in range(30):
        service.predict(f"0.{number}")
    for path in (
        "/v1/predictions?limit=30",
        "/v1/exports/predictions",
        "/v1/exports/predictions?format=csv",
    ):
        plain = service.get(path, by="lead", headers={"Accept-Encoding": "gzip;q=0"})
        response = service.get(path, by="lead", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in plain.headers
        assert response.headers["content-encoding"] == "gzip"
        assert response.content == plain.content


def test_metrics_are_compressed_for_a_scraper_that_reads_it(service: Service) -> None:
    response = service.get("/metrics", headers={"Accept-Encoding": "deflate, gzip;q=0.5"})
    assert response.headers["content-encoding"] == "gzip"
    assert "setwise_" in response.text


def test_short_data_which_may_be_a_secret_is_sent_as_it_is(service: Service) -> None:
    body = {"name": "new", "role": "client"}
    response = service.post(
        "/v1/admin/keys", by="admin", json=body, headers={"Accept-Encoding": "gzip"}
    )
    assert response.status_code == 201
    assert "content-encoding" not in response.headers


def test_a_page_of_a_list_links_to_the_next(service: Service) -> None:
    ids = [service.predict(f"0.{number}").json()["id"] for number in (1, 2, 3)]
    path, items = (
        "/v1/predictions?limit=2&decision=review&created_from=2020-01-01T00:00:00%2B00:00",
        [],
    )
    while True:
        page = service.get(path, by="client")
        items += [item["id"] for item in page.json()["items"]]
        if "link" not in page.headers:
            break
        assert page.headers["link"].endswith('>; rel="next"')
        path = urljoin(path, page.links["next"]["url"])
    assert items == ids[::-1]
    assert page.json()["next_cursor"] is None


def test_a_problem_names_the_request_and_its_address_from_outside() -> None:
    service = build_service(Settings(public_url="https://host.example/setwise"))
    for path, by in (("/setwise/v1/predictions/x", "client"), ("/setwise/nowhere", None)):
        response = service.get(path, by=by, headers={"X-Request-Id": "r-7"})
        problem = response.json()
        assert problem["request_id"] == response.headers["x-request-id"] == "r-7"
        assert problem["instance"] == path
        assert problem["type"].startswith("/setwise/problems/")
        assert service.get(problem["type"]).status_code == 200
