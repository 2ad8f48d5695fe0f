"""The short way of ordinary predictions answers as the long way does."""

import asyncio
import json
from typing import Any, NoReturn

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from service.api.express import Express
from service.settings import Settings
from tests.edge import Service, assert_problem, build_service

JSON = {"Content-Type": "application/json"}
NOTE = json.dumps({"document": {"id": "note-17", "text": "0.93"}, "metadata": {"site": "north"}})


@pytest.fixture
def quick() -> Service:
    """Return a service that has looked up the client's key a moment ago."""
    service = build_service(Settings(max_text_bytes=1_000, key_cache_s=60))
    service.fix_threshold(0.9)
    service.predict("0.1")
    return service


async def _closed(_scope: Scope, _receive: Receive, _send: Send) -> NoReturn:
    raise AssertionError("the long way was taken")


def _send(service: Service, *, express: bool, **content: Any) -> httpx.Response:
    """Post one prediction, by the short way if that takes it or by the long way at any rate."""
    service.app.front = Express(service.app.long_way, service.app.state.edge) if express else None
    content.setdefault("content", NOTE)
    headers = JSON | content.pop("headers", {})
    return service.post("/v1/predictions", by="client", headers=headers, **content)


def _members(response: httpx.Response) -> dict[str, Any]:
    """Return what does not differ from one request to the next."""
    body = response.json()
    return {name: body[name] for name in body if name != "id"}


def test_an_ordinary_request_never_comes_to_the_middlewares(quick: Service) -> None:
    quick.app.front = Express(_closed, quick.app.state.edge)
    response = quick.post("/v1/predictions", by="client", headers=JSON, content=NOTE)
    assert response.status_code == 201
    assert response.headers["location"] == f"/v1/predictions/{response.json()['id']}"
    assert quick.database.contents.predictions[response.json()["id"]].document.metadata == {
        "site": "north"
    }


@pytest.mark.parametrize(
    "headers", [{}, {"X-Request-ID": "mine-1"}, {"X-Request-ID": "not acceptable"}]
)
def test_both_ways_give_the_same_answer(quick: Service, headers: dict[str, str]) -> None:
    long, short = (_send(quick, express=way, headers=headers) for way in (False, True))
    assert (long.status_code, _members(long)) == (short.status_code, _members(short))
    ours = {"location", "x-request-id"}
    assert sorted(long.headers) == sorted(short.headers)
    for name in set(long.headers) - ours:
        assert long.headers[name] == short.headers[name], name
    if headers.get("X-Request-ID") == "mine-1":
        assert short.headers["x-request-id"] == "mine-1"
    events = [
        one for one in quick.database.contents.events.values() if one.action == "prediction.created"
    ]
    assert [event.request_id for event in events[-2:]] == [
        long.headers["x-request-id"],
        short.headers["x-request-id"],
    ]
    assert events[-1].address == events[-2].address


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "",
        "[]",
        "{}",
        '{"document": {"text": "0.5"}, "more": 1}',
        '{"document": {"text": 5}}',
        '{"document": {"features": {"a": NaN}}}',
        '{"document": {"text": "0.5"}, "metadata": {"x": Infinity}}',
        '{"document": {"id": "a"}}',
        '{"document": {"text": "' + "x" * 2_000 + '"}}',
        '{"document": {"text": "' + "x" * 2_000_000 + '"}}',
        '{"document": {"text": "a\\u0000b"}}',
    ],
)
def test_both_ways_refuse_alike(quick: Service, content: str) -> None:
    long, short = (_send(quick, express=way, content=content) for way in (False, True))
    assert long.status_code in {400, 413, 422}
    assert (long.status_code, long.json()) == (short.status_code, short.json())
    assert sorted(long.headers) == sorted(short.headers)


def test_both_ways_refuse_what_is_not_declared_as_json(quick: Service) -> None:
    plain = {"Content-Type": "text/plain"}
    long, short = (_send(quick, express=way, headers=plain) for way in (False, True))
    assert long.status_code == 415
    assert (long.status_code, long.json()) == (short.status_code, short.json())


