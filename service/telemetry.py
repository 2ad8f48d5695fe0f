"""Metrics, request ids and a log line for each request, without any document's content."""

import logging
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from importlib.metadata import version
from typing import TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, Info, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from setwise.service import tracing
from setwise.service.domain.breaker import Position
from setwise.service.domain.callers import SYSTEM
from setwise.service.domain.reports import BacklogLine
from setwise.service.services.all import Services
from setwise.service.settings import PREFIX, BadSetting, Settings
from setwise.service.tracing import Tracing

REQUEST_ID_HEADER = b"x-request-id"
REQUEST_ID = "request_id"
"""Name of the request id in a request's state."""

SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"
"""Variable by which the Prometheus library finds the folder of shared counts."""

_ACCEPTABLE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_UNMATCHED = "unmatched"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_LATENCY_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

log = structlog.get_logger(__name__)


class ServiceMetrics:
    """Metrics of one application; `exposition` returns them as Prometheus text."""

    def __init__(self) -> None:
        self._registry: CollectorRegistry = CollectorRegistry()
        counted: CollectorRegistry | None = self._registry
        self._together: CollectorRegistry | None = None
        if SHARED_METRICS in os.environ:
            # Several processes serve one port: each counts in files, and any of them adds them up.
            counted, self._together = None, CollectorRegistry()
            MultiProcessCollector(self._together)  # type: ignore[no-untyped-call]
        requests = Counter(
            "setwise_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=counted,
        )
        latency = Histogram(
            "setwise_request_seconds",
            "Time from a request's head to the last byte of its answer.",
            ["method", "route"],
            buckets=_LATENCY_BUCKETS_S,
            registry=counted,
        )
        decisions = Counter(
            "setwise_decisions",
            "Predictions made by this process.",
            ["decision", "reason"],
            registry=counted,
        )
        stages = Histogram(
            "setwise_stage_seconds",
            "Time of one stage of a group of predictions: score, route, store.",
            ["stage"],
            buckets=_LATENCY_BUCKETS_S,
            registry=counted,
        )
        Info("setwise_build", "What this process runs.", registry=self._registry).info(
            {"version": version("setwise"), "python": platform.python_version()}
        )
        # `labels` checks and locks at each look-up, so keep the children.
        self._requests, self._latency = _Children(requests), _Children(latency)
        self._decisions, self._stages = _Children(decisions), _Children(stages)

    def answered(self, method: str, route: str, status: str, elapsed_s: float) -> None:
        """Count a request."""
        self._requests[method, route, status].inc()
        self._latency[method, route].observe(elapsed_s)

    def decided(self, decision: str, reason: str, times: int = 1) -> None:
        """Count predictions of one kind."""
        self._decisions[decision, reason].inc(times)

    def stage(self, name: str) -> AbstractContextManager[object]:
        """Return a context that measures its duration as a stage."""
        return self._stages[(name,)].time()

    def watch(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str],
        read: Callable[[], Mapping[tuple[str, ...], float]],
    ) -> None:
        """Add a gauge that ``read`` fills at each scrape.

        It has a value for each combination of ``labels``.

        While ``read`` fails, the gauge is absent, so that an unavailable database does not affect
        the other metrics.
        """
        self._registry.register(_Watched(name, help_text, labels, read))

    def exposition(self) -> bytes:
        """Return the Prometheus text format, version 0.0.4."""
        shared = b"" if self._together is None else generate_latest(self._together)
        return shared + generate_latest(self._registry)


_Metric = TypeVar("_Metric", Counter, Histogram)


class _Children(dict[tuple[str, ...], _Metric]):
    """The time series of a metric, by label values."""

    def __init__(self, metric: _Metric) -> None:
        super().__init__()
        self._metric: _Metric = metric

    def __missing__(self, values: tuple[str, ...]) -> _Metric:
        child: _Metric = self._metric.labels(*values)
        self[values] = child
        return child


class _Watched(Collector):
    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str],
        read: Callable[[], Mapping[tuple[str, ...], float]],
    ) -> None:
        self._name, self._help, self._labels, self._read = name, help_text, labels, read

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return [GaugeMetricFamily(self._name, self._help, labels=self._labels)]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._help, labels=self._labels)
        try:
            values = self._read()
        except Exception as error:  # noqa: BLE001 -- a failed gauge must not stop the scrape
            log.warning("gauge.unreadable", gauge=self._name, error=type(error).__name__)
            return []
        for key, value in values.items():
            family.add_metric(key, value)
        return [family]


