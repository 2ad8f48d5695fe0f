"""Decisions derived again, over HTTP."""

from tests.kit.edge import Service


def test_a_decision_is_told_with_what_it_rests_on(service: Service) -> None:
    service.fix_threshold(0.5)
    made = service.predict("0.9").json()
    path = f"/v1/predictions/{made['id']}/decision"
    response = service.get(path, by="auditor")
    assert response.status_code == 200
    body = response.json()
    assert body["equal"] is True
    assert body["stored"] == body["derived"]
    assert body["stored"] | {"inclusion_probability": None, "audit_chance": None} == {
        "decision": "auto",
        "reason": "above_threshold",
        "threshold": 0.5,
        "rule": None,
        "audit_role": "none",
        "inclusion_probability": None,
        "audit_chance": None,
    }
    for name in ("labels", "confidence", "model_version", "calibrator_version", "policy_version"):
        assert body["inputs"][name] == made[name]
    assert body["inputs"]["draw"] == body["draw_again"]
    assert body["policy"]["version"] == made["policy_version"]
    # The decision stays explained by the version that took it.
    service.fix_threshold(0.95)
    assert service.get(path, by="lead").json() == body
