"""Add the order of the review queue, which postponed and prioritised documents change.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

QUEUE = "ix_review_tasks_queue"
OPEN = sa.text("state <> 'completed'")


def upgrade() -> None:
    """Add the column, with the order so far, and widen the queue's index."""
    first = sa.text("'1970-01-01 00:00:00'")
    op.add_column(
        "review_tasks",
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False, server_default=first),
    )
    op.execute("UPDATE review_tasks SET queued_at = created_at WHERE state <> 'completed'")
    _replace("queued_at")


def downgrade() -> None:
    """Restore the index and drop the column."""
    _replace()
    op.drop_column("review_tasks", "queued_at")


def _replace(*columns: str) -> None:
    name = op.f(QUEUE)
    op.drop_index(name, "review_tasks")
    op.create_index(
        name,
        "review_tasks",
        ["escalated", *columns, "id"],
        sqlite_where=OPEN,
        postgresql_where=OPEN,
    )
