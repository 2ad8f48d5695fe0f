"""A label has one name at every door, however it is spelled."""

import pytest

from tests.kit.edge import Service

SPELLINGS = (" b", "b\u00a0", "\u200bb", "b\u2003 ")


@pytest.mark.parametrize("b", SPELLINGS)
def test_a_label_is_known_in_every_spelling(service: Service, b: str) -> None:
    service.fix_threshold(0.5)
    sent_body = service.predict("0.9").json()
    assert sent_body["labels"] == ["a", "b"]
    path, body = f"/v1/predictions/{sent_body['id']}/outcome", {"labels": ["a", b], "source": "s"}
    outcome = service.post(path, by="client", json=body).json()
    assert (outcome["labels"], outcome["agreed"]) == (["a", "b"], True)
    waiting = service.predict("0.41").json()
    task = service.post("/v1/reviews/claim", by="reviewer", params={"label": b}).json()
    assert task["prediction_id"] == waiting["id"]
    answer = service.post(
        f"/v1/reviews/{task['id']}/complete",
        by="reviewer",
        headers={"If-Match": f'"{task["version"]}"'},
        json={"labels": ["a", b]},
    ).json()
    assert (answer["labels"], answer["agreed"]) == (["a", "b"], True)
    for name in ("label", "final_label"):
        listed_items = service.get("/v1/documents", by="lead", params={name: b}).json()["items"]
        assert len(listed_items) == 2, name
    items = service.get("/v1/labels", by="reviewer", params={"query": b}).json()["items"]
    assert (items[0]["label"], items[0]["in_model"]) == ("b", True)
