"""Let documents be decided again, and talked about.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(sa.UUID(as_uuid=False), "postgresql")
INSTANT = sa.DateTime(timezone=True)
TASKS = "uq_review_tasks_prediction_id_kind"


def upgrade() -> None:
    """Create the tables and the columns; a round of 0 is what was there before."""
    for table in ("review_tasks", "annotations"):
        op.execute(
            f"ALTER TABLE {table} ADD COLUMN round INTEGER DEFAULT 0 NOT NULL "
            f"CONSTRAINT ck_{table}_round_counts CHECK (round >= 0)"
        )
    op.drop_index(TASKS, "review_tasks")
    op.create_index(TASKS, "review_tasks", ["prediction_id", "kind", "round"], unique=True)
    if _on_postgresql():
        action = "EXECUTE FUNCTION setwise_refuse_change()"
    else:
        refusal = "rows of annotations are history: they are never changed or deleted"
        action = f"BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
    op.execute(
        "CREATE TRIGGER annotations_keep_round BEFORE UPDATE OF round ON annotations "
        f"FOR EACH ROW {action}"
    )
    op.create_table(
        "comments",
        sa.Column("id", ID, nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("thread", ID, nullable=False),
        sa.Column("task_id", ID),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_comments_prediction_id")
        ),
        sa.ForeignKeyConstraint(["task_id"], ["review_tasks.id"], name=op.f("fk_comments_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_comments")),
    )
    op.create_index(op.f("ix_comments_prediction_id_id"), "comments", ["prediction_id", "id"])
    op.create_index(op.f("ix_comments_author"), "comments", ["author"])
    op.create_index(op.f("ix_comments_task_id"), "comments", ["task_id"])
    op.create_table(
        "comment_readers",
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("reader", sa.Text(), nullable=False),
        sa.Column("read_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_comment_readers_prediction_id")
        ),
        sa.PrimaryKeyConstraint("prediction_id", "reader", name=op.f("pk_comment_readers")),
    )


def downgrade() -> None:
    """Drop the tables and the columns; fails if a document was decided again."""
    op.drop_table("comment_readers")
    op.drop_table("comments")
    op.drop_index(TASKS, "review_tasks")
    op.create_index(TASKS, "review_tasks", ["prediction_id", "kind"], unique=True)
    op.execute(
        f"DROP TRIGGER annotations_keep_round{' ON annotations' if _on_postgresql() else ''}"
    )
    for table in ("review_tasks", "annotations"):
        op.execute(f"ALTER TABLE {table} DROP COLUMN round")


def _on_postgresql() -> bool:
    return bool(op.get_bind().dialect.name == "postgresql")
