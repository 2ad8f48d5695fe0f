"""Label sets at every door of the HTTP API: stored as meant, or refused with their place."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
import pytest

from setwise.limits import MOST_SET_LABELS
from setwise.service.domain.accounts.callers import Role
from setwise.spelling import spelled
from tests.fakes import FakePredictor
from tests.kit.edge import Service
from tests.odd_labels import PLAIN, WORDS, Case

NAMES = tuple(dict.fromkeys(name for name in map(spelled, (*PLAIN, *WORDS)) if name))


class Doors:
    """A service whose model knows many names, and its doors for label sets."""

    def __init__(self, service: Service) -> None:
        self.service = service
        service.predictors.predictor = FakePredictor(labels=NAMES, external=True)
        service.key("lead", Role.LEAD)

    def post(self, path: str, body: object, by: str, **headers: str) -> httpx.Response:
        sent = {"Content-Type": "application/json", **headers}
        return self.service.post(path, by=by, headers=sent, content=json.dumps(body).encode())

    def predict(self, member: str, content: object) -> "Reply":
        body = {"document": {"text": "0.5", member: content}}
        return self._predicted(self.post("/v1/predictions", body, "client"))

    def batch(self, labels: list[str]) -> "Reply":
        body = {"documents": [{"text": "0.5", "labels": labels}]}
        response = self.post("/v1/predictions/batch", body, "client")
        assert response.status_code == 200, response.text
        (item,) = response.json()["items"]
        if "status" in item:
            return Reply(item["status"], item, "/documents/0/labels")
        return Reply(201, item, labels=self._answer(item["id"]))

    def outcome(self, labels: list[str]) -> "Reply":
        id_ = self.service.predict("0.5").json()["id"]
        body = {"labels": labels, "source": "billing"}
        response = self.post(f"/v1/predictions/{id_}/outcome", body, "client")
        return Reply.of(response, "/labels", lambda done: set(done["labels"]))

    def complete(self, labels: list[str]) -> "Reply":
        self.service.predict("0.5")
        task = self.service.post("/v1/reviews/claim", by="lead").json()
        path, version = f"/v1/reviews/{task['id']}", {"If-Match": str(task["version"])}
        response = self.post(f"{path}/complete", {"labels": labels}, "lead", **version)
        if response.status_code != 200:
            self.post(f"{path}/complete", {"labels": []}, "lead", **version)
        return Reply.of(response, "/labels", lambda done: set(done["labels"]))

    def correct(self, labels: list[str]) -> "Reply":
        reply = self.complete(["fever"])
        (listed,) = self.service.get("/v1/reviews/recent?limit=1", by="lead").json()["items"]
        assert reply.status == 200
        body = {"labels": labels, "reason": "page two"}
        response = self.post(f"/v1/documents/{listed['prediction_id']}/reopen", body, "lead")
        return Reply.of(response, "/labels", lambda task: self._corrected(task["id"]))

    def _corrected(self, task_id: str) -> set[str]:
        with self.service.database(read_only=True) as transaction:
            annotation = transaction.reviews.annotation_of(task_id)
        assert annotation is not None
        return set(annotation.labels)

    def _predicted(self, response: httpx.Response) -> "Reply":
        return Reply.of(response, "/document/", lambda done: self._answer(done["id"]))

    def _answer(self, id_: str) -> set[str]:
        with self.service.database(read_only=True) as transaction:
            prediction = transaction.predictions.get(id_)
        assert prediction is not None
        answer = prediction.document.answer
        assert answer is not None
        if "candidates" in answer:
            (candidate,) = answer["candidates"]
            return set(candidate["labels"])
        return set(answer.get("labels", answer.get("scores")))


class Reply(NamedTuple):
    """What a door said to a label set."""

    status: int
    body: dict[str, Any]
    place: str = ""
    """Where a fault may lie."""
    labels: set[str] = frozenset()
    """What is stored, if it was taken."""

    @classmethod
    def of(cls, response: httpx.Response, place: str, stored: Callable[[Any], set[str]]) -> "Reply":
        body = response.json()
        taken = response.status_code in {200, 201}
        return cls(response.status_code, body, place, stored(body) if taken else set())


DOORS: dict[str, Callable[[Doors, list[str]], Reply]] = {
    "labels of a document": lambda doors, labels: doors.predict("labels", labels),
    "candidates": lambda doors, labels: doors.predict("candidates", [{"labels": labels}]),
    "scores": lambda doors, labels: doors.predict("scores", dict.fromkeys(labels, 0.5)),
    "batch": Doors.batch,
    "outcome": Doors.outcome,
    "review": Doors.complete,
    "correction": Doors.correct,
}


@pytest.fixture
def doors(service: Service) -> Doors:
    return Doors(service)


@pytest.mark.parametrize("door", [name for name in DOORS if name != "scores"])
def test_a_set_with_more_labels_than_any_document_has_is_refused(doors: Doors, door: str) -> None:
    reply = DOORS[door](doors, [f"label {n}" for n in range(MOST_SET_LABELS + 1)])
    (fault,) = reply.body["errors"]
    assert (reply.status, fault["pointer"].startswith(reply.place)) == (422, True)
    assert f"{MOST_SET_LABELS}" in fault["detail"].replace(",", "")


@pytest.mark.parametrize(
    "n", [pytest.param(30, id="30"), pytest.param(1_500, marks=pytest.mark.verify, id="1500")]
)
@pytest.mark.parametrize("door", DOORS)
def test_labels_in_odd_spellings_are_stored_as_meant_or_refused(
    doors: Doors, door: str, n: int
) -> None:
    count = 0
    for seed in range(n):
        case = Case.drawn(seed)
        row = max(case.rows, key=len)
        if case.rng.random() < 0.1:
            row = [*row, case.rng.choice(["a\x00b", "fever", " fever"])]
        meant, where = set(map(spelled, row)), f"seed {seed}: {row}"
        distinct = set(row) if door == "scores" else row
        sound = len(meant) == len(distinct) and meant <= set(NAMES)
        reply = DOORS[door](doors, row)
        if door == "scores" and not row:
            sound = False
        assert reply.status in ({200, 201} if sound else {422}), (where, reply.body)
        if sound:
            assert reply.labels == meant, where
            count += 1
            continue
        assert reply.body.get("errors"), (where, reply.body)
        for fault in reply.body["errors"]:
            assert fault["pointer"].startswith(reply.place), (where, fault)
            assert fault["detail"], where
    assert count > n / 4
