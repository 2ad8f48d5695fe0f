"""Remove the ids of documents from reports of calibrators, so that an erasure covers them.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

CALIBRATIONS = sa.table(
    "calibrations",
    sa.column("id", sa.String(length=36).with_variant(sa.UUID(as_uuid=False), "postgresql")),
    sa.column("report", sa.JSON(none_as_null=True)),
)
GUARD = "calibrations_keep_rows"


def upgrade() -> None:
    connection = op.get_bind()
    stored = connection.execute(sa.select(CALIBRATIONS.c.id, CALIBRATIONS.c.report)).all()
    changed = {id_: nameless for id_, report in stored if (nameless := _nameless(report)) != report}
    if not changed:
        return
    on_postgresql = connection.dialect.name == "postgresql"
    guard = "" if on_postgresql else _guard(connection)
    if on_postgresql:
        op.execute(f"ALTER TABLE calibrations DISABLE TRIGGER {GUARD}")
    else:
        op.execute(f"DROP TRIGGER {GUARD}")
    for id_, report in changed.items():
        connection.execute(
            sa.update(CALIBRATIONS).where(CALIBRATIONS.c.id == id_).values(report=report)
        )
    op.execute(f"ALTER TABLE calibrations ENABLE TRIGGER {GUARD}" if on_postgresql else guard)


def downgrade() -> None:
    """Leave the reports: nothing knows the ids any more."""


def _nameless(part: object) -> object:
    """Return a part of a report without the ids of documents."""
    if isinstance(part, dict):
        return {name: _nameless(value) for name, value in part.items() if name != "document_id"}
    if isinstance(part, list):
        return [_nameless(value) for value in part]
    return part


def _guard(connection: sa.Connection) -> str:
    query = sa.text("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = :name")
    return str(connection.execute(query, {"name": GUARD}).scalar_one())