def test_a_body_that_breaks_off_is_never_predicted(quick: Service) -> None:
    _asgi(quick, [_piece(NOTE, more=True), {"type": "http.disconnect"}])
    assert len(quick.database.contents.predictions) == 1  # that of the fixture


def test_an_idempotency_key_holds_on_both_ways(quick: Service) -> None:
    key = {"Idempotency-Key": "once"}
    long, short = (_send(quick, express=way, headers=key) for way in (False, True))
    assert long.json() == short.json()
    other = NOTE.replace("north", "south")
    assert_problem(
        _send(quick, express=True, headers=key, content=other), 422, "idempotency-mismatch"
    )


def test_a_service_without_a_model_says_so_on_the_short_way(quick: Service) -> None:
    quick.predictors.predictor = None
    answers = [_send(quick, express=way) for way in (False, True)]
    assert [answer.status_code for answer in answers] == [503, 503]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["x-content-type-options"] == "nosniff"


def test_a_fault_of_the_long_way_is_not_tried_again(quick: Service) -> None:
    calls: list[Scope] = []

    async def broken(scope: Scope, _receive: Receive, _send: Send) -> NoReturn:
        calls.append(scope)
        raise RuntimeError("too late for an answer")

    quick.app.front = Express(broken, quick.app.state.edge)
    with pytest.raises(RuntimeError, match="too late"):
        quick.post("/v1/predictions", by="client", headers=JSON, content="{}")
    assert len(calls) == 1


def test_an_unexpected_error_is_a_bare_500_on_the_short_way(
    quick: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> NoReturn:
        raise RuntimeError("secret words")

    monkeypatch.setattr(quick.predictors, "active", broken)
    response = _send(quick, express=True)
    assert_problem(response, 500, "internal-error")
    assert "secret" not in response.text


def test_requests_on_the_short_way_count_against_the_limit_once() -> None:
    service = build_service(Settings(key_cache_s=60, key_rate_per_minute=3))
    service.app.state.edge.limits._clock = lambda: 0.0  # a minute does not pass meanwhile
    answers = [service.predict("0.5") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [201, 201, 201, 429]
    assert [answer.headers["ratelimit"].split(";")[1] for answer in answers[:3]] == [
        "r=2",
        "r=1",
        "r=0",
    ]
    assert_problem(answers[3], 429, "too-many-requests")
    assert "retry-after" in answers[3].headers


def test_requests_on_the_short_way_are_counted_by_their_template(quick: Service) -> None:
    _send(quick, express=True)
    _send(quick, express=True, content="{")
    text = quick.app.state.edge.metrics.exposition().decode()
    route = 'method="POST",route="/v1/predictions"'
    assert f'setwise_requests_total{{{route},status="201"}} 2.0' in text
    assert f'setwise_requests_total{{{route},status="422"}} 1.0' in text
    assert 'setwise_decisions_total{decision="auto",reason="above_threshold"} 1.0' in text


def _piece(text: str, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": text.encode(), "more_body": more}


def _asgi(service: Service, messages: list[Message]) -> list[Message]:
    """Return what the application sends to one that comes in these messages."""
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/predictions",
        "raw_path": b"/v1/predictions",
        "query_string": b"",
        "headers": [
            (b"authorization", f"Bearer {service.secrets['client']}".encode()),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(NOTE)),
        ],
    }
    asyncio.run(service.app(scope, receive, send))
    return sent


@pytest.mark.parametrize("cut", [0, 20, len(NOTE)])
def test_a_body_in_pieces_is_read_whole(quick: Service, cut: int) -> None:
    sent = _asgi(quick, [_piece(NOTE[:cut], more=True), _piece(NOTE[cut:])])
    assert sent[0]["status"] == 201
    assert json.loads(sent[1]["body"])["document_id"] == "note-17"
