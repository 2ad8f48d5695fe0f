"""An ordinary index on the names of documents.

Revision: 0021, after 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

REFUSAL = "rows of predictions are history: they are never changed or deleted"


def upgrade() -> None:
    place = " ON predictions" if op.get_bind().dialect.name == "postgresql" else ""
    op.execute(f"DROP TRIGGER predictions_keep_block{place}")
    op.create_index("ix_predictions_document_id", "predictions", ["document_id"])
    op.drop_index("ix_predictions_block_document_id", table_name="predictions")
    op.drop_column("predictions", "block")


def downgrade() -> None:
    op.add_column(
        "predictions",
        sa.Column("block", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
    )
    op.create_index("ix_predictions_block_document_id", "predictions", ["block", "document_id"])
    op.drop_index("ix_predictions_document_id", table_name="predictions")
    if op.get_bind().dialect.name == "postgresql":
        action = "EXECUTE FUNCTION setwise_refuse_change()"
    else:
        action = f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    op.execute(
        "CREATE TRIGGER predictions_keep_block BEFORE UPDATE OF block "
        f"ON predictions FOR EACH ROW {action}"
    )
