"""Who holds a blind task reads its suggestion at no address until they have answered."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.jobs import JobState
from setwise.service.domain.models import ComparedAnswer
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Candidate, Decision, Prediction, Reason
from setwise.service.domain.reviews import ReviewKind, ReviewState, ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.webhooks import auto_sent
from setwise.service.pages.board.sections import PAGES
from setwise.service.stores import tables
from tests.browsing import Browser
from tests.fakes import START
from tests.kit.edge import Service, assert_problem
from tests.samples import add_predictions, delivery, endpoint, model, outcome, prediction, task

SUGGESTED = "suggested-code"


def suggesting() -> Prediction:
    """Return an audited prediction with a label that no other has."""
    plain = prediction(decision=Decision.AUTO, reason=Reason.AUDIT)
    candidates = (Candidate((SUGGESTED,), 0.9, 0.8), *plain.scored.candidates)
    return plain._replace(scored=plain.scored._replace(candidates=candidates))


class Held:
    """A prediction whose blind task somebody holds, known by all the ids that lead to it."""

    def __init__(self, service: Service, holder: str | None) -> None:
        self.service = service
        self.prediction = new_prediction = suggesting()
        other = prediction()
        self.task: ReviewTask = replace(task(new_prediction), kind=ReviewKind.OVERLAP)
        if holder is not None:
            self.task = self.task.claimed(holder, START, timedelta(minutes=15))
        first = replace(task(new_prediction), state=ReviewState.WAITING)
        hook, of_model = endpoint(), model()
        message = auto_sent(new_prediction, "019b7a0b-0000-7000-9000-0000000000dd")
        sent_delivery = delivery(message, hook)
        comparison = ComparedAnswer(
            "019b7a0b-0000-7000-9000-0000000000cc", of_model.id, new_prediction.id, ("a",), 0.5,
            Decision.REVIEW, Reason.BELOW_THRESHOLD, False, False, START,
        )  # fmt: skip
        wanted = {"what": "predictions", "format": "jsonl"}
        job_id = service.post("/v1/jobs/export", by="admin", json=wanted).json()["id"]
        with service.files.create(f"jobs/{job_id}/result/00000000.jsonl") as sink:
            sink.write(SUGGESTED.encode())
        with service.database() as transaction:
            add_predictions(transaction, new_prediction, other)
            transaction.reviews.add_all([first, replace(task(other), kind=ReviewKind.AUDIT)])
            transaction.reviews.add(self.task)
            transaction.outcomes.add(outcome(new_prediction, SUGGESTED))
            transaction.models.add(of_model)
            transaction.comparisons.add_all([comparison])
            transaction.endpoints.add(hook)
            transaction.outbox.add_all([message])
            transaction.deliveries.add([sent_delivery])
            job = transaction.jobs.get(job_id)
            assert job is not None
            transaction.jobs.change(replace(job, state=JobState.SUCCEEDED, finished_at=START))
        self.ids = {
            "prediction_id": new_prediction.id,
            "task_id": first.id,
            "model_id": of_model.id,
            "webhook_id": hook.id,
            "delivery_id": sent_delivery.id,
            "job_id": job_id,
        }

    def addresses(self) -> Iterator[str]:
        """Yield every address that can be read, with ids that lead to the prediction."""
        return addresses(self.service, self.ids)


def addresses(service: Service, ids: Mapping[str, str]) -> Iterator[str]:
    """Yield every address that can be read, with these ids."""
    unknown = "019b7a0b-0000-7000-9000-0000000000ff"
    for path, operations in service.app.openapi()["paths"].items():
        if "get" not in operations:
            continue
        for what in ("predictions", "annotations", "outcomes", "audit-events"):
            address = path
            for name, value in {**ids, "what": what}.items():
                address = address.replace(f"{{{name}}}", value)
            yield "/".join(unknown if p.startswith("{") else p for p in address.split("/"))
            if "{what}" not in path:
                break


@pytest.mark.parametrize("name", ["lead", "admin"])
def test_no_address_shows_a_holder_the_suggestion_before_the_answer(
    service: Service, name: str
) -> None:
    holder = service.key(name, Role(name))
    held = Held(service, holder)
    before = {path: service.get(path, by=name) for path in held.addresses()}
    assert [path for path, response in before.items() if SUGGESTED in response.text] == []
    # Somebody else reads it at several of these addresses.
    read = [path for path in held.addresses() if SUGGESTED in service.get(path, by="auditor").text]
    assert len(read) >= 8
    assert f"/v1/predictions/{held.prediction.id}" in read
    service.services.reviews.complete(
        service.services.keys.authenticate(service.secrets[name]),
        held.task.id, ["a"], None, held.task.version,
    )  # fmt: skip
    shown = service.get(f"/v1/predictions/{held.prediction.id}", by=name)
    assert shown.json()["labels"] == [SUGGESTED]


def test_a_refusal_says_what_to_do_and_a_list_leaves_the_document_out(service: Service) -> None:
    held = Held(service, service.key("lead", Role.LEAD))
    response = service.get(f"/v1/predictions/{held.prediction.id}", by="lead")
    assert_problem(response, 409, "blind-review-held")
    items = service.get("/v1/predictions", by="lead").json()["items"]
    assert len(items) == 1
    assert items[0]["id"] != held.prediction.id
    assert service.get(f"/v1/reviews/{held.task.id}", by="lead").status_code == 200
    queue = {one["id"] for one in service.get("/v1/reviews", by="lead").json()["items"]}
    assert held.task.id in queue
    assert held.ids["task_id"] not in queue


def claimed(service: Service, by: str) -> set[str]:
    """Claim and release tasks until none is left; return their ids."""
    matches: set[str] = set()
    while (response := service.post("/v1/reviews/claim", by=by)).status_code == 200:
        matches.add(response.json()["id"])
    return matches


def test_who_has_read_a_suggestion_is_not_given_its_blind_review(service: Service) -> None:
    held = Held(service, None)
    service.key("admin", Role.ADMIN)
    shown = [path for path in held.addresses() if SUGGESTED in service.get(path, by="auditor").text]
    shown += [f"/v1/jobs/{held.ids['job_id']}/result", "/v1/predictions?limit=200"]
    assert len(shown) >= 10
    for number, path in enumerate(shown):
        reader = f"reader {number}"
        service.key(reader, Role.ADMIN)
        before = service.get(path, by=reader)
        assert SUGGESTED in before.text, path
        given = claimed(service, reader)
        assert held.task.id not in given, path
        for one in given:
            service.post(f"/v1/reviews/{one}/release", by=reader)
    service.key("new", Role.REVIEWER)
    assert held.task.id in claimed(service, "new")


def test_who_waits_for_a_result_has_read_nothing(service: Service) -> None:
    held = Held(service, None)
    wanted = {"what": "predictions", "format": "jsonl"}
    job = service.post("/v1/jobs/export", by="lead", json=wanted).json()["id"]
    waiting = service.get(f"/v1/jobs/{job}/result", by="lead")
    assert_problem(waiting, 409, "job-unfinished")
    assert held.task.id in claimed(service, "lead")


def test_who_gave_a_task_with_a_suggestion_back_is_not_given_the_blind_one(
    service: Service,
) -> None:
    prediction = suggesting()
    first, second = task(prediction), replace(task(prediction), kind=ReviewKind.OVERLAP)
    with service.database() as transaction:
        add_predictions(transaction, prediction)
        transaction.reviews.add_all([first, second])
    for name in ("ann", "ben"):
        service.key(name, Role.REVIEWER)
    assert service.post("/v1/reviews/claim", by="ann").json()["id"] == first.id
    service.post(f"/v1/reviews/{first.id}/release", by="ann")
    assert service.post("/v1/reviews/claim", by="ben").json()["id"] == first.id
    assert service.post("/v1/reviews/claim", by="ann").status_code == 204


def test_who_sent_a_document_is_not_given_its_blind_review(service: Service) -> None:
    change = PolicyChange(
        0.95, 0.1, True, ThresholdMode.FIXED, 0.2, audits=AuditPlan(certification_rate=1.0)
    )
    service.services.policy.change(SYSTEM, change, None)
    response = service.post("/v1/predictions", by="admin", json={"document": {"text": "0.5"}})
    assert response.json()["labels"]
    assert service.post("/v1/reviews/claim", by="admin").status_code == 204
    assert service.post("/v1/reviews/claim", by="reviewer").status_code == 200


def test_no_page_shows_a_holder_the_suggestion(service: Service) -> None:
    held = Held(service, service.person("ann", Role.ADMIN))
    browser = Browser(service)
    browser.sign_in()
    with_ids = {"{model_id}": "model_id", "{delivery_id}": "delivery_id", "{job_id}": "job_id"}
    of_document = f"/documents/{held.prediction.id}"
    of_others = (
        "/",
        "/desk",
        "/cockpit",
        "/cockpit/details",
        "/documents",
        of_document,
    )
    for page in (*of_others, *(one.address for one in PAGES)):
        address = page
        for name, known in with_ids.items():
            address = address.replace(name, held.ids[known])
        if "{" not in address:
            assert SUGGESTED not in browser.get(address).text, address
    other = service.services.people.create(
        SYSTEM, login="ben", name="Ben", role=Role.AUDITOR, password="correct horse battery"
    )
    assert other.login == "ben"
    reader = Browser(service)
    reader.sign_in("ben")
    for address in ("/documents", of_document, f"/board/models/{held.ids['model_id']}"):
        assert SUGGESTED in reader.get(address).text


def test_nothing_tells_whether_a_document_was_marked_on_arrival(service: Service) -> None:
    service.predictors.predictor = None
    new_ids = [
        service.predict(f"Fever and {word}.").json()["id"] for word in ("cough", "pain", "rash")
    ]
    task = service.post("/v1/reviews/claim", by="reviewer").json()
    browser = Browser(service)
    service.person("rosa", Role.REVIEWER)
    browser.sign_in("rosa")
    ids = {"prediction_id": new_ids[0], "task_id": task["id"]}
    pages = ["/", "/desk", "/account", f"/documents/{new_ids[0]}", "/answers"]

    def shown(marked: bool) -> dict[str, str]:
        with service.database.engine.begin() as connection:
            connection.execute(tables.review_tasks.update().values(marked=marked))
        paths = set(addresses(service, ids)) - {"/metrics"}  # where the process moves by itself
        read = {path: service.get(path, by="reviewer").text for path in paths}
        read |= {f"page {path}": browser.get(path).text for path in pages}
        drawn = r'"request_id":"[^"]*"|name="csrf[^>]+|<p>As of .*'
        return {path: re.sub(drawn, "", text) for path, text in read.items()}

    before, after = shown(marked=True), shown(marked=False)
    assert {path for path in before if before[path] != after[path]} == set()
