"""The first tables: people, policies, models, predictions, reviews, the audit trail, jobs.

Revision: 0001, after nothing
"""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
INSTANT = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)

# Rows that are history: written once, then only read.
UNCHANGING = ("predictions", "annotations", "audit_events", "routing_policies", "model_activations")


def upgrade() -> None:
    _people()
    _policies_and_models()
    _predictions()
    _reviews()
    _audit_trail_and_jobs()
    if op.get_bind().dialect.name == "postgresql":
        _guard_postgresql()
    else:
        _guard_sqlite()


def downgrade() -> None:
    for table in (
        "jobs",
        "audit_events",
        "annotations",
        "review_skips",
        "review_tasks",
        "idempotency_keys",
        "predictions",
        "model_activations",
        "models",
        "routing_policies",
        "api_keys",
    ):
        op.drop_table(table)  # and its triggers
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION setwise_refuse_change")


def where(condition: str) -> dict[str, sa.TextClause]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _people() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("revoked_at", INSTANT),
        sa.CheckConstraint(
            "role IN ('client', 'reviewer', 'lead', 'admin')", name=op.f("ck_api_keys_role")
        ),
        sa.CheckConstraint("length(digest) = 32", name=op.f("ck_api_keys_digest_is_sha256")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_keys_digest")),
    )


