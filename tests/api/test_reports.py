"""Reports over HTTP."""

from tests.kit.edge import Service, assert_problem


def test_leads_read_the_numbers(service: Service) -> None:
    service.fix_threshold(0.8)
    sent_body = service.predict("0.9").json()
    service.predict("0.5")
    body = {"labels": sent_body["labels"], "source": "billing"}
    service.post(f"/v1/predictions/{sent_body['id']}/outcome", by="client", json=body)
    summary = service.get("/v1/reports/summary", by="lead").json()
    assert (summary["predictions"], summary["auto_sent"], summary["coverage"]) == (2, 1, 0.5)
    assert summary["reasons"] == {"above_threshold": 1, "below_threshold": 1}
    assert summary["reviews"]["waiting"] == 1
    recent = summary["recent"]
    assert (recent["documents"], recent["sent"], recent["drawn"]) == (2, 1, False)
    assert (recent["accuracy"]["checked"], recent["accuracy"]["value"]) == (1, 1.0)
    assert (recent["accuracy"]["agreed"], recent["accuracy"]["correction"]) == (0, "")
    assert (recent["certified"], recent["effort"]["unread"]) == (False, 1)
    reliability = service.get("/v1/reports/reliability?documents=10", by="lead").json()
    assert (reliability["documents"], reliability["checked"]) == (2, 1)
    automation = service.get("/v1/reports/automation", by="lead").json()
    assert (automation["now"]["threshold"], automation["now"]["sent"]) == (0.8, 1)
    assert len(automation["items"]) == 51
    preview = service.post("/v1/admin/policy/preview", by="lead", json={"threshold": 0.4}).json()
    assert (preview["now"]["sent"], preview["then"]["sent"]) == (1, 2)


def test_what_cannot_be_reported_is_pointed_at(service: Service) -> None:
    wrong = service.get("/v1/reports/automation?documents=0", by="lead")
    assert_problem(wrong, 422, "invalid-request", "/query/documents")
    body = {"threshold": 2, "rules": [{"kind": "label"}]}
    wrong = service.post("/v1/admin/policy/preview", by="lead", json=body)
    assert_problem(wrong, 422, "invalid-request", "/threshold", "/rules/0/label")
