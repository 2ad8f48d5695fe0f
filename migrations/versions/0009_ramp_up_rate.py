"""Add the rate of audits while nothing is sent.

Revision ID: 0009
Revises: 0008
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column with its check, which Alembic cannot on SQLite."""
    kind = "DOUBLE PRECISION" if op.get_bind().dialect.name == "postgresql" else "DOUBLE"
    op.execute(
        f"ALTER TABLE routing_policies ADD COLUMN ramp_up_rate {kind} "
        "CONSTRAINT ck_routing_policies_ramp_up_rate_is_share "
        "CHECK (ramp_up_rate >= 0 AND ramp_up_rate <= 1)"
    )


def downgrade() -> None:
    """Drop the column with its check."""
    op.execute("ALTER TABLE routing_policies DROP COLUMN ramp_up_rate")
