"""From a document to a settled review, over HTTP, on a started server."""

import collections
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from setwise.service.domain.accounts.callers import SYSTEM
from tests.kit.installation import (
    ON_POSTGRES,
    SQLITE_FIRST,
    Installation,
    Server,
    pages,
    stated_documents,
)
from tests.kit.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

THRESHOLD = 0.7


def _post(client: httpx.Client, document: dict[str, object], key: str) -> httpx.Response:
    return client.post(
        "/v1/predictions", json={"document": document}, headers={"Idempotency-Key": key}
    )


@ON_POSTGRES
def test_two_servers_send_review_change_models_and_stop(
    installation: Installation, stated: tuple[Path, Path]
) -> None:
    """One test, because each server takes seconds to start."""
    installation.fix_threshold(THRESHOLD)
    server, other = installation.serve(), installation.serve()
    confident_sets_are_sent_and_the_others_completed_by_people(server)
    two_servers_know_each_others_keys_cursors_and_leases(server, other)
    another_model_takes_over_without_a_dropped_request(installation, server, stated[1])
    a_server_that_is_told_to_stop_finishes_its_requests(installation, server)


def confident_sets_are_sent_and_the_others_completed_by_people(server: Server) -> None:
    """The decisions follow from the scores that came, and the queue holds the rest."""
    sample = stated_documents(150, seed=9)
    with server.client("client") as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda d: _post(client, d, str(d["id"])), sample))
    assert {answer.status_code for answer in answers} == {201}
    predictions = [answer.json() for answer in answers]
    for document, prediction in zip(sample, predictions, strict=True):
        likely = {label for label, score in document["scores"].items() if score > 0.5}
        sure = min(document["scores"][label] for label in likely)
        assert {*prediction["labels"]} == likely
        assert prediction["confidence"] == pytest.approx(sure, abs=0.001)
        assert prediction["decision"] == ("auto" if sure >= THRESHOLD else "review")
    waiting = [p["id"] for p in predictions if p["decision"] == "review"]
    assert len(waiting) == 50

    with server.client("reviewer") as reviewer:
        items = list(pages(reviewer, "/v1/reviews"))
        assert sorted(task["prediction_id"] for task in items) == sorted(waiting)
        count = 0
        while (claimed := reviewer.post("/v1/reviews/claim")).status_code == 200:
            task = claimed.json()
            response = reviewer.post(
                f"/v1/reviews/{task['id']}/complete",
                json={"labels": task["candidates"][0]["labels"]},
                headers={"If-Match": claimed.headers["etag"]},
            )
            assert (response.status_code, response.json()["agreed"]) == (200, True)
            count += 1
        assert claimed.status_code == 204
        assert count == len(waiting)

    with server.client("client") as client:
        by_id = {item["id"]: item for item in pages(client, "/v1/predictions")}
        for size, slug in ((2_000_000, "document-too-large"), (20_000_000, "body-too-large")):
            refused_response = _post(client, {"id": "huge", "text": "a" * size}, "huge")
            assert (refused_response.status_code, refused_response.json()["type"]) == (
                413,
                f"/problems/{slug}",
            )
    assert by_id == {prediction["id"]: prediction for prediction in predictions}
    with server.client() as anyone:
        assert 'setwise_reviews{state="waiting"} 0.0' in anyone.get("/metrics").text
        assert anyone.get("/").headers["location"].startswith("/login")
        assert anyone.get("/login").status_code == 200
    log = server.log.read_text()
    assert not any(str(document["text"]) in log for document in sample)


@SQLITE_FIRST
def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    installation: Installation,
) -> None:
    """After ``kill -9`` every acknowledged prediction is there, with its task, exactly once."""
    installation.fix_threshold(THRESHOLD)
    server = installation.serve()
    sample = stated_documents(2_000, seed=10)
    acknowledged: dict[str, dict[str, object]] = {}
    enough = threading.Event()

    def post(part: list[dict[str, object]]) -> None:
        with server.client("client") as client:
            for document in part:
                try:
                    answer = _post(client, document, str(document["id"]))
                except httpx.TransportError:
                    return
                assert answer.status_code == 201
                acknowledged[str(document["id"])] = answer.json()
                if len(acknowledged) > 100:
                    enough.set()

    with ThreadPoolExecutor(8) as pool:
        posting = [pool.submit(post, sample[n::8]) for n in range(8)]
        assert enough.wait(PATIENCE_S)
        server.kill()
        for future in posting:
            future.result()
    assert 100 < len(acknowledged) < len(sample)

    again = installation.serve()
    with again.client("client") as client, again.client("reviewer") as reviewer:
        by_document = {str(item["document_id"]): item for item in pages(client, "/v1/predictions")}
        for name, prediction in acknowledged.items():
            assert by_document[name] == prediction
        # Whoever got no answer asks again with the same key, and then has one, as everybody.
        items = [d for d in sample if str(d["id"]) not in acknowledged][:50]
        for document in items:
            answer = _post(client, document, str(document["id"]))
            assert answer.status_code == 201
            by_document.setdefault(str(document["id"]), answer.json())
        everything = list(pages(client, "/v1/predictions"))
        tasks = list(pages(reviewer, "/v1/reviews"))
    assert len(everything) == len(by_document)
    counts = collections.Counter(str(task["prediction_id"]) for task in tasks)
    assert counts == {p["id"]: 1 for p in everything if p["decision"] == "review"}


