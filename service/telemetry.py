"""Metrics and the times of stages, without any document's content."""

import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from importlib.metadata import version
from typing import Generic, TypeVar

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from setwise.service import tracing
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.breaker import Position, Watch
from setwise.service.domain.predictions import Accepted, SubmissionOutcome
from setwise.service.domain.reports import BacklogLine
from setwise.service.services.all import Services
from setwise.service.services.analysis.cockpit import Glance
from setwise.service.services.predictions import Stages, Timer
from setwise.service.settings import PREFIX, BadSetting, Settings
from setwise.service.tracing import Tracing

SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"
"""Variable by which the Prometheus library finds the folder of shared counts."""

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
        else:  # of one process; several would show those of whichever answers the scrape
            ProcessCollector(registry=self._registry)
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
        self._decisions = _Children(decisions)
        self.stages = Stages(*(stages.labels(name).time for name in Stages._fields))

    def answered(self, method: str, route: str, status: str, elapsed_s: float) -> None:
        """Count a request."""
        self._requests[method, route, status].inc()
        self._latency[method, route].observe(elapsed_s)

    def decided(self, outcomes: Iterable[SubmissionOutcome]) -> None:
        """Count the predictions that were made, not those that were made before."""
        for outcome in outcomes:
            if isinstance(outcome, Accepted) and not outcome.replayed:
                prediction = outcome.prediction
                self._decisions[prediction.decision, prediction.reason].inc()

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


def stages(metrics: ServiceMetrics, tracing: Tracing | None) -> Stages:
    """Return what measures the stages, for metrics and, if configured, traces."""
    if tracing is None:
        return metrics.stages
    timers = metrics.stages._asdict().items()
    return Stages(*(partial(_both, timer, partial(tracing.stage, name)) for name, timer in timers))


@contextmanager
def _both(timer: Timer, span: Timer) -> Iterator[None]:
    with timer(), span():
        yield


def start_tracing(settings: Settings) -> Tracing | None:
    """Return the tracing to the collector of the settings or of OpenTelemetry's own variable.

    None without a collector, and if only the variable names one and the extra is missing: it may be
    set for all programs of a cluster.

    Raises `BadSetting` if traces cannot be sent to the collector of the settings.
    """
    collector = settings.otlp_endpoint or os.environ.get(tracing.COLLECTOR)
    if not collector:
        return None
    try:
        return tracing.start(collector)
    except tracing.NoTracing as error:
        if not settings.otlp_endpoint:
            log.warning("tracing.off", reason=str(error))
            return None
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

    metrics.watch(
        "setwise_serving_info",
        "Always 1; the labels name the versions that decide now.",
        ["model_version", "calibrator_version", "policy_version"],
        serving,
    )

    def breaker(measure: Callable[[Watch], float]) -> Callable[[], Mapping[tuple[str, ...], float]]:
        return lambda: {(): measure(finished.breaker.get(SYSTEM).watch)}

    for name, what, of_watch in (
        (
            "setwise_breaker_tripped",
            "1 while the breaker stops all sending, else 0.",
            lambda watch: float(watch.position is Position.TRIPPED),
        ),
        (
            "setwise_breaker_alarm_ratio",
            "How near the audits are to an alarm, which is 1.",
            lambda watch: max(watch.path, default=0.0) / watch.run_length,
        ),
    ):
        metrics.watch(name, what, [], breaker(of_watch))
    missing = _Remembered(lambda: finished.labels.missing(SYSTEM))
    metrics.watch(
        "setwise_documents_beyond_model",
        "Checked documents with labels that the active model lacks.",
        [],
        lambda: {(): float(missing().documents)},
    )
    glances = _Remembered(partial(_glances, finished))
    for name, what, of_glance in _PROMISE:
        metrics.watch(name, what, ["segment"], partial(_by_segment, glances, of_glance))


_Measure = Callable[[Glance], float | None]

_PROMISE: tuple[tuple[str, str, _Measure], ...] = (
    (
        "setwise_target_accuracy_ratio",
        "Accuracy that the owner asks of what is sent.",
        lambda glance: glance.policy.target_accuracy,
    ),
    (
        "setwise_threshold_ratio",
        "Least confidence that is sent; absent while nothing is.",
        lambda glance: glance.threshold,
    ),
    (
        "setwise_accuracy_ratio",
        "Accuracy of label sets confident enough to be sent, of 30 days, from checks.",
        lambda glance: glance.accuracy.value,
    ),
    (
        "setwise_accuracy_low_ratio",
        "Lower bound of setwise_accuracy_ratio at the policy's risk.",
        lambda glance: glance.accuracy.low,
    ),
    (
        "setwise_accuracy_high_ratio",
        "Upper bound of setwise_accuracy_ratio at the policy's risk.",
        lambda glance: glance.accuracy.high,
    ),
    (
        "setwise_promised_accuracy_ratio",
        "Mean confidence of the label sets of setwise_accuracy_ratio.",
        lambda glance: glance.promised,
    ),
    (
        "setwise_sent_ratio",
        "Share of the documents of 30 days that were sent without a person.",
        lambda glance: glance.sent / glance.documents if glance.documents else None,
    ),
    (
        "setwise_reviews_overdue",
        "Reviews that are not completed although their due time has passed.",
        lambda glance: glance.queue.overdue,
    ),
)
"""What the owner was promised, for each segment; ``all`` is the whole."""

WHOLE = "all"

REMEMBERED_S = 60.0
"""How long the numbers of the promise stay: they read the checks of a month."""


def _glances(finished: Services) -> Mapping[str, Glance]:
    whole = finished.reports.glance(SYSTEM)
    values = whole.policy.values
    return {WHOLE: whole} | {key: finished.reports.glance(SYSTEM, segment=key) for key in values}


def _by_segment(
    glances: "_Remembered[Mapping[str, Glance]]", measure: _Measure
) -> Mapping[tuple[str, ...], float]:
    values = {segment: measure(glance) for segment, glance in glances().items()}
    return {(segment,): value for segment, value in values.items() if value is not None}


_Value = TypeVar("_Value")


class _Remembered(Generic[_Value]):
    """A reading that is repeated at most once in `REMEMBERED_S`; failures are not remembered."""

    def __init__(self, read: Callable[[], _Value]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._last: tuple[float, _Value] | None = None

    def __call__(self) -> _Value:
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > REMEMBERED_S:
                self._last = time.monotonic(), self._read()
            return self._last[1]
