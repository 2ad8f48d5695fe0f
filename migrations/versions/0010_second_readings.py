"""Store with an audit how probable a second reading was, and what was drawn.

Revision ID: 0010
Revises: 0009
"""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

COLUMNS = ("reread_rate", "reread_draw")


def upgrade() -> None:
    """Add the columns with their checks, which Alembic cannot on SQLite, and guard them."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    kind = "DOUBLE PRECISION" if on_postgresql else "DOUBLE"
    refusal = "rows of annotations are history: they are never changed or deleted"
    action = (
        "EXECUTE FUNCTION setwise_refuse_change()"
        if on_postgresql
        else f"BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
    )
    for name in COLUMNS:
        op.execute(
            f"ALTER TABLE annotations ADD COLUMN {name} {kind} "
            f"CONSTRAINT ck_annotations_{name}_is_share CHECK ({name} >= 0 AND {name} <= 1)"
        )
        op.execute(
            f"CREATE TRIGGER annotations_keep_{name} BEFORE UPDATE OF {name} ON annotations "
            f"FOR EACH ROW {action}"
        )


def downgrade() -> None:
    """Drop the columns with their guards."""
    of_table = " ON annotations" if op.get_bind().dialect.name == "postgresql" else ""
    for name in COLUMNS:
        op.execute(f"DROP TRIGGER annotations_keep_{name}{of_table}")
        op.execute(f"ALTER TABLE annotations DROP COLUMN {name}")
