"""Add the last use of keys, and the secrets that rotations replaced.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

COLUMNS = (
    ("last_used_at", sa.DateTime(timezone=True)),
    ("old_digest", sa.LargeBinary()),
    ("old_expires_at", sa.DateTime(timezone=True)),
)


def upgrade() -> None:
    """Add the columns."""
    for name, kind in COLUMNS:
        op.add_column("api_keys", sa.Column(name, kind))
    op.create_index(op.f("ix_api_keys_old_digest"), "api_keys", ["old_digest"])


def downgrade() -> None:
    """Drop the columns."""
    op.drop_index(op.f("ix_api_keys_old_digest"), "api_keys")
    for name, _ in COLUMNS:
        op.drop_column("api_keys", name)
