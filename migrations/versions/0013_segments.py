"""Store segments of the documents, and what a policy says of each.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(sa.UUID(as_uuid=False), "postgresql")
TABLES = ("predictions", "certifications", "breaker_trips")


def upgrade() -> None:
    """Create the table and the columns, whose rows are history."""
    op.create_table(
        "policy_segments",
        sa.Column("policy_version", ID, nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("threshold", sa.Double()),
        sa.Column("certificate_id", ID),
        sa.Column("certified_model", sa.Text()),
        sa.Column("certified_calibrator", sa.Text()),
        sa.Column("trip_id", ID),
        sa.Column("audits", sa.JSON(none_as_null=True)),
        sa.Column("members", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["policy_version"],
            ["routing_policies.version"],
            name=op.f("fk_policy_segments_policy_version"),
        ),
        sa.PrimaryKeyConstraint("policy_version", "place", name=op.f("pk_policy_segments")),
        sa.UniqueConstraint(
            "policy_version", "value", name=op.f("uq_policy_segments_policy_version_value")
        ),
    )
    op.add_column("routing_policies", sa.Column("segmentation", sa.JSON(none_as_null=True)))
    for table in TABLES:
        op.add_column(table, sa.Column("segment", sa.Text()))
    changes = [("rows", "UPDATE", "ROW"), ("delete", "DELETE", "ROW")]
    if _on_postgresql():
        changes.append(("truncate", "TRUNCATE", "STATEMENT"))
    for name, change, level in changes:
        _refuse("policy_segments", name, change, level)
    _refuse("predictions", "segment", "UPDATE OF segment", "ROW")


def downgrade() -> None:
    """Drop the table and the columns."""
    of_table = " ON predictions" if _on_postgresql() else ""
    op.execute(f"DROP TRIGGER predictions_keep_segment{of_table}")
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} DROP COLUMN segment")
    op.execute("ALTER TABLE routing_policies DROP COLUMN segmentation")
    op.drop_table("policy_segments")


def _on_postgresql() -> bool:
    return bool(op.get_bind().dialect.name == "postgresql")


def _refuse(table: str, name: str, change: str, level: str) -> None:
    if _on_postgresql():
        action = "EXECUTE FUNCTION setwise_refuse_change()"
    else:
        refusal = f"rows of {table} are history: they are never changed or deleted"
        action = f"BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
    op.execute(
        f"CREATE TRIGGER {table}_keep_{name} BEFORE {change} ON {table} FOR EACH {level} {action}"
    )
