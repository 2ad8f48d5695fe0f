"""Stored predictions."""

from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Dialect, RowMapping, func, select
from sqlalchemy.exc import IntegrityError

from service.db.bulk import Columns, RowInsert, Write, by_field, nothing
from service.db.names import ids_of_document, next_block
from service.db.tables import idempotency_keys, predictions
from service.domain.audits import AuditRole, Selection
from service.domain.identity import is_id
from service.domain.predictions import Decision, Document, Prediction, Reason, ScoredSet
from service.use_cases.paging import Page
from service.use_cases.prediction_ports import (
    IdempotencyKeyTaken,
    NewPrediction,
    PredictionFilter,
)
from service.use_cases.written import read_scores, written

_INSERT = RowInsert(
    predictions,
    written={"candidates", "marginals"},
    alike=[
        # of one request
        ("client_id", "actor_name", "request_id", "address"),
        # of one moment
        ("model_version", "calibrator_version", "policy_version", "created_at", "threshold"),
        ("block",),
        # mostly nothing
        ("features", "own_confidences", "out_of_domain", "rule"),
        ("metadata",),
    ],
)
_INSERT_KEY = RowInsert(idempotency_keys, alike=[("client_id", "request_digest", "created_at")])
_NOTHING: dict[str, object] = {}


def adding(dialect: Dialect, new: Sequence[NewPrediction]) -> Write:
    """Return what adds predictions, and the idempotency keys that they were made under."""
    if not new:
        return nothing
    block = next_block(dialect, len(new))
    add = _INSERT.ready(dialect, {**_columns(new), "block": [block] * len(new)})
    keyed = [
        (prediction, submission.idempotency)
        for prediction, submission in new
        if submission.idempotency is not None
    ]
    if not keyed:
        return add
    add_keys = _INSERT_KEY.ready(
        dialect,
        {
            "client_id": [prediction.client_id for prediction, _ in keyed],
            "key": [idempotency.key for _, idempotency in keyed],
            "request_digest": [idempotency.request_digest for _, idempotency in keyed],
            "prediction_id": [prediction.id for prediction, _ in keyed],
            "created_at": [prediction.created_at for prediction, _ in keyed],
        },
    )
    names = ", ".join(idempotency.key for _, idempotency in keyed)

    def add_both(connection: Connection) -> None:
        add(connection)
        try:
            add_keys(connection)
        except IntegrityError as error:
            raise IdempotencyKeyTaken(names) from error

    return add_both


