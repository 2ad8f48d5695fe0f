"""Indexes on review tasks that a new task, of which most predictions make one, has no entry in.

Revision: 0020, after 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

OPEN = sa.text("state <> 'completed'")
TAKEN = sa.text("state <> 'waiting'")
FURTHER = sa.text("kind IN ('overlap', 'adjudication')")


def _partial(name: str, *columns: str, where: sa.TextClause) -> None:
    op.create_index(name, "review_tasks", list(columns), sqlite_where=where, postgresql_where=where)


def upgrade() -> None:
    for name in ("queue", "state_id", "created_at"):
        op.drop_index(f"ix_review_tasks_{name}", table_name="review_tasks")
    _partial("ix_review_tasks_queue", "escalated", "id", "state", where=OPEN)
    _partial("ix_review_tasks_taken", "state", "id", where=TAKEN)
    _partial("ix_review_tasks_further", "created_at", where=FURTHER)


def downgrade() -> None:
    for name in ("further", "taken", "queue"):
        op.drop_index(f"ix_review_tasks_{name}", table_name="review_tasks")
    _partial("ix_review_tasks_queue", "escalated", "id", where=OPEN)
    op.create_index("ix_review_tasks_created_at", "review_tasks", ["created_at"])
    op.create_index("ix_review_tasks_state_id", "review_tasks", ["state", "id"])
