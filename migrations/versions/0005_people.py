"""People who sign in, their sessions, and from where things were done.

Revision: 0005, after 0004
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
INSTANT = sa.DateTime(timezone=True)

ROLES = "role IN ('client', 'reviewer', 'lead', 'admin', 'auditor')"
OLD_ROLES = "role IN ('client', 'reviewer', 'lead', 'admin')"


def upgrade() -> None:
    op.create_table(
        "people",
        sa.Column("id", ID, nullable=False),
        sa.Column("login", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password", sa.Text()),
        sa.Column("external_id", sa.Text()),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("disabled_at", INSTANT),
        sa.CheckConstraint(ROLES, name=op.f("ck_people_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_people")),
        sa.UniqueConstraint("external_id", name=op.f("uq_people_external_id")),
        sa.UniqueConstraint("login", name=op.f("uq_people_login")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", ID, nullable=False),
        sa.Column("person_id", ID, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("address", sa.Text()),
        sa.CheckConstraint("length(digest) = 32", name=op.f("ck_sessions_digest_is_sha256")),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name=op.f("fk_sessions_person_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("digest", name=op.f("uq_sessions_digest")),
    )
    op.create_index(op.f("ix_sessions_expires_at"), "sessions", ["expires_at"])
    op.create_index(op.f("ix_sessions_person_id"), "sessions", ["person_id"])
    op.create_table(
        "sign_in_attempts",
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("last_at", INSTANT, nullable=False),
        sa.CheckConstraint("count >= 0", name=op.f("ck_sign_in_attempts_count_counts")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_sign_in_attempts")),
    )
    op.create_index(op.f("ix_sign_in_attempts_last_at"), "sign_in_attempts", ["last_at"])
    _roles_of_keys(ROLES)
    op.add_column("audit_events", sa.Column("address", sa.Text()))
    op.create_index(op.f("ix_audit_events_action_id"), "audit_events", ["action", "id"])
    op.create_index(op.f("ix_audit_events_actor_id_id"), "audit_events", ["actor_id", "id"])


def downgrade() -> None:
    op.drop_index(op.f("ix_audit_events_actor_id_id"), "audit_events")
    op.drop_index(op.f("ix_audit_events_action_id"), "audit_events")
    op.drop_column("audit_events", "address")
    # The older tables know no auditors.
    op.execute("DELETE FROM api_keys WHERE role = 'auditor'")
    _roles_of_keys(OLD_ROLES)
    for table in ("sign_in_attempts", "sessions", "people"):
        op.drop_table(table)


def _roles_of_keys(condition: str) -> None:
    with op.batch_alter_table("api_keys") as table:
        table.drop_constraint(op.f("ck_api_keys_role"), type_="check")
        table.create_check_constraint(op.f("ck_api_keys_role"), condition)
