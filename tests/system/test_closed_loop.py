"""Certified, recalibrated, drifted, tripped and certified again, over HTTP on PostgreSQL."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Role
from tests.kit.installation import (
    ON_POSTGRES,
    Installation,
    Server,
    pages,
    stated_documents,
)
from tests.kit.waiting import eventually
from tests.trained import LABELS

# tests/simulation plays the same loop in small, in one process.
pytestmark = [ON_POSTGRES, pytest.mark.system, pytest.mark.verify]

N_DOCUMENTS = 3_000
AT_ONCE = 250
UNSURE = 50
TARGET = 0.6
NOISE = {"ann": 0.1, "ben": 0.3, "cat": 0.5}
"""How often each annotator gives another label set than the right one."""

ANY = {"If-Match": "*"}
POLICY = {
    "target_accuracy": TARGET,
    "risk": 0.2,
    "threshold": {"mode": "certified", "value": None},
    "audit": {"certification_rate": 0.5, "training_rate": 0.05, "mode": "hold"},
    "gold_reread_rate": 0.5,
}
VOCABULARY = sorted(LABELS)


@dataclass
class Reading:
    """Documents whose truth is known, and people who read them through the running service."""

    server: Server
    truth: dict[str, list[str]] = field(default_factory=dict)
    made: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = stated_documents(N_DOCUMENTS, seed=21)

    def post(self, n: int, *, drifts: bool = False) -> list[dict[str, Any]]:
        """Post the next documents; where the world drifts, other labels than ever are right."""
        items: list[dict[str, Any]] = []
        with self.server.client("client") as client:
            for _ in range(0, n, AT_ONCE):
                part = [self.waiting.pop() for _ in range(min(AT_ONCE, n - len(items)))]
                for document in part:
                    name, scores = str(document["id"]), document["scores"]
                    labels = sorted(label for label in scores if scores[label] > 0.5)
                    sure = min(scores[label] for label in labels)
                    right = not drifts and random.Random(f"truth/{name}").random() < sure
                    self.truth[name] = labels if right else _turned(labels)
                answer = client.post("/v1/predictions/batch", json={"documents": part})
                assert answer.status_code == 200, answer.text
                items += answer.json()["items"]
        assert all("decision" in one for one in items)
        self.made += items
        return items

    def read(self) -> int:
        """Let the annotators empty the queue together, then the lead decide; returns how much."""
        with ThreadPoolExecutor(len(NOISE)) as pool:
            count = sum(pool.map(self._read_as, NOISE))
        return count + self._read_as("lead")

    def _read_as(self, name: str) -> int:
        count = 0
        with self.server.client(name) as reader:
            while (claimed := reader.post("/v1/reviews/claim")).status_code == 200:
                task = claimed.json()
                response = reader.post(
                    f"/v1/reviews/{task['id']}/complete",
                    json={"labels": self._answer(name, str(task["document"]["id"]))},
                    headers={"If-Match": claimed.headers["etag"]},
                )
                assert response.status_code == 200, response.text
                count += 1
        assert claimed.status_code == 204, claimed.text
        return count

    def _answer(self, name: str, document: str) -> list[str]:
        draw = random.Random(f"{name}/{document}")
        truth = self.truth[document]
        if draw.random() >= NOISE.get(name, 0.0):  # leads do not err
            return truth
        return sorted({*truth} ^ {draw.choice(VOCABULARY)})

    def right(self, made: Sequence[dict[str, Any]]) -> float:
        """Return the share of predictions that are right."""
        mask = [set(one["labels"]) == set(self.truth[one["document_id"]]) for one in made]
        return sum(mask) / len(mask)


def _turned(labels: list[str]) -> list[str]:
    """Return the labels behind these in the vocabulary."""
    return sorted(VOCABULARY[(VOCABULARY.index(one) + 1) % len(VOCABULARY)] for one in labels)


def _done(admin: httpx.Client, asked: httpx.Response) -> dict[str, Any]:
    """Wait for the job that was asked for, and return what came of it."""
    assert asked.status_code == 202, asked.text
    job: dict[str, Any] = {}

    def ended() -> bool:
        job.update(admin.get(f"/v1/jobs/{asked.json()['id']}").json())
        return job["state"] not in {"queued", "running"}

    eventually(ended, "the job ends")
    assert job["state"] == "succeeded", job["error"]
    return dict(job["result"])


def _certified(admin: httpx.Client) -> float:
    """Certify, and return the threshold that is in force then."""
    made = _done(admin, admin.post("/v1/admin/certifications"))
    evidence = admin.get(f"/v1/admin/certifications/{made['certification_id']}").json()
    assert made["threshold"] is not None, evidence
    policy = admin.get("/v1/admin/policy").json()
    assert policy["threshold"]["certificate_id"] == made["certification_id"]
    threshold = policy["threshold"]["value"]
    assert isinstance(threshold, float)
    return threshold


def _reasons(made: Sequence[dict[str, Any]]) -> Counter[str]:
    return Counter(one["reason"] for one in made)


def test_the_loop_closes_and_every_decision_can_be_derived_again(
    installation: Installation,
) -> None:
    for name in NOISE:
        installation.key(name, Role.REVIEWER)
    server = installation.serve()
    reading = Reading(server)
    with server.client("admin") as admin:
        _group(admin)
        assert admin.put("/v1/admin/policy", json=POLICY, headers=ANY).status_code == 200

        # Nothing is sent before a certificate; audits and reviews make it possible.
        first = reading.post(520)
        assert set(_reasons(first)) == {"no_threshold"}
        assert reading.read() > len(first)
        _certified(admin)

        # A calibrator learnt from the reviews serves. The audits certify it before it does, so
        # sending goes on.
        old = first[0]["calibrator_version"]
        _promote(admin)
        second = reading.post(360)
        assert {one["calibrator_version"] for one in second}.isdisjoint({old})
        assert _reasons(second)["above_threshold"] > 0
        reading.read()

        # It sends; then the world drifts, and the audits trip the breaker.
        assert _breaker(admin) == "watching"
        before = reading.post(150)
        assert _reasons(before)["above_threshold"] > 0
        reading.read()
        drifting = reading.post(200, drifts=True)
        assert _reasons(drifting)["above_threshold"] > 0
        assert reading.right(drifting) == 0
        reading.read()
        assert _breaker(admin) == "tripped"

        # Nothing confident is sent now, and only a certificate from after the trip changes that.
        after = reading.post(420)
        assert set(_reasons(after)) <= {"breaker", "below_threshold", "out_of_domain"}
        assert _reasons(after)["breaker"] > 0
        response = admin.post("/v1/admin/breaker/reset", json={})
        assert (response.status_code, response.json()["type"]) == (
            409,
            "/problems/certificate-needed",
        )
        reading.read()
        _certified(admin)
        assert admin.post("/v1/admin/breaker/reset", json={}).json()["state"] == "watching"

        last = reading.post(len(reading.waiting) - UNSURE)
        items = [one for one in [*before, *last] if one["decision"] == "auto"]
        assert len(items) > 200
        # The certificate may be wrong at the policy's risk; far below the target it is not.
        assert reading.right(items) > TARGET - 0.05

        # No certified threshold need leave a document below it; this one leaves every one there.
        wary = POLICY | {"threshold": {"mode": "fixed", "value": 1.0}}
        assert admin.put("/v1/admin/policy", json=wary, headers=ANY).status_code == 200
        assert _reasons(reading.post(UNSURE))["below_threshold"] > 0
    assert len(reading.made) == N_DOCUMENTS
    reasons = {"above_threshold", "below_threshold", "audit", "no_threshold", "breaker"}
    _derive_all(installation, server, reading, reasons)


def _group(admin: httpx.Client) -> None:
    """Put each annotator into a group whose error rates are known."""
    items = admin.get("/v1/admin/annotators").json()["items"]
    people = {one["name"]: one["id"] for one in items}
    for name, alpha in NOISE.items():
        rates = {"alpha": alpha, "beta": 0.05}
        group = {"name": name, "noise": {"mode": "fixed", **rates, "with_suggestion": rates}}
        response = admin.put(f"/v1/admin/groups/{name}", json=group)
        assert response.status_code in {200, 201}, response.text
        placed_response = admin.put(f"/v1/admin/annotators/{people[name]}", json={"group": name})
        assert placed_response.status_code == 200, placed_response.text


def _promote(admin: httpx.Client) -> None:
    """Recalibrate from what is reviewed, and let the new calibrator serve."""
    wanted = {"noise": "known", "activate": "never"}
    learnt = _done(admin, admin.post("/v1/admin/calibrations", json=wanted))
    answer = admin.post(f"/v1/admin/calibrations/{learnt['calibration_id']}/activate")
    assert answer.status_code == 200, answer.text


def _breaker(admin: httpx.Client) -> str:
    answer = admin.get("/v1/admin/breaker")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["state"])


def _derive_all(
    installation: Installation, server: Server, reading: Reading, reasons: set[str]
) -> None:
    """Derive every decision again from the stored versions, score and draw."""
    derive = installation.services.predictions.derive
    for prediction in reading.made:
        derivation = derive(SYSTEM, prediction["id"])
        assert derivation.equal is True
        assert derivation.draw_again == derivation.prediction.selection.draw
        for name in ("decision", "reason", "threshold"):
            assert getattr(derivation.derived, name) == prediction[name]
    with server.client("auditor") as auditor:
        by_id = {item["id"]: item for item in pages(auditor, "/v1/predictions")}
        assert by_id == {prediction["id"]: prediction for prediction in reading.made}
        by_reason = {prediction["reason"]: prediction for prediction in reading.made}
        assert set(by_reason) >= reasons
        for prediction in by_reason.values():
            answer = auditor.get(f"/v1/predictions/{prediction['id']}/decision").json()
            assert answer["equal"] is True, json.dumps(answer)
