"""What is measured of a running service: stages, spans, and the work that waits."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime

from setwise.service import tracing
from setwise.service.domain.breaker import Position
from setwise.service.domain.callers import SYSTEM
from setwise.service.domain.reports import Line
from setwise.service.services.verbs import Verbs
from setwise.service.settings import PREFIX, BadSetting, Settings
from setwise.service.telemetry import Metrics
from setwise.service.tracing import Tracing


class Stages:
    """Watches the stages of a prediction for the metrics and, where asked for, for traces."""

    def __init__(self, metrics: Metrics, tracing: Tracing | None) -> None:
        self._metrics = metrics
        self._tracing = tracing

    def __call__(self, name: str) -> AbstractContextManager[object]:
        """Return what watches the stage of this name while it lasts."""
        if self._tracing is None:
            return self._metrics.stage(name)
        both = ExitStack()
        both.enter_context(self._metrics.stage(name))
        both.enter_context(self._tracing.stage(name))
        return both


def start_tracing(settings: Settings) -> Tracing | None:
    """Return what sends traces where the settings say; None where they name no place.

    Raises
    ------
    BadSetting
        If traces cannot be sent.
    """
    if not settings.otlp_endpoint:
        return None
    try:
        return tracing.start(settings.otlp_endpoint)
    except tracing.NoTracing as error:
        raise BadSetting(f"{PREFIX}OTLP_ENDPOINT: {error}") from error


def watch(metrics: Metrics, finished: Verbs) -> None:
    """Add what is read at each scrape: the work that waits, and the versions that decide."""

    def gauges(
        part: str, measure: Callable[[Line, datetime], float]
    ) -> Callable[[], Mapping[tuple[str, ...], float]]:
        def read() -> Mapping[tuple[str, ...], float]:
            backlog, now = finished.reports.backlog(SYSTEM)
            lines: Mapping[str, Line] = getattr(backlog, part)
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
            gauges(part, Line.age_s),
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
