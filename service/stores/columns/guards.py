"""Statements that create what tables cannot say, such as triggers that keep history."""

from typing import Literal

from sqlalchemy import DDL, MetaData, Table, event

CHANGEABLE = "changeable"
"""Key of a table's ``info`` if its rows are history: the columns that may change nevertheless."""

_REFUSAL = """
    CREATE FUNCTION setwise_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'rows of % are history: they are never changed or deleted',
            TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END $$
"""


def create_with(
    target: Table | MetaData,
    dialect: Literal["sqlite", "postgresql"],
    statement: str,
    when: Literal["before_create", "after_create"] = "after_create",
) -> None:
    """Run a statement when a table, or all of them, are created on one of the databases."""
    ddl = DDL(statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(target, when, ddl.execute_if(dialect=dialect))


def allow_history(metadata: MetaData) -> None:
    """Create what PostgreSQL's triggers call."""
    create_with(metadata, "postgresql", _REFUSAL, "before_create")


def keep_history(table: Table, **changeable: str) -> None:
    """Make the database refuse to change or delete rows.

    ``changeable``: Conditions on which columns may change nevertheless.
    """
    table.info[CHANGEABLE] = tuple(changeable)
    fixed = ", ".join(f'"{name}"' for name in table.c.keys() if name not in changeable)  # noqa: SIM118 -- no dict
    refuse(table, "rows", f"UPDATE OF {fixed}" if changeable else "UPDATE")
    for name, condition in changeable.items():
        refuse(table, name, f'UPDATE OF "{name}"', f"NOT ({condition})")
    keep_rows(table)


def keep_rows(table: Table) -> None:
    """Refuse to delete rows."""
    refuse(table, "delete", "DELETE")
    create_with(table, "postgresql", _trigger(table, "truncate", "TRUNCATE", "STATEMENT") + _CALL)


def refuse(table: Table, name: str, change: str, condition: str = "TRUE") -> None:
    """Refuse a change of rows on a condition, in the trigger ``<table>_keep_<name>``."""
    trigger = _trigger(table, name, change, f"ROW WHEN ({condition})")
    refusal = f"rows of {table.name} are history: they are never changed or deleted"
    create_with(table, "sqlite", f"{trigger} BEGIN SELECT RAISE(ABORT, '{refusal}'); END")
    create_with(table, "postgresql", trigger + _CALL)


_CALL = " EXECUTE FUNCTION setwise_refuse_change()"


def _trigger(table: Table, name: str, change: str, level: str) -> str:
    place = f"BEFORE {change} ON {table.name}"
    return f"CREATE TRIGGER {table.name}_keep_{name} {place} FOR EACH {level}"
