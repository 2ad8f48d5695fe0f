"""Add the code of a job's error.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("error_code", sa.Text()))


def downgrade() -> None:
    op.drop_column("jobs", "error_code")
