"""Indexes that hold all that reports count by.

Revision: 0014, after 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

AUDITED = sa.text("audit_role <> 'none'")
ADDED: dict[str, tuple[str, list[str]]] = {
    "ix_predictions_reports": (
        "predictions",
        ["created_at", "id", "decision", "reason", "confidence", "inclusion_probability"],
    ),
    "ix_annotations_reports": (
        "annotations",
        ["created_at", "prediction_id", "kind", "agreed", "settles", "seconds"],
    ),
    "ix_outcomes_reports": ("outcomes", ["created_at", "prediction_id", "number", "agreed"]),
    "ix_review_tasks_created_at": ("review_tasks", ["created_at"]),
}


def _audits(*columns: str) -> None:
    op.drop_index("ix_predictions_audits", table_name="predictions")
    op.create_index(
        "ix_predictions_audits",
        "predictions",
        ["audit_role", "id", *columns],
        sqlite_where=AUDITED,
        postgresql_where=AUDITED,
    )


def upgrade() -> None:
    for name, (table, columns) in ADDED.items():
        op.create_index(name, table, columns)
    op.drop_index("ix_predictions_created_at", table_name="predictions")
    _audits("model_version", "calibrator_version")


def downgrade() -> None:
    _audits()
    op.create_index("ix_predictions_created_at", "predictions", ["created_at"])
    for name, (table, _) in ADDED.items():
        op.drop_index(name, table_name=table)
