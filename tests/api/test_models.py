"""Models as versions over HTTP."""

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.predictions import Document
from tests.api.test_files import run_jobs
from tests.kit.edge import Service, assert_problem

MODELS = "/v1/admin/models"
ZIP = {"Content-Type": "application/zip"}


def add(service: Service, content: bytes) -> str:
    response = service.post(MODELS, by="admin", content=content, headers=ZIP)
    assert response.status_code == 201, response.text
    assert response.json()["active"] is False
    found: str = response.json()["id"]
    return found


def test_a_model_is_added_verified_activated_and_rolled_back(service: Service) -> None:
    first, second = add(service, b"one"), add(service, b"two")
    again = service.post(MODELS, by="admin", content=b"one", headers=ZIP)
    assert_problem(again, 409, "duplicate-model")
    response = service.post(f"{MODELS}/{first}/verify", by="admin")
    assert response.json() == {"id": first, "version": "sha256:one", "sound": True}
    leaving = {"headers": {"If-Match": '"sha256:two"'}}
    nothing = service.post(f"{MODELS}/rollback", by="admin", **leaving)
    assert_problem(nothing, 409, "nothing-to-roll-back")
    for one in (first, second):
        assert service.post(f"{MODELS}/{one}/activate", by="admin").json()["active"] is True
    assert service.post(f"{MODELS}/rollback", by="admin", **leaving).json()["id"] == first
    service.loader.damaged.add("sha256:two")
    damaged_response = service.post(f"{MODELS}/{second}/activate", by="admin")
    assert_problem(damaged_response, 409, "model-damaged")
    assert service.services.models.page(SYSTEM)[1].active


def test_uploads_of_models_have_their_bounds(service: Service) -> None:
    wrong = service.post(MODELS, by="admin", content=b"x", headers={"Content-Type": "text/plain"})
    assert_problem(wrong, 415, "unsupported-media-type")
    object.__setattr__(service.app.state.edge, "max_upload_bytes", 10)
    large = service.post(MODELS, by="admin", content=b"x" * 11, headers=ZIP)
    assert_problem(large, 413, "upload-too-large")


def test_a_shadow_begins_and_ends_and_its_differences_are_listed(service: Service) -> None:
    candidate = add(service, b"two")
    path = f"{MODELS}/{candidate}"
    assert service.post(f"{path}/shadow", by="admin").json()["model_id"] == candidate
    service.fix_threshold(0.8)
    body = service.predict("0.9").json()
    response = service.post(f"{path}/compare", by="admin", json={"documents": 10})
    assert response.status_code == 202
    run_jobs(service)
    done = service.get(response.headers["location"], by="admin").json()
    assert (done["state"], done["result"]["auto_both"]) == ("succeeded", 1)
    report = service.get(f"{path}/comparison", by="admin").json()
    assert report["shadowing_since"] is not None
    assert (report["compared"], report["same_labels"], report["items"]) == (1, 1, [])
    other = service.predict("0.95").json()["id"]
    service.services.models.record(
        candidate,
        [service.database.contents.predictions[other]],
        service.loader.predictor.score([Document(text="0.1")]),
    )
    (shown,) = service.get(f"{path}/comparison?differ=decision", by="admin").json()["items"]
    assert shown["serving"] == {"labels": ["a", "b"], "confidence": 0.95, "decision": "auto"}
    assert (shown["candidate"]["decision"], shown["reason"]) == ("review", "below_threshold")
    assert body["id"] != shown["prediction_id"]
    assert service.send("DELETE", f"{path}/shadow", by="admin").status_code == 204
    ended_response = service.send("DELETE", f"{path}/shadow", by="admin")
    assert_problem(ended_response, 404, "shadow-not-found")
