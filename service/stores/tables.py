"""Tables, constraints and indexes, as `migrations/` creates them.

`keep_history` makes the database refuse to change or delete rows. Apart from that, the database
does nothing by itself: the stores write what is derived from rows.
"""

from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    and_,
    column,
    literal_column,
    or_,
    table,
    text,
)

from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.breaker import TripCause, TripEvidence
from setwise.service.domain.certification import CertificationEvidence
from setwise.service.domain.documents import CommentKind
from setwise.service.domain.effort import Reading
from setwise.service.domain.jobs import JobState
from setwise.service.domain.labels import LabelState
from setwise.service.domain.outcomes import Sampling
from setwise.service.domain.policy import RetrainMode, ThresholdMode
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.recalibration import Noise
from setwise.service.domain.recalibration.report import CalibrationReport
from setwise.service.domain.reviews import ReviewKind, ReviewState
from setwise.service.domain.routing.audits import AuditMode, AuditRole
from setwise.service.domain.truth import Judge
from setwise.service.domain.webhooks import DeliveryState, MessageType
from setwise.service.stores.columns.guards import (
    allow_history,
    create_with,
    keep_history,
    keep_rows,
    refuse,
)
from setwise.service.stores.columns.types import (
    Choice,
    Id,
    Instant,
    Json,
    JsonOf,
    Sealed,
    SealedJson,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Counter = BigInteger().with_variant(Integer, "sqlite")
"""An auto-incremented number; SQLite auto-increments only plain integers."""

# A reopened document has a round instead of a kind.
KINDS = ("review", "audit", "overlap", "adjudication")

# Conditions of partial indexes. Queries repeat them verbatim, because PostgreSQL uses such an index
# only if the query implies its condition without knowing parameters.
OPEN: ColumnElement[bool] = literal_column("state <> 'completed'")
ASSIGNED: ColumnElement[bool] = literal_column("state <> 'completed' AND assigned_to IS NOT NULL")
LEASED: ColumnElement[bool] = literal_column("state = 'leased'")
DECIDED: ColumnElement[bool] = literal_column("settles_at IS NOT NULL")
QUEUED: ColumnElement[bool] = literal_column("state = 'queued'")
RUNNING: ColumnElement[bool] = literal_column("state = 'running'")
UNFINISHED: ColumnElement[bool] = literal_column("state IN ('queued', 'running')")
REQUESTED: ColumnElement[bool] = literal_column("request_key IS NOT NULL")
SHADOWING: ColumnElement[bool] = literal_column("ended_at IS NULL")
PENDING: ColumnElement[bool] = literal_column("state = 'pending'")
DELIVERY_DUE: ColumnElement[bool] = literal_column("state = 'pending' AND due_at IS NOT NULL")
"""Of each pending delivery. It keeps queries without an instant to the index of documents."""
DEAD: ColumnElement[bool] = literal_column("state = 'dead'")
AUDITED: ColumnElement[bool] = literal_column("audit_role <> 'none'")
IN_SEGMENT: ColumnElement[bool] = literal_column("segment IS NOT NULL")
VERSION = "decision", "client_id", "confidence", "created_at"
CONTRADICTING: ColumnElement[bool] = literal_column("contradicted")
AUDIT_READ: ColumnElement[bool] = literal_column("audit_agreed IS NOT NULL")
REPORTED: ColumnElement[bool] = literal_column("reported_at IS NOT NULL")
DUE: ColumnElement[bool] = literal_column("state <> 'completed' AND due_at IS NOT NULL")
UNROUTED: ColumnElement[bool] = literal_column("routed_at IS NULL")
UNACKNOWLEDGED: ColumnElement[bool] = literal_column("acknowledged_at IS NULL")


def _sum(name: str, kind: type[BigInteger] | type[Double[float]]) -> Column[Any]:  # Any: a number
    """Return a column that adds up."""
    return Column(name, kind, nullable=False, info={"sum": True})


def _counted() -> tuple[Column[Any], ...]:
    """Return the columns by which reports count: the day, what is counted, and the segment."""
    return (
        Column("day", Text, primary_key=True),
        Column("kind", Text, primary_key=True),
        Column("segment", Text),
    )


def _one_of(column: str, values: type[StrEnum] | tuple[str, ...]) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def _check(name: str, condition: str) -> CheckConstraint:
    return CheckConstraint(condition, name=name)


def _share(name: str, *, nullable: bool = False) -> Column[float]:
    """Return a column of numbers from 0 to 1."""
    share = _check(f"{name}_is_share", f"{name} >= 0 AND {name} <= 1")
    return Column(name, Double, share, nullable=nullable)


def _choice(name: str, values: type[StrEnum]) -> Column[StrEnum]:
    """Return a column for one of ``values``."""
    return Column(name, Choice(values), _one_of(name, values), nullable=False)


def _partial(name: str, *columns: str, where: object, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


allow_history(metadata)

ERASED_OR_SEALED = "NEW.{0} IS NULL OR CAST(NEW.{0} AS TEXT) LIKE '{1}sw1:%'"
"""What erasure and a change of keys do to a text, or with a quote to JSON."""

RELABELLED = {
    "labels": "NEW.written IS NOT NULL",
    "agreed": "NEW.written IS NOT NULL",
    "written": "CAST(NEW.written AS TEXT) = CAST(coalesce(OLD.written, OLD.labels) AS TEXT)"
    """ OR CAST(NEW.written AS TEXT) LIKE '%""%'""",
}
"""What renaming a label does to an answer: what was written stays beside it.

In what was written, a label can only give way to one without a name.
"""

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),
    _choice("role", Role),
    Column("prefix", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("revoked_at", Instant),
    Column("scopes", Json),
    Column("expires_at", Instant),
    Column("per_minute", Integer),
    Column("last_used_at", Instant),
    Column("old_digest", LargeBinary),
    Column("old_expires_at", Instant),
    _check("digest_is_sha256", "length(digest) = 32"),
    UniqueConstraint("digest"),
    Index(None, "old_digest"),
)

people = Table(
    "people",
    metadata,
    Column("id", Id, primary_key=True),
    Column("login", Text, nullable=False),
    Column("name", Text, nullable=False),
    _choice("role", Role),
    Column("password", Text),
    Column("external_id", Text),
    Column("created_at", Instant, nullable=False),
    Column("disabled_at", Instant),
    Column("invitation", LargeBinary),
    Column("invited_until", Instant),
    Index(None, "invitation"),
    UniqueConstraint("login"),
    UniqueConstraint("external_id"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("person_id", Id, ForeignKey("people.id"), nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("address", Text),
    _check("digest_is_sha256", "length(digest) = 32"),
    UniqueConstraint("digest"),
    Index(None, "person_id"),
    Index(None, "expires_at"),
)

encryption_keys = Table(
    "encryption_keys",
    metadata,
    # Ids of the keys that may have encrypted something; never the keys themselves.
    Column("id", Text, primary_key=True),
    Column("first_used_at", Instant, nullable=False),
)

sign_in_attempts = Table(
    "sign_in_attempts",
    metadata,
    Column("key", LargeBinary, primary_key=True),
    Column("count", Integer, nullable=False),
    Column("last_at", Instant, nullable=False),
    _check("count_counts", "count >= 0"),
    Index(None, "last_at"),
)

policies = Table(
    "policies",
    metadata,
    Column("version", Id, primary_key=True),
    # The greatest ordinal is in force. It is unique, so concurrent changes of a version conflict.
    Column("ordinal", Integer, nullable=False),
    Column("target_accuracy", Double, nullable=False),
    Column("risk", Double, nullable=False),
    Column("auto_send", Boolean, nullable=False),
    _choice("threshold_mode", ThresholdMode),
    _share("fixed_threshold", nullable=True),
    Column("created_at", Instant, nullable=False),
    Column("created_by", Text, nullable=False),
    _share("confidence_floor", nullable=True),
    _share("certification_rate"),
    _share("training_rate"),
    _choice("audit_mode", AuditMode),
    _share("overlap_rate"),
    _share("gold_reread_rate"),
    Column("rules", Json, nullable=False),
    _share("ramp_up_rate", nullable=True),
    _share("rest_rate", nullable=True),
    # Field, bounds, most segments, and what the certificate for the remaining documents covers.
    Column("segment_by", Json, nullable=False),
    _choice("retrain", RetrainMode),
    _check("target_is_share", "target_accuracy > 0 AND target_accuracy < 1"),
    _check("risk_is_probability", "risk > 0 AND risk < 1"),
    _check("fixed_has_threshold", "(threshold_mode = 'fixed') = (fixed_threshold IS NOT NULL)"),
    UniqueConstraint("ordinal"),
)
keep_history(policies)

# Threshold, certificate and trip of each segment, that of the remaining documents last; without a
# field that divides documents, of all.
gates = Table(
    "gates",
    metadata,
    Column("policy_version", Id, ForeignKey("policies.version"), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("value", Text, nullable=False),
    Column("threshold", Double),
    Column("certificate_id", Id),
    Column("certified_model", Text),
    Column("certified_calibrator", Text),
    Column("trip_id", Id),
    Column("audits", Json),  # NULL for the policy's
    Column("audited_from", Double),
    Column("audited_model", Text),
    Column("audited_calibrator", Text),
    _check("threshold_is_probability", "threshold >= 0 AND threshold <= 1"),
    UniqueConstraint("policy_version", "value"),
)
keep_history(gates)

models = Table(
    "models",
    metadata,
    Column("id", Id, primary_key=True),
    Column("version", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("summary", Json, nullable=False),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("version"),
)

model_activations = Table(
    "model_activations",
    metadata,
    # Ids sort by the clocks of several machines; the order of commits is what counts.
    Column("ordinal", Counter, primary_key=True, autoincrement=True),
    Column("id", Id, nullable=False),
    Column("model_id", Id, ForeignKey("models.id"), nullable=False),
    Column("activated_at", Instant, nullable=False),
    UniqueConstraint("id"),
    Index(None, "model_id"),
)
keep_history(model_activations)

model_shadows = Table(
    "model_shadows",
    metadata,
    Column("id", Id, primary_key=True),
    Column("model_id", Id, ForeignKey("models.id"), nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("started_by", Text, nullable=False),
    Column("ended_at", Instant),
    # Constant, so that the partial unique index allows one shadow at a time.
    Column("place", Integer, nullable=False, server_default=text("1")),
    _check("one_place", "place = 1"),
    _partial("uq_model_shadows_place", "place", where=SHADOWING, unique=True),
)

predictions = Table(
    "predictions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("client_id", Text, nullable=False),
    Column("document_id", Text),
    Column("text", Sealed("predictions.text", "id", "client_id")),
    Column("features", SealedJson("predictions.features", "id", "client_id")),
    # What another model answered, as its client sent it.
    Column("answer", SealedJson("predictions.answer", "id", "client_id")),
    Column("metadata", SealedJson("predictions.metadata", "id", "client_id"), nullable=False),
    Column("candidates", Json, nullable=False),
    Column("marginals", Json, nullable=False),
    Column("confidence", Double),  # NULL, as the two versions, before there was a model
    Column("out_of_domain", Boolean, nullable=False),
    _choice("decision", Decision),
    _choice("reason", Reason),
    Column("threshold", Double),
    Column("model_version", Text),
    Column("calibrator_version", Text),
    Column("policy_version", Id, ForeignKey("policies.version"), nullable=False),
    Column("created_at", Instant, nullable=False),
    _choice("audit_role", AuditRole),
    _share("draw", nullable=True),
    _share("inclusion_probability", nullable=True),
    _share("audit_chance", nullable=True),
    Column("in_rest", Boolean, nullable=False),
    _share("cluster", nullable=True),
    Column("bands", LargeBinary),
    Column("rule", Text),
    # When text, features, answer and metadata were purged; the numbers stay.
    Column("purged_at", Instant),
    # The model's own confidences, if a calibrator learnt from reviews replaced them.
    Column("own_confidences", Json),
    Column("uncalibrated", Boolean, nullable=False),
    # The rest of the prediction's audit event, besides the client's id.
    Column("actor_name", Text, nullable=False),
    Column("request_id", Text),
    Column("address", Text),
    Column("segment", Text),
    # What the client asked for; the queue's order is derived from it.
    Column("priority", Integer, nullable=False),
    Column("due_at", Instant),
    Column("earlier_versions", Integer, nullable=False),
    _check(
        "scored_by_model",
        "(reason = 'no_model') = (model_version IS NULL)"
        " AND (model_version IS NULL) = (calibrator_version IS NULL)"
        " AND (model_version IS NULL) = (confidence IS NULL)",
    ),
    _check("confidence_is_probability", "confidence >= 0 AND confidence <= 1"),
    _check("threshold_is_probability", "threshold >= 0 AND threshold <= 1"),
    _check("priority_is_known", "priority >= 0 AND priority <= 2"),
    _check("one_content", "text IS NULL OR features IS NULL"),
    Index(None, "client_id", "id"),
    # Without the id: one document has few predictions, which are cheap to sort. With all that tells
    # whether it was posted before in other words.
    Index("ix_predictions_document_id", "document_id", *VERSION),
    Index("ix_predictions_cluster", "cluster", *VERSION),
    Index(None, "decision", "id"),
    # Covers everything that reports count by, because the rows themselves are wide.
    Index(
        "ix_predictions_reports",
        "created_at",
        "id",
        "decision",
        "reason",
        "confidence",
        "inclusion_probability",
        "in_rest",
        "segment",
    ),
    _partial("ix_predictions_segment_id", "segment", "id", where=IN_SEGMENT),
    _partial(
        "ix_predictions_audits",
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
        where=AUDITED,
    ),
    Index(None, "confidence", "id"),
)
keep_history(
    predictions,
    document_id="NEW.document_id IS NULL",
    text=ERASED_OR_SEALED.format("text", ""),
    features=ERASED_OR_SEALED.format("features", '"'),
    answer=ERASED_OR_SEALED.format("answer", '"'),
    metadata="CAST(NEW.metadata AS TEXT) = '{}' OR CAST(NEW.metadata AS TEXT) LIKE '\"sw1:%'",
    purged_at="OLD.purged_at IS NULL AND NEW.purged_at IS NOT NULL",
)

# The catalogue: labels with a description, or which the active model lacks.
labels = Table(
    "labels",
    metadata,
    Column("label", Text, primary_key=True),
    Column("id", Id),  # names it in the audit trail, if a person gave it; see `LabelStore.remove`
    Column("name", Text),
    Column("guideline", Text),
    Column("parent", Text),
    _choice("state", LabelState),
    Column("merged_into", Text),
    Column("in_model", Boolean, nullable=False),
    Column("proposed_by", Text),
    Column("proposed_at", Instant),
    Column("proposed_in", Id, ForeignKey("predictions.id")),
    Column("version", Integer, nullable=False),
    _check("merged_has_target", "(state = 'merged') = (merged_into IS NOT NULL)"),
    _check("version_counts", "version >= 1"),
    UniqueConstraint("id"),
)

# What documents are searched by; see `SearchIndex`.
prediction_labels = Table(
    "prediction_labels",
    metadata,
    Column("label", Text, primary_key=True),
    Column("prediction_id", Id, primary_key=True),
    sqlite_with_rowid=False,
)

# The labels that were sent last.
final_labels = Table(
    "final_labels",
    metadata,
    Column("label", Text, primary_key=True),
    Column("prediction_id", Id, primary_key=True),
    Index(None, "prediction_id"),
    sqlite_with_rowid=False,
)

# Plain texts whose words are not indexed yet.
unindexed_texts = Table(
    "unindexed_texts",
    metadata,
    Column("prediction_id", Id, primary_key=True),
    sqlite_with_rowid=False,
)

# The words of plain texts: on SQLite a virtual table and the places of its rows, on PostgreSQL a
# table of each text's trigrams and searched form.
WORDS = "searched_"
searched_words = table("searched_words", column("rowid"))
searched_places = table("searched_places", column("place"), column("prediction_id", Id))
searched_texts = table(
    "searched_texts", column("prediction_id", Id), column("trigrams"), column("form", Text)
)
create_with(
    metadata,
    "sqlite",
    "CREATE TABLE searched_places (place INTEGER NOT NULL PRIMARY KEY, "
    "prediction_id VARCHAR(36) NOT NULL UNIQUE)",
)
create_with(
    metadata,
    "sqlite",
    "CREATE VIRTUAL TABLE searched_words USING fts5 "
    "(trigrams, content = '', tokenize = \"ascii tokenchars '_.+#|'\")",
)
create_with(
    metadata,
    "postgresql",
    "CREATE TABLE searched_texts (prediction_id UUID NOT NULL "
    "CONSTRAINT pk_searched_texts PRIMARY KEY, trigrams TSVECTOR NOT NULL, form TEXT NOT NULL)",
)
create_with(
    metadata,
    "postgresql",
    "CREATE INDEX ix_searched_texts_trigrams ON searched_texts USING gin (trigrams)",
)

model_comparisons = Table(
    "model_comparisons",
    metadata,
    Column("id", Id, primary_key=True),
    Column("model_id", Id, ForeignKey("models.id"), nullable=False),
    Column("prediction_id", Id, ForeignKey("predictions.id"), nullable=False),
    Column("labels", Json, nullable=False),
    Column("confidence", Double, nullable=False),
    _choice("decision", Decision),
    _choice("reason", Reason),
    Column("same_labels", Boolean, nullable=False),
    Column("same_decision", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
    _check("confidence_is_probability", "confidence >= 0 AND confidence <= 1"),
    UniqueConstraint("model_id", "prediction_id"),
    Index(None, "model_id", "id"),
    Index("ix_model_comparisons_counts", "model_id", "decision", "same_decision", "same_labels"),
    Index(None, "prediction_id"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("client_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request_digest", Text, nullable=False),
    Column("prediction_id", Id, ForeignKey("predictions.id"), nullable=False),
    Column("created_at", Instant, nullable=False),
    Index(None, "created_at"),
    Index(None, "prediction_id"),
)

idempotent_requests = Table(
    "idempotent_requests",
    metadata,
    # Requests other than predictions and files, whose own rows name their keys.
    Column("owner_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request_digest", Text, nullable=False),
    Column("response", LargeBinary),  # sealed; NULL until the request has ended
    Column("created_at", Instant, nullable=False),
    Index(None, "created_at"),
)

review_tasks = Table(
    "review_tasks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("prediction_id", Id, ForeignKey("predictions.id"), nullable=False),
    Column("kind", Text, nullable=False),
    _choice("state", ReviewState),
    Column("version", Integer, nullable=False),
    # Derived from the skips; stored so that the queue can be read in order.
    Column("escalated", Boolean, nullable=False),
    Column("lease_holder", Text),
    Column("lease_claimed_at", Instant),
    Column("lease_expires_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("assigned_to", Text),  # a person, who alone is given it
    # The queue's order: by tier, then by time.
    Column("tier", Integer, nullable=False),
    Column("queued_at", Instant, nullable=False),
    Column("due_at", Instant),
    # The order of reading while nothing is sent: what was drawn on arrival, and the confidence of
    # the newest model, 1 where none has scored the document.
    Column("marked", Boolean, nullable=False),
    _share("confidence"),
    # What a model says that came after the document, most likely first.
    Column("proposed", Json),
    # The holder's decision, which can still be withdrawn; NULL once it is an annotation.
    Column("decided_labels", Json),
    Column("decided_comment", Sealed("review_tasks.decided_comment", "id", "prediction_id")),
    Column("decided_by", Text),
    Column("decided_at", Instant),
    Column("settles_at", Instant),
    # Counts the times that the document was reopened; the kind of a reopened one is REVIEW.
    Column("round", Integer, nullable=False),
    _one_of("kind", KINDS),
    _check("round_counts", "round >= 0"),
    _check("version_counts", "version >= 1"),
    _check(
        "leased_has_lease",
        "(state = 'leased') = (lease_holder IS NOT NULL)"
        " AND (lease_holder IS NULL) = (lease_claimed_at IS NULL)"
        " AND (lease_holder IS NULL) = (lease_expires_at IS NULL)",
    ),
    Index(None, "state", "id"),
    Index(None, "created_at"),
    Index("uq_review_tasks_prediction_id_kind", "prediction_id", "kind", "round", unique=True),
    _partial(
        "ix_review_tasks_assigned_to",
        "assigned_to",
        "escalated",
        "tier",
        "queued_at",
        "id",
        where=ASSIGNED,
    ),
    _partial("ix_review_tasks_queue", "escalated", "tier", "queued_at", "id", where=OPEN),
    _partial(
        "ix_review_tasks_plan",
        "escalated",
        "tier",
        "marked",
        "confidence",
        "queued_at",
        "id",
        where=OPEN,
    ),
    _partial("ix_review_tasks_due", "due_at", where=DUE),
    _partial("ix_review_tasks_holder", "lease_holder", where=LEASED),
    _partial("ix_review_tasks_expiry", "lease_expires_at", where=LEASED),
    _partial("ix_review_tasks_settles", "settles_at", where=DECIDED),
)
keep_rows(review_tasks)
refuse(review_tasks, "completed", "UPDATE", "OLD.state = 'completed'")

review_skips = Table(
    "review_skips",
    metadata,
    Column("task_id", Id, ForeignKey("review_tasks.id"), primary_key=True),
    Column("reviewer", Text, primary_key=True),
    Column("place", Integer, nullable=False),
    Column("reason", Sealed("review_skips.reason", "task_id", "reviewer"), nullable=False),
    Column("skipped_at", Instant, nullable=False),
    UniqueConstraint("task_id", "place"),
)

suggestion_readers = Table(
    "suggestion_readers",
    metadata,
    # Who read a suggestion while a blind task of its document was open, and so may not claim it.
    Column("prediction_id", Id, ForeignKey("predictions.id"), primary_key=True),
    Column("reader", Text, primary_key=True),
    Column("read_at", Instant, nullable=False),
)

annotations = Table(
    "annotations",
    metadata,
    Column("id", Id, primary_key=True),
    Column("task_id", Id, ForeignKey("review_tasks.id"), nullable=False),
    Column("prediction_id", Id, ForeignKey("predictions.id"), nullable=False),
    Column("reviewer", Text, nullable=False),
    Column("labels", Json, nullable=False),
    Column("written", Json),  # the labels as the person gave them, if one was renamed since
    Column("comment", Sealed("annotations.comment", "id", "prediction_id")),
    Column("agreed", Boolean),  # NULL if nothing was predicted
    Column("chosen_rank", Integer),
    Column("suggestion_shown", Boolean, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("kind", Choice(ReviewKind), nullable=False),
    Column("round", Integer, nullable=False),  # of its task
    Column("settles", Boolean, nullable=False),
    Column("group", Text, nullable=False),
    Column("version", Integer, nullable=False),
    _share("reread_rate", nullable=True),  # NULL, as the next one, in what is no audit
    _share("reread_draw", nullable=True),
    _one_of("kind", KINDS),
    _check("round_counts", "round >= 0"),
    _check("rank_counts", "chosen_rank >= 0"),
    _check("seconds_pass", "seconds >= 0"),
    UniqueConstraint("task_id"),
    Index("ix_annotations_reports", "created_at", "prediction_id", "seconds"),
    Index(None, "prediction_id"),
    Index(None, "reviewer", "id"),
)
keep_history(annotations, comment=ERASED_OR_SEALED.format("comment", ""), **RELABELLED)

comments = Table(
    "comments",
    metadata,
    Column("id", Id, primary_key=True),
    Column("prediction_id", Id, ForeignKey("predictions.id"), nullable=False),
    Column("thread", Id, nullable=False),  # the id of its first comment
    Column("task_id", Id, ForeignKey("review_tasks.id")),  # the review that it opened
    Column("kind", Choice(CommentKind), nullable=False),
    Column("author", Text, nullable=False),
    Column("text", Sealed("comments.text", "id", "prediction_id"), nullable=False),
    Column("created_at", Instant, nullable=False),
    Index(None, "prediction_id", "id"),
    Index(None, "author"),
    Index(None, "task_id"),
)

comment_readers = Table(
    "comment_readers",
    metadata,
    Column("prediction_id", Id, ForeignKey("predictions.id"), primary_key=True),
    Column("reader", Text, primary_key=True),
    Column("read_at", Instant, nullable=False),
)

annotator_groups = Table(
    "annotator_groups",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    # Rates set by the owner; NULL to estimate them from gold labels.
    Column("alpha", Double),
    Column("beta", Double),
    Column("version", Integer, nullable=False),
    Column("changed_at", Instant, nullable=False),
    Column("changed_by", Text, nullable=False),
    # The same of answers given with the suggestion in view.
    Column("alpha_with_suggestion", Double),
    Column("beta_with_suggestion", Double),
    _check("both_rates", "(alpha IS NULL) = (beta IS NULL)"),
    _check("answers_tell", "alpha >= 0 AND beta >= 0 AND alpha + beta < 1"),
    _check("version_counts", "version >= 1"),
)

annotators = Table(
    "annotators",
    metadata,
    # The id of a person or a key.
    Column("id", Text, primary_key=True),
    Column("group", Text, ForeignKey("annotator_groups.id"), nullable=False),
    Column("version", Integer, nullable=False),
    _check("version_counts", "version >= 1"),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("prediction_id", Id, ForeignKey("predictions.id"), nullable=False),
    # Unique per prediction, so concurrent reports conflict.
    Column("number", Integer, nullable=False),
    Column("labels", Json, nullable=False),
    Column("written", Json),  # as of annotations
    Column("source", Text, nullable=False),
    Column("agreed", Boolean),  # NULL if nothing was predicted
    Column("reported_by", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    _choice("sampling", Sampling),
    Column("echoes", Integer, nullable=False),
    _check("number_counts", "number >= 1"),
    UniqueConstraint("prediction_id", "number"),
    Index("ix_outcomes_source", "reported_by", "source", "id"),
)
keep_history(outcomes, **RELABELLED)

# What follows from annotations and outcomes; see `domain.truth.check`. `db rebuild checks` derives
# it again.
checks = Table(
    "checks",
    metadata,
    Column("prediction_id", Id, ForeignKey("predictions.id"), primary_key=True),
    # Of the prediction.
    Column("segment", Text),
    Column("model_version", Text),
    Column("calibrator_version", Text),
    Column("confidence", Double),
    Column("reason", Choice(Reason), nullable=False),
    Column("inclusion_probability", Double),
    Column("predicted_at", Instant, nullable=False),
    Column("contradicted", Boolean, nullable=False),
    Column("answered_at", Instant, nullable=False),
    Column("labels", Json),
    Column("decided_by", Choice(Judge)),
    Column("reviewer_agreed", Boolean),
    Column("decided_at", Instant),
    Column("outcome_agreed", Boolean),
    Column("reported_at", Instant),
    Column("waits", Boolean, nullable=False),
    Column("audit_agreed", Boolean),
    Column("audit_labels", Json),
    Column("lead_agreed", Boolean),
    Column("lead_labels", Json),
    Column("reread", Boolean),
    Column("reread_rate", Double),
    Column("reread_draw", Double),
    Column("first_id", Id),
    Column("first_reviewer", Text),
    Column("first_group", Text),
    Column("first_agreed", Boolean),
    Column("first_shown", Boolean),
    Column("reopened_agreed", Boolean),
    Index(None, "model_version", "prediction_id"),
    Index(None, "decided_at"),
    _partial("ix_checks_reported_at", "reported_at", where=REPORTED),
    _partial("ix_checks_contradicted", "prediction_id", where=CONTRADICTING),
    _partial("ix_checks_audits", "prediction_id", "audit_agreed", "lead_agreed", where=AUDIT_READ),
)

# What reports count, by day; see `CountStore`. `db rebuild` counts again. The kind is the columns
# that tell apart what is counted, as one text, as they may be NULL.
prediction_counts = Table(
    "prediction_counts",
    metadata,
    *_counted(),
    Column("decision", Choice(Decision), nullable=False),
    Column("reason", Choice(Reason), nullable=False),
    Column("inclusion_probability", Double),
    Column("in_rest", Boolean, nullable=False),
    Column("reviewer_agreed", Boolean),
    Column("outcome_agreed", Boolean),
    Column("reread", Boolean),
    Column("reread_rate", Double),
    Column("first_shown", Boolean),
    _sum("documents", BigInteger),
    _sum("confidence", Double),
    sqlite_with_rowid=False,
)

step_counts = Table(
    "step_counts",
    metadata,
    *_counted(),
    Column("decision", Choice(Decision), nullable=False),
    Column("reason", Choice(Reason), nullable=False),
    Column("step", Integer, nullable=False),
    _sum("documents", BigInteger),
    sqlite_with_rowid=False,
)

review_counts = Table(
    "review_counts",
    metadata,
    *_counted(),
    Column("reading", Choice(Reading)),
    _sum("arrived", BigInteger),
    _sum("completed", BigInteger),
    _sum("seconds", Double),
    sqlite_with_rowid=False,
)

certifications = Table(
    "certifications",
    metadata,
    Column("id", Id, primary_key=True),
    Column("model_version", Text, nullable=False),
    Column("calibrator_version", Text, nullable=False),
    Column("policy_version", Id, ForeignKey("policies.version"), nullable=False),
    Column("target_accuracy", Double, nullable=False),
    Column("risk", Double, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("threshold", Double),
    Column("reason", Text),
    Column("further_audits", Integer),
    Column("evidence", JsonOf(CertificationEvidence), nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("segment", Text),
    _check("attempt_counts", "attempt >= 1"),
    _check("proved_or_refused", "(threshold IS NULL) <> (reason IS NULL)"),
    _check("threshold_is_probability", "threshold >= 0 AND threshold <= 1"),
    # Concurrent attempts must conflict: they would spend the same share of the risk.
    UniqueConstraint("model_version", "attempt"),
)
keep_history(certifications)

# A scorer's answers to documents that another one answered: audits are about documents, so they
# also prove a later calibrator or model.
other_scores = Table(
    "other_scores",
    metadata,
    Column("prediction_id", Id, ForeignKey("predictions.id"), primary_key=True),
    Column("model_version", Text, primary_key=True),
    Column("calibrator_version", Text, primary_key=True),
    Column("labels", Json, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("created_at", Instant, nullable=False),
    _check("confidence_is_probability", "confidence >= 0 AND confidence <= 1"),
    Index(None, "model_version", "calibrator_version", "prediction_id"),
)
keep_history(other_scores)

breaker_trips = Table(
    "breaker_trips",
    metadata,
    Column("id", Id, primary_key=True),
    Column("cause", Text, nullable=False),
    Column("model_version", Text, nullable=False),
    Column("calibrator_version", Text, nullable=False),
    Column("policy_version", Id, ForeignKey("policies.version"), nullable=False),
    Column("target_accuracy", Double, nullable=False),
    Column("evidence", JsonOf(TripEvidence), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("segment", Text),
    _one_of("cause", TripCause),
    # A policy trips once; after a reset, a new policy replaces it.
    UniqueConstraint("policy_version"),
)
keep_history(breaker_trips)

breaker_resets = Table(
    "breaker_resets",
    metadata,
    Column("id", Id, primary_key=True),
    Column("trip_id", Id, ForeignKey("breaker_trips.id"), nullable=False),
    Column("certificate_id", Id, ForeignKey("certifications.id")),
    Column("created_by", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("trip_id"),
)
keep_history(breaker_resets)

calibrations = Table(
    "calibrations",
    metadata,
    Column("id", Id, primary_key=True),
    Column("model_id", Id, ForeignKey("models.id"), nullable=False),
    Column("model_version", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("replaces", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("noise", Text, nullable=False),
    Column("report", JsonOf(CalibrationReport), nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    _one_of("noise", Noise),
    Index(None, "model_id", "version"),
)
keep_history(calibrations)

calibration_activations = Table(
    "calibration_activations",
    metadata,
    Column("ordinal", Counter, primary_key=True, autoincrement=True),  # as with models
    Column("id", Id, nullable=False),
    Column("model_id", Id, ForeignKey("models.id"), nullable=False),
    # NULL: the model's own calibrator.
    Column("calibration_id", Id, ForeignKey("calibrations.id")),
    Column("activated_at", Instant, nullable=False),
    UniqueConstraint("id"),
    Index(None, "model_id", "ordinal"),
    Index(None, "calibration_id"),
)
keep_history(calibration_activations)

audit_events = Table(
    "audit_events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("actor_id", Text, nullable=False),
    Column("actor_name", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("request_id", Text),
    Column("detail", Json, nullable=False),
    Column("address", Text),
    Index(None, "subject", "id"),
    Index(None, "actor_id", "id"),
    Index(None, "action", "id"),
)
keep_history(audit_events)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("key", Text),
    Column("payload", Json, nullable=False),
    _choice("state", JobState),
    Column("progress", Double, nullable=False),
    Column("message", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("token", Integer, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("lease_expires_at", Instant),
    Column("result", Json),
    Column("error", Text),
    Column("error_code", Text),
    Column("owner_id", Text),
    Column("request_key", Text),
    Column("checkpoint", Json),
    _check("progress_is_share", "progress >= 0 AND progress <= 1"),
    _check("counts", "attempt >= 0 AND token >= 0"),
    _check("running_has_lease", "(state = 'running') = (lease_expires_at IS NOT NULL)"),
    _check(
        "finished_has_end",
        "(state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)",
    ),
    Index(None, "owner_id", "id"),
    Index(None, "state", "id"),
    _partial("uq_jobs_key", "key", where=UNFINISHED, unique=True),
    _partial("uq_jobs_request", "owner_id", "request_key", where=REQUESTED, unique=True),
    _partial("ix_jobs_due", "due_at", "id", where=QUEUED),
    _partial("ix_jobs_expiry", "lease_expires_at", "id", where=RUNNING),
)

outbox_messages = Table(
    "outbox_messages",
    metadata,
    # As with activations: ids sort by the clocks of several machines, but a message must come after
    # all messages that were committed before it was written.
    Column("ordinal", Counter, primary_key=True, autoincrement=True),
    Column("id", Id, nullable=False),
    Column("type", Choice(MessageType), nullable=False),
    Column("client_id", Text, nullable=False),
    Column("document_key", Text, nullable=False),
    Column("data", Json, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("routed_at", Instant),
    Column("acknowledged_at", Instant),
    UniqueConstraint("id"),
    Index(None, "document_key"),
    _partial("ix_outbox_messages_unrouted", "ordinal", where=UNROUTED),
    _partial("ix_outbox_messages_unacknowledged", "client_id", "ordinal", where=UNACKNOWLEDGED),
)

webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("id", Id, primary_key=True),
    Column("url", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("events", Json, nullable=False),
    # A hash cannot sign: without encryption, anyone who reads this table can forge messages.
    Column("secrets", SealedJson("webhook_endpoints.secrets", "id"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("disabled_because", Text),
    Column("created_at", Instant, nullable=False),
    Column("deleted_at", Instant),
    _check("version_counts", "version >= 1"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    Column("message_ordinal", Counter, ForeignKey("outbox_messages.ordinal"), nullable=False),
    Column("endpoint_id", Id, ForeignKey("webhook_endpoints.id"), nullable=False),
    # Copied from the message, so that one index finds a document's first delivery.
    Column("document_key", Text, nullable=False),
    _choice("state", DeliveryState),
    Column("attempt", Integer, nullable=False),
    Column("token", Integer, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("lease_expires_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("finished_at", Instant),
    _check("counts", "attempt >= 0 AND token >= 0"),
    _check("pending_has_no_end", "(state = 'pending') = (finished_at IS NULL)"),
    _check("leased_is_pending", "lease_expires_at IS NULL OR state = 'pending'"),
    UniqueConstraint("message_ordinal", "endpoint_id"),
    Index(None, "state", "id"),
    Index(None, "endpoint_id", "id"),
    _partial("ix_deliveries_due", "endpoint_id", "due_at", where=DELIVERY_DUE),
    _partial(
        "ix_deliveries_order", "endpoint_id", "document_key", "message_ordinal", where=PENDING
    ),
    _partial("ix_deliveries_dead", "endpoint_id", "message_ordinal", where=DEAD),
)

FAILED_ONCE: ColumnElement[bool] = or_(
    deliveries.c.attempt > 1,
    and_(deliveries.c.attempt == 1, deliveries.c.lease_expires_at.is_(None)),
)
"""Of pending deliveries: an attempt has failed. A claim counts its attempt at once."""

delivery_attempts = Table(
    "delivery_attempts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("delivery_id", Id, ForeignKey("deliveries.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("status", Integer),
    Column("excerpt", Text, nullable=False),
    Column("error", Text),
    _check("number_counts", "number >= 1"),
    _check("seconds_pass", "seconds >= 0"),
    Index(None, "delivery_id", "id"),
)
