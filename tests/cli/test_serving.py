"""``serve``, ``worker`` and ``openapi`` as processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from setwise.service.stores.database import create

SETWISE = Path(sys.executable).with_name("setwise")
PATIENCE_S = 600.0  # a command imports, and may compile, on a machine that is busy


def start(tmp_path: Path, *arguments: str, **settings: str) -> "subprocess.Popen[str]":
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SETWISE_")}
    given = {f"SETWISE_{name.upper()}": value for name, value in settings.items()}
    return subprocess.Popen(
        [SETWISE, *arguments],
        env=kept | {"SETWISE_DATA_DIR": str(tmp_path / "data")} | given,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def refused(process: "subprocess.Popen[str]") -> str:
    """Return the one line with which a process refused to work."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("setwise: ")
    return line


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_database_without_tables_is_refused(tmp_path: Path, command: str) -> None:
    line = refused(start(tmp_path, command))
    assert "run setwise db upgrade" in line
    assert not (tmp_path / "data" / "setwise.db").exists()


def test_a_bad_setting_stops_the_start_with_one_line(tmp_path: Path) -> None:
    line = refused(start(tmp_path, "serve", embedded_worker="perhaps"))
    assert "SETWISE_EMBEDDED_WORKER" in line


def test_a_port_in_use_is_one_line(tmp_path: Path, sqlite_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = refused(start(tmp_path, "serve", "--port", port, database_url=sqlite_url))
    assert port in line
    assert "--port" in line


def test_a_database_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    url = "postgresql://setwise:hunter2@127.0.0.1:1/x"
    line = refused(start(tmp_path, "serve", database_url=url))
    assert "does not answer" in line
    assert "hunter2" not in line


def test_openapi_needs_neither_settings_nor_a_database(tmp_path: Path) -> None:
    out, err = start(tmp_path, "openapi", database_url="nonsense").communicate(timeout=PATIENCE_S)
    assert json.loads(out)["openapi"].startswith("3.1")
    assert err == ""
    assert list(tmp_path.iterdir()) == []


def test_openapi_is_written_to_a_file(tmp_path: Path) -> None:
    out, _ = start(tmp_path, "openapi", "--out", "api.json").communicate(timeout=PATIENCE_S)
    assert out == ""
    assert json.loads((tmp_path / "api.json").read_text())["paths"]


def test_a_worker_runs_jobs_and_stops_when_told(tmp_path: Path, database_url: str) -> None:
    process = start(tmp_path, "worker", database_url=database_url, log_format="json")
    engine = create(database_url)
    deadline = time.monotonic() + PATIENCE_S
    states: list[str] = []
    while time.monotonic() < deadline and process.poll() is None:
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT state, started_at FROM jobs")).all()
        states = [row.state for row in rows if row.started_at is not None]
        if len(states) == len(rows) and set(states) == {"queued"}:
            break  # all ran, and wait for their next turns
        time.sleep(0.1)
    engine.dispose()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert set(states) == {"queued"}
    assert process.returncode == 0
    events = [json.loads(line)["event"] for line in err.splitlines()]
    # A job whose next turn has just come when the worker is told is given back.
    events = [event for event in events if event != "job.returned"]
    assert events == ["worker.started", "worker.stopped", "courier.stopped"]
