"""Predicting many documents in one request."""

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.domain.predictions import Document, IdempotencyKey
from setwise.service.services.predictions import MOST_DOCUMENTS
from tests.fakes import FakePredictor
from tests.kit.edge import Service, assert_problem


def _batch(service: Service, *documents: Any, **rest: Any) -> httpx.Response:
    body: dict[str, Any] = {"documents": list(documents)}
    return service.post("/v1/predictions/batch", by="client", json=body, **rest)


def test_each_document_gets_what_a_call_of_its_own_would_get(service: Service) -> None:
    service.fix_threshold(0.9)
    response = _batch(
        service,
        {"id": "one", "text": "0.95", "metadata": {"site": "north"}},
        {"id": "two", "text": "0.2"},
        {"id": "three", "text": "unknown"},
    )
    assert response.status_code == 200
    items = response.json()["items"]
    assert [item["document_id"] for item in items] == ["one", "two", "three"]
    assert [item["reason"] for item in items] == [
        "above_threshold",
        "below_threshold",
        "out_of_domain",
    ]
    for item in items:
        assert service.get(f"/v1/predictions/{item['id']}", by="client").json() == item
    prediction = service.database.contents.predictions[items[0]["id"]]
    assert prediction.document.metadata == {"site": "north"}


def test_a_score_out_of_range_spoils_no_other_document(service: Service) -> None:
    service.predictors.predictor = FakePredictor(external=True)
    response = _batch(
        service,
        {"scores": {"a": 1}, "text": "0.9"},
        {"scores": {"a": 1, "b/c": 1.5}},
        {"candidates": [{"labels": ["a", "a"]}]},
        {"labels": []},
    )
    good, high, twice, empty = response.json()["items"]
    predictions = service.database.contents.predictions
    assert predictions[good["id"]].document == Document(text="0.9", answer={"scores": {"a": 1.0}})
    assert predictions[empty["id"]].document.answer == {"labels": []}
    assert [error["pointer"] for error in high["errors"]] == ["/documents/1/scores/b~1c"]
    assert [error["pointer"] for error in twice["errors"]] == ["/documents/2/candidates/0/labels/1"]


def test_documents_of_a_batch_have_their_own_priority_and_due_time(service: Service) -> None:
    due = "2026-01-03T12:00:00+01:00"
    response = _batch(
        service,
        {"text": "0.2", "priority": 2, "due_at": due},
        {"text": "0.3", "priority": 9, "due_at": due},
        {"text": "0.4", "due_at": None},
    )
    urgent, wrong, plain = response.json()["items"]
    documents = service.database.contents.predictions
    noon = datetime(2026, 1, 3, 11, tzinfo=UTC)
    assert documents[urgent["id"]].document == Document(text="0.2", priority=2, due_at=noon)
    assert documents[plain["id"]].document == Document(text="0.4")
    assert wrong["errors"] == [
        {
            "pointer": "/documents/1/priority",
            "detail": "is 9; send 0 (normal), 1 (high), 2 (urgent)",
        }
    ]
    late = {"documents": [{"text": "0.2", "due_at": "tomorrow"}]}
    refused_response = service.post("/v1/predictions/batch", by="client", json=late)
    assert_problem(refused_response, 422, "invalid-request", "/documents/0/due_at")


def test_a_faulty_document_has_a_problem_in_its_place(service: Service) -> None:
    response = _batch(
        service,
        {"text": "0.9"},
        {"text": " "},
        {"text": "x" * 1_001},
        {"text": "0.9", "metadata": {"name": "a\x00b"}},
        {},
    )
    assert response.status_code == 200
    good, *bad = response.json()["items"]
    assert "id" in good
    assert [
        (item["status"], item["type"], [error["pointer"] for error in item.get("errors", [])])
        for item in bad
    ] == [
        (422, "/problems/invalid-request", ["/documents/1/text"]),
        (413, "/problems/document-too-large", []),
        (422, "/problems/invalid-request", ["/documents/3/metadata/name"]),
        (422, "/problems/invalid-request", ["/documents/4"]),
    ]
    assert len(service.database.contents.predictions) == 1


@pytest.mark.parametrize(
    ("documents", "pointer"),
    [
        ([], "/documents"),
        ([{"text": "x"}] * (MOST_DOCUMENTS + 1), "/documents"),
        ([{"text": "x"}, {"text": "x", "colour": 1}], "/documents/1/colour"),
        ([{"text": 5}], "/documents/0/text"),
        (["x"], "/documents/0"),
    ],
)
def test_a_body_of_the_wrong_form_is_refused_as_a_whole(
    service: Service, documents: list[Any], pointer: str
) -> None:
    assert_problem(_batch(service, *documents), 422, "invalid-request", pointer)
    assert not service.database.contents.predictions


