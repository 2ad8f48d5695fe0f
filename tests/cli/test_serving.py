"""``serve``, ``worker`` and ``openapi``."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from sqlalchemy import text

from setwise.service.stores.database import create
from tests.cli.running import refusal, status
from tests.kit.waiting import eventually

SETWISE = Path(sys.executable).with_name("setwise")
PATIENCE_S = 600.0  # a command imports, and may compile, on a machine that is busy


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("SETWISE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SETWISE_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_database_without_tables_is_refused(
    capsys: pytest.CaptureFixture[str], data_dir: Path, command: str
) -> None:
    assert "run setwise db upgrade" in refusal(capsys, command)
    assert not (data_dir / "setwise.db").exists()


def test_a_bad_setting_stops_the_start_with_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SETWISE_EMBEDDED_WORKER", "perhaps")
    assert "SETWISE_EMBEDDED_WORKER" in refusal(capsys, "serve")


def test_a_port_in_use_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, sqlite_url: str
) -> None:
    monkeypatch.setenv("SETWISE_DATABASE_URL", sqlite_url)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = refusal(capsys, "serve", "--port", port)
    assert port in line
    assert "--port" in line


def test_a_database_that_does_not_answer_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SETWISE_DATABASE_URL", "postgresql://setwise:hunter2@127.0.0.1:1/x")
    line = refusal(capsys, "serve")
    assert "does not answer" in line
    assert "hunter2" not in line


def test_openapi_needs_neither_settings_nor_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SETWISE_DATABASE_URL", "nonsense")
    assert status("openapi") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["openapi"].startswith("3.1")
    assert err == ""
    assert status("openapi", "--out", str(tmp_path / "api.json")) == 0
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "api.json").read_text())["paths"]
    assert list(tmp_path.iterdir()) == [tmp_path / "api.json"]


def answer_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return answer.read().decode()


@pytest.mark.system
def test_processes_share_the_port_and_their_counts_and_end_together(
    tmp_path: Path, sqlite_url: str
) -> None:
    process = subprocess.Popen(
        [SETWISE, "serve", "--port", "0", "--workers", "2"],
        env=os.environ | {"SETWISE_DATABASE_URL": sqlite_url, "SETWISE_EMBEDDED_WORKER": "false"},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.endswith(" with 2 processes\n")
    url = line.split()[3]
    for _ in range(20):
        assert answer_of(f"{url}/healthz") == '{"status":"ok"}'
    counted = 'setwise_requests_total{method="GET",route="/healthz",status="200"} 20.0'
    assert all(counted in answer_of(f"{url}/metrics") for _ in range(8))
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "setwise: " in err) == (0, False)


@pytest.mark.system
@pytest.mark.verify  # the test before is its twin
def test_a_server_process_that_dies_ends_the_others(tmp_path: Path, sqlite_url: str) -> None:
    process = subprocess.Popen(
        [SETWISE, "serve", "--port", "0", "--workers", "2"],
        env=os.environ | {"SETWISE_DATABASE_URL": sqlite_url},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    url = process.stderr.readline().split()[3]
    answer_of(f"{url}/healthz")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "setwise: a server process died" in err


def test_a_process_ends_with_its_parent() -> None:
    program = "import time; from setwise.service.cli.serving import stop_with_parent as stop; "
    program += "stop(); print(); time.sleep(600)"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.readline()
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(PATIENCE_S) == -signal.SIGTERM
    process.stdout.close()


@pytest.mark.system
@pytest.mark.verify
def test_a_parent_that_is_killed_takes_its_processes_along(tmp_path: Path, sqlite_url: str) -> None:
    process = subprocess.Popen(
        [SETWISE, "serve", "--port", "0", "--workers", "2"],
        env=os.environ | {"SETWISE_DATABASE_URL": sqlite_url},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    url = process.stderr.readline().split()[3]
    answer_of(f"{url}/healthz")
    process.kill()
    process.communicate(timeout=PATIENCE_S)  # until the last of them closes its end
    socket.create_server(("127.0.0.1", int(url.rsplit(":", 1)[1]))).close()


@pytest.mark.system
def test_a_worker_answers_probes_where_it_is_asked_to(tmp_path: Path, sqlite_url: str) -> None:
    process = subprocess.Popen(
        [SETWISE, "worker", "--port", "0"],
        env=os.environ | {"SETWISE_DATABASE_URL": sqlite_url},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    url = process.stderr.readline().split()[-1]
    assert answer_of(f"{url}/healthz") == '{"status":"ok"}'
    assert '"status":"ready"' in answer_of(f"{url}/readyz")
    assert "setwise_jobs{" in answer_of(f"{url}/metrics")
    for path, code in (
        ("/readyz/predictions", 503),
        ("/v1/predictions", 404),
    ):  # no model; no other route
        with pytest.raises(urllib.error.HTTPError) as error:
            answer_of(f"{url}{path}")
        assert error.value.code == code
        error.value.close()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


@pytest.mark.system
def test_a_worker_runs_jobs_and_stops_when_told(tmp_path: Path, sqlite_url: str) -> None:
    process = subprocess.Popen(
        [SETWISE, "worker"],
        env=os.environ | {"SETWISE_DATABASE_URL": sqlite_url, "SETWISE_LOG_FORMAT": "json"},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    engine = create(sqlite_url)

    def all_ran() -> bool:
        assert process.poll() is None
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT state, started_at FROM jobs")).all()
        return bool(rows) and all(row.started_at and row.state == "queued" for row in rows)

    eventually(all_ran, "all jobs ran, and wait for their next turns")
    engine.dispose()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    events = [json.loads(line)["event"] for line in err.splitlines()]
    # A job whose next turn has just come when the worker is told is given back.
    events = [event for event in events if event != "job.returned"]
    assert events == ["worker.started", "worker.stopped", "courier.stopped"]
