"""The tables of 0.2.0, as `stores.tables` declares them.

Revision ID: 0001
Revises:
"""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(sa.UUID(as_uuid=False), "postgresql")
INSTANT = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)
COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

FIRST_POLICY = {
    "version": "00000000-0000-7000-8000-000000000000",
    "ordinal": 1,
    "target_accuracy": 0.95,
    "risk": 0.1,
    "auto_send": True,
    "threshold_mode": "certified",
    "certification_rate": 0.0,
    "training_rate": 0.0,
    "overlap_rate": 0.0,
    "gold_reread_rate": 0.0,
    "audit_mode": "hold",
    "rules": [],
    "segment_by": {"field": None, "bounds": [], "most": 10, "covers": None},
    "retrain": "automatic",
    "created_by": "system",
}
FIRST_GATE = {"policy_version": FIRST_POLICY["version"], "place": 0, "value": "all"}
FIRST_GROUP = {"id": "default", "name": "Everybody", "version": 1, "changed_by": "system"}


def upgrade() -> None:
    """Create every table, its guards, and the rows that each installation starts with."""
    _accounts()
    _models_and_policies()
    _predictions()
    _reviews()
    _proofs()
    _audit_trail_and_jobs()
    _webhooks()
    _words()
    _guards()
    _first_rows()


def downgrade() -> None:
    """Drop every table, and with each its triggers."""
    words = ["searched_texts"] if _on_postgresql() else ["searched_words", "searched_places"]
    for table in (*words, *reversed(TABLES)):
        op.drop_table(table)
    if _on_postgresql():
        op.execute("DROP FUNCTION setwise_refuse_change")


