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
    registered_model = replace(model("sha256:model"), summary={"calibrator_version": "sha256:own"})
    with service.database() as transaction:
        transaction.models.add(registered_model)
        transaction.models.activate(registered_model.id, service.clock(), CLIENT.id)
        transaction.calibrations.add(calibration(registered_model, "sha256:learnt"))
    return service


def only(service: Service) -> dict[str, object]:
    (found,) = service.get(PATH, by="lead").json()["items"]
    return dict(found)


def test_a_recalibration_runs_as_a_job(served: Service) -> None:
    wanted = {"noise": "known", "activate": "if-better", "rates": {"alpha": 0.1, "beta": 0}}
    response = served.post(PATH, by="admin", json=wanted)
    assert response.status_code == 202
    job = response.json()
    assert (job["kind"], job["state"]) == ("calibration", "queued")
    assert response.headers["location"] == f"/v1/jobs/{job['id']}"
    assert served.post(PATH, by="admin", json={}).json()["id"] == job["id"]


def test_rates_that_say_nothing_are_pointed_at(served: Service) -> None:
    wanted = {"noise": "known", "rates": {"alpha": 0.5, "beta": 0.5}}
    response = served.post(PATH, by="admin", json=wanted)
    assert_problem(response, 422, "invalid-request", "/rates")
    response = served.post(PATH, by="admin", json={"noise": "loud"})
    assert_problem(response, 422, "invalid-request", "/noise")


def test_a_calibrator_is_read_activated_and_taken_back(served: Service) -> None:
    body = only(served)
    assert (body["calibrator_version"], body["active"]) == ("sha256:learnt", False)
    assert body == served.get(f"{PATH}/{body['id']}", by="lead").json()
    activated_body = served.post(f"{PATH}/{body['id']}/activate", by="admin").json()
    assert activated_body["calibration"] == {**body, "active": True}
    assert activated_body["threshold"] is None
    assert "everything goes to review" in activated_body["notice"]
    assert only(served)["active"] is True
    leaving = {"If-Match": '"sha256:learnt"'}
    back = served.post(f"{PATH}/rollback", by="admin", headers=leaving)
    assert back.json()["calibration"] is None
    assert only(served)["active"] is False


def test_a_learnt_calibrator_shows_what_it_is_worth(served: Service) -> None:
    draw = random.Random(1)
    predictions, outcomes = served.services.predictions, served.services.outcomes
    texts = [f"{draw.uniform(0.1, 0.99):.6f}" for _ in range(220)]
    submissions = [Submission(CLIENT, Document(id=text, text=text)) for text in texts]
    for one in all_predicted(predictions.predict(submissions)):
        right = draw.random() < 0.3 + 0.3 * one.scored.confidence
        outcomes.report(CLIENT, one.id, one.scored.labels if right else ["c"], "billing")
    calibration, _ = served.services.recalibration.run(
        Options(), lambda *_: None, requested_by=SYSTEM.id
    )
    report = served.get(f"{PATH}/{calibration.id}", by="lead").json()["report"]
    assert set(report) == {
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
    assert report["rows"]["used"] == 220
    assert report["after"]["brier"]["value"] < report["before"]["brier"]["value"]
