"""Liveness, readiness, metrics, request ids and the access log."""

import logging
import re

import pytest
import structlog

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.routing.segments import GateState, SegmentBy
from tests.kit.edge import Service, assert_problem
from tests.samples import change


def test_the_service_lives_whatever_is_missing(service: Service) -> None:
    service.faults.update(database="gone", model="gone")
    assert service.get("/healthz").json() == {"status": "ok"}


def test_the_service_is_ready_when_every_check_passes(service: Service) -> None:
    response = service.get("/readyz/predictions")
    assert response.status_code == 200
    assert response.json() == {"status": "ready", "checks": {"database": "ok", "model": "ok"}}


def test_the_service_takes_requests_without_a_model(service: Service) -> None:
    service.faults.update(model="No model is active.")
    assert service.get("/readyz").json() == {"status": "ready", "checks": {"database": "ok"}}
    assert_problem(service.get("/readyz/predictions"), 503, "not-ready", "/checks/model")


def test_the_service_names_everything_that_is_missing(service: Service) -> None:
    service.faults.update(database="The database sleeps.", model="No model is active.")
    assert_problem(service.get("/readyz"), 503, "not-ready", "/checks/database")
    response = service.get("/readyz/predictions")
    problem = assert_problem(response, 503, "not-ready", "/checks/database", "/checks/model")
    assert problem["detail"] == "The database sleeps. No model is active."


def test_requests_are_counted_by_route_not_by_path(service: Service) -> None:
    service.get("/v1/predictions/019b7a0b-0000-7000-8000-00000000ffff", by="client")
    service.get("/nowhere/1")
    service.get("/nowhere/2")
    text = service.get("/metrics").text
    route = "/v1/predictions/{prediction_id}"
    assert f'setwise_requests_total{{method="GET",route="{route}",status="404"}} 1.0' in text
    assert 'setwise_requests_total{method="GET",route="unmatched",status="404"} 2.0' in text
    assert f'setwise_request_seconds_count{{method="GET",route="{route}"}} 1.0' in text
    assert "nowhere" not in text


def test_the_depth_of_the_queue_is_read_at_each_scrape(service: Service) -> None:
    service.predict()
    service.predict()
    service.post("/v1/reviews/claim", by="reviewer")
    text = service.get("/metrics").text
    assert 'setwise_reviews{state="waiting"} 1.0' in text
    assert 'setwise_reviews{state="leased"} 1.0' in text
    assert 'setwise_reviews_oldest_seconds{state="waiting"}' in text
    assert 'setwise_jobs{state="queued"} 0.0' in text
    assert 'setwise_stage_seconds_count{stage="store"} 0.0' in text  # stand-ins are not watched
    served = (
        'setwise_serving_info{calibrator_version="sha256:calibrator",model_version="sha256:model",'
    )
    assert served in text


def test_the_promise_is_measured_for_each_segment(service: Service) -> None:
    service.predict()
    text = service.get("/metrics").text
    assert 'setwise_target_accuracy_ratio{segment="all"} 0.95' in text
    assert 'setwise_sent_ratio{segment="all"} 0.0' in text
    assert "setwise_threshold_ratio{" not in text  # nothing is sent yet
    assert "setwise_accuracy_ratio{" not in text  # nothing is checked yet
    assert "setwise_promised_accuracy_ratio{" not in text  # nothing is confident enough yet
    assert 'setwise_reviews_overdue{segment="all"} 0.0' in text


def test_what_is_overdue_and_what_confidences_promise_is_measured(service: Service) -> None:
    service.fix_threshold(0.8)
    service.predict("0.9")
    late = {"document": {"text": "0.3"}, "due_at": "2026-01-01T00:00:00Z"}
    assert service.post("/v1/predictions", by="client", json=late).status_code == 201
    text = service.get("/metrics").text
    assert 'setwise_promised_accuracy_ratio{segment="all"} 0.9' in text
    assert 'setwise_reviews_overdue{segment="all"} 1.0' in text


def test_each_segment_has_a_promise_of_its_own(service: Service) -> None:
    divided_change = change(
        threshold=0.7,
        segment_by=SegmentBy("site"),
        segments=(GateState("north", threshold=0.6),),
    )
    service.services.policy.change(SYSTEM, divided_change, None)
    text = service.get("/metrics").text
    assert 'setwise_threshold_ratio{segment="north"} 0.6' in text
    assert 'setwise_threshold_ratio{segment="all"}' not in text


def test_metrics_survive_a_silent_database(service: Service) -> None:
    def silent(**_: object) -> None:
        raise RuntimeError

    object.__setattr__(service.services.reports, "begin", silent)
    response = service.get("/metrics")
    assert response.status_code == 200
    assert "setwise_requests_total" in response.text
    assert "setwise_reviews{" not in response.text


def test_metrics_are_prometheus_text(service: Service) -> None:
    response = service.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    for line in response.text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) .+|\w+(\{(\w+="[^"]*",?)*\})? \S+', line), line


def test_the_process_is_measured(service: Service) -> None:
    text = service.get("/metrics").text
    for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "start_time_seconds"):
        assert re.search(rf"^process_{name} \d", text, re.MULTILINE), name


def test_a_request_id_is_kept(service: Service) -> None:
    response = service.get("/healthz", headers={"X-Request-ID": "trace-1.a_B"})
    assert response.headers["x-request-id"] == "trace-1.a_B"


@pytest.mark.parametrize("given", ["", "two words", "a\tb", "x" * 129, "ä", '{"a":1}'])
def test_a_request_id_that_could_forge_a_log_is_replaced(service: Service, given: str) -> None:
    headers = {"X-Request-ID": given.encode()}
    response = service.get("/healthz", headers=headers)
    assert re.fullmatch(r"[0-9a-f-]{36}", response.headers["x-request-id"])


def test_the_request_id_is_in_the_audit_trail(service: Service) -> None:
    response = service.predict(headers={"X-Request-ID": "trace-2"})
    events = service.database.contents.events.values()
    created_events = [event for event in events if event.action == "prediction.created"]
    assert [(e.subject, e.request_id) for e in created_events] == [
        (response.json()["id"], "trace-2")
    ]


def test_every_request_is_logged_without_its_content(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with structlog.testing.capture_logs() as lines:
        service.post(
            "/v1/predictions?document_id=secret-query",
            by="client",
            json={
                "document": {"id": "secret-id", "text": "secret-text"},
                "metadata": {"secret-name": "secret-value"},
            },
        )
        service.post("/v1/predictions", by="client", json={"document": {"secret": "secret"}})
    assert [line["status"] for line in lines if line["event"] == "request"] == ["201", "422"]
    assert lines[0]["route"] == "/v1/predictions"
    assert "secret" not in repr(lines)
    assert service.secrets["client"] not in repr(lines)