def where(condition: str) -> dict[str, sa.TextClause]:
    """Restrict an index to some rows."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _accounts() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("revoked_at", INSTANT),
        sa.Column("scopes", JSON),
        sa.Column("expires_at", INSTANT),
        sa.Column("per_minute", sa.Integer()),
        sa.Column("last_used_at", INSTANT),
        sa.Column("old_digest", sa.LargeBinary()),
        sa.Column("old_expires_at", INSTANT),
        sa.CheckConstraint("length(digest) = 32", name=op.f("ck_api_keys_digest_is_sha256")),
        sa.CheckConstraint(
            "role IN ('client', 'reviewer', 'lead', 'admin', 'auditor')",
            name=op.f("ck_api_keys_role"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_keys_digest")),
    )
    op.create_index("ix_api_keys_old_digest", "api_keys", ["old_digest"])
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
        sa.Column("invitation", sa.LargeBinary()),
        sa.Column("invited_until", INSTANT),
        sa.CheckConstraint(
            "role IN ('client', 'reviewer', 'lead', 'admin', 'auditor')",
            name=op.f("ck_people_role"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_people")),
        sa.UniqueConstraint("external_id", name=op.f("uq_people_external_id")),
        sa.UniqueConstraint("login", name=op.f("uq_people_login")),
    )
    op.create_index("ix_people_invitation", "people", ["invitation"])
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
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_index("ix_sessions_person_id", "sessions", ["person_id"])
    op.create_table(
        "encryption_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("first_used_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_encryption_keys")),
    )
    op.create_table(
        "sign_in_attempts",
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("last_at", INSTANT, nullable=False),
        sa.CheckConstraint("count >= 0", name=op.f("ck_sign_in_attempts_count_counts")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_sign_in_attempts")),
    )
    op.create_index("ix_sign_in_attempts_last_at", "sign_in_attempts", ["last_at"])


def _models_and_policies() -> None:
    op.create_table(
        "policies",
        sa.Column("version", ID, nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("target_accuracy", sa.Double(), nullable=False),
        sa.Column("risk", sa.Double(), nullable=False),
        sa.Column("auto_send", sa.Boolean(), nullable=False),
        sa.Column("threshold_mode", sa.Text(), nullable=False),
        sa.Column("fixed_threshold", sa.Double()),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("confidence_floor", sa.Double()),
        sa.Column("certification_rate", sa.Double(), nullable=False),
        sa.Column("training_rate", sa.Double(), nullable=False),
        sa.Column("audit_mode", sa.Text(), nullable=False),
        sa.Column("overlap_rate", sa.Double(), nullable=False),
        sa.Column("gold_reread_rate", sa.Double(), nullable=False),
        sa.Column("rules", JSON, nullable=False),
        sa.Column("ramp_up_rate", sa.Double()),
        sa.Column("rest_rate", sa.Double()),
        sa.Column("segment_by", JSON, nullable=False),
        sa.Column("retrain", sa.Text(), nullable=False),
        sa.CheckConstraint("audit_mode IN ('hold', 'send')", name=op.f("ck_policies_audit_mode")),
        sa.CheckConstraint(
            "certification_rate >= 0 AND certification_rate <= 1",
            name=op.f("ck_policies_certification_rate_is_share"),
        ),
        sa.CheckConstraint(
            "confidence_floor >= 0 AND confidence_floor <= 1",
            name=op.f("ck_policies_confidence_floor_is_share"),
        ),
        sa.CheckConstraint(
            "(threshold_mode = 'fixed') = (fixed_threshold IS NOT NULL)",
            name=op.f("ck_policies_fixed_has_threshold"),
        ),
        sa.CheckConstraint(
            "fixed_threshold >= 0 AND fixed_threshold <= 1",
            name=op.f("ck_policies_fixed_threshold_is_share"),
        ),
        sa.CheckConstraint(
            "gold_reread_rate >= 0 AND gold_reread_rate <= 1",
            name=op.f("ck_policies_gold_reread_rate_is_share"),
        ),
        sa.CheckConstraint(
            "overlap_rate >= 0 AND overlap_rate <= 1",
            name=op.f("ck_policies_overlap_rate_is_share"),
        ),
        sa.CheckConstraint(
            "ramp_up_rate >= 0 AND ramp_up_rate <= 1",
            name=op.f("ck_policies_ramp_up_rate_is_share"),
        ),
        sa.CheckConstraint(
            "retrain IN ('never', 'propose', 'automatic')", name=op.f("ck_policies_retrain")
        ),
        sa.CheckConstraint(
            "rest_rate >= 0 AND rest_rate <= 1",
            name=op.f("ck_policies_rest_rate_is_share"),
        ),
        sa.CheckConstraint("risk > 0 AND risk < 1", name=op.f("ck_policies_risk_is_probability")),
        sa.CheckConstraint(
            "target_accuracy > 0 AND target_accuracy < 1",
            name=op.f("ck_policies_target_is_share"),
        ),
        sa.CheckConstraint(
            "threshold_mode IN ('certified', 'fixed')",
            name=op.f("ck_policies_threshold_mode"),
        ),
        sa.CheckConstraint(
            "training_rate >= 0 AND training_rate <= 1",
            name=op.f("ck_policies_training_rate_is_share"),
        ),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_policies")),
        sa.UniqueConstraint("ordinal", name=op.f("uq_policies_ordinal")),
    )
    op.create_table(
        "gates",
        sa.Column("policy_version", ID, nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("threshold", sa.Double()),
        sa.Column("certificate_id", ID),
        sa.Column("certified_model", sa.Text()),
        sa.Column("certified_calibrator", sa.Text()),
        sa.Column("trip_id", ID),
        sa.Column("audits", JSON),
        sa.Column("audited_from", sa.Double()),
        sa.Column("audited_model", sa.Text()),
        sa.Column("audited_calibrator", sa.Text()),
        sa.CheckConstraint(
            "threshold >= 0 AND threshold <= 1",
            name=op.f("ck_gates_threshold_is_probability"),
        ),
        sa.ForeignKeyConstraint(
            ["policy_version"],
            ["policies.version"],
            name=op.f("fk_gates_policy_version"),
        ),
        sa.PrimaryKeyConstraint("policy_version", "place", name=op.f("pk_gates")),
        sa.UniqueConstraint("policy_version", "value", name=op.f("uq_gates_policy_version_value")),
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
        sa.Column("ordinal", COUNTER, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("activated_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_model_activations_model_id")
        ),
        sa.PrimaryKeyConstraint("ordinal", name=op.f("pk_model_activations")),
        sa.UniqueConstraint("id", name=op.f("uq_model_activations_id")),
    )
    op.create_index("ix_model_activations_model_id", "model_activations", ["model_id"])
    op.create_table(
        "model_shadows",
        sa.Column("id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("started_by", sa.Text(), nullable=False),
        sa.Column("ended_at", INSTANT),
        sa.Column("place", sa.Integer(), nullable=False, server_default=sa.text("1")),
        sa.CheckConstraint("place = 1", name=op.f("ck_model_shadows_one_place")),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_model_shadows_model_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_shadows")),
    )
    op.create_index(
        "uq_model_shadows_place",
        "model_shadows",
        ["place"],
        unique=True,
        **where("ended_at IS NULL"),
    )


def _predictions() -> None:
    op.create_table(
        "predictions",
        sa.Column("id", ID, nullable=False),
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Text()),
        sa.Column("text", sa.Text()),
        sa.Column("features", JSON),
        sa.Column("answer", JSON),
        sa.Column("metadata", JSON, nullable=False),
        sa.Column("candidates", JSON, nullable=False),
        sa.Column("marginals", JSON, nullable=False),
        sa.Column("confidence", sa.Double()),
        sa.Column("out_of_domain", sa.Boolean(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("threshold", sa.Double()),
        sa.Column("model_version", sa.Text()),
        sa.Column("calibrator_version", sa.Text()),
        sa.Column("policy_version", ID, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("audit_role", sa.Text(), nullable=False),
        sa.Column("draw", sa.Double()),
        sa.Column("inclusion_probability", sa.Double()),
        sa.Column("audit_chance", sa.Double()),
        sa.Column("in_rest", sa.Boolean(), nullable=False),
        sa.Column("cluster", sa.Double()),
        sa.Column("bands", sa.LargeBinary()),
        sa.Column("rule", sa.Text()),
        sa.Column("purged_at", INSTANT),
        sa.Column("own_confidences", JSON),
        sa.Column("uncalibrated", sa.Boolean(), nullable=False),
        sa.Column("actor_name", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text()),
        sa.Column("address", sa.Text()),
        sa.Column("segment", sa.Text()),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("due_at", INSTANT),
        sa.Column("earlier_versions", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "audit_role IN ('none', 'certification', 'training')",
            name=op.f("ck_predictions_audit_role"),
        ),
        sa.CheckConstraint(
            "(reason = 'no_model') = (model_version IS NULL)"
            " AND (model_version IS NULL) = (calibrator_version IS NULL)"
            " AND (model_version IS NULL) = (confidence IS NULL)",
            name=op.f("ck_predictions_scored_by_model"),
        ),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1",
            name=op.f("ck_predictions_confidence_is_probability"),
        ),
        sa.CheckConstraint("decision IN ('auto', 'review')", name=op.f("ck_predictions_decision")),
        sa.CheckConstraint("draw >= 0 AND draw <= 1", name=op.f("ck_predictions_draw_is_share")),
        sa.CheckConstraint(
            "cluster >= 0 AND cluster <= 1", name=op.f("ck_predictions_cluster_is_share")
        ),
        sa.CheckConstraint(
            "audit_chance >= 0 AND audit_chance <= 1",
            name=op.f("ck_predictions_audit_chance_is_share"),
        ),
        sa.CheckConstraint(
            "inclusion_probability >= 0 AND inclusion_probability <= 1",
            name=op.f("ck_predictions_inclusion_probability_is_share"),
        ),
        sa.CheckConstraint(
            "text IS NULL OR features IS NULL", name=op.f("ck_predictions_one_content")
        ),
        sa.CheckConstraint(
            "priority >= 0 AND priority <= 2", name=op.f("ck_predictions_priority_is_known")
        ),
        sa.CheckConstraint(
            "reason IN ('above_threshold', 'below_threshold', 'audit', 'no_threshold',"
            " 'out_of_domain', 'breaker', 'rule', 'no_model')",
            name=op.f("ck_predictions_reason"),
        ),
        sa.CheckConstraint(
            "threshold >= 0 AND threshold <= 1",
            name=op.f("ck_predictions_threshold_is_probability"),
        ),
        sa.ForeignKeyConstraint(
            ["policy_version"],
            ["policies.version"],
            name=op.f("fk_predictions_policy_version"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_predictions")),
    )
    op.create_index(
        "ix_predictions_audits",
        "predictions",
        [
            "audit_role",
            "id",
            "model_version",
            "calibrator_version",
            "decision",
            "reason",
            "policy_version",
            "created_at",
            "client_id",
            "document_id",
            "draw",
            "confidence",
            "inclusion_probability",
            "audit_chance",
            "in_rest",
            "cluster",
            "bands",
            "segment",
            "uncalibrated",
            "earlier_versions",
        ],
        **where("audit_role <> 'none'"),
    )
    op.create_index("ix_predictions_client_id_id", "predictions", ["client_id", "id"])
    op.create_index("ix_predictions_confidence_id", "predictions", ["confidence", "id"])
    op.create_index("ix_predictions_decision_id", "predictions", ["decision", "id"])
    op.create_index(
        "ix_predictions_document_id",
        "predictions",
        ["document_id", "decision", "client_id", "confidence", "created_at"],
    )
    op.create_index(
        "ix_predictions_cluster",
        "predictions",
        ["cluster", "decision", "client_id", "confidence", "created_at"],
    )
    op.create_index(
        "ix_predictions_reports",
        "predictions",
        [
            "created_at",
            "id",
            "decision",
            "reason",
            "confidence",
            "inclusion_probability",
            "in_rest",
            "segment",
        ],
    )
    op.create_index(
        "ix_predictions_segment_id",
        "predictions",
        ["segment", "id"],
        **where("segment IS NOT NULL"),
    )
    op.create_table(
        "labels",
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("id", ID),
        sa.Column("name", sa.Text()),
        sa.Column("guideline", sa.Text()),
        sa.Column("parent", sa.Text()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("merged_into", sa.Text()),
        sa.Column("in_model", sa.Boolean(), nullable=False),
        sa.Column("proposed_by", sa.Text()),
        sa.Column("proposed_at", INSTANT),
        sa.Column("proposed_in", ID),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "(state = 'merged') = (merged_into IS NOT NULL)",
            name=op.f("ck_labels_merged_has_target"),
        ),
        sa.CheckConstraint(
            "state IN ('accepted', 'proposed', 'retired', 'merged')", name=op.f("ck_labels_state")
        ),
        sa.CheckConstraint("version >= 1", name=op.f("ck_labels_version_counts")),
        sa.ForeignKeyConstraint(
            ["proposed_in"], ["predictions.id"], name=op.f("fk_labels_proposed_in")
        ),
        sa.PrimaryKeyConstraint("label", name=op.f("pk_labels")),
        sa.UniqueConstraint("id", name=op.f("uq_labels_id")),
    )
    op.create_table(
        "prediction_labels",
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("label", "prediction_id", name=op.f("pk_prediction_labels")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "final_labels",
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("label", "prediction_id", name=op.f("pk_final_labels")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_final_labels_prediction_id", "final_labels", ["prediction_id"])
    op.create_table(
        "unindexed_texts",
        sa.Column("prediction_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("prediction_id", name=op.f("pk_unindexed_texts")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "model_comparisons",
        sa.Column("id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("same_labels", sa.Boolean(), nullable=False),
        sa.Column("same_decision", sa.Boolean(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1",
            name=op.f("ck_model_comparisons_confidence_is_probability"),
        ),
        sa.CheckConstraint(
            "decision IN ('auto', 'review')", name=op.f("ck_model_comparisons_decision")
        ),
        sa.CheckConstraint(
            "reason IN ('above_threshold', 'below_threshold', 'audit', 'no_threshold',"
            " 'out_of_domain', 'breaker', 'rule', 'no_model')",
            name=op.f("ck_model_comparisons_reason"),
        ),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_model_comparisons_model_id")
        ),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_model_comparisons_prediction_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_comparisons")),
        sa.UniqueConstraint(
            "model_id", "prediction_id", name=op.f("uq_model_comparisons_model_id_prediction_id")
        ),
    )
    op.create_index(
        "ix_model_comparisons_counts",
        "model_comparisons",
        ["model_id", "decision", "same_decision", "same_labels"],
    )
    op.create_index("ix_model_comparisons_model_id_id", "model_comparisons", ["model_id", "id"])
    op.create_index("ix_model_comparisons_prediction_id", "model_comparisons", ["prediction_id"])
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
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])
    op.create_index("ix_idempotency_keys_prediction_id", "idempotency_keys", ["prediction_id"])
    op.create_table(
        "idempotent_requests",
        sa.Column("owner_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("response", sa.LargeBinary()),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("owner_id", "key", name=op.f("pk_idempotent_requests")),
    )
    op.create_index("ix_idempotent_requests_created_at", "idempotent_requests", ["created_at"])


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
        sa.Column("assigned_to", sa.Text()),
        sa.Column("tier", sa.Integer(), nullable=False),
        sa.Column("queued_at", INSTANT, nullable=False),
        sa.Column("due_at", INSTANT),
        sa.Column("marked", sa.Boolean(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("proposed", JSON),
        sa.Column("decided_labels", JSON),
        sa.Column("decided_comment", sa.Text()),
        sa.Column("decided_by", sa.Text()),
        sa.Column("decided_at", INSTANT),
        sa.Column("settles_at", INSTANT),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1",
            name=op.f("ck_review_tasks_confidence_is_share"),
        ),
        sa.CheckConstraint(
            "kind IN ('review', 'audit', 'overlap', 'adjudication')",
            name=op.f("ck_review_tasks_kind"),
        ),
        sa.CheckConstraint(
            "(state = 'leased') = (lease_holder IS NOT NULL)"
            " AND (lease_holder IS NULL) = (lease_claimed_at IS NULL)"
            " AND (lease_holder IS NULL) = (lease_expires_at IS NULL)",
            name=op.f("ck_review_tasks_leased_has_lease"),
        ),
        sa.CheckConstraint("round >= 0", name=op.f("ck_review_tasks_round_counts")),
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
        "ix_review_tasks_assigned_to",
        "review_tasks",
        ["assigned_to", "escalated", "tier", "queued_at", "id"],
        **where("state <> 'completed' AND assigned_to IS NOT NULL"),
    )
    op.create_index("ix_review_tasks_created_at", "review_tasks", ["created_at"])
    op.create_index(
        "ix_review_tasks_due",
        "review_tasks",
        ["due_at"],
        **where("state <> 'completed' AND due_at IS NOT NULL"),
    )
    op.create_index(
        "ix_review_tasks_expiry", "review_tasks", ["lease_expires_at"], **where("state = 'leased'")
    )
    op.create_index(
        "ix_review_tasks_holder", "review_tasks", ["lease_holder"], **where("state = 'leased'")
    )
    op.create_index(
        "ix_review_tasks_plan",
        "review_tasks",
        ["escalated", "tier", "marked", "confidence", "queued_at", "id"],
        **where("state <> 'completed'"),
    )
    op.create_index(
        "ix_review_tasks_queue",
        "review_tasks",
        ["escalated", "tier", "queued_at", "id"],
        **where("state <> 'completed'"),
    )
    op.create_index(
        "ix_review_tasks_settles", "review_tasks", ["settles_at"], **where("settles_at IS NOT NULL")
    )
    op.create_index("ix_review_tasks_state_id", "review_tasks", ["state", "id"])
    op.create_index(
        "uq_review_tasks_prediction_id_kind",
        "review_tasks",
        ["prediction_id", "kind", "round"],
        unique=True,
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
        "suggestion_readers",
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("reader", sa.Text(), nullable=False),
        sa.Column("read_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_suggestion_readers_prediction_id")
        ),
        sa.PrimaryKeyConstraint("prediction_id", "reader", name=op.f("pk_suggestion_readers")),
    )
    op.create_table(
        "annotations",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("written", JSON),
        sa.Column("comment", sa.Text()),
        sa.Column("agreed", sa.Boolean()),
        sa.Column("chosen_rank", sa.Integer()),
        sa.Column("suggestion_shown", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("settles", sa.Boolean(), nullable=False),
        sa.Column("group", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("reread_rate", sa.Double()),
        sa.Column("reread_draw", sa.Double()),
        sa.CheckConstraint(
            "kind IN ('review', 'audit', 'overlap', 'adjudication')",
            name=op.f("ck_annotations_kind"),
        ),
        sa.CheckConstraint("chosen_rank >= 0", name=op.f("ck_annotations_rank_counts")),
        sa.CheckConstraint(
            "reread_draw >= 0 AND reread_draw <= 1",
            name=op.f("ck_annotations_reread_draw_is_share"),
        ),
        sa.CheckConstraint(
            "reread_rate >= 0 AND reread_rate <= 1",
            name=op.f("ck_annotations_reread_rate_is_share"),
        ),
        sa.CheckConstraint("round >= 0", name=op.f("ck_annotations_round_counts")),
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
    op.create_index("ix_annotations_prediction_id", "annotations", ["prediction_id"])
    op.create_index(
        "ix_annotations_reports", "annotations", ["created_at", "prediction_id", "seconds"]
    )
    op.create_index("ix_annotations_reviewer_id", "annotations", ["reviewer", "id"])
    op.create_table(
        "comments",
        sa.Column("id", ID, nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("thread", ID, nullable=False),
        sa.Column("task_id", ID),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_comments_prediction_id")
        ),
        sa.ForeignKeyConstraint(["task_id"], ["review_tasks.id"], name=op.f("fk_comments_task_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_comments")),
    )
    op.create_index("ix_comments_author", "comments", ["author"])
    op.create_index("ix_comments_prediction_id_id", "comments", ["prediction_id", "id"])
    op.create_index("ix_comments_task_id", "comments", ["task_id"])
    op.create_table(
        "comment_readers",
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("reader", sa.Text(), nullable=False),
        sa.Column("read_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_comment_readers_prediction_id")
        ),
        sa.PrimaryKeyConstraint("prediction_id", "reader", name=op.f("pk_comment_readers")),
    )
    op.create_table(
        "annotator_groups",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("alpha", sa.Double()),
        sa.Column("beta", sa.Double()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("changed_at", INSTANT, nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("alpha_with_suggestion", sa.Double()),
        sa.Column("beta_with_suggestion", sa.Double()),
        sa.CheckConstraint(
            "alpha >= 0 AND beta >= 0 AND alpha + beta < 1",
            name=op.f("ck_annotator_groups_answers_tell"),
        ),
        sa.CheckConstraint(
            "(alpha IS NULL) = (beta IS NULL)", name=op.f("ck_annotator_groups_both_rates")
        ),
        sa.CheckConstraint("version >= 1", name=op.f("ck_annotator_groups_version_counts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_annotator_groups")),
    )
    op.create_table(
        "annotators",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("group", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint("version >= 1", name=op.f("ck_annotators_version_counts")),
        sa.ForeignKeyConstraint(
            ["group"], ["annotator_groups.id"], name=op.f("fk_annotators_group")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_annotators")),
    )
    op.create_table(
        "outcomes",
        sa.Column("id", ID, nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("written", JSON),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("agreed", sa.Boolean()),
        sa.Column("reported_by", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("sampling", sa.Text(), nullable=False),
        sa.Column("echoes", sa.Integer(), nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_outcomes_number_counts")),
        sa.CheckConstraint(
            "sampling IN ('all', 'random_share', 'only_failures', 'only_on_request')",
            name=op.f("ck_outcomes_sampling"),
        ),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_outcomes_prediction_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outcomes")),
        sa.UniqueConstraint(
            "prediction_id", "number", name=op.f("uq_outcomes_prediction_id_number")
        ),
    )
    op.create_index("ix_outcomes_source", "outcomes", ["reported_by", "source", "id"])
    op.create_table(
        "checks",
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("segment", sa.Text()),
        sa.Column("model_version", sa.Text()),
        sa.Column("calibrator_version", sa.Text()),
        sa.Column("confidence", sa.Double()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("inclusion_probability", sa.Double()),
        sa.Column("predicted_at", INSTANT, nullable=False),
        sa.Column("contradicted", sa.Boolean(), nullable=False),
        sa.Column("answered_at", INSTANT, nullable=False),
        sa.Column("labels", JSON),
        sa.Column("decided_by", sa.Text()),
        sa.Column("reviewer_agreed", sa.Boolean()),
        sa.Column("decided_at", INSTANT),
        sa.Column("outcome_agreed", sa.Boolean()),
        sa.Column("reported_at", INSTANT),
        sa.Column("waits", sa.Boolean(), nullable=False),
        sa.Column("audit_agreed", sa.Boolean()),
        sa.Column("audit_labels", JSON),
        sa.Column("lead_agreed", sa.Boolean()),
        sa.Column("lead_labels", JSON),
        sa.Column("reread", sa.Boolean()),
        sa.Column("reread_rate", sa.Double()),
        sa.Column("reread_draw", sa.Double()),
        sa.Column("first_id", ID),
        sa.Column("first_reviewer", sa.Text()),
        sa.Column("first_group", sa.Text()),
        sa.Column("first_agreed", sa.Boolean()),
        sa.Column("first_shown", sa.Boolean()),
        sa.Column("reopened_agreed", sa.Boolean()),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_checks_prediction_id")
        ),
        sa.PrimaryKeyConstraint("prediction_id", name=op.f("pk_checks")),
    )
    op.create_index(
        "ix_checks_audits",
        "checks",
        ["prediction_id", "audit_agreed", "lead_agreed"],
        **where("audit_agreed IS NOT NULL"),
    )
    op.create_index("ix_checks_contradicted", "checks", ["prediction_id"], **where("contradicted"))
    op.create_index("ix_checks_decided_at", "checks", ["decided_at"])
    op.create_index(
        "ix_checks_model_version_prediction_id", "checks", ["model_version", "prediction_id"]
    )
    op.create_index(
        "ix_checks_reported_at", "checks", ["reported_at"], **where("reported_at IS NOT NULL")
    )
    op.create_table(
        "prediction_counts",
        *_counted(),
        *_decided(),
        sa.Column("inclusion_probability", sa.Double()),
        sa.Column("in_rest", sa.Boolean(), nullable=False),
        sa.Column("reviewer_agreed", sa.Boolean()),
        sa.Column("outcome_agreed", sa.Boolean()),
        sa.Column("reread", sa.Boolean()),
        sa.Column("reread_rate", sa.Double()),
        sa.Column("first_shown", sa.Boolean()),
        sa.Column("documents", sa.BigInteger(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("day", "kind", name=op.f("pk_prediction_counts")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "step_counts",
        *_counted(),
        *_decided(),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("documents", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "kind", name=op.f("pk_step_counts")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "review_counts",
        *_counted(),
        sa.Column("reading", sa.Text()),
        sa.Column("arrived", sa.BigInteger(), nullable=False),
        sa.Column("completed", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("day", "kind", name=op.f("pk_review_counts")),
        sqlite_with_rowid=False,
    )


def _counted() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("segment", sa.Text()),
    )


def _decided() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
    )


def _proofs() -> None:
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
        sa.Column("segment", sa.Text()),
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
            ["policies.version"],
            name=op.f("fk_certifications_policy_version"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_certifications")),
        sa.UniqueConstraint(
            "model_version", "attempt", name=op.f("uq_certifications_model_version_attempt")
        ),
    )
    op.create_table(
        "other_scores",
        sa.Column("prediction_id", ID, nullable=False),
        sa.Column("model_version", sa.Text(), nullable=False),
        sa.Column("calibrator_version", sa.Text(), nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1",
            name=op.f("ck_other_scores_confidence_is_probability"),
        ),
        sa.ForeignKeyConstraint(
            ["prediction_id"], ["predictions.id"], name=op.f("fk_other_scores_prediction_id")
        ),
        sa.PrimaryKeyConstraint(
            "prediction_id", "model_version", "calibrator_version", name=op.f("pk_other_scores")
        ),
    )
    op.create_index(
        "ix_other_scores_model_version_calibrator_version_prediction_id",
        "other_scores",
        ["model_version", "calibrator_version", "prediction_id"],
    )
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
        sa.Column("segment", sa.Text()),
        sa.CheckConstraint("cause IN ('drift', 'stale')", name=op.f("ck_breaker_trips_cause")),
        sa.ForeignKeyConstraint(
            ["policy_version"],
            ["policies.version"],
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
            ["certificate_id"], ["certifications.id"], name=op.f("fk_breaker_resets_certificate_id")
        ),
        sa.ForeignKeyConstraint(
            ["trip_id"], ["breaker_trips.id"], name=op.f("fk_breaker_resets_trip_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_breaker_resets")),
        sa.UniqueConstraint("trip_id", name=op.f("uq_breaker_resets_trip_id")),
    )
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
    op.create_index("ix_calibrations_model_id_version", "calibrations", ["model_id", "version"])
    op.create_table(
        "calibration_activations",
        sa.Column("ordinal", COUNTER, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("calibration_id", ID),
        sa.Column("activated_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["calibration_id"],
            ["calibrations.id"],
            name=op.f("fk_calibration_activations_calibration_id"),
        ),
        sa.ForeignKeyConstraint(
            ["model_id"], ["models.id"], name=op.f("fk_calibration_activations_model_id")
        ),
        sa.PrimaryKeyConstraint("ordinal", name=op.f("pk_calibration_activations")),
        sa.UniqueConstraint("id", name=op.f("uq_calibration_activations_id")),
    )
    op.create_index(
        "ix_calibration_activations_calibration_id", "calibration_activations", ["calibration_id"]
    )
    op.create_index(
        "ix_calibration_activations_model_id_ordinal",
        "calibration_activations",
        ["model_id", "ordinal"],
    )


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
        sa.Column("address", sa.Text()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_events")),
    )
    op.create_index("ix_audit_events_action_id", "audit_events", ["action", "id"])
    op.create_index("ix_audit_events_actor_id_id", "audit_events", ["actor_id", "id"])
    op.create_index("ix_audit_events_subject_id", "audit_events", ["subject", "id"])
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
        sa.Column("error_code", sa.Text()),
        sa.Column("owner_id", sa.Text()),
        sa.Column("request_key", sa.Text()),
        sa.Column("checkpoint", JSON),
        sa.CheckConstraint("attempt >= 0 AND token >= 0", name=op.f("ck_jobs_counts")),
        sa.CheckConstraint(
            "(state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)",
            name=op.f("ck_jobs_finished_has_end"),
        ),
        sa.CheckConstraint(
            "progress >= 0 AND progress <= 1", name=op.f("ck_jobs_progress_is_share")
        ),
        sa.CheckConstraint(
            "(state = 'running') = (lease_expires_at IS NOT NULL)",
            name=op.f("ck_jobs_running_has_lease"),
        ),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')",
            name=op.f("ck_jobs_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_due", "jobs", ["due_at", "id"], **where("state = 'queued'"))
    op.create_index(
        "ix_jobs_expiry", "jobs", ["lease_expires_at", "id"], **where("state = 'running'")
    )
    op.create_index("ix_jobs_owner_id_id", "jobs", ["owner_id", "id"])
    op.create_index("ix_jobs_state_id", "jobs", ["state", "id"])
    op.create_index(
        "uq_jobs_key", "jobs", ["key"], unique=True, **where("state IN ('queued', 'running')")
    )
    op.create_index(
        "uq_jobs_request",
        "jobs",
        ["owner_id", "request_key"],
        unique=True,
        **where("request_key IS NOT NULL"),
    )


def _webhooks() -> None:
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
    op.create_index("ix_outbox_messages_document_key", "outbox_messages", ["document_key"])
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
            "message_ordinal", "endpoint_id", name=op.f("uq_deliveries_message_ordinal_endpoint_id")
        ),
    )
    op.create_index(
        "ix_deliveries_dead",
        "deliveries",
        ["endpoint_id", "message_ordinal"],
        **where("state = 'dead'"),
    )
    op.create_index(
        "ix_deliveries_due",
        "deliveries",
        ["endpoint_id", "due_at"],
        **where("state = 'pending' AND due_at IS NOT NULL"),
    )
    op.create_index("ix_deliveries_endpoint_id_id", "deliveries", ["endpoint_id", "id"])
    op.create_index(
        "ix_deliveries_order",
        "deliveries",
        ["endpoint_id", "document_key", "message_ordinal"],
        **where("state = 'pending'"),
    )
    op.create_index("ix_deliveries_state_id", "deliveries", ["state", "id"])
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
        "ix_delivery_attempts_delivery_id_id", "delivery_attempts", ["delivery_id", "id"]
    )


TABLES = (
    "api_keys",
    "people",
    "sessions",
    "encryption_keys",
    "sign_in_attempts",
    "policies",
    "gates",
    "models",
    "model_activations",
    "model_shadows",
    "predictions",
    "labels",
    "prediction_labels",
    "final_labels",
    "unindexed_texts",
    "model_comparisons",
    "idempotency_keys",
    "idempotent_requests",
    "review_tasks",
    "review_skips",
    "suggestion_readers",
    "annotations",
    "comments",
    "comment_readers",
    "annotator_groups",
    "annotators",
    "outcomes",
    "checks",
    "prediction_counts",
    "step_counts",
    "review_counts",
    "certifications",
    "other_scores",
    "breaker_trips",
    "breaker_resets",
    "calibrations",
    "calibration_activations",
    "audit_events",
    "jobs",
    "outbox_messages",
    "webhook_endpoints",
    "deliveries",
    "delivery_attempts",
)

RELABELLED = {
    "labels": "NEW.written IS NOT NULL",
    "agreed": "NEW.written IS NOT NULL",
    "written": "CAST(NEW.written AS TEXT) = CAST(coalesce(OLD.written, OLD.labels) AS TEXT)"
    """ OR CAST(NEW.written AS TEXT) LIKE '%""%'""",
}

HISTORY: dict[str, dict[str, str]] = {
    "policies": {},
    "gates": {},
    "model_activations": {},
    "predictions": {
        "document_id": "NEW.document_id IS NULL",
        "text": "NEW.text IS NULL OR CAST(NEW.text AS TEXT) LIKE 'sw1:%'",
        "features": "NEW.features IS NULL OR CAST(NEW.features AS TEXT) LIKE '\"sw1:%'",
        "answer": "NEW.answer IS NULL OR CAST(NEW.answer AS TEXT) LIKE '\"sw1:%'",
        "metadata": "CAST(NEW.metadata AS TEXT) = '{}' "
        "OR CAST(NEW.metadata AS TEXT) LIKE '\"sw1:%'",
        "purged_at": "OLD.purged_at IS NULL AND NEW.purged_at IS NOT NULL",
    },
    "annotations": {
        "comment": "NEW.comment IS NULL OR CAST(NEW.comment AS TEXT) LIKE 'sw1:%'",
        **RELABELLED,
    },
    "outcomes": RELABELLED,
    "certifications": {},
    "other_scores": {},
    "breaker_trips": {},
    "breaker_resets": {},
    "calibrations": {},
    "calibration_activations": {},
    "audit_events": {},
}
"""Tables whose rows are never deleted, and the conditions on which columns may change."""


def _words() -> None:
    """Create the index of the words of plain texts, by what each database offers."""
    if _on_postgresql():
        op.execute(
            "CREATE TABLE searched_texts (prediction_id UUID NOT NULL "
            "CONSTRAINT pk_searched_texts PRIMARY KEY, trigrams TSVECTOR NOT NULL, "
            "form TEXT NOT NULL)"
        )
        op.execute("CREATE INDEX ix_searched_texts_trigrams ON searched_texts USING gin (trigrams)")
    else:
        op.execute(
            "CREATE TABLE searched_places (place INTEGER NOT NULL PRIMARY KEY, "
            "prediction_id VARCHAR(36) NOT NULL UNIQUE)"
        )
        op.execute(
            "CREATE VIRTUAL TABLE searched_words USING fts5 "
            "(trigrams, content = '', tokenize = \"ascii tokenchars '_.+#|'\")"
        )


def _guards() -> None:
    """Have the database refuse to change or delete history."""
    if _on_postgresql():
        op.execute(
            """
    CREATE FUNCTION setwise_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'rows of % are history: they are never changed or deleted',
            TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END $$
