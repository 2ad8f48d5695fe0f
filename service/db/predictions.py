"""Stored predictions."""

from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Dialect, RowMapping, func, select
from sqlalchemy.exc import IntegrityError

from service.db.bulk import Columns, RowInsert, Write, nothing
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
    add = _INSERT.ready(dialect, _columns(new))
    keyed = [(one.prediction, one.idempotency) for one in new if one.idempotency is not None]
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
            ids = select(column.id).where(column.document_id == wanted.document_id)
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
    made = [one.prediction for one in new]
    origins = [one.origin for one in new]
    documents = [one.document for one in made]
    scored = [one.scored for one in made]
    texts = [written(one) for one in scored]
    selections = [one.selection for one in made]
    return {
        "id": [one.id for one in made],
        "client_id": [one.client_id for one in made],
        "document_id": [one.id for one in documents],
        "text": [one.text for one in documents],
        "features": [None if one.features is None else dict(one.features) for one in documents],
        "metadata": [dict(one.metadata) if one.metadata else _NOTHING for one in documents],
        "candidates": [one.stored_candidates for one in texts],
        "marginals": [one.stored_marginals for one in texts],
        "own_confidences": [None if one.replaced is None else [*one.replaced] for one in scored],
        "confidence": [one.confidence for one in scored],
        "out_of_domain": [one.out_of_domain for one in scored],
        # Of members of enumerations `value` takes five times as long.
        "decision": [one.decision._value_ for one in made],
        "reason": [one.reason._value_ for one in made],
        "threshold": [one.threshold for one in made],
        "model_version": [one.model_version for one in scored],
        "calibrator_version": [one.calibrator_version for one in scored],
        "policy_version": [one.policy_version for one in made],
        "created_at": [one.created_at for one in made],
        "audit_role": [one.role._value_ for one in selections],
        "draw": [one.draw for one in selections],
        "inclusion_probability": [one.inclusion_probability for one in selections],
        "rule": [one.rule for one in made],
        "actor_name": [one[0] for one in origins],
        "request_id": [one[1] for one in origins],
        "address": [one[2] for one in origins],
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
