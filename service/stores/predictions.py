"""Stored predictions."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, RowMapping, func, insert, select, tuple_
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.audits import AuditRole, Selection
from setwise.service.domain.identity import is_id
from setwise.service.domain.paging import Page
from setwise.service.domain.predictions import (
    Candidate,
    Decision,
    Document,
    Marginal,
    Prediction,
    PredictionFilter,
    Reason,
    ScoredSet,
    Submission,
)
from setwise.service.stores.tables import idempotency_keys, predictions

NewPrediction = tuple[Prediction, Submission]
"""A prediction that is to be stored, and what it answers."""

_KeyName = tuple[str, str]
"""A client's id and its idempotency key."""


class IdempotencyKeyTaken(Exception):
    """Another request was stored under the same key first; this transaction is lost."""


class PredictionStore:
    """Stored predictions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add_all(self, new: Sequence[NewPrediction]) -> None:
        """Store each, with the event that it was made.

        Raises `IdempotencyKeyTaken` when a client used a key before.
        """
        if not new:
            return
        rows = [_row(prediction, submission) for prediction, submission in new]
        self._connection.execute(insert(predictions), rows)
        keys = [
            {
                "client_id": prediction.client_id,
                "key": submission.idempotency.key,
                "request_digest": submission.idempotency.request_digest,
                "prediction_id": prediction.id,
                "created_at": prediction.created_at,
            }
            for prediction, submission in new
            if submission.idempotency is not None
        ]
        if not keys:
            return
        try:
            self._connection.execute(insert(idempotency_keys), keys)
        except IntegrityError as error:
            raise IdempotencyKeyTaken(", ".join(str(key["key"]) for key in keys)) from error

    def get(self, prediction_id: str) -> Prediction | None:
        if not is_id(prediction_id):
            return None
        row = self._connection.execute(
            select(predictions).where(predictions.c.id == prediction_id)
        ).mappings()
        found = row.one_or_none()
        return None if found is None else to_prediction(found)

    def replayed(self, names: Collection[_KeyName]) -> dict[_KeyName, tuple[Prediction, str]]:
        """Return the predictions made under idempotency keys, each with its request digest.

        Parameters
        ----------
        names : collection of pairs
            Of a client's id and its key.
        """
        key = idempotency_keys.c
        rows = self._connection.execute(
            select(predictions, key.client_id.label("key_owner"), key.key, key.request_digest)
            .join(idempotency_keys, key.prediction_id == predictions.c.id)
            .where(tuple_(key.client_id, key.key).in_(names))
        ).mappings()
        return {
            (row["key_owner"], row[key.key]): (to_prediction(row), row[key.request_digest])
            for row in rows
        }

    def page(self, wanted: PredictionFilter, *, after: str | None, limit: int) -> Page[Prediction]:
        """List newest first."""
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


def _row(made: Prediction, answering: Submission) -> dict[str, object]:
    document, scored, caller = made.document, made.scored, answering.caller
    return {
        "id": made.id,
        "client_id": made.client_id,
        "document_id": document.id,
        "text": document.text,
        "features": None if document.features is None else dict(document.features),
        "metadata": dict(document.metadata),
        "candidates": [
            {"labels": one.labels, "confidence": one.confidence, "score": one.score}
            for one in scored.candidates
        ],
        "marginals": [
            {"label": one.label, "probability": one.probability} for one in scored.marginals
        ],
        "own_confidences": None if scored.replaced is None else list(scored.replaced),
        "confidence": scored.confidence,
        "out_of_domain": scored.out_of_domain,
        "decision": made.decision.value,
        "reason": made.reason.value,
        "threshold": made.threshold,
        "model_version": scored.model_version,
        "calibrator_version": scored.calibrator_version,
        "policy_version": made.policy_version,
        "created_at": made.created_at,
        "audit_role": made.selection.role.value,
        "draw": made.selection.draw,
        "inclusion_probability": made.selection.inclusion_probability,
        "rule": made.rule,
        "actor_name": caller.name,
        "request_id": answering.request_id,
        "address": caller.address,
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
                Candidate(tuple(one["labels"]), one["confidence"], one["score"])
                for one in row[column.candidates]
            ),
            marginals=tuple(
                Marginal(one["label"], one["probability"]) for one in row[column.marginals]
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
