"""Add invitations: a secret with which a person signs in first.

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("people", sa.Column("invitation", sa.LargeBinary()))
    op.add_column("people", sa.Column("invited_until", sa.DateTime(timezone=True)))
    op.create_index(op.f("ix_people_invitation"), "people", ["invitation"])


def downgrade() -> None:
    """Drop the columns."""
    op.drop_index(op.f("ix_people_invitation"), "people")
    for name in ("invitation", "invited_until"):
        op.drop_column("people", name)
