"""What the database itself refuses, whatever program writes to it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import Connection, Engine, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError

from setwise.service.domain.audit_trail import AuditEvent
from setwise.service.domain.certification import Score
from setwise.service.domain.policy import FIRST_POLICY_VERSION
from setwise.service.domain.reviews import Annotation
from setwise.service.stores import tables
from setwise.service.stores.columns.types import InRow
from setwise.service.stores.models import ModelStore
from setwise.service.stores.transaction import Transactions
from setwise.service.stores.webhooks import OutboxStore
from tests.fakes import START
from tests.samples import (
    ANN,
    add_predictions,
    calibration,
    calibration_report,
    certification,
    certification_evidence,
    job,
    key,
    message,
    model,
    outcome,
    prediction,
    reset,
    task,
    trip,
    trip_evidence,
)

MISSING = "019b7a0b-0000-7000-8000-ffffffffffff"


@pytest.fixture(scope="module")
def full_engine(module_engine: Engine) -> Engine:
    """Return an engine on a database with rows in every table."""
    _fill(module_engine)
    with module_engine.begin() as connection:
        _insert(connection, "gates", {"place": 2, "value": "south"})
    return module_engine


@pytest.fixture
def connection(full_engine: Engine) -> Iterator[Connection]:
    """Return a connection in a transaction that the end of the test undoes."""
    with full_engine.connect() as connection:
        connection.begin()
        yield connection


def _fill(engine: Engine) -> None:
    waiting = task()
    finished_task = task()
    registered_model = model()
    with Transactions(engine)() as transaction:
        transaction.keys.add(key())
        transaction.models.add(registered_model)
        transaction.models.activate(registered_model.id, START, MISSING)
        for one in (waiting, finished_task):
            add_predictions(transaction, one.prediction)
            transaction.reviews.add(one)
        skipped_task = waiting.claimed(ANN.id, START, timedelta(0)).skipped(ANN.id, "why", START)
        transaction.reviews.save(skipped_task)
        transaction.reviews.save(
            finished_task.claimed(ANN.id, START, timedelta(0)).completed(ANN.id, 2)
        )
        transaction.reviews.annotate(
            Annotation(
                id=prediction().id,
                task_id=finished_task.id,
                prediction_id=finished_task.prediction.id,
                reviewer=ANN.id,
                labels=("a",),
                comment=None,
                agreed=False,
                chosen_rank=1,
                suggestion_shown=True,
                seconds=1.0,
                created_at=START,
            )
        )
        transaction.outcomes.add(outcome(finished_task.prediction))
        transaction.certifications.add(certification())
        transaction.certifications.add_scores(
            [Score(finished_task.prediction.id, certification().scorer, ("a",), 0.5, START)]
        )
        learnt_calibration = calibration(registered_model)
        transaction.calibrations.add(learnt_calibration)
        transaction.calibrations.activate(
            registered_model.id, learnt_calibration.id, START, MISSING
        )
        tripped_trip = trip()
        transaction.breakers.add(tripped_trip)
        transaction.breakers.close(reset(tripped_trip))
        transaction.audit_trail.add(AuditEvent.by(ANN, "x", "y", id=prediction().id, at=START))
        transaction.jobs.enqueue(job("fit"))


HISTORY = [
    "predictions",
    "other_scores",
    "annotations",
    "outcomes",
    "certifications",
    "breaker_trips",
    "breaker_resets",
    "audit_events",
    "policies",
    "gates",
    "model_activations",
    "calibrations",
    "calibration_activations",
]


@pytest.mark.parametrize("table", HISTORY)
@pytest.mark.parametrize("change", ["UPDATE", "DELETE"])
def test_history_is_never_changed(connection: Connection, table: str, change: str) -> None:
    column = next(iter(tables.metadata.tables[table].columns)).name
    statement = (
        f"DELETE FROM {table}" if change == "DELETE" else f"UPDATE {table} SET {column} = {column}"
    )
    with pytest.raises(IntegrityError, match="never changed or deleted"):
        connection.execute(text(statement))


@pytest.mark.parametrize("table", [*HISTORY, "review_tasks"])
def test_history_is_not_emptied_at_a_stroke(connection: Connection, table: str) -> None:
    if connection.dialect.name == "postgresql":
        statement = f"TRUNCATE {table} CASCADE"
    else:
        statement = f"DELETE FROM {table}"  # which SQLite turns into a truncation where it may
    with pytest.raises(IntegrityError, match="never changed or deleted"):
        connection.execute(text(statement))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE review_tasks SET version = version + 1 WHERE state = 'completed'",
        "UPDATE review_tasks SET state = 'waiting'",
        "DELETE FROM review_tasks",
    ],
)
def test_a_completed_task_is_never_changed_and_none_is_deleted(
    connection: Connection, statement: str
) -> None:
    with pytest.raises(IntegrityError, match="never changed or deleted"):
        connection.execute(text(statement))


ROWS: dict[str, dict[str, object]] = {
    "api_keys": {
        "id": MISSING, "name": "n", "role": "client", "prefix": "p", "digest": bytes(32),
        "created_at": START,
    },
    "people": {
        "id": MISSING, "login": "ann", "name": "Ann", "role": "lead", "created_at": START,
    },
    "sessions": {
        "id": MISSING, "person_id": None, "digest": bytes(32), "created_at": START,
        "seen_at": START, "expires_at": START,
    },
    "sign_in_attempts": {"key": b"x", "count": 0, "last_at": START},
    "policies": {
        "version": MISSING, "ordinal": 2, "target_accuracy": 0.9, "risk": 0.1, "auto_send": True,
        "threshold_mode": "fixed", "fixed_threshold": 0.5, "created_at": START, "created_by": "x",
        "certification_rate": 0.0, "training_rate": 0.0, "audit_mode": "hold", "overlap_rate": 0.0,
        "gold_reread_rate": 0.0, "rules": [], "segment_by": {}, "retrain": "never",
    },
    "gates": {
        "policy_version": FIRST_POLICY_VERSION, "place": 1, "value": "north", "threshold": 0.5,
    },
    "predictions": {
        "id": MISSING, "client_id": "c", "text": InRow("x", ()), "metadata": InRow({}, ()),
        "candidates": [],
        "marginals": [], "confidence": 0.5, "out_of_domain": False, "decision": "auto",
        "reason": "above_threshold", "threshold": 0.4, "model_version": "m",
        "calibrator_version": "c", "policy_version": FIRST_POLICY_VERSION,
        "created_at": START, "audit_role": "none", "uncalibrated": False, "actor_name": "x",
        "priority": 0, "earlier_versions": 0, "in_rest": False,
    },
    "other_scores": {
        "prediction_id": None, "model_version": "m", "calibrator_version": "c", "labels": [],
        "confidence": 0.5, "created_at": START,
    },
    "review_tasks": {
        "id": MISSING, "prediction_id": None, "kind": "review", "state": "leased", "version": 1,
        "escalated": False, "lease_holder": "x", "lease_claimed_at": START,
        "lease_expires_at": START, "created_at": START, "tier": 3, "queued_at": START,
        "round": 0, "marked": False, "confidence": 1.0,
    },
    "annotations": {
        "id": MISSING, "task_id": None, "prediction_id": None, "reviewer": "x", "labels": [],
        "agreed": True, "chosen_rank": 0, "suggestion_shown": True, "seconds": 0.0,
        "created_at": START, "kind": "review", "round": 0, "settles": True, "group": "default",
        "version": 1,
    },
    "outcomes": {
        "id": MISSING, "prediction_id": None, "number": 1, "labels": [], "source": "s",
        "agreed": True, "reported_by": "x", "created_at": START, "sampling": "all", "echoes": 0,
    },
    "model_shadows": {
        "id": MISSING, "model_id": None, "started_at": START, "started_by": "x",
    },
    "model_comparisons": {
        "id": MISSING, "model_id": None, "prediction_id": None, "labels": [], "confidence": 0.5,
        "decision": "auto", "reason": "above_threshold", "same_labels": True,
        "same_decision": True, "created_at": START,
    },
    "jobs": {
        "id": MISSING, "kind": "fit", "payload": {}, "state": "queued", "progress": 0.0,
        "message": "", "attempt": 0, "token": 0, "due_at": START, "created_at": START,
    },
    "webhook_endpoints": {
        "id": MISSING, "url": "https://b.example/", "description": "", "events": [],
        "secrets": InRow([], ()),
        "version": 1, "created_at": START,
    },
    "certifications": {
        "id": MISSING, "model_version": "m", "calibrator_version": "c",
        "policy_version": FIRST_POLICY_VERSION, "target_accuracy": 0.9,
        "risk": 0.1, "attempt": 7,
        "threshold": 0.5, "evidence": certification_evidence(), "requested_by": "x",
        "created_at": START,
    },
    "annotator_groups": {
        "id": "coders", "name": "Coders", "version": 1, "changed_at": START, "changed_by": "x",
    },
    "annotators": {"id": "x", "group": "default", "version": 1},
    "labels": {"label": "x", "state": "accepted", "in_model": False, "version": 1},
    "calibrations": {
        "id": MISSING, "model_id": None, "model_version": "m", "version": "v", "replaces": "c",
        "location": "calibrators/v", "noise": "known", "report": calibration_report(),
        "requested_by": "x", "created_at": START,
    },
    "breaker_trips": {
        "id": MISSING, "cause": "drift", "model_version": "m", "calibrator_version": "c",
        "policy_version": MISSING, "target_accuracy": 0.9, "evidence": trip_evidence(),
        "created_at": START,
    },
    "breaker_resets": {"id": MISSING, "trip_id": None, "created_by": "x", "created_at": START},
    "deliveries": {
        "id": MISSING, "message_ordinal": None, "endpoint_id": None, "document_key": "x",
        "state": "pending", "attempt": 0, "token": 0, "due_at": START, "created_at": START,
    },
    "delivery_attempts": {
        "id": MISSING, "delivery_id": None, "number": 1, "started_at": START, "seconds": 0.0,
        "excerpt": "",
    },
}  # fmt: skip
CHANGED_SINCE = [
    ("policies", name)
    for name in (
        "confidence_floor", "certification_rate", "training_rate", "overlap_rate",
        "gold_reread_rate", "ramp_up_rate", "rest_rate",
    )
] + [
    ("predictions", "draw"), ("predictions", "inclusion_probability"),
    ("predictions", "audit_chance"), ("predictions", "cluster"),
    ("annotations", "reread_rate"), ("annotations", "reread_draw"),
]  # fmt: skip
RUNNING = {"state": "running", "lease_expires_at": START}
NO_LEASE = dict.fromkeys(("lease_holder", "lease_claimed_at", "lease_expires_at"))


def _insert(connection: Connection, table: str, changes: dict[str, object]) -> None:
    row = dict(ROWS[table])
    if table in {"other_scores", "review_tasks", "annotations", "outcomes", "model_comparisons"}:
        new_prediction = prediction()
        transaction = tables.predictions
        connection.execute(
            insert(transaction).values({**ROWS["predictions"], "id": new_prediction.id})
        )
        row["prediction_id"] = new_prediction.id
    if table == "sessions":
        row["person_id"] = prediction().id
        _insert(connection, "people", {"id": row["person_id"]})
    if table in {"model_shadows", "model_comparisons", "calibrations"}:
        registered_model = model(f"sha256:{prediction().id}")
        ModelStore(connection).add(registered_model)
        row["model_id"] = registered_model.id
    if table == "breaker_trips":
        _insert(connection, "policies", {})
    if table == "breaker_resets":
        row["trip_id"] = prediction().id
        _insert(connection, "breaker_trips", {"id": row["trip_id"]})
    if table == "annotations":
        owner = prediction().id
        connection.execute(
            insert(tables.review_tasks).values(
                {**ROWS["review_tasks"], "id": owner, "prediction_id": row["prediction_id"]}
            )
        )
        row["task_id"] = owner
    if table == "deliveries":
        row["message_ordinal"], row["endpoint_id"] = _message(connection), prediction().id
        endpoint = {**ROWS["webhook_endpoints"], "id": row["endpoint_id"]}
        connection.execute(insert(tables.webhook_endpoints).values(endpoint))
    if table == "delivery_attempts":
        row["delivery_id"] = prediction().id
        _insert(connection, "deliveries", {"id": row["delivery_id"]})
    connection.execute(insert(tables.metadata.tables[table]).values({**row, **changes}))


def _message(connection: Connection) -> int:
    told = message()
    OutboxStore(connection).add(told)
    column = tables.outbox_messages.c
    count: int = connection.execute(select(column.ordinal).where(column.id == told.id)).scalar_one()
    return count


@pytest.mark.parametrize("table", ROWS)
def test_a_sound_row_is_accepted(connection: Connection, table: str) -> None:
    _insert(connection, table, {})


@pytest.mark.parametrize(
    ("table", "changes", "constraint"),
    [
        ("api_keys", {"role": "owner"}, "role"),
        ("api_keys", {"digest": bytes(31)}, "digest_is_sha256"),
        ("people", {"role": "king"}, "role"),
        ("sessions", {"digest": bytes(33)}, "digest_is_sha256"),
        ("sign_in_attempts", {"count": -1}, "count_counts"),
        ("other_scores", {"confidence": 1.5}, "confidence_is_probability"),
        ("policies", {"threshold_mode": "guessed", "fixed_threshold": None}, "threshold_mode"),
        ("policies", {"target_accuracy": 1.0}, "target_is_share"),
        ("policies", {"target_accuracy": 0.0}, "target_is_share"),
        ("policies", {"risk": 0.0}, "risk_is_probability"),
        ("policies", {"risk": 1.0}, "risk_is_probability"),
        ("policies", {"fixed_threshold": 1.1}, "fixed_threshold_is_share"),
        ("policies", {"fixed_threshold": -0.1}, "fixed_threshold_is_share"),
        ("policies", {"fixed_threshold": None}, "fixed_has_threshold"),
        ("policies", {"threshold_mode": "certified"}, "fixed_has_threshold"),
        ("gates", {"threshold": 1.1}, "threshold_is_probability"),
        ("gates", {"threshold": -0.1}, "threshold_is_probability"),
        ("calibrations", {"noise": "loud"}, "noise"),
        ("predictions", {"decision": "maybe"}, "decision"),
        ("predictions", {"reason": "whim"}, "reason"),
        ("predictions", {"confidence": 1.01}, "confidence_is_probability"),
        ("predictions", {"confidence": -0.01}, "confidence_is_probability"),
        ("predictions", {"threshold": 2.0}, "threshold_is_probability"),
        ("predictions", {"features": InRow({"bp": 1.0}, ())}, "one_content"),
        ("predictions", {"confidence": None}, "scored_by_model"),
        ("predictions", {"model_version": None}, "scored_by_model"),
        ("predictions", {"reason": "no_model"}, "scored_by_model"),
        ("review_tasks", {"kind": "chat"}, "kind"),
        ("predictions", {"priority": 3}, "priority_is_known"),
        ("review_tasks", {"round": -1}, "round_counts"),
        ("review_tasks", {"confidence": 1.1}, "confidence_is_share"),
        ("policies", {"retrain": "often"}, "retrain"),
        ("annotations", {"round": -1}, "round_counts"),
        ("review_tasks", {"state": "lost", **NO_LEASE}, "state"),
        ("review_tasks", {"version": 0}, "version_counts"),
        ("review_tasks", {"state": "waiting"}, "leased_has_lease"),
        ("review_tasks", {"lease_holder": None}, "leased_has_lease"),
        ("review_tasks", {"lease_claimed_at": None}, "leased_has_lease"),
        ("review_tasks", {"lease_expires_at": None}, "leased_has_lease"),
        ("annotations", {"chosen_rank": -1}, "rank_counts"),
        ("annotations", {"seconds": -1.0}, "seconds_pass"),
        ("annotations", {"kind": "chat"}, "kind"),
        ("policies", {"audit_mode": "lose"}, "audit_mode"),
        ("predictions", {"audit_role": "spy"}, "audit_role"),
        *((table, {name: 1.5}, f"{name}_is_share") for table, name in CHANGED_SINCE),
        *((table, {name: -0.5}, f"{name}_is_share") for table, name in CHANGED_SINCE),
        ("certifications", {"attempt": 0}, "attempt_counts"),
        ("certifications", {"threshold": None}, "proved_or_refused"),
        ("certifications", {"reason": "none"}, "proved_or_refused"),
        ("certifications", {"threshold": 1.5}, "threshold_is_probability"),
        ("annotator_groups", {"alpha": 0.1}, "both_rates"),
        ("annotator_groups", {"alpha": 0.7, "beta": 0.3}, "answers_tell"),
        ("annotator_groups", {"alpha": -0.1, "beta": 0.3}, "answers_tell"),
        ("annotator_groups", {"version": 0}, "version_counts"),
        ("annotators", {"version": 0}, "version_counts"),
        ("labels", {"state": "lost"}, "state"),
        ("labels", {"state": "merged"}, "merged_has_target"),
        ("labels", {"version": 0}, "version_counts"),
        ("breaker_trips", {"cause": "whim"}, "cause"),
        ("outcomes", {"number": 0}, "number_counts"),
        ("outcomes", {"sampling": "whim"}, "sampling"),
        ("model_shadows", {"place": 2}, "one_place"),
        ("model_comparisons", {"decision": "maybe"}, "decision"),
        ("model_comparisons", {"reason": "whim"}, "reason"),
        ("model_comparisons", {"confidence": 1.5}, "confidence_is_probability"),
        ("jobs", {"state": "lost"}, "state"),
        ("jobs", {"progress": 1.5}, "progress_is_share"),
        ("jobs", {"progress": -0.5}, "progress_is_share"),
        ("jobs", {"attempt": -1}, "counts"),
        ("jobs", {"token": -1}, "counts"),
        ("jobs", {"state": "running"}, "running_has_lease"),
        ("jobs", {"lease_expires_at": START}, "running_has_lease"),
        ("jobs", {"state": "succeeded"}, "finished_has_end"),
        ("jobs", {**RUNNING, "finished_at": START}, "finished_has_end"),
        ("webhook_endpoints", {"version": 0}, "version_counts"),
        ("deliveries", {"state": "lost", "finished_at": START}, "state"),
        ("deliveries", {"attempt": -1}, "counts"),
        ("deliveries", {"token": -1}, "counts"),
        ("deliveries", {"finished_at": START}, "pending_has_no_end"),
        ("deliveries", {"state": "dead"}, "pending_has_no_end"),
        (
            "deliveries",
            {"state": "dead", "finished_at": START, "lease_expires_at": START},
            "leased_is_pending",
        ),
        ("delivery_attempts", {"number": 0}, "number_counts"),
        ("delivery_attempts", {"seconds": -0.1}, "seconds_pass"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(
    connection: Connection, table: str, changes: dict[str, object], constraint: str
) -> None:
    with pytest.raises(IntegrityError, match=f"ck_{table}_{constraint}"):
        _insert(connection, table, changes)


def test_every_check_is_tested_above() -> None:
    checks = {
        str(constraint.name)
        for table in tables.metadata.tables.values()
        for constraint in (
            *table.constraints,
            *(one for column in table.columns for one in column.constraints),
        )
        if constraint.__class__.__name__ == "CheckConstraint"
    }
    marks = test_a_row_that_makes_no_sense_is_refused.pytestmark  # type: ignore[attr-defined]
    tested = {f"ck_{table}_{name}" for table, _, name in marks[0].args[1]}
    assert checks == tested


TWICE: dict[str, Callable[[Connection], None]] = {
    "a key's digest": lambda it: [
        _insert(it, "api_keys", {"id": prediction().id}) for _ in range(2)
    ],
    "a policy's ordinal": lambda it: _insert(it, "policies", {"ordinal": 1}),
    "a task of plain review": lambda it: (
        _insert(it, "review_tasks", {}),
        it.execute(
            insert(tables.review_tasks).from_select(
                [column.name for column in tables.review_tasks.columns],
                select(
                    *(
                        text(f"'{prediction().id}'") if column.name == "id" else column
                        for column in tables.review_tasks.columns
                    )
                ),
            )
        ),
    ),
    "a present shadow": lambda it: [
        _insert(it, "model_shadows", {"id": prediction().id}) for _ in range(2)
    ],
    "a job of a request": lambda it: [
        _insert(it, "jobs", {"id": prediction().id, "owner_id": "me", "request_key": "r"})
        for _ in range(2)
    ],
    "an unfinished job of a key": lambda it: [
        _insert(it, "jobs", {"id": prediction().id, "key": "k", **state}) for state in ({}, RUNNING)
    ],
}


@pytest.mark.parametrize("write", TWICE.values(), ids=TWICE)
def test_what_may_exist_once_cannot_exist_twice(connection: Connection, write) -> None:
    with pytest.raises(DBAPIError) as refusal:
        write(connection)
    assert "uq_" in str(refusal.value) or "UNIQUE" in str(refusal.value)


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("predictions", {"policy_version": MISSING}),
        ("review_tasks", {"prediction_id": MISSING}),
        ("annotations", {"task_id": MISSING}),
    ],
)
def test_a_row_refers_to_rows_that_exist(
    connection: Connection, table: str, changes: dict[str, object]
) -> None:
    with pytest.raises(IntegrityError, match=r"(?i)foreign key"):
        _insert(connection, table, changes)


def test_instants_come_back_in_utc_to_the_microsecond_whatever_zone_they_went_in(
    connection: Connection,
) -> None:
    nepal = timezone(timedelta(hours=5, minutes=45))
    instants = [
        datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=UTC),
        datetime(2026, 3, 29, 7, 15, 0, 2, tzinfo=nepal),
        datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=UTC),
    ]
    for number, instant in enumerate(instants):
        row = {"id": prediction().id, "client_id": str(number), "created_at": instant}
        _insert(connection, "predictions", row)
    column = tables.predictions.c.created_at
    client = tables.predictions.c.client_id
    query = select(column).where(client.in_(list("0123")))
    assert connection.execute(query.order_by(client)).scalars().all() == instants
    by_time = connection.execute(query.order_by(column)).scalars().all()
    assert by_time == sorted(instants)
    assert {instant.tzinfo for instant in by_time} == {UTC}


def test_an_instant_without_a_zone_is_refused(connection: Connection) -> None:
    naive = START.replace(tzinfo=None)
    with pytest.raises(StatementError, match="no time zone"):
        _insert(connection, "predictions", {"created_at": naive})


def test_a_number_that_json_lacks_is_refused(connection: Connection) -> None:
    with pytest.raises((StatementError, ValueError), match="not JSON compliant"):
        _insert(connection, "predictions", {"metadata": InRow({"a": float("nan")}, ())})


def test_ids_order_by_bytes_on_both(connection: Connection) -> None:
    ids = [
        "019b7a0b-0000-7000-8000-00000000000a",
        "019b7a0b-0000-7000-8000-000000000009",
        "019b7a0a-ffff-7fff-bfff-ffffffffffff",
        "ffffffff-0000-7000-8000-000000000000",
    ]
    for identity in ids:
        _insert(connection, "predictions", {"id": identity})
    column = tables.predictions.c.id
    query = select(column).where(column.in_(ids)).order_by(column)
    assert connection.execute(query).scalars().all() == sorted(ids)


def test_a_lease_can_be_moved_while_the_task_is_open(connection: Connection) -> None:
    _insert(connection, "review_tasks", {})
    column = tables.review_tasks.c
    moved = connection.execute(
        update(tables.review_tasks)
        .where(column.state == "leased")
        .values(lease_expires_at=START + timedelta(1))
    )
    assert moved.rowcount == 1


def test_an_error_does_not_quote_the_document(connection: Connection) -> None:
    with pytest.raises(IntegrityError) as refusal:
        _insert(
            connection, "predictions", {"text": InRow("patient named Doe", ()), "confidence": 2.0}
        )
    error = refusal.value
    logged = f"{error} {error!r} {error.orig} {error.orig!r}"
    assert "confidence_is_probability" in logged
    assert "Doe" not in logged
