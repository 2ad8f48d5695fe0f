"""What is no JSON, no JSON in disguise, or too much of it."""

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from setwise.service.api.http import bodies
from setwise.service.api.http.bodies import strict_json
from setwise.service.app import create_app
from setwise.service.requests import Instant
from tests.kit.edge import Service, assert_problem

JSON = {"Content-Type": "application/json"}
UNSUPPORTED = "unsupported-media-type"
LIMIT = 3 * 1_000 + 256_000


def _post(service: Service, content: bytes | str, **headers: str) -> Any:
    given = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
    return service.post("/v1/predictions", by="client", content=content, headers=given)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b'{"document": {"text": "x"}',
        b"{'document': 1}",
        b'{"document": {"text": "x"},}',
        b"\xff\xfe",
        b'{"document": {"text": "\xed\xa0\x80"}}',  # a surrogate, in what claims to be UTF-8
        b'{"document": {"text": "\\ud800"}}',
        b'{"document": {"text": "a\x00b"}}',
        b'{"document": {"text": "a\nb"}}',
        b'{"document": {"features": {"f": NaN}}}',
        b'{"document": {"features": {"f": Infinity}}}',
        b'{"document": {"features": {"f": -Infinity}}}',
        b'{"document": {"text": "x"}, "metadata": {"m": NaN}}',
        b'{"document": {"features": {"f": 1' + b"0" * 5_000 + b"}}}",
        b'{"document": ' + b"[" * 100_000,
        b'\xef\xbb\xbf{"document": {"text": "byte order mark"}}',
        b" ",
    ],
    ids=lambda content: repr(content[:40]),
)
def test_malformed_json_is_refused(service: Service, content: bytes) -> None:
    assert_problem(_post(service, content), 422, "malformed-json")


def test_json_that_is_nested_deeply_is_refused(service: Service) -> None:
    for depth in (100, 500, 5_000):
        content = b'{"document": {"text": "x"}, "metadata": {"m": %s}}' % (
            b"[" * depth + b"]" * depth
        )
        assert _post(service, content).status_code == 422, depth


@pytest.mark.parametrize("parts", [1, 2])
def test_a_gzipped_body_is_unpacked(service: Service, parts: int) -> None:
    body = json.dumps({"document": {"text": "0.5"}}).encode()
    size = -(-len(body) // parts)
    members = [body[start : start + size] for start in range(0, len(body), size)]
    content = b"".join(map(gzip.compress, members))
    assert _post(service, content, Content_Encoding="gzip").json()["confidence"] == 0.5
    assert_problem(_post(service, content[:-1], Content_Encoding="gzip"), 422, "malformed-json")
    assert_problem(_post(service, body, Content_Encoding="gzip"), 422, "malformed-json")
    refused_body = assert_problem(_post(service, content, Content_Encoding="br"), 415, UNSUPPORTED)
    assert "Content-Encoding is br: send it plain or as gzip" in refused_body["detail"]


def test_a_small_body_that_unpacks_to_a_large_one_is_refused(service: Service) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    assert_problem(_post(service, bomb, Content_Encoding="gzip"), 413, "body-too-large")
    empty = gzip.compress(b"") * 2_000  # each part is cheap to send and takes time
    body = assert_problem(_post(service, empty, Content_Encoding="gzip"), 422, "malformed-json")
    assert "declared as gzip" in body["detail"]


@pytest.mark.parametrize("charset", ["iso-8859-1", "utf-16", "Windows-1252"])
def test_another_charset_than_utf_8_is_named(service: Service, charset: str) -> None:
    for path, kind in (
        ("/v1/predictions", "application/json"),
        ("/v1/jobs/scoring", "application/x-ndjson"),
    ):
        given = {"Content-Type": f"{kind}; charset={charset}"}
        response = service.post(path, by="client", content=b"{}", headers=given)
        problem = assert_problem(response, 415, UNSUPPORTED)
        assert f"text in {charset.lower()}: send UTF-8" in problem["detail"]
    given = {"Content-Type": 'application/json; charset="UTF-8"'}
    body = json.dumps({"document": {"text": "0.5"}})
    assert service.post("/v1/predictions", by="client", content=body, headers=given).is_success


def test_a_byte_order_mark_is_named(service: Service) -> None:
    problem = assert_problem(_post(service, b"\xef\xbb\xbf{}"), 422, "malformed-json")
    assert "begins with a byte-order mark" in problem["detail"]


@pytest.mark.parametrize("path", ["/v1/predictions", "/v1/predictions/batch"])
def test_a_label_that_is_scored_twice_is_named(service: Service, path: str) -> None:
    document = '{"scores": {"a": 0.1, "J45 \u00c4": 0.9, "b": 0.2, "J45 \\u00c4": 0.3}}'
    one = path == "/v1/predictions"
    body = f'{{"document": {document}}}' if one else f'{{"documents": [{document}]}}'
    response = service.post(path, by="client", content=body.encode(), headers=JSON)
    assert_problem(response, 422, "malformed-json")
    assert "'J45 \u00c4' is given twice" in response.json()["detail"]
    assert not service.database.contents.predictions


def test_an_escaped_nul_is_a_fault_of_its_field(service: Service) -> None:
    response = _post(service, '{"document": {"text": "a\\u0000b"}}')
    assert_problem(response, 422, "invalid-request", "/document/text")


def test_a_missing_body_is_refused(service: Service) -> None:
    assert_problem(_post(service, b""), 422, "invalid-request", "")
    response = service.post("/v1/predictions", by="client")
    assert_problem(response, 422, "invalid-request", "")


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "json", "", ";", "text/json"]
)
def test_another_media_type_is_refused(service: Service, media_type: str) -> None:
    response = _post(service, '{"document": {"text": "x"}}', Content_Type=media_type)
    assert_problem(response, 415, "unsupported-media-type")


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/a+json",
    ],
)
def test_json_by_any_name_is_read(service: Service, media_type: str) -> None:
    response = _post(service, '{"document": {"text": "x"}}', Content_Type=media_type)
    assert response.status_code == 201


