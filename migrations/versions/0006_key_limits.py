"""Keys that may do less than their role, for a time, at a pace.

Revision: 0006, after 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("scopes", sa.JSON(none_as_null=True)))
    op.add_column("api_keys", sa.Column("expires_at", sa.DateTime(timezone=True)))
    op.add_column("api_keys", sa.Column("per_minute", sa.Integer()))


def downgrade() -> None:
    # The older release would give a restricted key all of its role, for ever.
    op.execute(
        "UPDATE api_keys SET revoked_at = CURRENT_TIMESTAMP WHERE revoked_at IS NULL"
        " AND (scopes IS NOT NULL OR expires_at IS NOT NULL)"
    )
    for column in ("per_minute", "expires_at", "scopes"):
        op.drop_column("api_keys", column)
