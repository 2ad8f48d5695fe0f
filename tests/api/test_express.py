"""The short way of ordinary predictions answers as the long way does."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import httpx
import pytest
import structlog
from starlette.types import Message, Receive, Scope, Send

from setwise.service.api import batches
from setwise.service.api.express import Express
from setwise.service.services.predictions import Predict
from setwise.service.settings import Settings
from tests.edge import Service, assert_problem, build_service

JSON = {"Content-Type": "application/json"}
ONE, SEVERAL = "/v1/predictions", "/v1/predictions/batch"
NOTE = json.dumps({"document": {"id": "note-17", "text": "0.93"}, "metadata": {"site": "north"}})
NOTES = json.dumps(
    {
        "documents": [
            {"id": 'note "17"', "text": "0.93", "metadata": {"site": "north"}},
            {"id": "note-18", "text": " "},
            {"text": "0.2", "metadata": {"site": "n\u00f8rth"}},
            {"id": "note-20", "text": "x" * 1_001},
            {"id": "n\u00f8te-21", "text": "unknown"},
        ]
    }
)
ORDINARY = {ONE: NOTE, SEVERAL: NOTES}
REFUSED = [
    '{"document": {"text": "0.5"}, "more": 1}',
    '{"document": {"text": 5}}',
    '{"document": {"features": {"a": NaN}}}',
    '{"document": {"text": "0.5"}, "metadata": {"x": Infinity}}',
    '{"document": {"id": "a"}}',
    '{"document": {"text": "' + "x" * 2_000 + '"}}',
    '{"document": {"text": "' + "x" * 2_000_000 + '"}}',
    '{"document": {"text": "a\\u0000b"}}',
]
REFUSED_BATCHES = [
    '{"documents": []}',
    '{"documents": [{"text": "0.5"}], "more": 1}',
    '{"documents": [{"text": "0.5"}, {"text": 5}]}',
    '{"documents": [{"text": "0.5", "more": 1}]}',
    '{"documents": [{"features": {"a": NaN}}]}',
    '{"documents": [{"features": {"a": true}}]}',
    '{"documents": [{"features": {"a": 1e39, "b": "1"}}]}',
    '{"documents": [{"text": "0.5", "metadata": {"x": Infinity}}]}',
    '{"documents": [{"text": "0.5", "metadata": null}]}',
    '{"documents": [{"text": "0.5", "metadata": []}]}',
    '{"documents": [["0.5"]]}',
    '{"documents": {"0": {"text": "0.5"}}}',
    '{"documents": [' + ", ".join(['{"text": "0.5"}'] * 257) + "]}",
    '{"documents": [{"text": "' + "x" * 2_000_000 + '"}]}',
]
both_calls = pytest.mark.parametrize("address", [ONE, SEVERAL])


def _quick() -> Service:
    """Return a service that has looked up the client's key a moment ago."""
    service = build_service(Settings(max_text_bytes=1_000, key_cache_s=60))
    service.fix_threshold(0.9)
    service.predict("0.1")
    return service


@pytest.fixture
def quick() -> Service:
    """Return such a service."""
    return _quick()


@pytest.fixture(scope="module")
def refusing() -> Service:
    """Return such a service, which every test leaves as it is."""
    return _quick()


async def _closed(_scope: Scope, _receive: Receive, _send: Send) -> NoReturn:
    raise AssertionError("the long way was taken")


def _send(service: Service, address: str = ONE, *, express: bool, **content: Any) -> httpx.Response:
    """Ask for predictions, by the short way if that takes it or by the long way at any rate."""
    service.app.front = Express(service.app.long_way, service.app.state.edge) if express else None
    content.setdefault("content", ORDINARY[address])
    headers = JSON | content.pop("headers", {})
    return service.post(address, by="client", headers=headers, **content)


def _members(response: httpx.Response) -> list[dict[str, Any]]:
    """Return what does not differ from one request to the next."""
    body = response.json()
    return [{name: one[name] for name in one if name != "id"} for one in body.get("items", [body])]


def test_an_ordinary_prediction_never_comes_to_the_middlewares(quick: Service) -> None:
    quick.app.front = Express(_closed, quick.app.state.edge)
    response = quick.post("/v1/predictions", by="client", headers=JSON, content=NOTE)
    assert response.status_code == 201
    assert response.headers["location"] == f"/v1/predictions/{response.json()['id']}"
    assert quick.database.contents.predictions[response.json()["id"]].document.metadata == {
        "site": "north"
    }


