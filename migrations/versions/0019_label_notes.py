"""Add names, guidelines and parents of labels.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "label_notes",
        sa.Column("label", sa.Text(), primary_key=True),
        *(sa.Column(name, sa.Text()) for name in ("name", "guideline", "parent")),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("label_notes")
