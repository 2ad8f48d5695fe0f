"""What turned out to be right, as other programs report it.

Revision: 0003, after 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
INSTANT = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "outcomes",
        sa.Column("id", ID, nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("agreed", sa.Boolean(), nullable=False),
        sa.Column("reported_by", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_outcomes_number_counts")),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_outcomes_prediction_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outcomes")),
        sa.UniqueConstraint(
            "prediction_id", "number", name=op.f("uq_outcomes_prediction_id_number")
        ),
    )
    refused = "rows of outcomes are history: they are never changed or deleted"
    if op.get_bind().dialect.name == "postgresql":
        for name, change, level in (
            ("rows", "UPDATE OR DELETE", "ROW"),
            ("truncate", "TRUNCATE", "STATEMENT"),
        ):
            op.execute(
                f"CREATE TRIGGER outcomes_keep_{name} BEFORE {change} ON outcomes "
                f"FOR EACH {level} EXECUTE FUNCTION setwise_refuse_change()"
            )
    else:
        for name, change in (("rows", "UPDATE"), ("delete", "DELETE")):
            op.execute(
                f"CREATE TRIGGER outcomes_keep_{name} BEFORE {change} ON outcomes BEGIN "
                f"SELECT RAISE(ABORT, '{refused}'); END"
            )


def downgrade() -> None:
    op.drop_table("outcomes")  # and its triggers
