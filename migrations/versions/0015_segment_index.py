"""Find documents by segment, and refuse a segment's threshold outside [0, 1].

Revision ID: 0015
Revises: 0014
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

CHECK = "ck_policy_segments_threshold_is_probability"
_BEFORE = ("created_at", "id", "decision", "reason", "confidence", "inclusion_probability")


def upgrade() -> None:
    """Add an index, widen another one, and add the check."""
    divided = sa.text("segment IS NOT NULL")
    op.create_index(
        op.f("ix_predictions_segment_id"),
        "predictions",
        ["segment", "id"],
        sqlite_where=divided,
        postgresql_where=divided,
    )
    _replace((*_BEFORE, "segment"))
    with op.batch_alter_table("policy_segments") as table:
        table.create_check_constraint(op.f(CHECK), "threshold >= 0 AND threshold <= 1")
    _keep()


def downgrade() -> None:
    """Drop the index and the check, and restore the other index."""
    with op.batch_alter_table("policy_segments") as table:
        table.drop_constraint(op.f(CHECK), type_="check")
    _keep()
    _replace(_BEFORE)
    op.drop_index(op.f("ix_predictions_segment_id"), "predictions")


def _replace(columns: Sequence[str]) -> None:
    name = op.f("ix_predictions_reports")
    op.drop_index(name, "predictions")
    op.create_index(name, "predictions", [*columns])


def _keep() -> None:
    """Restore the triggers of the table, which SQLite rebuilds for a check."""
    if op.get_bind().dialect.name == "sqlite":
        refusal = "rows of policy_segments are history: they are never changed or deleted"
        for name, change in (("rows", "UPDATE"), ("delete", "DELETE")):
            op.execute(
                f"CREATE TRIGGER policy_segments_keep_{name} BEFORE {change} ON policy_segments "
                f"FOR EACH ROW BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
            )
