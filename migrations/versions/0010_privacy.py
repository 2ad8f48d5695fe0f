"""Texts can be taken away or encrypted, and nothing else of what is history.

Revision: 0010, after 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# How a column of history may change: what is written there must fit this condition.
MAY_BECOME = {
    "predictions": {
        "text": "NEW.text IS NULL OR NEW.text LIKE 'sw1:%'",
        "features": "NEW.features IS NULL OR CAST(NEW.features AS TEXT) LIKE '\"sw1:%'",
        "metadata": "CAST(NEW.metadata AS TEXT) = '{}'"
        " OR CAST(NEW.metadata AS TEXT) LIKE '\"sw1:%'",
        "document_id": "NEW.document_id IS NULL",
        "purged_at": "OLD.purged_at IS NULL AND NEW.purged_at IS NOT NULL",
    },
    "annotations": {"comment": "NEW.comment IS NULL OR NEW.comment LIKE 'sw1:%'"},
}
REFUSAL = "rows of {} are history: they are never changed or deleted"


def upgrade() -> None:
    op.create_table(
        "encryption_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("first_used_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_encryption_keys")),
    )
    op.add_column("predictions", sa.Column("purged_at", sa.DateTime(timezone=True)))
    for table, conditions in MAY_BECOME.items():
        _drop(table, "rows")
        columns = [column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)]
        fixed = [f'"{name}"' for name in columns if name not in conditions]
        _refuse(table, "rows", f"UPDATE OF {', '.join(fixed)}")
        for column, condition in conditions.items():
            _refuse(table, column, f'UPDATE OF "{column}"', f"WHEN (NOT ({condition}))")
        if op.get_bind().dialect.name == "postgresql":
            _refuse(table, "delete", "DELETE")


def downgrade() -> None:
    for table, conditions in MAY_BECOME.items():
        for name in ("rows", *conditions):
            _drop(table, name)
        if op.get_bind().dialect.name == "postgresql":
            _drop(table, "delete")
    op.drop_column("predictions", "purged_at")
    for table in MAY_BECOME:
        change = "UPDATE OR DELETE" if op.get_bind().dialect.name == "postgresql" else "UPDATE"
        _refuse(table, "rows", change)
    op.drop_table("encryption_keys")


def _drop(table: str, name: str) -> None:
    place = f" ON {table}" if op.get_bind().dialect.name == "postgresql" else ""
    op.execute(f"DROP TRIGGER {table}_keep_{name}{place}")


def _refuse(table: str, name: str, change: str, condition: str = "") -> None:
    if op.get_bind().dialect.name == "postgresql":
        action = "EXECUTE FUNCTION setwise_refuse_change()"
    else:
        action = f"BEGIN SELECT RAISE(ABORT, '{REFUSAL.format(table)}'); END"
    op.execute(
        f"CREATE TRIGGER {table}_keep_{name} BEFORE {change} ON {table} FOR EACH ROW "
        f"{condition} {action}"
    )
