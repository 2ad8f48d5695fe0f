"""The service's own user of PostgreSQL: it can do its work, and cannot rewrite history."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url, text
from sqlalchemy.exc import IntegrityError, ProgrammingError

from setwise.service.domain.audit_trail import AuditEvent
from setwise.service.domain.predictions import Document
from setwise.service.stores.database import create
from setwise.service.stores.tables import metadata
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import grants, migrate, revisions
from tests.fakes import START
from tests.samples import ANN, add_predictions, job, key, prediction, task

DENIED = "permission denied|must be owner"


@dataclass
class Split:
    """A database with an owner and an application's user."""

    owner: Engine
    app: Engine
    user: str


@pytest.fixture
def split(postgres_url: str) -> Iterator[Split]:
    owner = create(postgres_url)
    user = f"app-{uuid.uuid4().hex}"
    with owner.begin() as connection:
        connection.execute(text(f'CREATE ROLE "{user}" LOGIN'))
    migrate.upgrade(owner, app_user=user)
    url = make_url(postgres_url).set(username=user)
    app = create(url.render_as_string(hide_password=False))
    yield Split(owner, app, user)
    app.dispose()
    with owner.begin() as connection:
        connection.execute(text(f'DROP OWNED BY "{user}"'))
        connection.execute(text(f'DROP ROLE "{user}"'))
    owner.dispose()


def work(engine: Engine) -> str:
    """Do what the service does all day; returns the id of a prediction."""
    waiting = task()
    with Transactions(engine)() as transaction:
        transaction.keys.add(key())
        transaction.keys.revoke(key().id, START)
        add_predictions(transaction, waiting.prediction)
        transaction.reviews.add(waiting)
        transaction.reviews.next_for(ANN.id, START, escalated=False)
        transaction.audit_trail.add(AuditEvent.by(ANN, "x", "y", id=prediction().id, at=START))
        transaction.jobs.enqueue(job())
        transaction.texts.purge([waiting.prediction.id], START)
        transaction.texts.forget([waiting.prediction.id])
    return waiting.prediction.id


def test_the_service_can_do_its_work(split: Split) -> None:
    assert revisions.check(split.app).ok
    made = work(split.app)
    with Transactions(split.app)(read_only=True) as transaction:
        kept = transaction.predictions.get(made)
        assert kept is not None
        assert kept.document == Document()


@pytest.mark.parametrize("table", grants.HISTORY)
def test_the_service_has_no_right_to_rewrite_history(split: Split, table: str) -> None:
    work(split.app)
    column = next(iter(metadata.tables[table].columns)).name
    for statement in (
        f"UPDATE {table} SET {column} = {column}",
        f"DELETE FROM {table}",
        f"TRUNCATE {table}",
        f"ALTER TABLE {table} DISABLE TRIGGER ALL",
        f"DROP TABLE {table}",
        "DROP FUNCTION setwise_refuse_change() CASCADE",
        "SET session_replication_role = replica",
    ):
        with pytest.raises(ProgrammingError, match=DENIED), split.app.begin() as connection:
            connection.execute(text(statement))


def test_the_triggers_hold_the_owner_as_well(split: Split) -> None:
    work(split.app)
    with pytest.raises(IntegrityError, match="history"), split.owner.begin() as connection:
        connection.execute(text("UPDATE audit_events SET action = 'nothing'"))


def test_granting_again_changes_nothing_and_takes_other_rights_away(split: Split) -> None:
    with split.owner.begin() as connection:
        connection.execute(text(f'GRANT ALL ON audit_events TO "{split.user}"'))
    migrate.upgrade(split.owner, app_user=split.user)
    work(split.app)
    with pytest.raises(ProgrammingError, match=DENIED), split.app.begin() as connection:
        connection.execute(text("DELETE FROM audit_events"))


def test_every_table_whose_rows_never_change_is_history(split: Split) -> None:
    with split.owner.connect() as connection:
        guarded = connection.execute(
            text("SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname LIKE '%_keep_rows'")
        ).scalars()
        assert set(guarded) == set(grants.HISTORY)


def test_an_unknown_role_is_refused_and_nothing_is_migrated(empty_postgres_url: str) -> None:
    engine = create(empty_postgres_url)
    with pytest.raises(ValueError, match=r"no role 'nobody-at-all'.*CREATE ROLE"):
        migrate.upgrade(engine, app_user="nobody-at-all")
    assert revisions.current(engine) is None
    engine.dispose()


def test_sqlite_has_no_users(tmp_path: Path) -> None:
    engine = create(f"sqlite:///{tmp_path / 'x.db'}")
    with pytest.raises(ValueError, match="SQLite has no users"):
        migrate.upgrade(engine, app_user="app")
    engine.dispose()
