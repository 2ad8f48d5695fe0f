"""Attempts to prove a threshold, and which of them a policy stands on.

Revision: 0011, after 0010
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
INSTANT = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)
STANDS_ON = (
    ("certificate_id", ID),
    ("certified_model", sa.Text()),
    ("certified_calibrator", sa.Text()),
)


def upgrade() -> None:
    op.create_table(
        "certifications",
        sa.Column("id", ID, nullable=False),
        sa.Column("model_version", sa.Text(), nullable=False),
        sa.Column("calibrator_version", sa.Text(), nullable=False),
        sa.Column("policy_version", ID, nullable=False),
        sa.Column("target_accuracy", sa.Double(), nullable=False),
        sa.Column("risk", sa.Double(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("threshold", sa.Double()),
        sa.Column("reason", sa.Text()),
        sa.Column("further_audits", sa.Integer()),
        sa.Column("evidence", JSON, nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint("attempt >= 1", name=op.f("ck_certifications_attempt_counts")),
        sa.CheckConstraint(
            "(threshold IS NULL) <> (reason IS NULL)",
            name=op.f("ck_certifications_proved_or_refused"),
        ),
        sa.CheckConstraint(
            "threshold >= 0 AND threshold <= 1",
            name=op.f("ck_certifications_threshold_is_probability"),
        ),
        sa.ForeignKeyConstraint(
            ["policy_version"],
            ["routing_policies.version"],
            name=op.f("fk_certifications_policy_version"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_certifications")),
        sa.UniqueConstraint(
            "model_version",
            "calibrator_version",
            "attempt",
            name=op.f("uq_certifications_model_version_calibrator_version_attempt"),
        ),
    )
    for name, kind in STANDS_ON:
        op.add_column("routing_policies", sa.Column(name, kind))
    refused = "rows of certifications are history: they are never changed or deleted"
    if op.get_bind().dialect.name == "postgresql":
        for name, change, level in (
            ("rows", "UPDATE OR DELETE", "ROW"),
            ("truncate", "TRUNCATE", "STATEMENT"),
        ):
            op.execute(
                f"CREATE TRIGGER certifications_keep_{name} BEFORE {change} ON certifications "
                f"FOR EACH {level} EXECUTE FUNCTION setwise_refuse_change()"
            )
    else:
        for name, change in (("rows", "UPDATE"), ("delete", "DELETE")):
            op.execute(
                f"CREATE TRIGGER certifications_keep_{name} BEFORE {change} ON certifications "
                f"BEGIN SELECT RAISE(ABORT, '{refused}'); END"
            )


def downgrade() -> None:
    for name, _ in reversed(STANDS_ON):
        op.drop_column("routing_policies", name)
    op.drop_table("certifications")  # and its triggers
