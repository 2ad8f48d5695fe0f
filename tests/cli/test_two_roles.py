"""A PostgreSQL whose tables belong to another role than the service: back up, restore, examine."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import ProgrammingError

from setwise.service.stores.database import create
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import migrate
from tests.cli.installation import fill
from tests.cli.running import facts, status
from tests.samples import add_predictions, prediction
from tests.trained import Artifacts


@dataclass
class Two:
    """A database of one role, in which another works."""

    owner: str
    app: str
    user: str
    environment: pytest.MonkeyPatch

    def run(self, url: str, *arguments: str, app_user: bool = False) -> int:
        self.environment.setenv("SETWISE_DATABASE_URL", url)
        self.environment.setenv("SETWISE_DATABASE_APP_USER", self.user if app_user else "")
        return status(*arguments)

    def content(self) -> dict[str, list[tuple[object, ...]]]:
        return facts(self.owner)


@pytest.fixture
def two(
    empty_postgres_url: str, tmp_path: Path, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Two]:
    monkeypatch.setenv("SETWISE_DATA_DIR", str(tmp_path / "data"))
    user = f"app-{uuid.uuid4().hex}"
    owner = create(empty_postgres_url)
    with owner.begin() as connection:
        connection.execute(text(f'CREATE ROLE "{user}" LOGIN'))
    fill(tmp_path / "data", empty_postgres_url, artifacts.text)
    migrate.upgrade(owner, app_user=user)
    app = make_url(empty_postgres_url).set(username=user).render_as_string(hide_password=False)
    yield Two(empty_postgres_url, app, user, monkeypatch)
    with owner.begin() as connection:
        connection.execute(text(f'DROP OWNED BY "{user}"'))
        connection.execute(text(f'DROP ROLE "{user}"'))
    owner.dispose()


def works_and_keeps_history(url: str) -> None:
    engine = create(url)
    try:
        with Transactions(engine)() as transaction:
            add_predictions(transaction, prediction())
        with engine.begin() as connection, pytest.raises(ProgrammingError, match="denied"):
            connection.execute(text("DELETE FROM audit_events"))
    finally:
        engine.dispose()


@pytest.mark.parametrize("emptied", [False, True])
def test_a_restored_database_holds_the_same_and_its_roles_keep_their_rights(
    two: Two, tmp_path: Path, emptied: bool
) -> None:
    archive = tmp_path / "monday.zip"
    assert two.run(two.owner, "backup", str(archive)) == 0
    before = two.content()
    engine = create(two.owner)
    with Transactions(engine)() as transaction:
        add_predictions(transaction, prediction())
    if emptied:
        migrate.downgrade(engine, "base")
    engine.dispose()
    arguments = ("restore", str(archive), *(() if emptied else ("--force",)))
    assert two.run(two.owner, *arguments, app_user=True) == 0
    assert two.content() == before
    works_and_keeps_history(two.app)
    assert two.run(two.app, "doctor") == 0


def test_a_role_without_rights_is_told_what_to_do(
    two: Two, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = create(two.owner)
    with engine.begin() as connection:
        connection.execute(text(f'REVOKE ALL ON ALL TABLES IN SCHEMA public FROM "{two.user}"'))
    assert two.run(two.app, "doctor", "--json") == 1
    by_check = {one["check"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert by_check["database"]["verdict"] == "fault"
    assert f"SETWISE_DATABASE_APP_USER={two.user}" in by_check["database"]["seen"]
    assert two.run(two.app, "key", "list") != 0
    err = capsys.readouterr().err
    assert "SETWISE_DATABASE_APP_USER" in err
    assert "Traceback" not in err
    with engine.begin() as connection:
        connection.execute(text(f'GRANT SELECT ON alembic_version TO "{two.user}"'))
    engine.dispose()
    assert two.run(two.app, "doctor", "--json") == 1
    by_check = {one["check"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert "permission denied for table jobs" in by_check["database"]["seen"]
    assert "SETWISE_DATABASE_APP_USER" in by_check["database"]["cure"]


def test_only_the_owner_of_the_tables_can_compare_their_structure(
    two: Two, capsys: pytest.CaptureFixture[str]
) -> None:
    assert two.run(two.owner, "db", "check") == 0
    assert capsys.readouterr().err == ""
    assert two.run(two.app, "db", "check") == 0
    assert "GRANT CREATE ON DATABASE" in capsys.readouterr().err
