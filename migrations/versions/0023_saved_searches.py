"""Add searches for documents that people saved.

Revision ID: 0023
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "saved_searches",
        sa.Column("owner", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("query", sa.Text(), nullable=False),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("saved_searches")