def test_an_ordinary_batch_never_comes_to_the_middlewares(quick: Service) -> None:
    quick.app.front = Express(_closed, quick.app.state.edge)
    response = quick.post(SEVERAL, by="client", headers=JSON, content=NOTES)
    assert response.status_code == 200
    items = response.json()["items"]
    assert [item.get("document_id", item.get("type")) for item in items] == [
        'note "17"',
        "/problems/invalid-request",
        None,
        "/problems/document-too-large",
        "n\u00f8te-21",
    ]
    stored = quick.database.contents.predictions
    assert stored[items[2]["id"]].document.metadata == {"site": "n\u00f8rth"}


def test_a_batch_is_read_and_predicted_outside_the_event_loop(
    quick: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    validate, record = batches.BatchRequest.model_validate, Predict._record

    def validate_here(body: object) -> batches.BatchRequest:
        threads.append(threading.current_thread())
        return validate(body)

    def record_here(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return record(*given)

    monkeypatch.setattr(batches.BatchRequest, "model_validate", validate_here)
    monkeypatch.setattr(Predict, "_record", record_here)
    sent = _asgi(quick, [_piece(NOTES)], SEVERAL)
    assert sent[0]["status"] == 200
    assert len(set(threads)) == 2  # the next one is read while this one is stored
    assert threading.main_thread() not in threads


@both_calls
@pytest.mark.parametrize(
    "headers", [{}, {"X-Request-ID": "mine-1"}, {"X-Request-ID": "not acceptable"}]
)
def test_both_ways_give_the_same_answer(
    quick: Service, address: str, headers: dict[str, str]
) -> None:
    long, short = (_send(quick, address, express=way, headers=headers) for way in (False, True))
    assert (long.status_code, _members(long)) == (short.status_code, _members(short))
    ours = {"location", "x-request-id"}
    assert ("location" in short.headers) == (address == ONE)
    assert sorted(long.headers) == sorted(short.headers)
    for name in set(long.headers) - ours:
        assert long.headers[name] == short.headers[name], name
    if headers.get("X-Request-ID") == "mine-1":
        assert short.headers["x-request-id"] == "mine-1"
    events = [
        one for one in quick.database.contents.events.values() if one.action == "prediction.created"
    ]
    half = len(events) // 2  # one more comes from the fixture
    assert [event.request_id for event in events[1:]] == [
        response.headers["x-request-id"] for response in (long, short) for _ in range(half)
    ]
    assert len({event.address for event in events[1:]}) == 1


@pytest.mark.parametrize(
    ("address", "content"),
    [
        *[(address, content) for address in ORDINARY for content in ("{", "", "[]", "{}")],
        *[(ONE, content) for content in REFUSED],
        *[(SEVERAL, content) for content in REFUSED_BATCHES],
    ],
)
def test_both_ways_refuse_alike(refusing: Service, address: str, content: str) -> None:
    long, short = (_send(refusing, address, express=way, content=content) for way in (False, True))
    assert long.status_code in {400, 413, 422}
    assert (long.status_code, long.json()) == (short.status_code, short.json())
    assert sorted(long.headers) == sorted(short.headers)
    assert len(refusing.database.contents.predictions) == 1  # that of the fixture


@both_calls
def test_both_ways_refuse_what_is_not_declared_as_json(quick: Service, address: str) -> None:
    plain = {"Content-Type": "text/plain"}
    long, short = (_send(quick, address, express=way, headers=plain) for way in (False, True))
    assert long.status_code == 415
    assert (long.status_code, long.json()) == (short.status_code, short.json())


@both_calls
def test_a_body_that_breaks_off_is_never_predicted(quick: Service, address: str) -> None:
    _asgi(quick, [_piece(ORDINARY[address], more=True), {"type": "http.disconnect"}], address)
    assert len(quick.database.contents.predictions) == 1  # that of the fixture


@both_calls
def test_an_idempotency_key_holds_on_both_ways(quick: Service, address: str) -> None:
    key = {"Idempotency-Key": "once"}
    long, short = (_send(quick, address, express=way, headers=key) for way in (False, True))
    assert long.json() == short.json()
    other = ORDINARY[address].replace("north", "south")
    answer = _send(quick, address, express=True, headers=key, content=other)
    if address == ONE:
        assert_problem(answer, 422, "idempotency-mismatch")
    else:
        assert answer.json()["items"][0]["type"] == "/problems/idempotency-mismatch"


@both_calls
def test_a_service_without_a_model_says_so_on_the_short_way(quick: Service, address: str) -> None:
    quick.predictors.predictor = None
    answers = [_send(quick, address, express=way) for way in (False, True)]
    assert [answer.status_code for answer in answers] == [503, 503]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["x-content-type-options"] == "nosniff"


@both_calls
def test_only_those_who_predict_may_do_so_on_either_way(quick: Service, address: str) -> None:
    quick.get("/v1/reviews", by="reviewer")  # so that the key is known
    answers = []
    for front in (None, Express(quick.app.long_way, quick.app.state.edge)):
        quick.app.front = front
        answers.append(quick.post(address, by="reviewer", headers=JSON, content=ORDINARY[address]))
    assert_problem(answers[1], 403, "forbidden")
    assert answers[0].json() == answers[1].json()
    assert sorted(answers[0].headers) == sorted(answers[1].headers)


@both_calls
def test_a_fault_of_the_long_way_is_not_tried_again(quick: Service, address: str) -> None:
    calls: list[Scope] = []

    async def broken(scope: Scope, _receive: Receive, _send: Send) -> NoReturn:
        calls.append(scope)
        raise RuntimeError("too late for an answer")

    quick.app.front = Express(broken, quick.app.state.edge)
    with pytest.raises(RuntimeError, match="too late"):
        quick.post(address, by="client", headers=JSON, content="{}")
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


def test_a_batch_that_is_cancelled_counts_as_aborted(
    quick: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def prepared(*_: object) -> Callable[[], bytes]:
        begun.set()
        assert go_on.wait(10)
        return bytes

    monkeypatch.setattr(batches, "prepared", prepared)
    sent: list[Message] = []

    async def cancelled() -> None:
        asking = asyncio.create_task(_ask(quick, [_piece(NOTES)], SEVERAL, sent))
        await asyncio.to_thread(begun.wait, 10)
        asking.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(cancelled())
    assert not sent
    text = quick.app.state.edge.metrics.exposition().decode()
    assert f'setwise_requests_total{{method="POST",route="{SEVERAL}",status="aborted"}} 1.0' in text


def test_a_fault_within_a_batch_is_logged_under_its_name_on_both_ways(
    quick: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def fail(*_: object) -> NoReturn:
        seen.append(structlog.contextvars.get_contextvars().get("request_id"))
        raise RuntimeError("secret words")

    monkeypatch.setattr(quick.predictors.predictor, "score", fail)
    name = {"X-Request-ID": "req-7"}
    long, short = (_send(quick, SEVERAL, express=way, headers=name) for way in (False, True))
    assert long.json() == short.json()
    assert "req-7" in short.json()["items"][0]["detail"]
    assert set(seen) == {"req-7"}
    assert not structlog.contextvars.get_contextvars()


@both_calls
def test_requests_on_the_short_way_count_against_the_limit_once(address: str) -> None:
    service = build_service(Settings(key_cache_s=60, key_rate_per_minute=4))
    service.app.state.edge.limits._clock = lambda: 0.0  # a minute does not pass meanwhile
    service.predict("0.5")
    _send(service, address, express=True, content="{")  # which never came to the count
    content = ORDINARY[address]
    answers = [_send(service, address, express=True, content=content) for _ in range(4)]
    assert [answer.status_code // 100 for answer in answers] == [2, 2, 2, 4]
    assert [answer.headers["ratelimit"].split(";")[1] for answer in answers[:3]] == [
        "r=2",
        "r=1",
        "r=0",
    ]
    assert_problem(answers[3], 429, "too-many-requests")
    assert "retry-after" in answers[3].headers


@both_calls
def test_requests_on_the_short_way_are_counted_by_their_template(
    quick: Service, address: str
) -> None:
    _send(quick, address, express=True)
    _send(quick, address, express=True, content="{")
    text = quick.app.state.edge.metrics.exposition().decode()
    route = f'method="POST",route="{address}"'
    good, count = ("201", "2.0") if address == ONE else ("200", "1.0")  # one is the fixture's
    assert f'setwise_requests_total{{{route},status="{good}"}} {count}' in text
    assert f'setwise_requests_total{{{route},status="422"}} 1.0' in text
    assert 'setwise_decisions_total{decision="auto",reason="above_threshold"} 1.0' in text


def _piece(text: str, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": text.encode(), "more_body": more}


def _asgi(service: Service, messages: list[Message], address: str = ONE) -> list[Message]:
    """Return what the application sends to one that comes in these messages."""
    sent: list[Message] = []
    asyncio.run(_ask(service, messages, address, sent))
    return sent


async def _ask(
    service: Service, messages: list[Message], address: str, sent: list[Message]
) -> None:
    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": address,
        "raw_path": address.encode(),
        "query_string": b"",
        "headers": [
            (b"authorization", f"Bearer {service.secrets['client']}".encode()),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(ORDINARY[address])),
        ],
    }
    await service.app(scope, receive, send)


@pytest.mark.parametrize("cut", [0, 20, len(NOTE)])
def test_a_body_in_pieces_is_read_whole(quick: Service, cut: int) -> None:
    sent = _asgi(quick, [_piece(NOTE[:cut], more=True), _piece(NOTE[cut:])])
    assert sent[0]["status"] == 201
    assert json.loads(sent[1]["body"])["document_id"] == "note-17"
