"""Store requests with idempotency keys, and their responses.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "idempotent_requests",
        sa.Column("owner_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("response", sa.LargeBinary()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner_id", "key", name=op.f("pk_idempotent_requests")),
    )
    op.create_index(
        op.f("ix_idempotent_requests_created_at"), "idempotent_requests", ["created_at"]
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("idempotent_requests")
