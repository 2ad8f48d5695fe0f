"""Indexes that hold what the breaker and the noise rates ask of audits and second readings.

Revision: 0017, after 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

AUDITED = sa.text("audit_role <> 'none'")
UNUSUAL = sa.text("kind <> 'review'")


def _audits(*columns: str) -> None:
    op.drop_index("ix_predictions_audits", table_name="predictions")
    op.create_index(
        "ix_predictions_audits",
        "predictions",
        ["audit_role", "id", "model_version", "calibrator_version", *columns],
        sqlite_where=AUDITED,
        postgresql_where=AUDITED,
    )


def upgrade() -> None:
    _audits("decision", "reason", "policy_version")
    op.create_index(
        "ix_annotations_verdicts",
        "annotations",
        ["prediction_id", "kind", "agreed", "settles", "created_at"],
    )
    op.drop_index("ix_annotations_prediction_id", table_name="annotations")
    op.create_index(
        "ix_annotations_unusual",
        "annotations",
        ["kind", "prediction_id", "reviewer", "agreed"],
        sqlite_where=UNUSUAL,
        postgresql_where=UNUSUAL,
    )


def downgrade() -> None:
    op.drop_index("ix_annotations_unusual", table_name="annotations")
    op.create_index("ix_annotations_prediction_id", "annotations", ["prediction_id"])
    op.drop_index("ix_annotations_verdicts", table_name="annotations")
    _audits()
