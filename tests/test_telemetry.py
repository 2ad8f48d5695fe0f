"""Log lines: their form, and what they leave out."""

import json
import logging
import platform

import pytest
import structlog

from setwise.service.logs import configure_logging
from setwise.service.telemetry import ServiceMetrics

PATIENT = "Ada Lovelace"


def _fail(patient: str) -> None:
    try:
        int(patient)
    except ValueError as error:
        raise LookupError(f"no {patient}") from error


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize("level", ["info", "debug"])
def test_tracebacks_quote_nothing_unless_debugging(
    style: str, level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(level, style)  # type: ignore[arg-type]  # one of the two
    for log in (structlog.get_logger("ours"), logging.getLogger("theirs")):
        try:
            _fail(PATIENT)
        except LookupError as error:
            log.exception("failed")
            log.warning("failed", exc_info=error)
    written = capsys.readouterr().err
    assert written.count("in _fail") == 8
    assert written.count("LookupError") >= 4
    assert written.count("ValueError") >= 4
    assert (PATIENT in written) == (level == "debug")


def test_a_line_without_an_error_has_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    log = structlog.get_logger("ours")
    for given in (None, False, True):
        log.warning("fine", exc_info=given)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert all("exception" not in line and "exc_info" not in line for line in lines)


def test_json_lines_carry_level_time_and_request(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.get_logger("ours").info("ours.happened", number=5)
        logging.getLogger("theirs").warning("it\nhappened %s", "too")
    structlog.get_logger("ours").debug("not.shown")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["level"], line["request_id"]) for line in lines] == [
        ("ours.happened", "info", "r1"),
        ("it\nhappened too", "warning", "r1"),
    ]
    assert lines[0]["number"] == 5
    assert lines[0]["timestamp"].endswith("Z")


def test_the_console_is_quiet_below_its_level(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning", "console")
    structlog.get_logger("ours").info("chatter")
    structlog.get_logger("ours").warning("matter")
    written = capsys.readouterr().err
    assert "matter" in written
    assert "chatter" not in written


def test_the_metrics_name_the_release() -> None:
    assert f'setwise_build_info{{python="{platform.python_version()}"' in (
        ServiceMetrics().exposition().decode()
    )


def test_libraries_that_tell_each_step_are_heard_when_they_warn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("debug", "json")
    for name in ("alembic.runtime.migration", "distributed.scheduler"):
        log = logging.getLogger(name)
        log.setLevel(logging.INFO)  # as they do when they are imported
        log.info("a step")
        log.warning("a matter")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["a matter"] * 2
