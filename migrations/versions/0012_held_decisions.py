"""Decisions of reviewers that can be taken back for a while.

Revision: 0012, after 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

INSTANT = sa.DateTime(timezone=True)
COLUMNS = (
    ("decided_labels", sa.JSON(none_as_null=True)),
    ("decided_comment", sa.Text()),
    ("decided_by", sa.Text()),
    ("decided_at", INSTANT),
    ("settles_at", INSTANT),
)
DECIDED = sa.text("settles_at IS NOT NULL")


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.add_column("review_tasks", sa.Column(name, kind))
    op.create_index(
        "ix_review_tasks_settles",
        "review_tasks",
        ["settles_at"],
        sqlite_where=DECIDED,
        postgresql_where=DECIDED,
    )


def downgrade() -> None:
    op.drop_index("ix_review_tasks_settles", "review_tasks")
    for name, _ in reversed(COLUMNS):
        op.drop_column("review_tasks", name)
