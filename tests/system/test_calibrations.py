"""Calibrators learnt from reviews, on two really started servers."""

import httpx
import pytest

from tests.kit.installation import ON_POSTGRES, Installation, Server, pages, stated_documents
from tests.kit.waiting import eventually
from tests.trained import LABELS

pytestmark = [ON_POSTGRES, pytest.mark.system, pytest.mark.verify]

CALIBRATIONS = "/v1/admin/calibrations"
N_DOCUMENTS = 260


SURE = {"scores": dict.fromkeys(LABELS, 0.0) | {"court": 0.95}}


def predict(client: httpx.Client, document: dict[str, object]) -> dict[str, object]:
    answer = client.post("/v1/predictions", json={"document": document})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def finished(admin: httpx.Client, job: dict[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}

    def ended() -> bool:
        found.update(admin.get(f"/v1/jobs/{job['id']}").json())
        return found["state"] not in {"queued", "running"}

    eventually(ended, "the job ends")
    return found


def test_what_was_reported_teaches_both_servers(installation: Installation) -> None:
    """The labels of the world change; the model stays, and grows less sure of itself."""
    installation.fix_threshold(0.7)
    one, other = installation.serve(), installation.serve()
    with one.client("admin") as admin, one.client("client") as client:
        refused = finished(admin, admin.post(CALIBRATIONS, json={}).json())
        assert refused["state"] == "failed"
        assert "No prediction of this model can be learnt from yet" in str(refused["error"])
        for number, document in enumerate(stated_documents(N_DOCUMENTS, seed=60)):
            made = predict(client, document)
            labels = made["labels"] if number % 2 else ["something else"]
            told = client.post(
                f"/v1/predictions/{made['id']}/outcome",
                json={"labels": labels, "source": "archive"},
            )
            assert told.status_code == 201, told.text
        own = predict(client, SURE)
        response = admin.post(CALIBRATIONS, json={"activate": "if-better"})
        assert response.status_code == 202, response.text
        done = finished(admin, response.json())
        assert done["state"] == "succeeded", done
        result = dict(done["result"])
        assert result["active"] is True, result
        calibrator_version = result["calibrator_version"]

        def serving(server: Server) -> bool:
            with server.client("client") as somebody:
                now = predict(somebody, SURE)
            if now["calibrator_version"] != calibrator_version:
                return False
            assert now["labels"] == own["labels"]
            assert now["model_version"] == own["model_version"]
            assert float(str(now["confidence"])) < float(str(own["confidence"]))
            return True

        for server in (one, other):
            eventually(lambda server=server: serving(server), "both servers follow")
        (shown,) = pages(admin, CALIBRATIONS)
        report = shown["report"]
        assert report["rows"]["used"] == N_DOCUMENTS
        assert report["after"]["brier"]["value"] < report["before"]["brier"]["value"]
        assert report["routes"]["to_review"]["count"] > 0
        leaving = {"If-Match": f'"{calibrator_version}"'}
        back = admin.post(f"{CALIBRATIONS}/rollback", headers=leaving)
        assert back.json()["calibrator_version"] == own["calibrator_version"]
        assert predict(client, SURE)["confidence"] == own["confidence"]
