"""Add to reviews whom they are assigned to.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

ASSIGNED = sa.text("state <> 'completed' AND assigned_to IS NOT NULL")


def upgrade() -> None:
    """Add the column and an index of what waits."""
    op.add_column("review_tasks", sa.Column("assigned_to", sa.Text()))
    op.create_index(
        op.f("ix_review_tasks_assigned_to"),
        "review_tasks",
        ["assigned_to", "escalated", "queued_at", "id"],
        sqlite_where=ASSIGNED,
        postgresql_where=ASSIGNED,
    )


def downgrade() -> None:
    """Drop both."""
    op.drop_index(op.f("ix_review_tasks_assigned_to"), "review_tasks")
    op.drop_column("review_tasks", "assigned_to")
