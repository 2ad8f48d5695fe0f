"""What people write goes nowhere but into the database, and there encrypted."""

import base64
import re
from pathlib import Path

import httpx
import psycopg
import pytest
from sqlalchemy import make_url

from setwise.service.domain.accounts.callers import SYSTEM, Role
from tests.cli.running import status
from tests.kit.edge import PASSWORD
from tests.kit.installation import PATIENCE_S, SQLITE_FIRST, Installation, Server

pytestmark = [SQLITE_FIRST, pytest.mark.system]

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(range(1, 33))).decode()

TEXT = "the quuxword judge said the verdict of the appeal"
WORDS = ("quuxword", "quuxmeta", "quuxcomment", "quuxreason", "quuxwrong", PASSWORD)


@pytest.fixture
def encrypted(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """Return an installation that encrypts, and logs all that it can."""
    plain = installation.environment()
    settings = plain | {"SETWISE_ENCRYPTION_KEYS": KEY, "SETWISE_LOG_LEVEL": "debug"}
    monkeypatch.setattr(installation, "environment", lambda: settings)
    installation.services.people.create(
        SYSTEM, login="ann", name="Ann", role=Role.REVIEWER, password=PASSWORD
    )
    return installation


def write_everywhere(server: Server) -> None:
    """Let clients, reviewers and people say the words wherever one can say something."""
    with server.client("client") as client:
        for number in range(3):
            document = {"id": f"note-{number}", "text": TEXT, "scores": {"court": 0.6}}
            body = {"document": document, "metadata": {"ward": "quuxmeta"}}
            assert client.post("/v1/predictions", json=body).status_code == 201
        # Refused in as many ways: what is wrong is told to the sender, not to the log.
        for bad in (
            {"document": {"text": TEXT, "features": {"quuxword": 1}}},
            {"document": {"text": TEXT + "\x00"}},
            {"quuxword": TEXT},
            {"document": {"text": TEXT}, "metadata": {"quuxmeta": "\x00"}},
        ):
            assert client.post("/v1/predictions", json=bad).status_code == 422
        response = client.post(
            "/v1/predictions", content=b'{"quuxword', headers={"Content-Type": "application/json"}
        )
        assert response.status_code == 422
        assert client.get("/v1/predictions", params={"document_id": "quuxword"}).status_code == 200
    with server.client("reviewer") as reviewer:
        task = reviewer.post("/v1/reviews/claim").json()
        skipped_response = reviewer.post(
            f"/v1/reviews/{task['id']}/skip", json={"reason": "quuxreason"}
        )
        assert skipped_response.status_code in {200, 204}
        task = reviewer.post("/v1/reviews/claim").json()
        done = reviewer.post(
            f"/v1/reviews/{task['id']}/complete",
            json={"labels": [], "comment": "quuxcomment"},
            headers={"If-Match": str(task["version"])},
        )
        assert done.status_code == 200
        assert task["document"]["text"] == TEXT
    with httpx.Client(base_url=server.url, timeout=PATIENCE_S, trust_env=False) as browser:
        for password in ("quuxwrong", PASSWORD):
            token = re.search(r'name="csrf" value="([^"]+)"', browser.get("/login").text)
            assert token
            fields = {"csrf": token[1], "login": "ann", "password": password}
            signed_response = browser.post("/login", data=fields)
        assert signed_response.status_code == 303


def stored(installation: Installation) -> bytes:
    """Return all that the database has written, as it lies on the disk or leaves the server."""
    url = make_url(installation.settings.database_url)
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "")
        return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()
        rows = [
            connection.execute(f'SELECT t::text FROM "{name}" t').fetchall() for (name,) in tables
        ]
    return repr(rows).encode()


def test_no_word_is_logged_counted_or_left_lying_and_keys_can_be_changed(
    encrypted: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One test, because each server takes seconds to start."""
    server = encrypted.serve()
    write_everywhere(server)
    with server.client() as client:
        metrics = client.get("/metrics").text
    server.stop()
    log = server.log.read_text()
    assert log.count('"request"') >= 12
    assert "setwise_requests_total" in metrics
    content = stored(encrypted)
    assert b"sw1:" in content
    for word in WORDS:
        assert word not in log
        assert word not in metrics
        assert word.encode() not in content
    for name, value in encrypted.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SETWISE_LOG_LEVEL", "info")  # a refusal is one line then
    without_its_key_a_server_does_not_start_and_keys_can_be_changed(monkeypatch, capsys)


def without_its_key_a_server_does_not_start_and_keys_can_be_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(keys: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setenv("SETWISE_ENCRYPTION_KEYS", keys)
        capsys.readouterr()
        count = status(*arguments)
        output = capsys.readouterr()
        return count, output.out + output.err

    for keys in ("", OTHER):
        count, message = run(keys, "serve", "--port", "0")
        assert count == 2
        assert message.startswith("setwise: SETWISE_ENCRYPTION_KEYS: ")
        assert len(message.splitlines()) == 1
    count, message = run(f"{OTHER},{KEY}", "db", "reencrypt")
    assert count == 0, message
    assert "re-encrypted; no other key is needed any more" in message
    assert run(OTHER, "person", "list")[0] == 0
    assert run(KEY, "person", "list")[0] == 2
    count, message = run(OTHER, "text", "erase", "note-1")
    assert count == 0
    assert message.startswith("erased from 1 prediction; ")
    assert run(OTHER, "text", "purge")[0] == 0