def _policies_and_models() -> None:
    op.create_table(
        "routing_policies",
        sa.Column("version", ID, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("target_accuracy", sa.Double(), nullable=False),
        sa.Column("risk", sa.Double(), nullable=False),
        sa.Column("auto_send", sa.Boolean(), nullable=False),
        sa.Column("threshold_mode", sa.Text(), nullable=False),
        sa.Column("threshold", sa.Double()),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "threshold_mode <> 'fixed' OR threshold IS NOT NULL",
            name=op.f("ck_routing_policies_fixed_has_threshold"),
        ),
        sa.CheckConstraint(
            "threshold_mode IN ('certified', 'fixed')",
            name=op.f("ck_routing_policies_threshold_mode"),
        ),
        sa.CheckConstraint(
            "risk > 0 AND risk < 1", name=op.f("ck_routing_policies_risk_is_probability")
        ),
        sa.CheckConstraint(
            "target_accuracy > 0 AND target_accuracy < 1",
            name=op.f("ck_routing_policies_target_is_share"),
        ),
        sa.CheckConstraint(
            "threshold >= 0 AND threshold <= 1",
            name=op.f("ck_routing_policies_threshold_is_probability"),
        ),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_routing_policies")),
        sa.UniqueConstraint("ordinal", name=op.f("uq_routing_policies_ordinal")),
    )
    op.create_table(
        "models",
        sa.Column("id", ID, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("summary", JSON, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
        sa.UniqueConstraint("version", name=op.f("uq_models_version")),
    )
    op.create_table(
        "model_activations",
        sa.Column(
            "ordinal",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("activated_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_model_activations_model_id")
        ),
        sa.PrimaryKeyConstraint("ordinal", name=op.f("pk_model_activations")),
        sa.UniqueConstraint("id", name=op.f("uq_model_activations_id")),
    )
    op.create_index(op.f("ix_model_activations_model_id"), "model_activations", ["model_id"])
    # Without a threshold nothing is sent: a new service starts by asking people.
    policies = sa.table(
        "routing_policies",
        sa.column("version", ID),
        sa.column("ordinal"),
        sa.column("target_accuracy"),
        sa.column("risk"),
        sa.column("auto_send", sa.Boolean()),
        sa.column("threshold_mode"),
        sa.column("threshold"),
        sa.column("created_at", INSTANT),
        sa.column("created_by"),
    )
    op.bulk_insert(
        policies,
        [
            {
                "version": "00000000-0000-7000-8000-000000000000",
                "ordinal": 1,
                "target_accuracy": 0.95,
                "risk": 0.1,
                "auto_send": True,
                "threshold_mode": "certified",
                "threshold": None,
                "created_at": datetime.now(UTC),
                "created_by": "system",
            }
        ],
    )


def _predictions() -> None:
    op.create_table(
        "predictions",
        sa.Column("id", ID, nullable=False),
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Text()),
        sa.Column("text", sa.Text()),
        sa.Column("features", JSON),
        sa.Column("metadata", JSON, nullable=False),
        sa.Column("candidates", JSON, nullable=False),
        sa.Column("marginals", JSON, nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("out_of_domain", sa.Boolean(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("threshold", sa.Double()),
        sa.Column("model_version", sa.Text(), nullable=False),
        sa.Column("calibrator_version", sa.Text(), nullable=False),
        sa.Column("policy_version", ID, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint("decision IN ('auto', 'review')", name=op.f("ck_predictions_decision")),
        sa.CheckConstraint(
            "reason IN ('above_threshold', 'below_threshold', 'audit', 'no_threshold', "
            "'out_of_domain', 'breaker', 'rule')",
            name=op.f("ck_predictions_reason"),
        ),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1",
            name=op.f("ck_predictions_confidence_is_probability"),
        ),
        sa.CheckConstraint(
            "text IS NULL OR features IS NULL", name=op.f("ck_predictions_one_content")
        ),
        sa.CheckConstraint(
            "threshold >= 0 AND threshold <= 1",
            name=op.f("ck_predictions_threshold_is_probability"),
        ),
        sa.ForeignKeyConstraint(
            ["policy_version"],
            ["routing_policies.version"],
            name=op.f("fk_predictions_policy_version"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_predictions")),
    )
    op.create_index(op.f("ix_predictions_client_id_id"), "predictions", ["client_id", "id"])
    op.create_index(op.f("ix_predictions_created_at"), "predictions", ["created_at"])
    op.create_index(op.f("ix_predictions_decision_id"), "predictions", ["decision", "id"])
    op.create_index(op.f("ix_predictions_document_id_id"), "predictions", ["document_id", "id"])
    op.create_table(
        "idempotency_keys",
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_idempotency_keys_prediction_id")
        ),
        sa.PrimaryKeyConstraint("client_id", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"])
    op.create_index(
        op.f("ix_idempotency_keys_prediction_id"), "idempotency_keys", ["prediction_id"]
    )


def _reviews() -> None:
    op.create_table(
        "review_tasks",
        sa.Column("id", ID, nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("escalated", sa.Boolean(), nullable=False),
        sa.Column("lease_holder", sa.Text()),
        sa.Column("lease_claimed_at", INSTANT),
        sa.Column("lease_expires_at", INSTANT),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint(
            "(state = 'leased') = (lease_holder IS NOT NULL)"
            " AND (lease_holder IS NULL) = (lease_claimed_at IS NULL)"
            " AND (lease_holder IS NULL) = (lease_expires_at IS NULL)",
            name=op.f("ck_review_tasks_leased_has_lease"),
        ),
        sa.CheckConstraint(
            "kind IN ('review', 'audit', 'overlap', 'adjudication')",
            name=op.f("ck_review_tasks_kind"),
        ),
        sa.CheckConstraint(
            "state IN ('waiting', 'leased', 'completed', 'skipped')",
            name=op.f("ck_review_tasks_state"),
        ),
        sa.CheckConstraint("version >= 1", name=op.f("ck_review_tasks_version_counts")),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_review_tasks_prediction_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_review_tasks")),
    )
    op.create_index(
        "ix_review_tasks_expiry", "review_tasks", ["lease_expires_at"], **where("state = 'leased'")
    )
    op.create_index(
        "ix_review_tasks_holder", "review_tasks", ["lease_holder"], **where("state = 'leased'")
    )
    op.create_index(op.f("ix_review_tasks_prediction_id"), "review_tasks", ["prediction_id"])
    op.create_index(
        "ix_review_tasks_queue",
        "review_tasks",
        ["escalated", "id"],
        **where("state <> 'completed'"),
    )
    op.create_index(op.f("ix_review_tasks_state_id"), "review_tasks", ["state", "id"])
    op.create_index(
        "uq_review_tasks_review",
        "review_tasks",
        ["prediction_id"],
        unique=True,
        **where("kind = 'review'"),
    )
    op.create_table(
        "review_skips",
        sa.Column("task_id", ID, nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("skipped_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["task_id"], ["review_tasks.id"], name=op.f("fk_review_skips_task_id")
        ),
        sa.PrimaryKeyConstraint("task_id", "reviewer", name=op.f("pk_review_skips")),
        sa.UniqueConstraint("task_id", "place", name=op.f("uq_review_skips_task_id_place")),
    )
    op.create_table(
        "annotations",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("comment", sa.Text()),
        sa.Column("agreed", sa.Boolean(), nullable=False),
        sa.Column("chosen_rank", sa.Integer()),
        sa.Column("suggestion_shown", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint("chosen_rank >= 0", name=op.f("ck_annotations_rank_counts")),
        sa.CheckConstraint("seconds >= 0", name=op.f("ck_annotations_seconds_pass")),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_annotations_prediction_id")
        ),
        sa.ForeignKeyConstraint(
            ["task_id"], ["review_tasks.id"], name=op.f("fk_annotations_task_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_annotations")),
        sa.UniqueConstraint("task_id", name=op.f("uq_annotations_task_id")),
    )
    op.create_index(op.f("ix_annotations_prediction_id"), "annotations", ["prediction_id"])
    op.create_index(op.f("ix_annotations_reviewer_id"), "annotations", ["reviewer", "id"])


def _audit_trail_and_jobs() -> None:
    op.create_table(
        "audit_events",
        sa.Column("id", ID, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("actor_id", sa.Text(), nullable=False),
        sa.Column("actor_name", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text()),
        sa.Column("detail", JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_events")),
    )
    op.create_index(op.f("ix_audit_events_subject_id"), "audit_events", ["subject", "id"])
    op.create_table(
        "jobs",
        sa.Column("id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text()),
        sa.Column("payload", JSON, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("progress", sa.Double(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("due_at", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("started_at", INSTANT),
        sa.Column("finished_at", INSTANT),
        sa.Column("lease_expires_at", INSTANT),
        sa.Column("result", JSON),
        sa.Column("error", sa.Text()),
        sa.CheckConstraint(
            "(state = 'running') = (lease_expires_at IS NOT NULL)",
            name=op.f("ck_jobs_running_has_lease"),
        ),
        sa.CheckConstraint(
            "(state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)",
            name=op.f("ck_jobs_finished_has_end"),
        ),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')",
            name=op.f("ck_jobs_state"),
        ),
        sa.CheckConstraint("attempt >= 0 AND token >= 0", name=op.f("ck_jobs_counts")),
        sa.CheckConstraint(
            "progress >= 0 AND progress <= 1", name=op.f("ck_jobs_progress_is_share")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_due", "jobs", ["due_at", "id"], **where("state = 'queued'"))
    op.create_index(
        "ix_jobs_expiry", "jobs", ["lease_expires_at", "id"], **where("state = 'running'")
    )
    op.create_index(
        "uq_jobs_key", "jobs", ["key"], unique=True, **where("state IN ('queued', 'running')")
    )


def _guard_postgresql() -> None:
    op.execute(
        """
        CREATE FUNCTION setwise_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'rows of % are history: they are never changed or deleted',
                TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
        END $$
        """
    )
    for table in UNCHANGING:
        _refuse_postgresql(table, "rows", "UPDATE OR DELETE", "ROW")
    for table in (*UNCHANGING, "review_tasks"):
        _refuse_postgresql(table, "truncate", "TRUNCATE", "STATEMENT")
    _refuse_postgresql("review_tasks", "delete", "DELETE", "ROW")
    _refuse_postgresql(
        "review_tasks", "completed", "UPDATE", "ROW", "WHEN (OLD.state = 'completed')"
    )


def _refuse_postgresql(table: str, name: str, change: str, level: str, condition: str = "") -> None:
    op.execute(
        f"CREATE TRIGGER {table}_keep_{name} BEFORE {change} ON {table} FOR EACH {level} "
        f"{condition} EXECUTE FUNCTION setwise_refuse_change()"
    )


def _guard_sqlite() -> None:
    for table in UNCHANGING:
        _refuse_sqlite(table, "rows", "UPDATE")
    for table in (*UNCHANGING, "review_tasks"):
        _refuse_sqlite(table, "delete", "DELETE")
    _refuse_sqlite("review_tasks", "completed", "UPDATE", "WHEN OLD.state = 'completed'")


def _refuse_sqlite(table: str, name: str, change: str, condition: str = "") -> None:
    op.execute(
        f"CREATE TRIGGER {table}_keep_{name} BEFORE {change} ON {table} {condition} BEGIN "
        f"SELECT RAISE(ABORT, 'rows of {table} are history: they are never changed or deleted'); "
        "END"
    )
