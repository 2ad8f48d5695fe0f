"""Stored predictions."""

from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Dialect, RowMapping, func, select
from sqlalchemy.exc import IntegrityError

from service.db.bulk import Row, RowInsert, Write
from service.db.tables import idempotency_keys, predictions
from service.domain.audits import AuditRole, Selection
from service.domain.history import Origin
from service.domain.identity import is_id
from service.domain.predictions import (
    Candidate,
    Decision,
    Document,
    Marginal,
    Prediction,
    Reason,
    ScoredSet,
)
from service.use_cases.paging import Page
from service.use_cases.prediction_ports import (
    IdempotencyKey,
    IdempotencyKeyTaken,
    NewPrediction,
    PredictionFilter,
)
from service.use_cases.written import written

_INSERT = RowInsert(predictions, written={"candidates", "marginals"})
_INSERT_KEY = RowInsert(idempotency_keys)


def adding(dialect: Dialect, new: Sequence[NewPrediction]) -> Write:
    """Return what adds predictions, and the idempotency keys that they were made under."""
    add = _INSERT.ready(dialect, [_to_row(one.prediction, one.origin) for one in new])
    keys = [
        {
            "client_id": prediction.client_id,
            "key": idempotency.key,
            "request_digest": idempotency.request_digest,
            "prediction_id": prediction.id,
            "created_at": prediction.created_at,
        }
        for prediction, _, idempotency in new
        if idempotency is not None
    ]
    if not keys:
        return add
    names = ", ".join(str(key["key"]) for key in keys)
    add_keys = _INSERT_KEY.ready(dialect, keys)

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

    def add(
        self,
        prediction: Prediction,
        *,
        origin: Origin | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> None:
        self.add_all([NewPrediction(prediction, origin, idempotency)])

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
        if wanted.document_id is not None:
            query = query.where(column.document_id == wanted.document_id)
        if wanted.created_from is not None:
            query = query.where(column.created_at >= wanted.created_from)
        if wanted.created_before is not None:
            query = query.where(column.created_at < wanted.created_before)
        if after is not None:
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


_UNKNOWN: tuple[None, None, None] = (None, None, None)


def _to_row(prediction: Prediction, origin: Origin | None) -> Row:
    document, scored = prediction.document, prediction.scored
    actor_name, request_id, address = origin or _UNKNOWN
    features, scores = document.features, written(scored)
    return {
        "id": prediction.id,
        "client_id": prediction.client_id,
        "document_id": document.id,
        "text": document.text,
        "features": None if features is None else dict(features),
        "metadata": dict(document.metadata),
        "candidates": scores.candidates,
        "marginals": scores.marginals,
        "own_confidences": None if scored.replaced is None else [*scored.replaced],
        "confidence": scored.confidence,
        "out_of_domain": scored.out_of_domain,
        "decision": prediction.decision.value,
        "reason": prediction.reason.value,
        "threshold": prediction.threshold,
        "model_version": scored.model_version,
        "calibrator_version": scored.calibrator_version,
        "policy_version": prediction.policy_version,
        "created_at": prediction.created_at,
        "audit_role": prediction.selection.role.value,
        "draw": prediction.selection.draw,
        "inclusion_probability": prediction.selection.inclusion_probability,
        "rule": prediction.rule,
        "actor_name": actor_name,
        "request_id": request_id,
        "address": address,
    }


def _tuple(values: list[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values)


def to_prediction(row: RowMapping) -> Prediction:
    """Return the prediction in a row that selects, among others, the columns of its table."""
    column = predictions.c
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
            candidates=tuple(
                Candidate(tuple(shown["labels"]), shown["confidence"], shown["score"])
                for shown in row[column.candidates]
            ),
            marginals=tuple(
                Marginal(marginal["label"], marginal["probability"])
                for marginal in row[column.marginals]
            ),
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
