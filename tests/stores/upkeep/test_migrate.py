"""Migrations: up, down, up again, by several processes at once, and equal to the tables."""

import multiprocessing
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import op
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.stores.database import create, sqlite_path
from setwise.service.stores.tables import WORDS, metadata
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.upkeep import migrate, revisions
from setwise.service.stores.upkeep.structure import parts
from tests.fakes import START
from tests.samples import add_predictions, model, prediction

HEAD = revisions.newest()


def table_names(engine: Engine) -> set[str]:
    """Return the names of the tables, without those of the index of words."""
    names = inspect(engine).get_table_names()
    return {name for name in names if _compared(name)} - {"alembic_version"}


def _compared(name: str | None, *_: object) -> bool:
    return not str(name).startswith(WORDS)


def structure(engine: Engine) -> list[tuple[object, ...]]:
    """Return what the database itself says of its tables, indexes, constraints and triggers."""
    with engine.connect() as connection:
        found_parts = [part for part in parts(connection) if part.table != "alembic_version"]
    # On SQLite words alone: a script writes checks of a column at the end of its table, and SQLite
    # quotes the names of tables that were rebuilt.
    return sorted(
        (*part[:3], sorted(part.definition.replace(",", " ").replace('"', "").split()))
        for part in found_parts
    )


def test_an_empty_database_is_brought_to_the_newest_version(empty_engine: Engine) -> None:
    assert revisions.check(empty_engine) == revisions.Status(current=None, head=HEAD)
    assert not revisions.check(empty_engine).ok
    assert migrate.upgrade(empty_engine) == revisions.Status(current=HEAD, head=HEAD)
    assert revisions.check(empty_engine).ok
    assert table_names(empty_engine) == set(metadata.tables)


def test_looking_at_a_database_that_is_not_there_does_not_make_it(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    assert revisions.current(create(f"sqlite:///{path}")) is None
    assert not path.exists()


def test_down_to_nothing_and_up_again(empty_engine: Engine) -> None:
    migrate.upgrade(empty_engine)
    before = structure(empty_engine)
    assert migrate.downgrade(empty_engine, "base") == revisions.Status(None, HEAD)
    assert structure(empty_engine) == []
    migrate.upgrade(empty_engine)
    assert structure(empty_engine) == before
    with Transactions(empty_engine)() as transaction:
        add_predictions(transaction, prediction())


def test_an_upgrade_of_a_current_database_changes_nothing(engine: Engine) -> None:
    before = structure(engine)
    assert migrate.upgrade(engine).ok
    assert structure(engine) == before


def test_migrations_build_what_the_tables_say(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                "include_name": _compared,
            },
        )
        assert compare_metadata(context, metadata) == []


def test_migrations_build_checks_partial_indexes_and_guards_too(empty_engine: Engine) -> None:
    """Alembic's comparison sees none of them, so ask the database what it made of all."""
    migrate.upgrade(empty_engine)
    migrated = structure(empty_engine)
    migrate.downgrade(empty_engine, "base")
    metadata.create_all(empty_engine)
    assert migrated == structure(empty_engine)


def test_one_chain_of_migrations_leads_to_the_head() -> None:
    scripts = ScriptDirectory(str(revisions.FOLDER))
    assert scripts.get_bases() == ["0001"]
    assert scripts.get_heads() == [HEAD]
    in_order = reversed(list(scripts.walk_revisions()))
    assert revisions._revisions() == tuple(script.revision for script in in_order)


@pytest.mark.parametrize("revision", ["nonsense", "0000"])
def test_an_unknown_version_is_refused_and_nothing_changes(engine: Engine, revision: str) -> None:
    before = structure(engine)
    for step in (migrate.upgrade, migrate.downgrade):
        with pytest.raises(ValueError, match=revision):
            step(engine, revision)
    assert structure(engine) == before


def test_a_migration_that_fails_half_way_leaves_nothing_behind(
    empty_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    create_table = op.create_table

    def fail_later(name: str, *columns: object, **options: object) -> object:
        if len(made) == 6:
            raise ZeroDivisionError
        made.append(name)
        return create_table(name, *columns, **options)

    with monkeypatch.context() as patch:
        patch.setattr(op, "create_table", fail_later)
        with pytest.raises(ZeroDivisionError):
            migrate.upgrade(empty_engine)
    assert len(made) == 6
    assert revisions.current(empty_engine) is None
    assert table_names(empty_engine) == set()
    assert migrate.upgrade(empty_engine).ok


def test_many_threads_may_migrate_at_once(empty_engine: Engine) -> None:
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(migrate.upgrade, empty_engine) for _ in range(4)]
    assert all(call.result().ok for call in calls)


