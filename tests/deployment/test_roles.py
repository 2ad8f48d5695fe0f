"""The Compose file's two roles, on a real PostgreSQL: one migrates, the other runs the service."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url, text
from sqlalchemy.exc import ProgrammingError

from setwise.service.stores.database import create
from tests.cli.installation import fill
from tests.cli.running import status
from tests.trained import Artifacts

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "it's a secret"


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return found


@pytest.fixture
def owner(empty_postgres_url: str) -> Iterator[str]:
    yield empty_postgres_url
    engine = create(empty_postgres_url)
    with engine.begin() as connection:
        connection.execute(text("DROP OWNED BY setwise_service"))
        connection.execute(text("DROP ROLE setwise_service"))
    engine.dispose()


def make_roles(owner: str) -> None:
    if shutil.which("psql") is None:
        message = "no psql to run docker/roles.sql with: apt-get install postgresql-client"
        # The build server sets it, so that a missing psql fails there.
        if os.environ.get("SETWISE_REQUIRE_POSTGRES"):
            pytest.fail(message)
        pytest.skip(message)
    url = make_url(owner)
    environment = {
        "PATH": os.environ["PATH"],
        "PGHOST": str(url.host),
        "PGPORT": str(url.port),
        "PGUSER": str(url.username),
        "PGDATABASE": str(url.database),
        "PGPASSWORD": url.password or "",
        "POSTGRES_SERVICE_PASSWORD": PASSWORD,
    }
    command = ["psql", f"--file={ROOT / 'docker' / 'roles.sql'}", "--quiet"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")


def test_the_service_works_as_a_role_that_cannot_rewrite_history(
    services: dict[str, Any],
    owner: str,
    artifacts: Artifacts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_roles(owner)
    make_roles(owner)  # at each start
    url = make_url(owner)
    users = {}
    for name in ("migrate", "api", "worker"):
        SETWISE_DATABASE_URL = services[name]["environment"]["SETWISE_DATABASE_URL"]
        users[name] = SETWISE_DATABASE_URL.partition("://")[2].partition(":")[0]
    assert users == {"migrate": url.username, "api": "setwise_service", "worker": "setwise_service"}
    app_user = services["migrate"]["environment"]["SETWISE_DATABASE_APP_USER"]
    assert app_user == users["api"]

    def run(url: str, *arguments: str, **settings: str) -> object:
        monkeypatch.setenv("SETWISE_DATA_DIR", str(tmp_path / "data"))
        monkeypatch.setenv("SETWISE_DATABASE_URL", url)
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        return status(*arguments)

    assert run(owner, *services["migrate"]["command"], SETWISE_DATABASE_APP_USER=app_user) == 0
    service = url.set(username=app_user, password=PASSWORD).render_as_string(hide_password=False)
    fill(tmp_path / "data", service, artifacts.text)
    assert run(service, "doctor") == 0
    engine = create(service)
    with engine.connect() as connection:
        rights = "SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles WHERE rolname = :n"
        assert not connection.execute(text(rights), {"n": app_user}).scalar_one()
    for statement in (
        "DELETE FROM audit_events",
        "UPDATE audit_events SET action = 'x'",
        "ALTER TABLE audit_events DISABLE TRIGGER USER",
        "TRUNCATE audit_events",
        "SET session_replication_role = replica",
    ):
        with engine.begin() as connection, pytest.raises(ProgrammingError, match=r"denied|owner"):
            connection.execute(text(statement))
    engine.dispose()
