"""The index on documents without the ids, so that less of it is written with each prediction.

Revision: 0019, after 0018
"""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_predictions_document_id", "predictions", ["document_id"])
    op.drop_index("ix_predictions_document_id_id", table_name="predictions")


def downgrade() -> None:
    op.create_index("ix_predictions_document_id_id", "predictions", ["document_id", "id"])
    op.drop_index("ix_predictions_document_id", table_name="predictions")