def _upgrade(url: str) -> bool:
    return migrate.upgrade(create(url)).ok


@pytest.mark.verify  # threads are its twin
@pytest.mark.slow
def test_several_processes_may_migrate_at_once(empty_database_url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map(_upgrade, [empty_database_url] * 3) == [True] * 3


def test_a_second_migration_waits_and_gives_up_with_a_reason(
    empty_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "_PATIENCE_S", 1)
    if empty_engine.dialect.name == "sqlite":
        sqlite_path(empty_engine).touch()
    with migrate._alone(empty_engine), pytest.raises(StorageUnavailable):
        migrate.upgrade(empty_engine)
    assert migrate.upgrade(empty_engine).ok


def test_a_file_is_copied_before_it_is_taken_back(sqlite_url: str) -> None:
    engine = create(sqlite_url)
    new_prediction = prediction()
    with Transactions(engine)() as transaction:
        add_predictions(transaction, new_prediction)
    migrate.downgrade(engine, "base")
    copy = sqlite_path(engine).with_name(f"setwise.db.at-{HEAD}")
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT id FROM predictions").fetchall() == [(new_prediction.id,)]
    engine.dispose()


def test_pooled_connections_keep_their_settings_after_a_migration(sqlite_url: str) -> None:
    engine = create(sqlite_url)
    migrate.downgrade(engine, "base")
    migrate.upgrade(engine)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 5000
    engine.dispose()


def test_taking_back_a_database_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match="no database"):
        migrate.downgrade(create(f"sqlite:///{tmp_path / 'none.db'}"), "base")


def test_a_checkout_without_migrations_says_so(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revisions, "FOLDER", tmp_path)
    monkeypatch.setattr(revisions, "_revisions", revisions._revisions.__wrapped__)
    with pytest.raises(ValueError, match="no migrations in"):
        migrate.upgrade(engine)


def test_a_database_newer_than_the_code_is_left_alone(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    assert revisions.check(engine) == revisions.Status(current="9999", head=HEAD)
    for step in (migrate.upgrade, lambda it: migrate.downgrade(it, "base")):
        with pytest.raises(ValueError, match="9999, which this release does not know"):
            step(engine)
    assert table_names(engine) == set(metadata.tables)


NEXT = """
import sqlalchemy as sa
from alembic import op
revision, down_revision, branch_labels, depends_on = "9000", "{head}", None, None

def upgrade():
    {upgrade}

def downgrade():
    raise NotImplementedError  # the tests that add this migration only go up
"""


@pytest.fixture
def add_migration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], None]]:
    """Return what adds a migration, given its body, to a copy of the folder."""
    folder = tmp_path / "migrations"
    shutil.copytree(revisions.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(revisions, "FOLDER", folder)
    revisions._revisions.cache_clear()

    def add(upgrade: str) -> None:
        script = NEXT.format(head=HEAD, upgrade=upgrade)
        (folder / "versions" / "9000_next.py").write_text(script)

    yield add
    revisions._revisions.cache_clear()


REBUILD = """with op.batch_alter_table("models") as batch:
        batch.alter_column("location", nullable=True)
        batch.add_column(sa.Column("note", sa.Text))"""


def test_the_next_migration_finds_rows_and_references_as_they_were(
    engine: Engine, add_migration: Callable[[str], None]
) -> None:
    """On SQLite it drops and recreates ``models`` while activations refer to it."""
    registered_model = model()
    with Transactions(engine)() as transaction:
        transaction.models.add(registered_model)
        transaction.models.activate(registered_model.id, START, registered_model.id)
    add_migration(REBUILD)
    assert not revisions.check(engine).ok
    assert migrate.upgrade(engine).current == "9000"
    with Transactions(engine)() as transaction:
        assert transaction.models.active() == replace(registered_model, active=True)
    if engine.dialect.name == "sqlite":
        copy = create(f"sqlite:///{sqlite_path(engine)}.at-{HEAD}")
        assert revisions.current(copy) == HEAD
        assert "note" not in {column["name"] for column in inspect(copy).get_columns("models")}
        copy.dispose()


def test_a_migration_that_leaves_orphans_is_undone(
    engine: Engine, add_migration: Callable[[str], None]
) -> None:
    registered_model = model()
    with Transactions(engine)() as transaction:
        transaction.models.add(registered_model)
        transaction.models.activate(registered_model.id, START, registered_model.id)
    add_migration('op.execute("DELETE FROM models")')
    with pytest.raises((ValueError, IntegrityError), match="model_activations"):
        migrate.upgrade(engine)
    assert revisions.current(engine) == HEAD
    with Transactions(engine)() as transaction:
        assert transaction.models.all() == [replace(registered_model, active=True)]
