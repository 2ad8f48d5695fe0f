"""`setwise demo` as a newcomer runs it: one process, a real port, calls pasted into a shell."""

import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from setwise.service.cli.demo import LEAST_WAITING
from tests.docs.pages import ROOT, blocks
from tests.kit.waiting import eventually

pytestmark = pytest.mark.system

SETWISE = Path(sys.executable).with_name("setwise")
PATIENCE_S = 900  # training shares its cores with other tests


class Demo:
    """A running demo, started on a free port."""

    def __init__(self, folder: Path) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SETWISE_")}
        # A real installation's settings must not be touched by a demo.
        environment["SETWISE_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/production"
        environment["SETWISE_ARTIFACT_URL"] = "/nonexistent"
        self.folder = folder
        self._log = (folder.parent / f"{folder.name}-stderr").open("a", encoding="utf-8")
        self.process = subprocess.Popen(
            [SETWISE, "demo", "--port", "0", "--data-dir", folder],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
            cwd=folder.parent,
        )
        self.said = self._read_until("Ctrl-C stops the demo.")
        match = re.search(r"http://127\.0\.0\.1:\d+", self.said)
        assert match
        self.url = match.group()
        self.keys = dict(
            re.findall(
                r"^  (client|reviewer|lead|admin|auditor) +(sw_\S+)$", self.said, re.MULTILINE
            )
        )
        self.passwords = dict(
            re.findall(r"^  (reviewer|lead|admin) +(\w+-\w+-\w+-\w+)  \w", self.said, re.MULTILINE)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self._log.close()

    @property
    def stderr(self) -> str:
        return (self.folder.parent / f"{self.folder.name}-stderr").read_text()

    def _read_until(self, last: str) -> str:
        assert self.process.stdout is not None
        text, deadline = "", time.monotonic() + PATIENCE_S
        while last not in text:
            assert time.monotonic() < deadline, f"not up in time: {self.stderr}"
            assert self.process.poll() is None, f"ended early: {self.stderr}"
            if select.select([self.process.stdout], [], [], 1.0)[0]:
                text += os.read(self.process.stdout.fileno(), 65536).decode()
        return text

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; returns the exit status and the last words."""
        self.process.send_signal(signal.SIGINT)
        text, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, text

    def get(self, path: str, role: str | None = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.keys[role]}"} if role else {}
        return httpx.get(self.url + path, headers=headers, timeout=PATIENCE_S)

    def page(self, path: str, login: str) -> str:
        """Return a page as somebody reads it who signs in with the printed password."""
        with httpx.Client(base_url=self.url, timeout=PATIENCE_S) as browser:
            door = browser.get("/login").text
            token = re.search(r'name="csrf" value="([^"]+)"', door)
            assert token
            fields = {"csrf": token[1], "login": login, "password": self.passwords[login]}
            assert browser.post("/login", data=fields).status_code == 303
            response = browser.get(path)
            assert response.status_code == 200
            return response.text

    def trained_at(self) -> int:
        return (self.folder / "model" / "manifest.json").stat().st_mtime_ns

    def tiles(self) -> dict[str, int]:
        matches = re.findall(
            r'class="name">([^<]+)</span>\s*<span class="number">(?:<a[^>]*>)?([\d,]+)<',
            self.page("/", "lead"),
        )
        return {name: int(number.replace(",", "")) for name, number in matches}


@pytest.mark.slow
def test_a_newcomer_gets_the_answer_of_the_readme_and_full_pages(tmp_path: Path) -> None:
    with Demo(tmp_path / "data") as demo:
        the_queue_is_filled_and_has_some_history(demo)
        the_first_request_of_the_readme_gets_the_answer_shown(demo)
        the_pages_open_for_those_who_sign_in(demo)
        status, text = demo.interrupt()
    assert status == 0
    assert "Stopped." in text


@pytest.mark.verify
def test_a_newcomer_can_try_everything_stop_and_go_on(tmp_path: Path) -> None:
    """One test, because each start trains a model."""
    with Demo(tmp_path / "data") as demo:
        the_queue_is_filled_and_has_some_history(demo)
        each_role_has_a_key_that_works(demo)
        the_first_request_of_the_readme_gets_the_answer_shown(demo)
        the_pages_open_for_those_who_sign_in(demo)
        the_keys_are_kept_where_only_their_owner_reads(demo)
        the_calls_work_when_pasted_into_a_shell(demo)
        a_calibrator_is_learnt_in_the_background(demo)
        tiles, keys = demo.tiles(), demo.keys
        trained_at = demo.trained_at()
        status, text = demo.interrupt()
        assert status == 0
        assert "Stopped." in text
        assert "Traceback" not in demo.stderr
    with Demo(tmp_path / "data") as second:
        assert second.keys == keys
        assert second.tiles() == tiles
        assert second.trained_at() == trained_at
        assert second.interrupt()[0] == 0


def the_queue_is_filled_and_has_some_history(demo: Demo) -> None:
    assert demo.get("/readyz/predictions").status_code == 200
    tiles = demo.tiles()
    # How many of each is the model's; tests/cli/test_demo counts with a stated one.
    assert tiles["Waiting"] >= LEAST_WAITING
    assert all(tiles[name] for name in ("Sent automatically", "Reviewed"))
    page = demo.page("/", "admin")
    assert "set by hand, not certified" in page
    assert "86 labels" in page


def each_role_has_a_key_that_works(demo: Demo) -> None:
    assert demo.keys.keys() == {"client", "reviewer", "lead", "admin", "auditor"}
    assert demo.get("/v1/predictions", "client").status_code == 200
    assert demo.get("/v1/reviews", "reviewer").status_code == 200
    assert demo.get("/v1/predictions", "lead").status_code == 200
    assert demo.get("/v1/admin/models", "admin").status_code == 200


def the_first_request_of_the_readme_gets_the_answer_shown(demo: Demo) -> None:
    request, response = (
        next(block for block in blocks(ROOT / "README.md") if sign in block.content)
        for sign in ("/v1/predictions \\", '"confidence"')
    )
    command = request.content.replace("http://127.0.0.1:8000", demo.url)
    environment = {**os.environ, "CLIENT_KEY": demo.keys["client"]}
    process = subprocess.run(
        ["sh", "-eu"], input=command, capture_output=True, text=True, env=environment, check=True
    )
    answer, shown = json.loads(process.stdout), json.loads(response.content)
    assert answer.keys() == shown.keys()
    assert answer["labels"] == shown["labels"]
    assert answer["threshold"] == shown["threshold"] <= answer["confidence"]
    assert answer["reason"] in {shown["reason"], "audit"}
    assert [one["labels"] for one in answer["candidates"][:1]] == [shown["labels"]]


def the_pages_open_for_those_who_sign_in(demo: Demo) -> None:
    assert demo.get("/").status_code == 303
    assert demo.passwords.keys() == {"reviewer", "lead", "admin"}
    for login in demo.passwords:
        assert "(demo)" in demo.page("/account", login)


def the_keys_are_kept_where_only_their_owner_reads(demo: Demo) -> None:
    for name, secrets in (("demo-keys", demo.keys), ("demo-passwords", demo.passwords)):
        path = demo.folder / f"{name}.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert json.loads(path.read_text()) == secrets
    assert "which only you can read" in demo.said


def a_calibrator_is_learnt_in_the_background(demo: Demo) -> None:
    def learnt() -> Any:
        return demo.get("/v1/admin/calibrations", "admin").json()["items"]

    eventually(learnt, "a calibrator is learnt")
    page = demo.page(f"/board/calibrators/{learnt()[0]['id']}", "admin")
    assert "Is confidence calibrated?" in page
    assert "<svg" in page
    assert "recent documents" in page


def the_calls_work_when_pasted_into_a_shell(demo: Demo) -> None:
    pasted = demo.said.partition("Try in another terminal:")[2].partition("# Train your own model")[
        0
    ]
    pasted = pasted.replace("curl -s", "curl --fail-with-body -sS")
    before = demo.tiles()
    process = subprocess.run(
        ["sh", "-eu"], input=pasted, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    clear, vague, task, completed, policy = (
        json.loads(line) for line in process.stdout.splitlines() if line.strip()
    )
    # The demo audits some of what is clear, as its welcome says.
    drawn = clear["reason"] == "audit"
    assert clear["decision"] == ("review" if drawn else "auto")
    assert clear["confidence"] >= clear["threshold"] == 0.9
    assert vague["decision"] == "review"
    assert task["state"] == "leased"
    assert completed["agreed"] is True
    assert policy["threshold"] == {"mode": "fixed", "value": 0.9, "certificate_id": None}
    after = demo.tiles()
    assert after["Sent automatically"] == before["Sent automatically"] + (not drawn)
    assert after["Reviewed"] == before["Reviewed"] + 1


def test_a_port_in_use_is_one_line_and_no_training(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        process = subprocess.run(
            [SETWISE, "demo", "--port", port, "--data-dir", tmp_path / "data"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert process.returncode == 2
    assert process.stdout == ""
    line = f"setwise: cannot listen on 127.0.0.1 port {port}: Address already in use"
    assert process.stderr.splitlines() == [f"{line}; choose another --port"]
    assert not (tmp_path / "data").exists()


def test_an_unusable_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    process = subprocess.run(
        [SETWISE, "demo", "--port", "0", "--data-dir", tmp_path / "file"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert process.returncode == 2
    assert len(process.stderr.splitlines()) == 1
    assert str(tmp_path / "file") in process.stderr