class RequestTelemetry:
    """ASGI middleware for request ids, log lines and metrics of requests.

    ``new_id``: Returns the id of a request without one.
    """

    def __init__(self, app: ASGIApp, *, metrics: ServiceMetrics, new_id: Callable[[], str]) -> None:
        self._app = app
        self._metrics = metrics
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        header = Headers(scope=scope).get("x-request-id", "")
        # Any other id could forge log lines.
        request_id = header if _ACCEPTABLE_REQUEST_ID.fullmatch(header) else self._new_id()
        scope.setdefault("state", {})[REQUEST_ID] = request_id
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                named = REQUEST_ID_HEADER, request_id.encode("ascii")
                message["headers"] = [*message["headers"], named]
            await send(message)

        tokens = structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            self._record(scope, status, time.perf_counter() - started_at)
            structlog.contextvars.reset_contextvars(**tokens)

    def _record(self, scope: Scope, status: int, elapsed_s: float) -> None:
        """Record a finished request; status 0 if nothing was sent."""
        # The template, not the path, so that each route has one time series.
        route = getattr(scope.get("route"), "path", None) or _UNMATCHED
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        outcome = str(status or "aborted")
        self._metrics.answered(method, route, outcome, elapsed_s)
        if not logging.getLogger(__name__).isEnabledFor(logging.INFO):
            return  # structlog would check only after building the line
        log.info(
            "request",
            method=method,
            route=route,
            # Still percent-encoded, so that no path can break a line; the query names documents.
            path=scope.get("raw_path", b"").decode("ascii", "backslashreplace")[:200],
            status=outcome,
            milliseconds=round(1_000 * elapsed_s, 2),
            request_id=scope["state"][REQUEST_ID],
        )


class Stages:
    """Measures stages of predictions for metrics and, if configured, traces."""

    def __init__(self, metrics: ServiceMetrics, tracing: Tracing | None) -> None:
        self._metrics = metrics
        self._tracing = tracing

    def __call__(self, name: str) -> AbstractContextManager[object]:
        """Return a context that measures the stage with this name."""
        if self._tracing is None:
            return self._metrics.stage(name)
        both = ExitStack()
        both.enter_context(self._metrics.stage(name))
        both.enter_context(self._tracing.stage(name))
        return both


def start_tracing(settings: Settings) -> Tracing | None:
    """Return the tracing from the settings; None without a collector.

    Raises `BadSetting` if traces cannot be sent.
    """
    if not settings.otlp_endpoint:
        return None
    try:
        return tracing.start(settings.otlp_endpoint)
    except tracing.NoTracing as error:
        raise BadSetting(f"{PREFIX}OTLP_ENDPOINT: {error}") from error


def watch(metrics: ServiceMetrics, finished: Services) -> None:
    """Add gauges for the backlog, the serving versions and the breaker.

    They are read at each scrape.
    """

    def gauges(
        part: str, measure: Callable[[BacklogLine, datetime], float]
    ) -> Callable[[], Mapping[tuple[str, ...], float]]:
        def read() -> Mapping[tuple[str, ...], float]:
            backlog, now = finished.reports.backlog(SYSTEM)
            lines: Mapping[str, BacklogLine] = getattr(backlog, part)
            return {(state,): measure(line, now) for state, line in lines.items()}

        return read

    for part, name, what in (
        ("reviews", "setwise_reviews", "Review tasks that are not completed"),
        ("deliveries", "setwise_deliveries", "Messages and deliveries under way and given up"),
        ("jobs", "setwise_jobs", "Jobs that wait or run"),
    ):
        metrics.watch(name, f"{what}.", ["state"], gauges(part, lambda line, _: line.count))
        metrics.watch(
            f"{name}_oldest_seconds",
            f"{what}: for how long the oldest does.",
            ["state"],
            gauges(part, BacklogLine.age_s),
        )

    def serving() -> Mapping[tuple[str, ...], float]:
        policy = finished.policy.get(SYSTEM).version
        model = finished.predictions.predictors.active()
        return {(model.version, model.calibrator_version, policy): 1.0}

    def watched() -> Mapping[tuple[str, ...], float]:
        seen = finished.breaker.get(SYSTEM).watch
        return {
            ("tripped",): float(seen.position is Position.TRIPPED),
            ("alarm",): max(seen.path, default=0.0) / seen.run_length,
        }

    metrics.watch(
        "setwise_breaker",
        "tripped: 1 while nothing is sent; alarm: how near the audits are to that, which is 1.",
        ["what"],
        watched,
    )

    metrics.watch(
        "setwise_serving",
        "Always 1; the labels name the versions that decide now.",
        ["model_version", "calibrator_version", "policy_version"],
        serving,
    )
