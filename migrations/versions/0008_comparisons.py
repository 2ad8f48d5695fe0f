"""Candidates beside the model that serves: when they shadowed it, and what they would have said.

Revision: 0008, after 0007
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
INSTANT = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)
REASONS = (
    "reason IN ('above_threshold', 'below_threshold', 'audit', 'no_threshold', "
    "'out_of_domain', 'breaker', 'rule')"
)


def upgrade() -> None:
    op.create_table(
        "model_shadows",
        sa.Column("id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("started_by", sa.Text(), nullable=False),
        sa.Column("ended_at", INSTANT),
        # The same in every row: with the condition of its index, one shadow at a time.
        sa.Column("place", sa.Integer(), nullable=False, server_default=sa.text("1")),
        sa.CheckConstraint("place = 1", name=op.f("ck_model_shadows_one_place")),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_model_shadows_model_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_shadows")),
    )
    op.create_index(
        "uq_model_shadows_place",
        "model_shadows",
        ["place"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "model_comparisons",
        sa.Column("id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("same_labels", sa.Boolean(), nullable=False),
        sa.Column("same_decision", sa.Boolean(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint(
            "decision IN ('auto', 'review')", name=op.f("ck_model_comparisons_decision")
        ),
        sa.CheckConstraint(REASONS, name=op.f("ck_model_comparisons_reason")),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1",
            name=op.f("ck_model_comparisons_confidence_is_probability"),
        ),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_model_comparisons_model_id")
        ),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_model_comparisons_prediction_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_comparisons")),
        sa.UniqueConstraint(
            "model_id", "prediction_id", name=op.f("uq_model_comparisons_model_id_prediction_id")
        ),
    )
    op.create_index(
        op.f("ix_model_comparisons_model_id_id"), "model_comparisons", ["model_id", "id"]
    )
    op.create_index(
        "ix_model_comparisons_counts",
        "model_comparisons",
        ["model_id", "decision", "same_decision", "same_labels"],
    )
    op.create_index(
        op.f("ix_model_comparisons_prediction_id"), "model_comparisons", ["prediction_id"]
    )


def downgrade() -> None:
    op.drop_table("model_comparisons")
    op.drop_table("model_shadows")
