"""Calibrators learnt from reviews, which of them served when, and what models said by themselves.

Revision: 0016, after 0015
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
INSTANT = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)
COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
HISTORY = ("calibrations", "calibration_activations")
OWN = "own_confidences"


def upgrade() -> None:
    op.create_table(
        "calibrations",
        sa.Column("id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("model_version", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("replaces", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("noise", sa.Text(), nullable=False),
        sa.Column("report", JSON, nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint(
            "noise IN ('none', 'known', 'estimated')", name=op.f("ck_calibrations_noise")
        ),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_calibrations_model_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calibrations")),
    )
    op.create_index(
        op.f("ix_calibrations_model_id_version"), "calibrations", ["model_id", "version"]
    )
    op.create_table(
        "calibration_activations",
        sa.Column("ordinal", COUNTER, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("calibration_id", ID),
        sa.Column("activated_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_calibration_activations_model_id")
        ),
        sa.ForeignKeyConstraint(
            ["calibration_id"],
            ["calibrations.id"],
            name=op.f("fk_calibration_activations_calibration_id"),
        ),
        sa.PrimaryKeyConstraint("ordinal", name=op.f("pk_calibration_activations")),
        sa.UniqueConstraint("id", name=op.f("uq_calibration_activations_id")),
    )
    op.create_index(
        op.f("ix_calibration_activations_model_id_ordinal"),
        "calibration_activations",
        ["model_id", "ordinal"],
    )
    op.create_index(
        op.f("ix_calibration_activations_calibration_id"),
        "calibration_activations",
        ["calibration_id"],
    )
    op.add_column("predictions", sa.Column(OWN, JSON))
    _refuse("predictions", OWN, f'UPDATE OF "{OWN}"')
    for table in HISTORY:
        if op.get_bind().dialect.name == "postgresql":
            _refuse(table, "rows", "UPDATE OR DELETE")
            _refuse(table, "truncate", "TRUNCATE", level="STATEMENT")
        else:
            _refuse(table, "rows", "UPDATE")
            _refuse(table, "delete", "DELETE")


def downgrade() -> None:
    place = " ON predictions" if op.get_bind().dialect.name == "postgresql" else ""
    op.execute(f"DROP TRIGGER predictions_keep_{OWN}{place}")
    op.drop_column("predictions", OWN)
    for table in reversed(HISTORY):
        op.drop_table(table)  # and its triggers


def _refuse(table: str, name: str, change: str, *, level: str = "ROW") -> None:
    if op.get_bind().dialect.name == "postgresql":
        action = f"FOR EACH {level} EXECUTE FUNCTION setwise_refuse_change()"
    else:
        refusal = f"rows of {table} are history: they are never changed or deleted"
        action = f"BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
    op.execute(f"CREATE TRIGGER {table}_keep_{name} BEFORE {change} ON {table} {action}")
