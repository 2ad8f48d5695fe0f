"""``doctor``: each fault is found, named and answered with what to do."""

import base64
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import httpx
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from sqlalchemy import text

from setwise.service.cli import doctor, reachability
from setwise.service.domain.labels import UNNAMED
from setwise.service.domain.predictions import Decision
from setwise.service.stores import database as engines
from setwise.service.stores.transaction import Transactions
from tests import identity_provider
from tests.cli import running
from tests.cli.installation import fill
from tests.kit.databases import template
from tests.samples import add_predictions, outcome, prediction, trip_breaker
from tests.trained import Artifacts


@pytest.fixture(scope="module")
def sound(artifacts: Artifacts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a database and the data of a sound installation, which tests copy."""
    folder = tmp_path_factory.mktemp("sound")
    shutil.copyfile(template(), folder / "setwise.db")
    fill(folder / "data", f"sqlite:///{folder / 'setwise.db'}", artifacts.text)
    return folder


@pytest.fixture
def folder(tmp_path: Path, sqlite_url: str, sound: Path) -> Path:
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    for name in [name for name in os.environ if name.startswith("SETWISE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SETWISE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("SETWISE_DATABASE_URL", sqlite_url)


def examined(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, str]]]:
    capsys.readouterr()
    count = running.status("doctor", "--json")
    body = json.loads(capsys.readouterr().out)
    assert body["ok"] is (count == 0)
    return count, {check["check"]: check for check in body["checks"]}


def test_a_sound_installation_is_found_sound(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, checks = examined(capsys)
    assert {check["verdict"] for check in checks.values()} <= {"ok", "warning"}, checks
    assert status == 0
    assert list(checks) == [
        "settings", "disk", "database", "migrations", "clock", "model", "keys", "pepper",
        "encryption", "breaker", "labels", "jobs", "deliveries",
    ]  # fmt: skip
    running.status("doctor")
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith(("ok", "warning", " ")) for line in lines)


def _no_artifacts(data: Path, url: str) -> None:
    shutil.rmtree(data / "artifacts")


def _damaged_artifact(data: Path, url: str) -> None:
    files = [path for path in (data / "artifacts").rglob("*") if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)


def _open_pepper(data: Path, url: str) -> None:
    (data / "pepper").chmod(0o644)


def _no_pepper(data: Path, url: str) -> None:
    (data / "pepper").unlink()


def _newer(data: Path, url: str) -> None:
    _change(url, "UPDATE alembic_version SET version_num = '9999'")


def _vanished(data: Path, url: str) -> None:
    Path(url.removeprefix("sqlite:///")).unlink()


def _no_database(data: Path, url: str) -> None:
    Path(url.removeprefix("sqlite:///")).write_bytes(b"no database" * 1000)


def _buried_sealed_value(data: Path, url: str) -> None:
    """Store a sealed value before more others than a server looks at when it starts."""
    _change(
        url,
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)"
        "INSERT INTO webhook_endpoints (id, url, description, events, secrets, version, created_at,"
        " deleted_at) SELECT printf('019b7a0b-0000-7000-8000-%012d', i), 'https://x', '', '[]',"
        " CASE i WHEN 0 THEN '\"sw1:0a1b2c3d:AAAA\"' ELSE '[]' END, 1,"
        " '2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000' FROM n",
    )


def _overdue(data: Path, url: str) -> None:
    _change(
        url,
        "INSERT INTO jobs (id, kind, payload, state, progress, message, attempt, token, due_at,"
        " created_at) VALUES ('019b7a0b-0000-7000-8000-00000000ffff', 'x', '{}', 'queued', 0, '',"
        " 0, 0, '2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000')",
    )


def _refusing_webhook(data: Path, url: str) -> None:
    # Without the driver's checks, so that the delivery needs neither message nor webhook.
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute(
            "INSERT INTO deliveries (id, message_ordinal, endpoint_id, document_key, state,"
            " attempt, token, due_at, created_at) VALUES ('019b7a0b-0000-7000-8000-00000000fffe',"
            " 1, 'x', 'd', 'pending', 1, 1, '2999-01-01 00:00:00.000000',"
            " '2026-01-01 00:00:00.000000')"
        )


def _revoked(data: Path, url: str) -> None:
    _change(url, "UPDATE api_keys SET revoked_at = '2026-01-01 00:00:00.000000'")


def _sealed(data: Path, url: str) -> None:
    _change(url, "INSERT INTO encryption_keys VALUES ('0a1b2c3d', '2026-01-01 00:00:00.000000')")


def _plain(data: Path, url: str) -> None:
    engine = engines.create(url)
    with Transactions(engine)() as transaction:
        add_predictions(transaction, prediction())
    engine.dispose()


def test_plain_content_beside_a_key_is_a_fault(
    folder: Path,
    sqlite_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _plain(folder, sqlite_url)
    monkeypatch.setenv("SETWISE_ENCRYPTION_KEYS", base64.b64encode(bytes(32)).decode())
    encryption = examined(capsys)[1]["encryption"]
    assert encryption["verdict"] == "fault"
    assert "without encryption" in encryption["seen"]
    assert "unset SETWISE_ENCRYPTION_KEYS" in encryption["cure"]


def _tripped(data: Path, url: str) -> None:
    engine = engines.create(url)
    with Transactions(engine)() as transaction:
        trip_breaker(transaction)
    engine.dispose()


def _beyond(data: Path, url: str) -> None:
    engine = engines.create(url)
    sent_prediction = prediction(decision=Decision.AUTO)
    with Transactions(engine)() as transaction:
        add_predictions(transaction, sent_prediction)
        transaction.outcomes.add(outcome(sent_prediction, UNNAMED))
    engine.dispose()


def _from_the_future(data: Path, url: str) -> None:
    _change(
        url,
        "INSERT INTO audit_events (id, at, actor_id, actor_name, action, subject, detail) VALUES"
        " ('f19b7a0b-0000-7000-8000-00000000ffff', '2126-01-01 00:00:00.000000', 'x', 'x', 'x',"
        " 'x', '{}')",
    )


def _change(url: str, statement: str) -> None:
    engine = engines.create(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


@pytest.mark.parametrize(
    ("damage", "check", "verdict", "cure"),
    [
        (_no_artifacts, "model", "fault", "setwise model add"),
        (_damaged_artifact, "model", "fault", "restore a backup"),
        (_open_pepper, "pepper", "fault", "chmod 600"),
        (_no_pepper, "pepper", "fault", "SETWISE_PEPPER"),
        (_newer, "migrations", "fault", "install the release"),
        (_vanished, "migrations", "fault", "setwise db upgrade"),
        (_no_database, "database", "fault", "SETWISE_DATABASE_URL"),
        (_overdue, "jobs", "warning", "is a worker running?"),
        (_refusing_webhook, "deliveries", "warning", "GET /v1/admin/deliveries"),
        (_revoked, "keys", "warning", "setwise key create --role admin"),
        (_from_the_future, "clock", "warning", "NTP"),
        (_tripped, "breaker", "warning", "GET /v1/admin/breaker"),
        (_beyond, "labels", "warning", "POST /v1/admin/models/retrain"),
        (_buried_sealed_value, "encryption", "fault", "setwise db reencrypt"),
        (_sealed, "encryption", "fault", "SETWISE_ENCRYPTION_KEYS"),
    ],
)
def test_each_fault_is_named_with_its_cure(
    folder: Path,
    sqlite_url: str,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path, str], None],
    check: str,
    verdict: str,
    cure: str,
) -> None:
    damage(folder, sqlite_url)
    status, checks = examined(capsys)
    found = checks[check]
    assert found["verdict"] == verdict, checks
    assert cure in found["cure"]
    assert status == (1 if verdict == "fault" else 0)
    assert not (folder / "pepper").exists() or damage is not _no_pepper  # no new one is made


def test_a_full_disk_is_foreseen(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LITTLE_FREE_BYTES", 1 << 60)
    assert examined(capsys)[1]["disk"]["verdict"] == "warning"
    usage = SimpleNamespace(total=1 << 62, free=1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    status, checks = examined(capsys)
    assert (status, checks["disk"]["verdict"]) == (1, "fault")


def test_settings_that_are_none_or_wrong_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SETWISE_DATABSE_URL", "sqlite:///secret")
    monkeypatch.setenv("SETWISE_LEASE_S", "soon")
    assert running.status("doctor") == 1
    out = capsys.readouterr().out
    assert "is `SETWISE_DATABASE_URL` meant?" in out
    assert "SETWISE_LEASE_S" in out
    assert "secret" not in out


def test_a_server_elsewhere_that_is_down_is_named_without_its_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SETWISE_DATABASE_URL", "postgresql://setwise:hunter2@127.0.0.1:1/x")
    status, checks = examined(capsys)
    assert status == 1
    assert checks["database"]["verdict"] == "fault"
    assert "hunter2" not in json.dumps(checks)


def test_an_installation_on_postgresql_is_examined_too(
    tmp_path: Path,
    postgres_url: str,
    artifacts: Artifacts,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SETWISE_DATABASE_URL", postgres_url)
    fill(tmp_path / "data", postgres_url, artifacts.text)
    status, checks = examined(capsys)
    assert status == 0, checks
    assert "postgresql" in checks["database"]["seen"]


# --- what the service reaches over the network --------------------------------------------------


def test_a_provider_of_identities_is_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SETWISE_OIDC_CLIENT_ID", "setwise")
    monkeypatch.setenv("SETWISE_OIDC_ROLES", "coders=reviewer")
    with identity_provider.running() as provider:
        monkeypatch.setenv("SETWISE_OIDC_ISSUER", provider.issuer)
        status, checks = examined(capsys)
        assert checks["sign-in"]["verdict"] == "fault"
        assert "SETWISE_PUBLIC_URL: is needed" in checks["sign-in"]["seen"]
        monkeypatch.setenv("SETWISE_PUBLIC_URL", "https://setwise.example")
        assert examined(capsys)[1]["sign-in"]["verdict"] == "ok"
        provider.broken = True
        status, checks = examined(capsys)
    assert (status, checks["sign-in"]["verdict"]) == (1, "fault")
    assert "SETWISE_OIDC_ISSUER" in checks["sign-in"]["cure"]


def test_a_collector_of_spans_is_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = []

    def post(address: str, **_: object) -> httpx.Response:
        assert address == "http://collector:4318/v1/traces"
        if not statuses:
            raise httpx.ConnectError("refused")
        return httpx.Response(statuses.pop())

    monkeypatch.setattr(httpx, "post", post)
    monkeypatch.setenv("SETWISE_OTLP_ENDPOINT", "http://collector:4318/")
    status, checks = examined(capsys)
    assert (status, checks["traces"]["verdict"]) == (0, "warning")
    assert "does not answer (ConnectError)" in checks["traces"]["seen"]
    statuses.append(404)
    assert "answers 404" in examined(capsys)[1]["traces"]["seen"]
    statuses.append(200)
    assert examined(capsys)[1]["traces"]["verdict"] == "ok"


def test_an_object_store_is_written_and_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SETWISE_FILES_URL", "memory://doctor/files")
    assert examined(capsys)[1]["store"]["verdict"] == "ok"
    assert not MemoryFileSystem().find("/doctor")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(MemoryFileSystem, "_open", refused)
    status, checks = examined(capsys)
    assert (status, checks["store"]["verdict"]) == (1, "fault")
    assert "Access Denied" in checks["store"]["seen"]
    assert "SETWISE_FILES_URL" in checks["store"]["cure"]


def test_a_store_that_never_answers_is_not_waited_for(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = Event()
    monkeypatch.setenv("SETWISE_FILES_URL", "memory://doctor/files")
    monkeypatch.setattr(MemoryFileSystem, "_open", lambda *_, **__: given_up.wait())
    monkeypatch.setattr(reachability, "_LONGEST_CHECK_S", 0.1)
    status, checks = examined(capsys)
    given_up.set()
    assert (status, checks["store"]["verdict"]) == (1, "fault")
    assert "has not answered within" in checks["store"]["seen"]
