"""Rights of the service's PostgreSQL role: only those that it needs.

The role that migrates owns the tables. The service runs as another role, which can neither alter
the tables nor disable their triggers, and cannot update or delete history. An attacker who takes
over the service therefore cannot rewrite the audit trail.
"""

from sqlalchemy import Connection, Engine, text

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.stores.columns.guards import CHANGEABLE
from setwise.service.stores.tables import metadata, searched_texts

HISTORY: dict[str, tuple[str, ...]] = {
    table.name: table.info[CHANGEABLE]
    for table in metadata.sorted_tables
    if CHANGEABLE in table.info
}
"""Tables whose rows are history, with the columns that may change nevertheless."""

NEVER_DELETED = ("review_tasks",)


def grant(connection: Connection, user: str) -> None:
    """Grant ``user`` the rights that the service needs, and revoke all others.

    Raises `ValueError` if the role does not exist, or the database is not PostgreSQL.

    ``connection``: A connection of the tables' owner, in a transaction.
    ``user``: An existing PostgreSQL role.
    """
    if connection.dialect.name != "postgresql":
        raise ValueError("SQLite has no users; triggers alone protect what is history there")
    role = connection.execute(
        text("SELECT 1 FROM pg_roles WHERE rolname = :name"), {"name": user}
    ).first()
    if role is None:
        raise ValueError(
            f"PostgreSQL has no role {user!r}; make it first: CREATE ROLE {user} LOGIN PASSWORD '…'"
        )
    quoted = connection.dialect.identifier_preparer.quote_identifier
    name = quoted(user)
    statements = [
        f"GRANT USAGE ON SCHEMA public TO {name}",
        f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {name}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {name}",
        f"GRANT SELECT ON alembic_version TO {name}",
        f"GRANT SELECT, INSERT, DELETE ON {searched_texts.name} TO {name}",
    ]
    for table in metadata.sorted_tables:
        rights = ["SELECT", "INSERT"]
        if table.name not in HISTORY:
            rights += ["UPDATE"] if table.name in NEVER_DELETED else ["UPDATE", "DELETE"]
        elif changeable := HISTORY[table.name]:
            rights.append(f"UPDATE ({', '.join(map(quoted, changeable))})")
        statements.append(f"GRANT {', '.join(rights)} ON {quoted(table.name)} TO {name}")
    for statement in statements:
        connection.execute(text(statement))


def lacking(engine: Engine) -> StorageUnavailable:
    """Return the error for a role that may not use the tables."""
    user = engine.url.username or "the service's role"
    return StorageUnavailable(
        f"PostgreSQL denies {user} the rights on the tables: run setwise db upgrade as their "
        f"owner, with SETWISE_DATABASE_APP_USER={user}."
    )