def another_model_takes_over_without_a_dropped_request(
    installation: Installation, server: Server, artifact: Path
) -> None:
    (old,), new = installation.models, installation.services.models.add(SYSTEM, str(artifact))
    sample = stated_documents(200, seed=12)
    stop = threading.Event()
    answers: list[list[httpx.Response]] = [[] for _ in range(4)]

    def post(own: list[httpx.Response]) -> None:
        with server.client("client") as client:
            for number, document in enumerate(itertools.cycle(sample)):
                own.append(_post(client, document, f"{id(own)}-{number}"))
                if stop.is_set():
                    return

    with ThreadPoolExecutor(4) as pool:
        posting = [pool.submit(post, own) for own in answers]
        try:
            eventually(lambda: all(len(own) > 5 for own in answers), "everybody is answered")
            with server.client("admin") as admin:
                response = admin.post(f"/v1/admin/models/{new.id}/activate")
            assert response.status_code == 200
            eventually(
                lambda: all(own[-1].json().get("model_version") == new.version for own in answers),
                "everybody is answered by the new one",
            )
        finally:
            stop.set()
        for future in posting:
            future.result()
    for own in answers:
        assert {answer.status_code for answer in own} == {201}
        versions = [answer.json()["model_version"] for answer in own]
        first_new = versions.index(new.version)
        assert set(versions[:first_new]) == {old.version}
        assert set(versions[first_new:]) == {new.version}


def a_server_that_is_told_to_stop_finishes_its_requests(
    installation: Installation, server: Server
) -> None:
    before = _stored(installation)
    answers: list[httpx.Response] = []
    event = threading.Event()

    def post(part: list[dict[str, object]]) -> None:
        with server.client("client") as client:
            for document in part:
                try:
                    answers.append(_post(client, document, f"stop-{document['id']}"))
                except httpx.ConnectError:
                    return  # no longer listening
                except httpx.TransportError:
                    # The kept connection was closed between two requests.
                    return
                if len(answers) > 20:
                    event.set()

    sample = stated_documents(4_000, seed=13)
    with ThreadPoolExecutor(4) as pool:
        posting = [pool.submit(post, sample[n::4]) for n in range(4)]
        assert event.wait(PATIENCE_S)
        server.stop()
        for future in posting:
            future.result()
    assert {answer.status_code for answer in answers} == {201}
    assert "Application shutdown complete" in server.log.read_text()
    # Nothing was stored whose answer did not arrive.
    assert _stored(installation) == before + len(answers)


def _stored(installation: Installation) -> int:
    with installation.services.predictions.begin(read_only=True) as transaction:
        return sum(transaction.reports().decisions().values())


def two_servers_know_each_others_keys_cursors_and_leases(server: Server, other: Server) -> None:
    sample = [
        document | {"id": f"shared-{document['id']}"} for document in stated_documents(60, seed=14)
    ]
    with server.client("client") as here, other.client("client") as there:
        made = [_post(here, d, str(d["id"])).json() for d in sample]
        replayed = [_post(there, d, str(d["id"])).json() for d in sample]
        assert replayed == made
        page = here.get("/v1/predictions?limit=10").json()
        rest = there.get("/v1/predictions", params={"limit": 10, "cursor": page["next_cursor"]})
        assert len({item["id"] for item in page["items"] + rest.json()["items"]}) == 20
    with server.client("reviewer") as reviewer, other.client("lead") as lead:
        task = reviewer.post("/v1/reviews/claim").json()
        ids = {lead.post("/v1/reviews/claim").json()["id"] for _ in range(5)}
        assert task["id"] not in ids
        response = lead.post(
            f"/v1/reviews/{task['id']}/complete",
            json={"labels": []},
            headers={"If-Match": f'"{task["version"]}"'},
        )
        assert (response.status_code, response.json()["type"]) == (409, "/problems/lease-lost")
