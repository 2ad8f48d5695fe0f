"""Spans: which there are, how they hang together, and that they quote no document."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from setwise.service import telemetry, tracing
from setwise.service.app import create_app
from setwise.service.settings import BadSetting, Settings
from setwise.service.telemetry import Metrics
from setwise.service.tracing import Tracing
from tests.edge import Service

TRACE = "0af7651916cd43dd8448eb211c80319c"


@contextmanager
def traced(service: Service) -> Iterator[list[ReadableSpan]]:
    """Collect the spans that end inside the block."""
    exporter, spans = InMemorySpanExporter(), []
    made = Tracing(exporter)
    edge = service.app.state.edge
    object.__setattr__(edge, "spans", made)
    stages = telemetry.Stages(Metrics(), made)
    object.__setattr__(service.services.predictions, "stage", stages)
    service.app = create_app(edge)
    try:
        yield spans
    finally:
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
    }
    request, route = by_name["POST /v1/predictions"], by_name["prediction.route"]
    assert f"{request.context.trace_id:032x}" == TRACE
    assert route.parent is not None
    assert route.parent.span_id == by_name["prediction.store"].context.span_id
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/predictions",
        "http.response.status_code": 201,
        "setwise.request_id": response.headers["x-request-id"],
    }
    assert "note" not in "".join(span.to_json() for span in spans)


def test_names_of_documents_and_words_of_exceptions_stay_out(service: Service) -> None:
    class Broken:
        def active(self) -> None:
            raise RuntimeError("secret words")

    with traced(service) as spans:
        service.get("/v1/predictions?document_id=secret", by="client")
        service.get("/nowhere/secret")
        object.__setattr__(service.services.predictions, "predictors", Broken())
        assert service.predict("secret").status_code == 500
    assert {"GET /v1/predictions", "GET unmatched", "POST /v1/predictions"} <= {
        span.name for span in spans
    }
    assert "secret" not in "".join(span.to_json() for span in spans)


def test_without_the_packages_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(endpoint: str) -> Tracing:
        raise tracing.NoTracing("needs the extra: pip install 'setwise[telemetry]'")

    monkeypatch.setattr(tracing, "start", missing)
    with pytest.raises(BadSetting, match=r"SETWISE_OTLP_ENDPOINT: needs .*setwise\[telemetry\]"):
        telemetry.start_tracing(Settings(otlp_endpoint="http://collector:4318"))
    assert telemetry.start_tracing(Settings()) is None
