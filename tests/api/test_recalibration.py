"""Calibrators over HTTP."""

import random
from dataclasses import replace

import pytest

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.predictions import Document, Submission
from setwise.service.domain.recalibration import Options
from setwise.service.services.predictions import all_predicted
from tests.kit.edge import Service, assert_problem
from tests.samples import CLIENT, calibration, model

PATH = "/v1/admin/calibrations"


@pytest.fixture
def served(service: Service) -> Service:
    registered = replace(model("sha256:model"), summary={"calibrator_version": "sha256:own"})
    with service.database() as transaction:
        transaction.models.add(registered)
        transaction.models.activate(registered.id, service.clock(), CLIENT.id)
        transaction.calibrations.add(calibration(registered, "sha256:learnt"))
    return service


def only(service: Service) -> dict[str, object]:
    (found,) = service.get(PATH, by="lead").json()["items"]
    return dict(found)


def test_a_recalibration_runs_as_a_job(served: Service) -> None:
    wanted = {"noise": "known", "activate": "if-better", "rates": {"alpha": 0.1, "beta": 0}}
    asked = served.post(PATH, by="admin", json=wanted)
    assert asked.status_code == 202
    job = asked.json()
    assert (job["kind"], job["state"]) == ("calibration", "queued")
    assert asked.headers["location"] == f"/v1/jobs/{job['id']}"
    assert served.post(PATH, by="admin", json={}).json()["id"] == job["id"]


def test_rates_that_say_nothing_are_pointed_at(served: Service) -> None:
    wanted = {"noise": "known", "rates": {"alpha": 0.5, "beta": 0.5}}
    refused = served.post(PATH, by="admin", json=wanted)
    assert_problem(refused, 422, "invalid-request", "/rates")
    refused = served.post(PATH, by="admin", json={"noise": "loud"})
    assert_problem(refused, 422, "invalid-request", "/noise")


def test_a_calibrator_is_read_activated_and_taken_back(served: Service) -> None:
    found = only(served)
    assert (found["calibrator_version"], found["active"]) == ("sha256:learnt", False)
    assert found == served.get(f"{PATH}/{found['id']}", by="lead").json()
    activated = served.post(f"{PATH}/{found['id']}/activate", by="admin").json()
    assert activated["calibration"] == {**found, "active": True}
    assert activated["threshold"] is None
    assert "everything goes to review" in activated["notice"]
    assert only(served)["active"] is True
    leaving = {"If-Match": '"sha256:learnt"'}
    back = served.post(f"{PATH}/rollback", by="admin", headers=leaving)
    assert back.json()["calibration"] is None
    assert only(served)["active"] is False


def test_a_learnt_calibrator_shows_what_it_is_worth(served: Service) -> None:
    draw = random.Random(1)
    predictions, outcomes = served.services.predictions, served.services.outcomes
    texts = [f"{draw.uniform(0.1, 0.99):.6f}" for _ in range(220)]
    sent = [Submission(CLIENT, Document(id=text, text=text)) for text in texts]
    for one in all_predicted(predictions.predict(sent)):
        right = draw.random() < 0.3 + 0.3 * one.scored.confidence
        outcomes.report(CLIENT, one.id, one.scored.labels if right else ["c"], "billing")
    made, _ = served.services.recalibration.run(Options(), lambda *_: None, requested_by=SYSTEM.id)
    shown = served.get(f"{PATH}/{made.id}", by="lead").json()["report"]
    assert set(shown) == {
        "warnings",
        "rows",
        "noise",
        "before",
        "after",
        "automation",
        "comparison",
        "routes",
        "sending",
    }
    assert shown["rows"]["used"] == 220
    assert shown["after"]["brier"]["value"] < shown["before"]["brier"]["value"]
