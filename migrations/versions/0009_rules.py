"""Rules around the confidence, and which one held a document back.

Revision: 0009, after 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.add_column("routing_policies", sa.Column("rules", JSON))  # NULL before there were any
    op.add_column("predictions", sa.Column("rule", sa.Text()))


def downgrade() -> None:
    op.drop_column("predictions", "rule")
    op.drop_column("routing_policies", "rules")
