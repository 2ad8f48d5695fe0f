"""Every answer, whoever makes it, tells browsers to run, frame and keep nothing."""

import asyncio
from dataclasses import replace

import pytest

from setwise.service.api.http.middleware import EdgeMiddleware
from setwise.service.app import create_app
from tests.edge import Service

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
    if not path.startswith("/static/s"):
        assert headers["cache-control"] == "no-store"
    assert "strict-transport-security" not in headers
    for name in ("content-security-policy", "cache-control", "x-content-type-options"):
        assert len(headers.get_list(name)) == 1


def test_a_failure_of_ours_is_protected_too(service: Service) -> None:
    object.__setattr__(service.services.predictions, "page", lambda *_, **__: 1 / 0)
    failed = service.get("/v1/predictions", by="client")
    assert failed.status_code == 500
    assert failed.headers["x-content-type-options"] == "nosniff"


def test_over_tls_browsers_are_told_to_stay_there(service: Service) -> None:
    edge = replace(service.app.state.edge, https=True)
    service.app = create_app(edge)
    assert service.get("/healthz").headers["strict-transport-security"] == "max-age=31536000"


def test_what_an_answer_says_itself_stands(service: Service) -> None:
    sent = []

    async def app(scope, receive, send) -> None:
        own = [(b"cache-control", b"public"), (b"content-security-policy", b"sandbox")]
        await send({"type": "http.response.start", "status": 200, "headers": own})

    async def keep(message) -> None:
        sent.append(message)

    scope = {"type": "http", "scheme": "https", "method": "GET", "path": "/", "headers": []}
    middleware = EdgeMiddleware(app, edge=service.app.state.edge)
    asyncio.run(middleware(scope, None, keep))  # type: ignore[arg-type]  # nothing is received
    headers = sent[0]["headers"]
    assert headers.count((b"cache-control", b"public")) == 1
    assert [value for name, value in headers if name == b"content-security-policy"] == [b"sandbox"]
    assert (b"strict-transport-security", b"max-age=31536000") in headers