class SqlPredictions:
    """Fills the port `service.use_cases.prediction_ports.Predictions`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add_all(self, predictions: Sequence[NewPrediction]) -> None:
        adding(self._connection.dialect, predictions)(self._connection)

    def get(self, prediction_id: str) -> Prediction | None:
        if not is_id(prediction_id):
            return None
        row = self._connection.execute(
            select(predictions).where(predictions.c.id == prediction_id)
        ).mappings()
        found = row.one_or_none()
        return None if found is None else to_prediction(found)

    def replayed(self, client_id: str, key: str) -> tuple[Prediction, str] | None:
        found = (
            self._connection.execute(
                select(predictions, idempotency_keys.c.request_digest)
                .join(idempotency_keys, idempotency_keys.c.prediction_id == predictions.c.id)
                .where(idempotency_keys.c.client_id == client_id, idempotency_keys.c.key == key)
            )
            .mappings()
            .one_or_none()
        )
        if found is None:
            return None
        return to_prediction(found), found[idempotency_keys.c.request_digest]

    def page(self, wanted: PredictionFilter, *, after: str | None, limit: int) -> Page[Prediction]:
        column = predictions.c
        query = select(predictions).order_by(column.id.desc()).limit(limit + 1)
        if wanted.client_id is not None:
            query = query.where(column.client_id == wanted.client_id)
        if wanted.decision is not None:
            query = query.where(column.decision == wanted.decision.value)
        if wanted.created_from is not None:
            query = query.where(column.created_at >= wanted.created_from)
        if wanted.created_before is not None:
            query = query.where(column.created_at < wanted.created_before)
        if wanted.document_id is not None:
            # Its ids first: planners would rather read all of a client's, or all there are, in
            # the order that is wanted. They do not see that the expression is the id.
            ids = ids_of_document(wanted.document_id)
            if after is not None:
                ids = ids.where(func.coalesce(column.id, column.id) < after)
            named = ids.cte("named").prefix_with("MATERIALIZED")
            query = query.where(column.id.in_(select(named.c.id)))
        elif after is not None:
            query = query.where(column.id < after)
        rows = self._connection.execute(query).mappings().all()
        items = tuple(to_prediction(row) for row in rows[:limit])
        return Page(items, items[-1].id if len(rows) > limit else None)

    def counts(self) -> Mapping[tuple[Decision, Reason], int]:
        decision: ColumnElement[str] = predictions.c.decision
        reason: ColumnElement[str] = predictions.c.reason
        if self._connection.dialect.name == "sqlite":
            # In the order of the index on decisions it would have to read the rows for the
            # reasons; without an order it counts in an index that has both.
            decision, reason = decision.concat(""), reason.concat("")
        query = select(decision, reason, func.count()).group_by(decision, reason)
        return {(Decision(a), Reason(b)): count for a, b, count in self._connection.execute(query)}


def _columns(new: Sequence[NewPrediction]) -> Columns:
    made, submissions = map(by_field, zip(*new, strict=True))
    documents, scored = by_field(made["document"]), by_field(made["scored"])
    selections = by_field(made["selection"])
    texts = [written(one) for one in made["scored"]]
    return {
        "id": made["id"],
        "client_id": made["client_id"],
        "document_id": documents["id"],
        "text": documents["text"],
        "features": [None if one is None else dict(one) for one in documents["features"]],
        "metadata": [dict(one) if one else _NOTHING for one in documents["metadata"]],
        "candidates": [one.stored_candidates for one in texts],
        "marginals": [one.stored_marginals for one in texts],
        "own_confidences": [None if one is None else [*one] for one in scored["replaced"]],
        "confidence": [candidates[0].confidence for candidates in scored["candidates"]],
        "out_of_domain": scored["out_of_domain"],
        # Of members of enumerations `value` takes five times as long.
        "decision": [one._value_ for one in made["decision"]],
        "reason": [one._value_ for one in made["reason"]],
        "threshold": made["threshold"],
        "model_version": scored["model_version"],
        "calibrator_version": scored["calibrator_version"],
        "policy_version": made["policy_version"],
        "created_at": made["created_at"],
        "audit_role": [one._value_ for one in selections["role"]],
        "draw": selections["draw"],
        "inclusion_probability": selections["inclusion_probability"],
        "rule": made["rule"],
        "actor_name": [caller.name for caller in submissions["caller"]],
        "request_id": submissions["request_id"],
        "address": [caller.address for caller in submissions["caller"]],
    }


def _tuple(values: list[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values)


def to_prediction(row: RowMapping) -> Prediction:
    """Return the prediction in a row that selects, among others, the columns of its table."""
    column = predictions.c
    candidates, marginals = read_scores(row[column.candidates], row[column.marginals])
    return Prediction(
        id=row[column.id],
        client_id=row[column.client_id],
        document=Document(
            id=row[column.document_id],
            text=row[column.text],
            features=row[column.features],
            metadata=row[column.metadata],
        ),
        scored=ScoredSet(
            candidates=candidates,
            marginals=marginals,
            out_of_domain=row[column.out_of_domain],
            model_version=row[column.model_version],
            calibrator_version=row[column.calibrator_version],
            replaced=_tuple(row[column.own_confidences]),
        ),
        decision=Decision(row[column.decision]),
        reason=Reason(row[column.reason]),
        threshold=row[column.threshold],
        policy_version=row[column.policy_version],
        created_at=row[column.created_at],
        selection=Selection(
            AuditRole(row[column.audit_role]),
            row[column.draw],
            row[column.inclusion_probability],
        ),
        rule=row[column.rule],
    )
