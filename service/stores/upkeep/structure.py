"""Compares the structure of a database with what the migrations make.

Triggers keep history, and one that somebody added could change rows on the way: neither may differ.
"""

import tempfile
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Engine, text

from setwise.service.stores.database import READ_ONLY, create
from setwise.service.stores.upkeep import migrate
from setwise.service.stores.upkeep.addresses import sqlite_url
from setwise.service.stores.upkeep.revisions import revision_of

_SHOWN = 3
"""Differences that a message names."""

_STATISTICS = "sqlite_sequence", "sqlite_stat1", "sqlite_stat4"
"""Tables that SQLite makes by itself, as it is used."""

_SCHEMA, _SCRATCH = "public", "setwise_structure"

_POSTGRES = (
    """SELECT 'table', table_name::text, table_name::text, table_type::text
       FROM information_schema.tables WHERE table_schema = :schema""",
    """SELECT 'column', table_name::text, column_name::text,
         concat_ws(' ', data_type, is_nullable, column_default, is_identity, is_generated)
       FROM information_schema.columns WHERE table_schema = :schema""",
    """SELECT 'constraint', conrelid::regclass::text, conname::text,
         concat_ws(' ', pg_get_constraintdef(oid), contype, condeferrable, convalidated)
       FROM pg_constraint WHERE connamespace = to_regnamespace(:schema)""",
    """SELECT 'index', tablename::text, indexname::text, indexdef
       FROM pg_indexes WHERE schemaname = :schema""",
    """SELECT 'trigger', c.relname::text, tgname::text,
         concat_ws(' ', tgenabled, pg_get_triggerdef(t.oid))
       FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
       WHERE NOT tgisinternal AND relnamespace = to_regnamespace(:schema)""",
    """SELECT 'function', '', proname::text, pg_get_functiondef(oid)
       FROM pg_proc WHERE prokind IN ('f', 'p') AND pronamespace = to_regnamespace(:schema)""",
    """SELECT 'rule', tablename::text, rulename::text, definition
       FROM pg_rules WHERE schemaname = :schema""",
    """SELECT 'policy', tablename::text, policyname::text, concat_ws(' ', cmd, qual, with_check)
       FROM pg_policies WHERE schemaname = :schema""",
)


class StructurePart(NamedTuple):
    """A part of a database's structure."""

    kind: str
    table: str
    name: str
    definition: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" of {self.table}" if self.table != self.name else "")


def parts(connection: Connection, schema: str = _SCHEMA) -> frozenset[StructurePart]:
    """Return what the database itself says of its tables, indexes, constraints and triggers."""
    if connection.dialect.name == "sqlite":
        rows = connection.execute(text("SELECT type, tbl_name, name, sql FROM sqlite_master"))
        return frozenset(
            StructurePart(kind, table, name, sql or "")
            for kind, table, name, sql in rows
            if name not in _STATISTICS
        )
    # On the path, so that definitions do not name the schema, or name it in one way.
    connection.execute(text(f"SET LOCAL search_path TO {schema}"))
    return frozenset(
        StructurePart(*(str(field).replace(f"{schema}.", "") for field in row))
        for query in _POSTGRES
        for row in connection.execute(text(query), {"schema": schema})
    )


def check_role(engine: Engine) -> None:
    """Raise `Incomparable` if this role of PostgreSQL may not make a schema to compare with."""
    if engine.dialect.name != "postgresql":
        return
    query = "SELECT has_database_privilege(current_database(), 'CREATE')"
    with engine.connect().execution_options(**{READ_ONLY: True}) as connection:
        if not connection.execute(text(query)).scalar_one():
            raise Incomparable(
                "to compare the database's structure takes its owner, or GRANT CREATE ON DATABASE"
            )


def refuse_foreign(engine: Engine) -> None:
    """Raise `ValueError` if the structure is not what the migrations up to its revision make.

    Raises `Incomparable` if this role of PostgreSQL may not make a schema to compare with.
    """
    check_role(engine)
    with engine.connect().execution_options(**{READ_ONLY: True}) as connection:
        revision = revision_of(connection)
        if revision is None:
            raise ValueError("the database is empty")
        present = parts(connection)
        connection.rollback()
        made = _made(engine, revision)
    faults = [f"{part} was added" for part in _beyond(present, made)]
    faults += [f"{part} is missing" for part in _beyond(made, present)]
    names = {part[:3] for part in present} & {part[:3] for part in made}
    faults += [f"{part} was changed" for part in sorted(made - present) if part[:3] in names]
    if faults:
        more = ", …" if len(faults) > _SHOWN else ""
        named = ", ".join(faults[:_SHOWN])
        raise ValueError(f"its structure is not what the migrations make: {named}{more}")


class Incomparable(ValueError):
    """The role may not make what the database would be compared with."""


def _beyond(
    some: frozenset[StructurePart], others: frozenset[StructurePart]
) -> list[StructurePart]:
    names = {part[:3] for part in others}
    return sorted(part for part in some if part[:3] not in names)


def _made(engine: Engine, revision: str) -> frozenset[StructurePart]:
    """Return what the migrations up to a revision make of an empty database."""
    if engine.dialect.name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            scratch = create(sqlite_url(Path(folder) / "scratch.db"))
            try:
                migrate.upgrade(scratch, revision)
                with scratch.connect() as connection:
                    return parts(connection)
            finally:
                scratch.dispose()
    with engine.connect() as connection:
        connection.execute(text(f"CREATE SCHEMA {_SCRATCH}"))
        connection.execute(text(f"SET LOCAL search_path TO {_SCRATCH}"))
        migrate.upgrade_in(connection, revision)
        made = parts(connection, _SCRATCH)
        connection.rollback()
    return made
