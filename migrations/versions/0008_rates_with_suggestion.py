"""Add groups' error rates of answers given with the suggestion in view.

Rates that were set before held for all answers, and go on doing so.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NEW = ("alpha_with_suggestion", "beta_with_suggestion")


def upgrade() -> None:
    """Add the columns."""
    for name in NEW:
        op.add_column("annotator_groups", sa.Column(name, sa.Double()))
    op.execute(
        "UPDATE annotator_groups SET alpha_with_suggestion = alpha, beta_with_suggestion = beta"
    )


def downgrade() -> None:
    """Drop the columns."""
    for name in NEW:
        op.drop_column("annotator_groups", name)