"""
        )
    for table, conditions in HISTORY.items():
        columns = [column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)]
        fixed = ", ".join(f'"{name}"' for name in columns if name not in conditions)
        _refuse(table, "rows", f"UPDATE OF {fixed}" if conditions else "UPDATE")
        for column, condition in conditions.items():
            _refuse(table, column, f'UPDATE OF "{column}"', f"NOT ({condition})")
    _refuse("review_tasks", "completed", "UPDATE", "OLD.state = 'completed'")
    for table in (*HISTORY, "review_tasks"):
        _refuse(table, "delete", "DELETE")
        if _on_postgresql():
            _refuse(table, "truncate", "TRUNCATE")


def _refuse(table: str, name: str, change: str, condition: str = "TRUE") -> None:
    action = "EXECUTE FUNCTION setwise_refuse_change()"
    if not _on_postgresql():
        refusal = f"rows of {table} are history: they are never changed or deleted"
        action = f"BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
    level = "STATEMENT" if change == "TRUNCATE" else f"ROW WHEN ({condition})"
    op.execute(
        f"CREATE TRIGGER {table}_keep_{name} BEFORE {change} ON {table} FOR EACH {level} {action}"
    )


def _first_rows() -> None:
    now = datetime.now(UTC)
    types = {"version": ID, "rules": JSON, "segment_by": JSON, "created_at": INSTANT}
    policy = FIRST_POLICY | {"created_at": now}
    columns = [sa.column(name, types.get(name)) for name in policy]
    op.bulk_insert(sa.table("policies", *columns), [policy])
    columns = [sa.column(name, ID if name == "policy_version" else None) for name in FIRST_GATE]
    op.bulk_insert(sa.table("gates", *columns), [FIRST_GATE])
    group = FIRST_GROUP | {"changed_at": now}
    columns = [sa.column(name, INSTANT if name == "changed_at" else None) for name in group]
    op.bulk_insert(sa.table("annotator_groups", *columns), [group])


def _on_postgresql() -> bool:
    return bool(op.get_bind().dialect.name == "postgresql")
