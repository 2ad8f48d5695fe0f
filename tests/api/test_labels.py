"""The catalogue of labels over HTTP."""

import pytest

from tests.kit.edge import Service, assert_problem

LABELS, ADMIN = "/v1/labels", "/v1/admin/labels"


def test_a_label_is_proposed_once_and_near_duplicates_are_named(service: Service) -> None:
    body = {"label": "J12.82", "name": "Pneumonia due to COVID-19"}
    first = service.post(LABELS, by="reviewer", json=body)
    assert (first.status_code, first.json()["state"]) == (201, "proposed")
    again = service.post(LABELS, by="lead", json=body)
    assert (again.status_code, again.json()) == (200, first.json())
    of_model = service.post(LABELS, by="reviewer", json={"label": "a"})
    assert (of_model.status_code, of_model.json()["in_model"]) == (200, True)
    similar = service.post(LABELS, by="reviewer", json={"label": "j12.82"})
    assert "'J12.82'" in assert_problem(similar, 409, "similar-labels")["detail"]
    response = service.post(LABELS, by="reviewer", json={"label": "j12.82", "insist": True})
    assert response.status_code == 201
    unknown = {"label": "x", "prediction_id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77"}
    refused_response = service.post(LABELS, by="reviewer", json=unknown)
    assert_problem(refused_response, 404, "prediction-not-found")


def test_the_model_comes_before_the_catalogue(service: Service) -> None:
    service.post(LABELS, by="reviewer", json={"label": "aa", "insist": True})
    items = service.get(f"{LABELS}?query=a", by="reviewer").json()["items"]
    assert [(item["label"], item["in_model"]) for item in items] == [("a", True), ("aa", False)]
    proposed_items = service.get(f"{LABELS}?state=proposed", by="reviewer").json()["items"]
    assert [item["label"] for item in proposed_items] == ["aa"]


@pytest.mark.parametrize("name", ["J12.82", "infection/viral", "état % grippal"])
def test_a_lead_decides_on_a_label_of_any_name(service: Service, name: str) -> None:
    service.post(LABELS, by="reviewer", json={"label": name})
    address = f"{ADMIN}/{name}".replace("%", "%25")
    read = service.get(address, by="lead")
    assert (read.json()["label"], read.headers["etag"]) == (name, '"1"')
    body, version = {"state": "accepted", "label": "renamed"}, {"If-Match": read.headers["etag"]}
    assert service.send("PUT", address, by="reviewer", json=body).status_code == 403
    response = service.send("PUT", address, by="lead", json=body, headers=version)
    assert (response.status_code, response.json()["label"]) == (200, "renamed")
    merged_body = service.get(address, by="lead").json()
    assert (merged_body["state"], merged_body["merged_into"]) == ("merged", "renamed")


def test_an_erasure_names_the_labels_that_may_name_a_person(service: Service) -> None:
    id_ = service.predict("0.5").json()["id"]
    for name in ("Jane Roe", "J12.82"):
        service.post(LABELS, by="reviewer", json={"label": name, "prediction_id": id_})
    version = {"If-Match": '"1"'}
    accept = {"state": "accepted"}
    service.send("PUT", f"{ADMIN}/J12.82", by="lead", json=accept, headers=version)
    response = service.post("/v1/admin/erasures", by="admin", json={"document_id": "note 0.5"})
    assert response.json() == {"predictions": 1, "labels": ["Jane Roe"]}
    address = f"{ADMIN}/Jane Roe"
    assert_problem(service.send("DELETE", address, by="lead"), 428, "version-required")
    refused_response = service.send("DELETE", address, by="reviewer", headers=version)
    assert refused_response.status_code == 403
    removed_response = service.send("DELETE", address, by="lead", headers=version)
    assert (removed_response.status_code, removed_response.content) == (204, b"")
    assert_problem(service.get(address, by="lead"), 404, "label-not-found")
    of_model = service.send("DELETE", f"{ADMIN}/a", by="lead", headers={"If-Match": '"0"'})
    assert_problem(of_model, 422, "invalid-request", "/path/name")
    trail = service.get("/v1/admin/audit?action=label.", by="admin").json()["items"]
    assert "label.removed" in {event["action"] for event in trail}
    assert "Jane" not in str(trail)


def test_a_label_that_nobody_knows_is_not_found(service: Service) -> None:
    assert_problem(service.get(f"{ADMIN}/zebra", by="lead"), 404, "label-not-found")
    put = service.send(
        "PUT", f"{ADMIN}/zebra", by="lead", json={"state": "retired"}, headers={"If-Match": '"1"'}
    )
    assert_problem(put, 404, "label-not-found")


def test_answers_say_what_the_model_lacks(service: Service) -> None:
    service.fix_threshold(0.5)
    body = service.predict("0.9").json()
    path = f"/v1/predictions/{body['id']}/outcome"
    strict = {"labels": ["a", "new"], "source": "billing", "strict": True}
    response = service.post(path, by="client", json=strict)
    assert_problem(response, 422, "invalid-request", "/labels/1")
    marked_response = service.post(path, by="client", json={**strict, "new_labels": ["new"]})
    assert (marked_response.status_code, marked_response.json()["unknown_labels"][0]["label"]) == (
        201,
        "new",
    )
    reopened_response = service.post(
        f"/v1/documents/{body['id']}/reopen",
        by="lead",
        json={"reason": "page two", "labels": ["a"], "label_missing": True},
    )
    assert reopened_response.status_code == 201, reopened_response.text
    (own,) = service.get("/v1/reviews/recent", by="lead").json()["items"]
    assert (own["labels"], own["label_missing"]) == (["a"], True)
    (listed,) = service.get("/v1/documents?beyond_model=true", by="lead").json()["items"]
    assert (listed["final_labels"], listed["label_missing"]) == (["a"], True)
    assert service.get("/v1/documents?beyond_model=false", by="lead").json()["items"] == []
    life = service.get(f"/v1/documents/{body['id']}", by="lead").json()
    last = [event for event in life["events"] if event["kind"] == "answered"][-1]
    assert (last["labels"], last["label_missing"]) == (["a"], True)
    assert "setwise_documents_beyond_model 1.0" in service.get("/metrics").text
