"""Structured logs, which never contain a document's content."""

import logging
import sys
import traceback
from typing import TYPE_CHECKING, Literal

import structlog

from setwise.service import tracing

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor


def configure_logging(level: str, style: Literal["console", "json"]) -> None:
    """Send all log lines, also of libraries, to stderr in one format.

    Tracebacks contain no local variables and, except at level ``debug``, no exception messages:
    either could quote a document.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _name_trace,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render: Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    trace = structlog.processors.format_exc_info if level == "debug" else _trace_without_words
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                trace,
                render,
            ],
        )
    )
    handler.addFilter(_no_chatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _no_chatter(record: logging.LogRecord) -> bool:
    """Leave out what Alembic says of every check of the database, and Dask of every worker.

    Dask sets its own level when it is imported, which may be later.
    """
    return record.levelno >= logging.WARNING or not record.name.startswith(
        ("alembic", "distributed")
    )


def _name_trace(_logger: object, _method: str, event: "EventDict") -> "EventDict":
    """Add the ids of the current trace and span, in the names of OpenTelemetry's log model."""
    event.update(tracing.current_ids())
    return event


def _trace_without_words(_logger: object, _method: str, event: "EventDict") -> "EventDict":
    exception = event.pop("exc_info", None)
    error = exception[1] if isinstance(exception, tuple) else exception
    if exception is True:
        error = sys.exc_info()[1]
    parts: list[str] = []
    while isinstance(error, BaseException):
        name = f"{type(error).__module__}.{type(error).__qualname__}\n"
        parts.insert(0, "".join([*traceback.format_tb(error.__traceback__), name]))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if parts:
        event["exception"] = "which led to\n".join(parts).rstrip()
    return event
