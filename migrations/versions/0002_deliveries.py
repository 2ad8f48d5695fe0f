"""What is told to other programs: the outbox, webhook endpoints, deliveries and their log.

Revision: 0002, after 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
INSTANT = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)
COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "outbox_messages",
        sa.Column("ordinal", COUNTER, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("document_key", sa.Text(), nullable=False),
        sa.Column("data", JSON, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("routed_at", INSTANT),
        sa.Column("acknowledged_at", INSTANT),
        sa.PrimaryKeyConstraint("ordinal", name=op.f("pk_outbox_messages")),
        sa.UniqueConstraint("id", name=op.f("uq_outbox_messages_id")),
    )
    op.create_index(
        "ix_outbox_messages_unacknowledged",
        "outbox_messages",
        ["client_id", "ordinal"],
        **where("acknowledged_at IS NULL"),
    )
    op.create_index(
        "ix_outbox_messages_unrouted", "outbox_messages", ["ordinal"], **where("routed_at IS NULL")
    )
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", ID, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("events", JSON, nullable=False),
        sa.Column("secrets", JSON, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("disabled_because", sa.Text()),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("deleted_at", INSTANT),
        sa.CheckConstraint("version >= 1", name=op.f("ck_webhook_endpoints_version_counts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_endpoints")),
    )
    _deliveries()


def downgrade() -> None:
    for table in ("delivery_attempts", "deliveries", "webhook_endpoints", "outbox_messages"):
        op.drop_table(table)


def where(condition: str) -> dict[str, sa.TextClause]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", ID, nullable=False),
        sa.Column("message_ordinal", COUNTER, nullable=False),
        sa.Column("endpoint_id", ID, nullable=False),
        sa.Column("document_key", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("due_at", INSTANT, nullable=False),
        sa.Column("lease_expires_at", INSTANT),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("finished_at", INSTANT),
        sa.CheckConstraint("attempt >= 0 AND token >= 0", name=op.f("ck_deliveries_counts")),
        sa.CheckConstraint(
            "lease_expires_at IS NULL OR state = 'pending'",
            name=op.f("ck_deliveries_leased_is_pending"),
        ),
        sa.CheckConstraint(
            "(state = 'pending') = (finished_at IS NULL)",
            name=op.f("ck_deliveries_pending_has_no_end"),
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'delivered', 'dead', 'cancelled')",
            name=op.f("ck_deliveries_state"),
        ),
        sa.ForeignKeyConstraint(
            ["endpoint_id"], ["webhook_endpoints.id"], name=op.f("fk_deliveries_endpoint_id")
        ),
        sa.ForeignKeyConstraint(
            ["message_ordinal"],
            ["outbox_messages.ordinal"],
            name=op.f("fk_deliveries_message_ordinal"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint(
            "message_ordinal",
            "endpoint_id",
            name=op.f("uq_deliveries_message_ordinal_endpoint_id"),
        ),
    )
    op.create_index(
        "ix_deliveries_dead",
        "deliveries",
        ["endpoint_id", "message_ordinal"],
        **where("state = 'dead'"),
    )
    op.create_index(
        "ix_deliveries_due", "deliveries", ["endpoint_id", "due_at"], **where("state = 'pending'")
    )
    op.create_index(op.f("ix_deliveries_endpoint_id_id"), "deliveries", ["endpoint_id", "id"])
    op.create_index(
        "ix_deliveries_order",
        "deliveries",
        ["endpoint_id", "document_key", "message_ordinal"],
        **where("state = 'pending'"),
    )
    op.create_index(op.f("ix_deliveries_state_id"), "deliveries", ["state", "id"])
    op.create_table(
        "delivery_attempts",
        sa.Column("id", ID, nullable=False),
        sa.Column("delivery_id", ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("excerpt", sa.Text(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.CheckConstraint("number >= 1", name=op.f("ck_delivery_attempts_number_counts")),
        sa.CheckConstraint("seconds >= 0", name=op.f("ck_delivery_attempts_seconds_pass")),
        sa.ForeignKeyConstraint(
            ["delivery_id"], ["deliveries.id"], name=op.f("fk_delivery_attempts_delivery_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery_attempts")),
    )
    op.create_index(
        op.f("ix_delivery_attempts_delivery_id_id"), "delivery_attempts", ["delivery_id", "id"]
    )
