"""Store what scorers say of documents that others answered.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(sa.UUID(as_uuid=False), "postgresql")


def upgrade() -> None:
    """Create the table, whose rows are history."""
    op.create_table(
        "other_scores",
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("model_version", sa.Text(), nullable=False),
        sa.Column("calibrator_version", sa.Text(), nullable=False),
        sa.Column("labels", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1",
            name=op.f("ck_other_scores_confidence_is_probability"),
        ),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_other_scores_prediction_id")
        ),
        sa.PrimaryKeyConstraint(
            "prediction_id", "model_version", "calibrator_version", name=op.f("pk_other_scores")
        ),
    )
    op.create_index(
        op.f("ix_other_scores_model_version_calibrator_version_prediction_id"),
        "other_scores",
        ["model_version", "calibrator_version", "prediction_id"],
    )
    changes = [("rows", "UPDATE", "ROW"), ("delete", "DELETE", "ROW")]
    if op.get_bind().dialect.name == "postgresql":
        action = "EXECUTE FUNCTION setwise_refuse_change()"
        changes.append(("truncate", "TRUNCATE", "STATEMENT"))
    else:
        refusal = "rows of other_scores are history: they are never changed or deleted"
        action = f"BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
    for name, change, level in changes:
        op.execute(
            f"CREATE TRIGGER other_scores_keep_{name} BEFORE {change} ON other_scores "
            f"FOR EACH {level} {action}"
        )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("other_scores")
