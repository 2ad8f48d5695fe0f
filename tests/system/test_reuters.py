"""Real news stories through a started server: decided as the model says, and right as often."""

import collections
import gzip
import itertools
import json
import math
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Role
from tests.kit.installation import ON_POSTGRES, SETWISE, Installation, Server, pages
from tests.made_once import made_once

pytestmark = [ON_POSTGRES, pytest.mark.system, pytest.mark.data, pytest.mark.verify]

THRESHOLD = 0.9
Z = 2.576  # standard deviations of a two-sided bound of 99 %


@pytest.fixture(scope="module")
def predicted(reuters: Path, data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what the command line says of each story of the test part."""
    stories = data_dir / "reuters21578" / "test.jsonl.gz"

    def make(folder: Path) -> None:
        out = folder / "predicted.jsonl"
        subprocess.run([SETWISE, "predict", reuters, stories, "--out", out], check=True)

    folder = made_once(tmp_path_factory, "reuters-predicted", make)
    lines = (folder / "predicted.jsonl").read_text().splitlines()
    return {line["id"]: line for line in map(json.loads, lines)}


def test_every_story_is_decided_as_the_model_says_and_the_queue_is_emptied(
    installation: Installation, reuters: Path, predicted: Any, data_dir: Path
) -> None:
    services = installation.services
    services.models.activate(SYSTEM, services.models.add(SYSTEM, str(reuters)).id)
    installation.fix_threshold(THRESHOLD)
    server = installation.serve()
    with gzip.open(data_dir / "reuters21578" / "test.jsonl.gz", "rt") as file:
        stories = [json.loads(line) for line in file]

    def post(part: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answers = []
        with server.client("client") as client:
            for story in part:
                document = {"id": story["id"], "text": story["text"]}
                answer = client.post("/v1/predictions", json={"document": document})
                assert answer.status_code == 201, answer.text
                answers.append(answer.json())
        return answers

    with ThreadPoolExecutor(8) as pool:
        parts = pool.map(post, [stories[n::8] for n in range(8)])
        answers = {answer["document_id"]: answer for part in parts for answer in part}
    assert len(answers) == len(stories) == 3_019

    for name, answer in answers.items():
        assert answer["labels"] == predicted[name]["labels"]
        assert answer["confidence"] == pytest.approx(predicted[name]["confidence"], abs=1e-9)
        if answer["reason"] != "out_of_domain":
            sent = answer["confidence"] >= THRESHOLD
            assert answer["decision"] == ("auto" if sent else "review")

    truth = {story["id"]: set(story["labels"]) for story in stories}
    sent = [a for a in answers.values() if a["decision"] == "auto"]
    right = sum(set(answer["labels"]) == truth[answer["document_id"]] for answer in sent)
    assert len(sent) > len(stories) / 2
    assert _upper_bound(right, len(sent)) >= THRESHOLD

    work = review_together(installation, server, n_reviewers=20, release_each=50)
    assert work.shared == []
    with server.client("reviewer") as reviewer:
        tasks = list(pages(reviewer, "/v1/reviews"))
    assert {task["document"]["id"] for task in tasks} == set(answers) - {
        answer["document_id"] for answer in sent
    }
    counts = collections.Counter(work.settled)
    assert counts == {task["id"]: 1 for task in tasks if task["state"] == "completed"}
    assert len(counts) >= len(tasks) - 20  # each may have given its last one back


def _upper_bound(right: int, n: int) -> float:
    """Return the upper end of Wilson's interval for a share."""
    share, square = right / n, Z * Z
    half = Z * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    return (share + square / (2 * n) + half) / (1 + square / n)


@dataclass
class Work:
    """What reviewers who work at once did: tasks settled, and tasks that two held at once."""

    settled: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)


def review_together(
    installation: Installation, server: Server, *, n_reviewers: int, release_each: int
) -> Work:
    """Let many people empty the queue; each gives back every ``release_each``-th task."""
    names = [f"reviewer {n}" for n in range(n_reviewers)]
    for name in names:
        installation.key(name, Role.REVIEWER)
    work, held, lock = Work(), set[str](), threading.Lock()

    def review(name: str) -> None:
        with server.client(name) as reviewer:
            for turn in itertools.count(1):
                response = reviewer.post("/v1/reviews/claim")
                if response.status_code == 204:
                    return
                assert response.status_code == 200, response.text
                task = response.json()
                with lock:
                    if task["id"] in held:
                        work.shared.append(task["id"])
                    held.add(task["id"])
                time.sleep(0.005)  # to read it; meanwhile nobody else may get it
                with lock:
                    held.discard(task["id"])
                if turn % release_each == 0:
                    done = reviewer.post(f"/v1/reviews/{task['id']}/release")
                else:
                    done = reviewer.post(
                        f"/v1/reviews/{task['id']}/complete",
                        json={"labels": task["candidates"][0]["labels"]},
                        headers={"If-Match": response.headers["etag"]},
                    )
                    with lock:
                        work.settled.append(task["id"])
                assert done.status_code == 200, done.text

    with ThreadPoolExecutor(n_reviewers) as pool:
        for future in [pool.submit(review, name) for name in names]:
            future.result()
    return work