def test_a_body_over_the_limit_is_refused_by_its_declared_length(service: Service) -> None:
    response = _post(service, b" " * (LIMIT + 1))
    assert_problem(response, 413, "body-too-large")
    assert response.headers["connection"] == "close"


@pytest.mark.parametrize("length", ["-1", "ten", "²", "1" * 5_000])
def test_a_nonsensical_length_is_refused(service: Service, length: str) -> None:
    status, body = _converse(service, [b"{}"], content_length=length.encode("latin-1"))
    assert (status, body["type"]) == (413, "/problems/body-too-large")


def test_a_chunked_body_is_refused_once_it_passes_the_limit(service: Service) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 10_000
            yield b" " * 10_000

    response = service.post("/v1/predictions", by="client", content=endless(), headers=JSON)
    assert_problem(response, 413, "body-too-large")
    assert sent <= LIMIT + 20_000


def _converse(
    service: Service, chunks: list[bytes], *, content_length: bytes
) -> tuple[int, dict[str, Any]]:
    """Speak ASGI by hand, for headers that no HTTP client would send."""
    pending = list(chunks)
    items: list[Any] = []

    async def receive() -> dict[str, Any]:
        body = pending.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(pending)}

    async def send(message: Any) -> None:
        items.append(message)

    headers = JSON | {"Content-Length": content_length.decode("latin-1")}
    scope = _scope("POST", "/v1/predictions", headers)
    asyncio.run(service.app(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in items)
    return items[0]["status"], json.loads(body)


def _scope(method: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [
            (name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()
        ],
    }


KEYED = {"Idempotency-Key": "monday"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/v1/jobs/scoring", {"Content-Type": "application/x-ndjson"}, 408),
        ("POST", "/v1/admin/models", {"Content-Type": "application/zip"}, 408),
        ("POST", "/v1/admin/models", {"Content-Type": "application/zip", **KEYED}, 408),
        ("POST", "/v1/predictions", {"Content-Type": "text/plain"}, 408),
        ("POST", "/v1/predictions", JSON, 400),
        ("POST", "/v1/admin/webhooks", JSON | KEYED, 400),
        ("POST", "/login", {"Content-Type": "application/x-www-form-urlencoded"}, 400),
        ("GET", "/v1/exports/predictions", {}, 200),
    ],
)
def test_a_client_that_hangs_up_is_no_fault_of_the_service(
    service: Service, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    items: list[Any] = []
    pending: list[dict[str, Any]] = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> dict[str, Any]:
        return pending.pop() if pending else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        items.append(message)
        if message.get("more_body"):
            raise BrokenPipeError

    secret = {"Authorization": f"Bearer {service.secrets['admin']}"}
    with structlog.testing.capture_logs() as lines:
        asyncio.run(service.app(_scope(method, path, secret | headers), receive, send))
    assert items[0]["status"] == status
    assert [line for line in lines if line["log_level"] != "info"] == []
    assert not [line for line in lines if line["event"] == "request.failed"]


def test_a_client_that_stops_in_its_body_is_refused(service: Service) -> None:
    async def dripping() -> AsyncIterator[bytes]:
        yield b'{"document":'
        await asyncio.sleep(60)

    service.app = create_app(replace(service.app.state.edge, body_patience_s=0.05))
    response = service.post(
        "/v1/predictions",
        by="client",
        content=dripping(),
        headers={"Content-Type": "application/json"},
    )
    assert_problem(response, 408, "body-too-slow")
    assert response.headers["connection"] == "close"


OFFSETS = st.integers(-1_439, 1_439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
ENDS = st.sampled_from([datetime.min, datetime.max])  # noqa: DTZ901 -- offsets come later


@given(
    (st.datetimes() | ENDS).flatmap(lambda at: OFFSETS.map(lambda zone: at.replace(tzinfo=zone)))
)
def test_every_time_is_read_in_utc_or_refused(at: datetime) -> None:
    try:
        read = TypeAdapter(Instant).validate_python(at.isoformat())
    except ValidationError:
        assert at.year in {1, 9999}
    else:
        assert read.tzinfo is UTC
        assert read - at == timedelta(0)


@pytest.mark.parametrize("size", [10, bodies.LARGE_BYTES])
def test_a_large_body_is_parsed_beside_the_event_loop(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would wait meanwhile."""
    threads: list[int] = []

    def parse(body: bytes) -> object:
        threads.append(threading.get_ident())
        return strict_json(body)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b'"' + b"x" * size + b'"', "more_body": False}

    monkeypatch.setattr(bodies, "strict_json", parse)
    request = bodies._StrictRequest({"type": "http", "method": "POST"}, receive)
    assert asyncio.run(request.json()) == "x" * size
    assert (threads == [threading.get_ident()]) == (size < bodies.LARGE_BYTES)