def test_the_largest_batch_is_taken(service: Service) -> None:
    items = _batch(service, *[{"text": "0.5"}] * MOST_DOCUMENTS).json()["items"]
    assert len({item["id"] for item in items}) == MOST_DOCUMENTS


def test_a_batch_sent_again_under_its_key_gives_the_same_items(service: Service) -> None:
    headers = {"Idempotency-Key": "monday"}
    first = _batch(service, {"text": "0.5"}, {"text": "0.5"}, headers=headers)
    again = _batch(service, {"text": "0.5", "id": None}, {"text": "0.5"}, headers=headers)
    assert again.json() == first.json()
    assert len(service.database.contents.predictions) == 2
    one = '{"text":"0.5"}'
    content = f'{{"documents":[{one},{one}]}}'.encode()  # in every release
    assert {digest for _, digest in service.database.contents.idempotency.values()} == {
        service.services.idempotency.digest(content).hexdigest()
    }
    (other, added) = _batch(service, {"text": "0.6"}, {"text": "0.5"}, headers=headers).json()[
        "items"
    ]
    assert {other["type"], added["type"]} == {"/problems/idempotency-mismatch"}


@pytest.mark.parametrize("single_first", [True, False])
def test_the_key_of_a_batch_meets_no_key_of_a_single_request(
    service: Service, single_first: bool
) -> None:
    def single() -> httpx.Response:
        return service.predict("0.9", headers={"Idempotency-Key": "k#0"})

    def batch() -> httpx.Response:
        return _batch(service, {"text": "0.3"}, headers={"Idempotency-Key": "k"})

    first, second = (single, batch) if single_first else (batch, single)
    answers = [first(), second(), first(), second()]
    assert [one.status_code for one in answers[:2]] == ([201, 200] if single_first else [200, 201])
    assert answers[2].json() == answers[0].json()
    assert answers[3].json() == answers[1].json()
    assert "type" not in (batch().json()["items"][0])
    assert len(service.database.contents.predictions) == 2


def test_a_document_of_a_batch_with_a_key_can_be_erased(service: Service) -> None:
    _batch(service, {"id": "one", "text": "0.3"}, headers={"Idempotency-Key": "k"})
    response = service.post("/v1/admin/erasures", by="admin", json={"document_id": "one"})
    assert response.json() == {"predictions": 1, "labels": []}


def test_the_key_of_a_batch_meets_no_key_of_a_line_of_a_file() -> None:
    batch = IdempotencyKey("019b7a0b-0000-7000-8000-000000000001", "digest")
    assert batch.of_part(1).key != f"{batch.key}\n1"


def test_an_idempotency_key_that_cannot_be_kept_is_named(service: Service) -> None:
    headers = {"Idempotency-Key": "k" * 300}
    (item,) = _batch(service, {"text": "0.5"}, headers=headers).json()["items"]
    assert [error["pointer"] for error in item["errors"]] == ["/header/Idempotency-Key"]


def test_a_fault_of_ours_is_told_without_its_words(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> list[object]:
        raise RuntimeError("secret")

    monkeypatch.setattr(service.predictors.predictor, "score", fail)
    response = _batch(service, {"text": "0.5"}, headers={"X-Request-ID": "req-7"})
    (item,) = response.json()["items"]
    assert (item["status"], item["type"]) == (500, "/problems/internal-error")
    assert "req-7" in item["detail"]
    assert "secret" not in response.text


def test_without_its_model_or_a_database_the_whole_batch_comes_later(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = service.predictors.unload()
    response = _batch(service, {"text": "0.5"}, {"text": ""})
    assert_problem(response, 503, "model-loading")
    service.predictors.predictor = predictor

    def unavailable(*_: object) -> None:
        raise StorageUnavailable("The database is away.")

    monkeypatch.setattr("setwise.service.services.predictions.Predictions._add", unavailable)
    response = _batch(service, {"text": "0.5"}, {"text": ""})
    assert_problem(response, 503, "storage-unavailable")
    assert response.headers["retry-after"]


def test_batches_count_in_the_metrics(service: Service) -> None:
    service.fix_threshold(0.9)
    _batch(service, {"text": "0.95"}, {"text": "0.95"}, {"text": ""})
    text = service.get("/metrics").text
    line = 'setwise_decisions_total{decision="auto",reason="above_threshold"} 2.0'
    assert line in text
    for _ in range(2):  # what a request repeats is not counted again
        _batch(service, {"text": "0.95"}, headers={"Idempotency-Key": "monday"})
    assert line.replace(" 2.0", " 3.0") in service.get("/metrics").text
