"""What people write goes nowhere but into the database, and there encrypted."""

import base64
import re
import subprocess
from pathlib import Path

import httpx
import psycopg
import pytest
from sqlalchemy import make_url

from setwise.service.domain.callers import SYSTEM, Role
from tests.edge import PASSWORD
from tests.system.conftest import ON_POSTGRES, PATIENCE_S, SETWISE, Installation, Server

pytestmark = pytest.mark.system

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
    installation.application.services.people.create(
        SYSTEM, login="ann", name="Ann", role=Role.REVIEWER, password=PASSWORD
    )
    return installation


def write_everywhere(server: Server) -> None:
    """Let clients, reviewers and people say the words wherever one can say something."""
    with server.client("client") as client:
        for number in range(3):
            document = {"id": f"note-{number}", "text": TEXT}
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
        broken = client.post(
            "/v1/predictions", content=b'{"quuxword', headers={"Content-Type": "application/json"}
        )
        assert broken.status_code == 422
        assert client.get("/v1/predictions", params={"document_id": "quuxword"}).status_code == 200
    with server.client("reviewer") as reviewer:
        task = reviewer.post("/v1/reviews/claim").json()
        skipped = reviewer.post(f"/v1/reviews/{task['id']}/skip", json={"reason": "quuxreason"})
        assert skipped.status_code in {200, 204}
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
            signed = browser.post("/login", data=fields)
        assert signed.status_code == 303


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


def test_no_word_is_logged_counted_or_left_lying(encrypted: Installation) -> None:
    server = encrypted.serve()
    write_everywhere(server)
    with server.client() as client:
        metrics = client.get("/metrics").text
    server.stop()
    log = server.log.read_text()
    assert log.count('"request"') >= 12
    assert "setwise_requests_total" in metrics
    held = stored(encrypted)
    assert b"sw1:" in held
    for word in WORDS:
        assert word not in log
        assert word not in metrics
        assert word.encode() not in held


def run(installation: Installation, *arguments: str, **settings: str) -> tuple[int, str]:
    done = subprocess.run(
        [SETWISE, *arguments],
        env=installation.environment() | {"SETWISE_LOG_LEVEL": "info"} | settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        cwd=installation.folder,
    )
    return done.returncode, done.stdout + done.stderr


@ON_POSTGRES
def test_without_its_key_a_server_does_not_start_and_keys_can_be_changed(
    encrypted: Installation,
) -> None:
    server = encrypted.serve()
    write_everywhere(server)
    server.stop()
    for keys in ("", OTHER):
        status, said = run(encrypted, "serve", "--port", "0", SETWISE_ENCRYPTION_KEYS=keys)
        assert status == 2
        assert said.startswith("setwise: SETWISE_ENCRYPTION_KEYS: ")
        assert len(said.splitlines()) == 1
    both = f"{OTHER},{KEY}"
    status, said = run(encrypted, "db", "reencrypt", SETWISE_ENCRYPTION_KEYS=both)
    assert status == 0, said
    assert "re-encrypted; no other key is needed any more" in said
    assert run(encrypted, "person", "list", SETWISE_ENCRYPTION_KEYS=OTHER)[0] == 0
    assert run(encrypted, "person", "list", SETWISE_ENCRYPTION_KEYS=KEY)[0] == 2
    status, said = run(encrypted, "text", "erase", "note-1", SETWISE_ENCRYPTION_KEYS=OTHER)
    assert status == 0
    assert said.startswith("erased from 1 prediction; ")
    assert run(encrypted, "text", "purge", SETWISE_ENCRYPTION_KEYS=OTHER)[0] == 0
