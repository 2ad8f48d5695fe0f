"""Cover what the breaker reads of audits: when, and of which document.

Revision ID: 0003
Revises: 0002
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_BEFORE = (
    "audit_role",
    "id",
    "model_version",
    "calibrator_version",
    "decision",
    "reason",
    "policy_version",
)


def _replace(columns: Sequence[str]) -> None:
    name, audited = op.f("ix_predictions_audits"), sa.text("audit_role <> 'none'")
    op.drop_index(name, "predictions")
    op.create_index(name, "predictions", [*columns], sqlite_where=audited, postgresql_where=audited)


def upgrade() -> None:
    """Widen the index."""
    _replace((*_BEFORE, "created_at", "client_id", "document_id", "draw"))


def downgrade() -> None:
    """Restore the index."""
    _replace(_BEFORE)
