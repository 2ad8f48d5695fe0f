"""Store with a prediction what another model answered, and whether its confidence was learnt.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

NEW = {
    "answer": "NEW.answer IS NULL OR CAST(NEW.answer AS TEXT) LIKE '\"sw1:%'",
    "uncalibrated": "1 = 0",
}
"""The columns, and what erasure and encryption may do to them."""


def upgrade() -> None:
    """Add the columns with their guards."""
    refusal = "rows of predictions are history: they are never changed or deleted"
    action = (
        "EXECUTE FUNCTION setwise_refuse_change()"
        if op.get_bind().dialect.name == "postgresql"
        else f"BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
    )
    op.add_column("predictions", sa.Column("answer", sa.JSON(none_as_null=True)))
    op.add_column("predictions", sa.Column("uncalibrated", sa.Boolean()))
    for name, condition in NEW.items():
        op.execute(
            f"CREATE TRIGGER predictions_keep_{name} BEFORE UPDATE OF {name} ON predictions "
            f"FOR EACH ROW WHEN (NOT ({condition})) {action}"
        )


def downgrade() -> None:
    """Drop the columns with their guards."""
    of_table = " ON predictions" if op.get_bind().dialect.name == "postgresql" else ""
    for name in NEW:
        op.execute(f"DROP TRIGGER predictions_keep_{name}{of_table}")
        op.execute(f"ALTER TABLE predictions DROP COLUMN {name}")
