"""Decisions derived again, over HTTP."""

import pytest

from tests.edge import Service, assert_problem


def test_a_decision_is_told_with_what_it_rests_on(service: Service) -> None:
    service.fix_threshold(0.5)
    made = service.predict("0.9").json()
    path = f"/v1/predictions/{made['id']}/decision"
    told = service.get(path, by="auditor")
    assert told.status_code == 200
    body = told.json()
    assert body["equal"] is True
    assert body["stored"] == body["derived"]
    assert body["stored"] | {"inclusion_probability": None} == {
        "decision": "auto",
        "reason": "above_threshold",
        "threshold": 0.5,
        "rule": None,
        "audit_role": "none",
        "inclusion_probability": None,
    }
    for name in ("labels", "confidence", "model_version", "calibrator_version", "policy_version"):
        assert body["inputs"][name] == made[name]
    assert body["inputs"]["draw"] == body["draw_again"]
    assert body["policy"]["version"] == made["policy_version"]
    # The decision stays explained by the version that took it.
    service.fix_threshold(0.95)
    assert service.get(path, by="lead").json() == body


@pytest.mark.parametrize("role", ["client", "reviewer"])
def test_whoever_might_read_the_document_blind_is_refused(service: Service, role: str) -> None:
    made = service.predict("0.9").json()
    refused = service.get(f"/v1/predictions/{made['id']}/decision", by=role)
    assert_problem(refused, 403, "forbidden")


def test_unknown_predictions_and_callers_are_refused(service: Service) -> None:
    path = "/v1/predictions/nonsense/decision"
    assert_problem(service.get(path, by="admin"), 404, "prediction-not-found")
    assert_problem(service.get(path), 401, "unauthenticated")
