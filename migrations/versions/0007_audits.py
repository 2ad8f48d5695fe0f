"""Which predictions are checked, by whom without a hint, and who decides where people differ.

Revision: 0007, after 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SHARES = ("certification_rate", "training_rate", "overlap_rate", "gold_reread_rate")


def upgrade() -> None:
    for name in SHARES:
        _share("routing_policies", name, given=True)
    _share("routing_policies", "confidence_floor")
    _word("routing_policies", "audit_mode", "hold", "send")
    _word("predictions", "audit_role", "none", "certification", "training")
    _share("predictions", "draw")
    _share("predictions", "inclusion_probability")
    op.create_index(
        "ix_predictions_audits",
        "predictions",
        ["audit_role", "id"],
        sqlite_where=sa.text("audit_role <> 'none'"),
        postgresql_where=sa.text("audit_role <> 'none'"),
    )
    _word("annotations", "kind", "review", "audit", "overlap", "adjudication")
    op.add_column(
        "annotations", sa.Column("settles", sa.Boolean(), nullable=False, server_default=sa.true())
    )
    # One task of each kind; before, there was one kind.
    op.create_index(
        "uq_review_tasks_prediction_id_kind", "review_tasks", ["prediction_id", "kind"], unique=True
    )
    op.drop_index("uq_review_tasks_review", "review_tasks")
    op.drop_index("ix_review_tasks_prediction_id", "review_tasks")


def downgrade() -> None:
    op.create_index("ix_review_tasks_prediction_id", "review_tasks", ["prediction_id"])
    op.create_index(
        "uq_review_tasks_review",
        "review_tasks",
        ["prediction_id"],
        unique=True,
        sqlite_where=sa.text("kind = 'review'"),
        postgresql_where=sa.text("kind = 'review'"),
    )
    op.drop_index("uq_review_tasks_prediction_id_kind", "review_tasks")
    for name in ("settles", "kind"):
        op.drop_column("annotations", name)
    op.drop_index("ix_predictions_audits", "predictions")
    for name in ("inclusion_probability", "draw", "audit_role"):
        op.drop_column("predictions", name)
    for name in ("audit_mode", "confidence_floor", *SHARES):
        op.drop_column("routing_policies", name)


def _share(table: str, name: str, *, given: bool = False) -> None:
    """Add a column of numbers from 0 to 1; one that is ``given`` holds 0 in old rows."""
    share = sa.CheckConstraint(
        f"{name} >= 0 AND {name} <= 1", name=op.f(f"ck_{table}_{name}_is_share")
    )
    default = "0" if given else None
    op.add_column(
        table, sa.Column(name, sa.Double(), share, nullable=not given, server_default=default)
    )


def _word(table: str, name: str, *words: str) -> None:
    """Add a column that holds one of ``words``, in old rows the first."""
    listed = ", ".join(f"'{word}'" for word in words)
    known = sa.CheckConstraint(f"{name} IN ({listed})", name=op.f(f"ck_{table}_{name}"))
    op.add_column(table, sa.Column(name, sa.Text(), known, nullable=False, server_default=words[0]))
