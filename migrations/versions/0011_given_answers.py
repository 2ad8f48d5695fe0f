"""Store with a prediction what another model answered.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column with its guard: only erasure and encryption may change it."""
    op.add_column("predictions", sa.Column("answer", sa.JSON(none_as_null=True)))
    refusal = "rows of predictions are history: they are never changed or deleted"
    action = (
        "EXECUTE FUNCTION setwise_refuse_change()"
        if op.get_bind().dialect.name == "postgresql"
        else f"BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
    )
    op.execute(
        "CREATE TRIGGER predictions_keep_answer BEFORE UPDATE OF answer ON predictions "
        "FOR EACH ROW WHEN (NOT (NEW.answer IS NULL OR CAST(NEW.answer AS TEXT) LIKE '\"sw1:%')) "
        f"{action}"
    )


def downgrade() -> None:
    """Drop the column with its guard."""
    of_table = " ON predictions" if op.get_bind().dialect.name == "postgresql" else ""
    op.execute(f"DROP TRIGGER predictions_keep_answer{of_table}")
    op.execute("ALTER TABLE predictions DROP COLUMN answer")
