"""OpenTelemetry spans of requests and of prediction stages, without document content.

Without the extra ``setwise[telemetry]`` and the setting for a collector, nothing is imported.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import Context
from typing import TYPE_CHECKING, Any

from starlette.types import Scope

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter


SERVICE_NAME, COLLECTOR = "OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_ENDPOINT"
"""Standard variables that all programs with OpenTelemetry read."""


def current_ids() -> dict[str, str]:
    """Return the ids of the current trace and span; empty outside a span."""
    trace = sys.modules.get("opentelemetry.trace")  # not imported without a collector
    context = trace and trace.get_current_span().get_span_context()
    if not context or not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


class NoTracing(RuntimeError):
    """Tracing is configured but not installed."""


class Tracing:
    """Creates spans and sends them to a collector in the background.

    ``exporter``: Receives spans in batches; an unavailable collector only loses spans.
    """

    def __init__(self, exporter: "SpanExporter") -> None:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 -- an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 -- as above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 -- as above
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 -- as above
            TraceContextTextMapPropagator,
        )

        self._provider: TracerProvider = TracerProvider(
            # A name that is given in code would win over the standard variable.
            resource=Resource.create({"service.name": os.environ.get(SERVICE_NAME, "setwise")})
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("setwise")
        self._propagator = TraceContextTextMapPropagator()

    def stage(self, name: str) -> AbstractContextManager[object]:
        """Return a span for a stage; stages inside it become its children."""
        return self._tracer.start_as_current_span(f"prediction.{name}", record_exception=False)

    def together(self, contexts: Sequence[Context]) -> AbstractContextManager[object]:
        """Return a span for requests that are predicted together.

        It is a child of the first request's span and has links to the spans of the others.
        """
        from opentelemetry import trace  # noqa: PLC0415 -- as above

        first, *others = [context.run(trace.get_current_span) for context in contexts]
        return self._tracer.start_as_current_span(
            "predictions",
            context=trace.set_span_in_context(first),
            links=[trace.Link(span.get_span_context()) for span in others],
            record_exception=False,
        )

    def request(self, scope: Scope) -> AbstractContextManager[Any]:  # Any: a span
        """Return a span for a request, which continues its caller's trace."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 -- as above

        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in {b"traceparent", b"tracestate"}
        }
        return self._tracer.start_as_current_span(
            scope["method"],
            context=self._propagator.extract(carrier),
            kind=SpanKind.SERVER,
            # An exception's message could quote a document.
            record_exception=False,
            set_status_on_exception=False,
        )

    def close(self) -> None:
        """Send the remaining spans, and stop."""
        self._provider.shutdown()


def start(endpoint: str) -> Tracing:
    """Return tracing with an OTLP collector, such as ``http://collector:4318``.

    Raises `NoTracing` if the packages of the extra are not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 -- as above
            OTLPSpanExporter,
        )
    except ImportError as error:
        raise NoTracing("needs the extra: pip install 'setwise[telemetry]'") from error
    return Tracing(OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces"))


def describe(span: Any, scope: Scope, status: int) -> None:  # noqa: ANN401 -- of an extra
    """Name a request's span after its route, and note its response.

    ``status``: Of the response; 0 without one.
    """
    if status:
        span.set_attribute("http.response.status_code", status)
    span.set_attribute("http.request.method", scope["method"])
    span.set_attribute("url.path", scope["path"])
    span.set_attribute("url.scheme", scope["scheme"])
    span.set_attribute("setwise.request_id", scope["state"]["request_id"])
    route = getattr(scope.get("route"), "path", None)
    if route is not None:  # else the span is named after its method alone
        span.update_name(f"{scope['method']} {route}")
        span.set_attribute("http.route", route)
