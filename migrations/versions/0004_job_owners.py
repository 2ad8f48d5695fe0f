"""Who asked for a job, under which key of their own, and how far it is.

Revision: 0004, after 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True)
REQUESTED = "request_key IS NOT NULL"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("owner_id", sa.Text()))
    op.add_column("jobs", sa.Column("request_key", sa.Text()))
    op.add_column("jobs", sa.Column("checkpoint", JSON))
    op.create_index(op.f("ix_jobs_owner_id_id"), "jobs", ["owner_id", "id"])
    op.create_index(op.f("ix_jobs_state_id"), "jobs", ["state", "id"])
    op.create_index(
        "uq_jobs_request",
        "jobs",
        ["owner_id", "request_key"],
        unique=True,
        sqlite_where=sa.text(REQUESTED),
        postgresql_where=sa.text(REQUESTED),
    )


def downgrade() -> None:
    for name in ("uq_jobs_request", "ix_jobs_state_id", "ix_jobs_owner_id_id"):
        op.drop_index(name, "jobs")
    for name in ("checkpoint", "request_key", "owner_id"):
        op.drop_column("jobs", name)
