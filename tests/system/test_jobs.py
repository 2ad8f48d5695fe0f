"""Jobs of really started processes that are killed: nothing is lost and nothing doubled."""

import json
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import text

from tests.kit.installation import ON_POSTGRES, SETWISE, Installation, pages, stated_documents
from tests.kit.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

N = 1_300


@pytest.fixture(autouse=True)
def workers_apart(monkeypatch: pytest.MonkeyPatch, installation: Installation) -> None:
    """Let servers run no jobs, and workers notice within seconds that another one is gone."""
    environment = installation.environment()
    apart = {"SETWISE_EMBEDDED_WORKER": "false"}
    monkeypatch.setattr(installation, "environment", lambda: environment | apart)
    installation.fix_threshold(0.7)


STRUCK = textwrap.dedent(
    """
    import os, sys, threading
    from setwise.service.cli import main
    from setwise.service.runtime.worker import JobReport

    number, kept, checkpoint = int(sys.argv[1]), [], JobReport.checkpoint

    def counted(report, state):
        checkpoint(report, state)
        kept.append(state)
        if len(kept) == 2:  # of five
            threading.Timer(0.01, os.kill, (os.getpid(), number)).start()

    JobReport.checkpoint = counted
    main(["worker"])
    """
)
"""A worker that gets a signal in the middle of its first job, wherever it is then."""


@contextmanager
def worker(
    installation: Installation, struck_by: signal.Signals | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(SETWISE), "worker"]
    if struck_by is not None:
        command = [sys.executable, "-c", STRUCK, str(struck_by.value)]
    with (installation.folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(command, env=installation.environment(), stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@ON_POSTGRES
@pytest.mark.verify  # test_files.py lets a worker die in its twin
def test_a_worker_killed_in_the_middle_of_a_file_loses_and_doubles_nothing(
    installation: Installation,
) -> None:
    """The second worker takes over when the first one's lease has run out."""
    sample = stated_documents(N, seed=31)
    content = "".join(json.dumps(document) + "\n" for document in sample)
    server = installation.serve()
    with server.client("client") as client:
        response = client.post(
            "/v1/jobs/scoring",
            content=content.encode(),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert response.status_code == 202, response.text
        path = response.headers["location"]

        def job() -> dict[str, Any]:
            shown: dict[str, Any] = client.get(path).json()
            return shown

        with worker(installation, signal.SIGKILL) as first:
            assert first.wait(PATIENCE_S) == -signal.SIGKILL
        left = job()
        assert left["state"] == "running"
        expire = "UPDATE jobs SET lease_expires_at = started_at WHERE state = 'running'"
        with installation.application.engine.begin() as connection:  # in place of a minute's wait
            connection.execute(text(expire))
        with worker(installation):
            eventually(lambda: job()["state"] != "running", "the second worker ends the job")
        done = job()
        assert done["state"] == "succeeded", done
        assert done["result"]["predicted"] == N
        result = client.get(done["result"]["location"])
        lines = [json.loads(line) for line in result.text.splitlines()]
    assert [line["line"] for line in lines] == list(range(1, N + 1))
    with server.client("lead") as lead:
        by_id = {p["id"]: p for p in pages(lead, "/v1/predictions")}
    assert {line["prediction"]["id"] for line in lines} == set(by_id)
    assert Counter(p["document_id"] for p in by_id.values()) == Counter(d["id"] for d in sample)
    with installation.application.engine.connect() as connection:
        tasks = connection.execute(text("SELECT count(*) FROM review_tasks")).scalar_one()
        told = connection.execute(text("SELECT count(*) FROM outbox_messages")).scalar_one()
    counts = Counter(p["decision"] for p in by_id.values())
    assert (tasks, told) == (counts["review"], counts["auto"])
    assert counts == {"review": -(-N // 3), "auto": N - -(-N // 3)}


@ON_POSTGRES
@pytest.mark.verify
def test_a_worker_that_is_told_to_stop_gives_its_job_back(installation: Installation) -> None:
    content = "".join(json.dumps(one) + "\n" for one in stated_documents(N, seed=32))
    server = installation.serve()
    with server.client("client") as client:
        path = client.post(
            "/v1/jobs/scoring",
            content=content.encode(),
            headers={"Content-Type": "application/x-ndjson"},
        ).headers["location"]
        with worker(installation, signal.SIGTERM) as process:
            assert process.wait(PATIENCE_S) == 0
        assert client.get(path).json()["state"] == "queued"
        response = client.post(f"{path}/cancel")
        assert (response.status_code, response.json()["state"]) == (200, "cancelled")
        partial = client.get(f"{path}/result")
        assert 0 < len(partial.text.splitlines()) < N
