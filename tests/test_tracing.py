"""Spans: which there are, how they hang together, and that they quote no document."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from setwise.service import telemetry, tracing
from setwise.service.api.http.gather import PredictionQueue
from setwise.service.app import create_app
from setwise.service.logs import configure_logging
from setwise.service.settings import BadSetting, Settings
from setwise.service.telemetry import ServiceMetrics
from setwise.service.tracing import Tracing
from tests.kit.edge import Service

TRACE = "0af7651916cd43dd8448eb211c80319c"


@contextmanager
def traced(service: Service) -> Iterator[list[ReadableSpan]]:
    """Collect the spans that end inside the block."""
    exporter, spans = InMemorySpanExporter(), []
    made = Tracing(exporter)
    edge = service.app.state.edge
    object.__setattr__(edge, "spans", made)
    queue = PredictionQueue(service.services.predictions.predict, together=made.together)
    object.__setattr__(edge, "predict", queue)
    stages = telemetry.stages(ServiceMetrics(), made)
    object.__setattr__(service.services.predictions, "stages", stages)
    service.app = create_app(edge)
    try:
        yield spans
    finally:
        queue.close()
        made.close()
        spans += exporter.get_finished_spans()


def test_a_prediction_is_a_span_with_its_stages_and_without_its_content(service: Service) -> None:
    with traced(service) as spans:
        response = service.predict(
            "0.5", headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        )
    assert response.status_code == 201
    by_name = {span.name: span for span in spans}
    assert set(by_name) == {
        "POST /v1/predictions",
        "prediction.score",
        "prediction.store",
        "prediction.route",
        "predictions",
    }
    request, route = by_name["POST /v1/predictions"], by_name["prediction.route"]
    assert f"{request.context.trace_id:032x}" == TRACE
    assert route.parent is not None
    assert route.parent.span_id == by_name["prediction.store"].context.span_id
    (score, together) = by_name["prediction.score"], by_name["predictions"]
    assert score.parent is not None
    assert score.parent.span_id == together.context.span_id
    assert together.parent is not None
    assert together.parent.span_id == request.context.span_id
    assert {span.context.trace_id for span in spans} == {request.context.trace_id}
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/predictions",
        "http.response.status_code": 201,
        "url.path": "/v1/predictions",
        "url.scheme": "http",
        "setwise.request_id": response.headers["x-request-id"],
    }
    assert "note" not in "".join(span.to_json() for span in spans)


def test_predictions_made_together_are_linked_to_each_request() -> None:
    exporter = InMemorySpanExporter()
    made = Tracing(exporter)
    contexts = []
    for _ in range(3):
        with made.stage("request"):
            contexts.append(copy_context())
    with made.together(contexts), made.stage("score"):
        pass
    made.close()
    *requests, score, together = exporter.get_finished_spans()
    first, *others = [span.context.span_id for span in requests]
    assert together.parent is not None
    assert together.parent.span_id == first
    assert [link.context.span_id for link in together.links] == others
    assert score.parent is not None
    assert score.parent.span_id == together.context.span_id


def test_log_lines_name_their_trace(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    configure_logging("info", "json")
    caplog.handler.setFormatter(logging.getLogger().handlers[0].formatter)
    logging.getLogger().addHandler(caplog.handler)
    with traced(service):
        service.get("/healthz", headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
    (line,) = [json.loads(line) for line in caplog.text.splitlines() if '"route"' in line]
    assert line["trace_id"] == TRACE
    assert len(line["span_id"]) == 16


def test_names_of_documents_and_words_of_exceptions_stay_out(service: Service) -> None:
    class Broken:
        def active(self) -> None:
            raise RuntimeError("secret words")

    with traced(service) as spans:
        service.get("/v1/predictions?document_id=secret", by="client")
        service.get("/nowhere?secret")
        object.__setattr__(service.services.predictions, "predictors", Broken())
        assert service.predict("secret").status_code == 500
    assert {"GET /v1/predictions", "GET", "POST /v1/predictions"} <= {span.name for span in spans}
    assert "secret" not in "".join(span.to_json() for span in spans)


def test_the_variables_of_opentelemetry_are_read(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    collectors: list[str] = []
    monkeypatch.setattr(tracing, "start", collectors.append)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://cluster:4318")
    telemetry.start_tracing(Settings())
    telemetry.start_tracing(Settings(otlp_endpoint="http://mine:4318"))
    assert collectors == ["http://cluster:4318", "http://mine:4318"]
    monkeypatch.setenv("OTEL_SERVICE_NAME", "setwise-north")
    with traced(service) as spans:
        service.get("/healthz")
    assert {span.resource.attributes["service.name"] for span in spans} == {"setwise-north"}


def test_without_the_packages_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(endpoint: str) -> Tracing:
        raise tracing.NoTracing("needs the extra: pip install 'setwise[telemetry]'")

    monkeypatch.setattr(tracing, "start", missing)
    with pytest.raises(BadSetting, match=r"SETWISE_OTLP_ENDPOINT: needs .*setwise\[telemetry\]"):
        telemetry.start_tracing(Settings(otlp_endpoint="http://collector:4318"))
    assert telemetry.start_tracing(Settings()) is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://cluster:4318")
    assert telemetry.start_tracing(Settings()) is None  # it may be meant for other programs
