"""Add who read the suggestion for a document whose blind review is open.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(sa.UUID(as_uuid=False), "postgresql")


def upgrade() -> None:
    op.create_table(
        "suggestion_readers",
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("reader", sa.Text(), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["prediction_id"],
            ["predictions.id"],
            name=op.f("fk_suggestion_readers_prediction_id"),
        ),
        sa.PrimaryKeyConstraint("prediction_id", "reader", name=op.f("pk_suggestion_readers")),
    )


def downgrade() -> None:
    op.drop_table("suggestion_readers")
