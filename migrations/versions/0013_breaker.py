"""When the breaker tripped and who closed it again, and the policies that it keeps from sending.

Revision: 0013, after 0012
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
INSTANT = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "breaker_trips",
        sa.Column("id", ID, nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("model_version", sa.Text(), nullable=False),
        sa.Column("calibrator_version", sa.Text(), nullable=False),
        sa.Column("policy_version", ID, nullable=False),
        sa.Column("target_accuracy", sa.Double(), nullable=False),
        sa.Column("evidence", JSON, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint("cause IN ('drift', 'stale')", name=op.f("ck_breaker_trips_cause")),
        sa.ForeignKeyConstraint(
            ["policy_version"],
            ["routing_policies.version"],
            name=op.f("fk_breaker_trips_policy_version"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_breaker_trips")),
        sa.UniqueConstraint("policy_version", name=op.f("uq_breaker_trips_policy_version")),
    )
    op.create_table(
        "breaker_resets",
        sa.Column("id", ID, nullable=False),
        sa.Column("trip_id", ID, nullable=False),
        sa.Column("certificate_id", ID),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["trip_id"], ["breaker_trips.id"], name=op.f("fk_breaker_resets_trip_id")
        ),
        sa.ForeignKeyConstraint(
            ["certificate_id"],
            ["certifications.id"],
            name=op.f("fk_breaker_resets_certificate_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_breaker_resets")),
        sa.UniqueConstraint("trip_id", name=op.f("uq_breaker_resets_trip_id")),
    )
    op.add_column("routing_policies", sa.Column("trip_id", ID))
    for table in ("breaker_trips", "breaker_resets"):
        _keep(table)


def downgrade() -> None:
    op.drop_column("routing_policies", "trip_id")
    op.drop_table("breaker_resets")  # and its triggers
    op.drop_table("breaker_trips")


def _keep(table: str) -> None:
    """Make the rows of a table history."""
    if op.get_bind().dialect.name == "postgresql":
        for name, change, level in (
            ("rows", "UPDATE OR DELETE", "ROW"),
            ("truncate", "TRUNCATE", "STATEMENT"),
        ):
            op.execute(
                f"CREATE TRIGGER {table}_keep_{name} BEFORE {change} ON {table} "
                f"FOR EACH {level} EXECUTE FUNCTION setwise_refuse_change()"
            )
        return
    refused = f"rows of {table} are history: they are never changed or deleted"
    for name, change in (("rows", "UPDATE"), ("delete", "DELETE")):
        op.execute(
            f"CREATE TRIGGER {table}_keep_{name} BEFORE {change} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{refused}'); END"
        )
