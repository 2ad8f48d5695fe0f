"""Outcomes over HTTP."""

from setwise.service.api.webhooks.messages import CorrectedMessage
from setwise.service.domain.webhooks import payload
from tests.kit.edge import Service, assert_problem


def test_an_outcome_is_stored_once_and_corrects_what_was_sent(service: Service) -> None:
    service.fix_threshold(0.5)
    made = service.predict("0.9").json()
    path = f"/v1/predictions/{made['id']}"
    body = {"labels": ["c"], "source": "billing"}
    first = service.post(f"{path}/outcome", by="client", json=body)
    assert first.status_code == 201
    assert first.json() | {"id": "", "created_at": ""} == {
        "id": "",
        "prediction_id": made["id"],
        "number": 1,
        "labels": ["c"],
        "label_missing": False,
        "source": "billing",
        "agreed": False,
        "sampling": "all",
        "echo": False,
        "counts": True,
        "created_at": "",
        "unknown_labels": [],
    }
    again = service.post(f"{path}/outcome", by="client", json=body)
    assert (again.status_code, again.json()) == (200, first.json())
    stored = {name: value for name, value in first.json().items() if name != "unknown_labels"}
    listed_body = service.get(f"{path}/outcomes", by="lead").json()
    assert listed_body == {"items": [stored], "next_cursor": None, "limit": 1}
    _, message = service.database.contents.messages.values()
    told = CorrectedMessage.model_validate(payload(message))
    assert (told.data.labels, told.data.previous_labels) == (("c",), tuple(made["labels"]))
    assert service.get(path, by="client").json() == made


def test_faults_are_pointed_at(service: Service) -> None:
    made = service.predict("0.9").json()
    path = f"/v1/predictions/{made['id']}/outcome"
    for body, pointers in (
        ({"labels": ["a", "a"], "source": ""}, ["/labels/1", "/source"]),
        ({"labels": "a", "source": "s"}, ["/labels"]),
        ({"labels": ["a"], "source": "s", "sampling": "some"}, ["/sampling"]),
        ({"source": "s", "more": 1}, ["/labels", "/more"]),
    ):
        response = service.post(path, by="client", json=body)
        assert_problem(response, 422, "invalid-request", *pointers)


def test_a_misspelt_label_is_named_with_the_nearest_and_refused_if_strict(service: Service) -> None:
    assert service.predictors.predictor is not None
    service.predictors.predictor.labels = ("cough", "fever")
    path = f"/v1/predictions/{service.predict('0.9').json()['id']}/outcome"
    # The prediction itself names old-code, from a model before the active one.
    body = {"labels": ["feevr", "cough", "old-code", "zebra"], "source": "billing"}
    response = service.post(path, by="client", json={**body, "strict": True})
    problem = assert_problem(response, 422, "invalid-request", "/labels/0", "/labels/3")
    assert problem["errors"][0]["detail"].endswith("; is `fever` meant?")
    items = [{"label": "feevr", "nearest": ["fever"]}, {"label": "zebra", "nearest": []}]
    for status in (201, 200):
        answer = service.post(path, by="client", json=body)
        assert (answer.status_code, answer.json()["unknown_labels"]) == (status, items)
    service.predictors.unload()
    assert service.post(path, by="client", json=body).json()["unknown_labels"] is None
    response = service.post(path, by="client", json={**body, "strict": True})
    assert_problem(response, 503, "model-loading")


def test_what_a_careless_report_proposed_is_still_unknown_to_a_strict_one(service: Service) -> None:
    path = f"/v1/predictions/{service.predict('0.9').json()['id']}/outcome"
    body = {"labels": ["zebra"], "source": "billing"}
    assert service.post(path, by="client", json=body).status_code == 201
    strict = {**body, "strict": True}
    for report in (strict, {**strict, "source": "lab"}):
        refused_response = service.post(path, by="client", json=report)
        assert_problem(refused_response, 422, "invalid-request", "/labels/0")
    response = service.post(path, by="client", json={**strict, "new_labels": ["zebra"]})
    assert response.status_code == 200
    version = service.get("/v1/admin/labels/zebra", by="lead").headers["etag"]
    accepted_response = service.send(
        "PUT",
        "/v1/admin/labels/zebra",
        by="lead",
        json={"state": "accepted"},
        headers={"If-Match": version},
    )
    assert accepted_response.status_code == 200, accepted_response.text
    assert service.post(path, by="client", json=strict).status_code == 200
