"""Stored predictions."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Dialect, RowMapping, func, select
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.audits import AuditRole, Selection
from setwise.service.domain.columns import Rows
from setwise.service.domain.identity import is_id
from setwise.service.domain.paging import Page
from setwise.service.domain.predictions import (
    Decision,
    Document,
    Prediction,
    PredictionFilter,
    Reason,
    ScoredSet,
    Submission,
)
from setwise.service.domain.reviews import NewTask
from setwise.service.domain.webhooks import Message
from setwise.service.stores.bulk import Columns, RowInsert, Write, nothing
from setwise.service.stores.names import ids_of_document, next_block
from setwise.service.stores.tables import idempotency_keys, predictions
from setwise.service.stores.written import all_written, read_scores

NewPrediction = tuple[Prediction, Submission]
"""A prediction that is to be stored, and what it answers."""


class Recording(NamedTuple):
    """Predictions that are stored together, what each answers, and what follows from them."""

    predictions: Rows[Prediction]
    submissions: Rows[Submission]
    tasks: Rows[NewTask]
    messages: Rows[Message]


class IdempotencyKeyTaken(Exception):
    """Another request was stored under the same key first; this transaction is lost."""


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


def adding(dialect: Dialect, made: Rows[Prediction], answering: Rows[Submission]) -> Write:
    """Return what adds predictions, and the idempotency keys that they were made under."""
    if not made:
        return nothing
    block = next_block(dialect, len(made))
    add = _INSERT.ready(dialect, {**_columns(made, answering), "block": [block] * len(made)})
    given = answering.column("idempotency")
    keyed = [place for place, key in enumerate(given) if key is not None]
    if not keyed:
        return add
    keys = [given[place] for place in keyed]
    ids, clients, moments = (
        [column[place] for place in keyed]
        for column in map(made.column, ("id", "client_id", "created_at"))
    )
    add_keys = _INSERT_KEY.ready(
        dialect,
        {
            "client_id": clients,
            "key": [key.key for key in keys],
            "request_digest": [key.request_digest for key in keys],
            "prediction_id": ids,
            "created_at": moments,
        },
    )
    names = ", ".join(key.key for key in keys)

    def add_both(connection: Connection) -> None:
        add(connection)
        try:
            add_keys(connection)
        except IntegrityError as error:
            raise IdempotencyKeyTaken(names) from error

    return add_both


class PredictionStore:
    """Stored predictions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add_all(self, new: Sequence[NewPrediction]) -> None:
        """Store each, with the event that it was made.

        Raises `IdempotencyKeyTaken` when a client used a key before.
        """
        made = Rows.of(Prediction, [prediction for prediction, _ in new])
        answering = Rows.of(Submission, [submission for _, submission in new])
        adding(self._connection.dialect, made, answering)(self._connection)

    def get(self, prediction_id: str) -> Prediction | None:
        if not is_id(prediction_id):
            return None
        row = self._connection.execute(
            select(predictions).where(predictions.c.id == prediction_id)
        ).mappings()
        found = row.one_or_none()
        return None if found is None else to_prediction(found)

    def replayed(self, client_id: str, key: str) -> tuple[Prediction, str] | None:
        """Return the prediction made under an idempotency key, and its request digest."""
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


def _columns(made: Rows[Prediction], answering: Rows[Submission]) -> Columns:
    documents = made.column("document")
    scored = Rows.of(ScoredSet, made.column("scored"))
    selections = Rows.of(Selection, made.column("selection"))
    texts, callers = all_written(scored), answering.column("caller")
    return {
        "id": made.column("id"),
        "client_id": made.column("client_id"),
        "document_id": [one.id for one in documents],
        "text": [one.text for one in documents],
        "features": [None if one.features is None else dict(one.features) for one in documents],
        "metadata": [dict(one.metadata) if one.metadata else _NOTHING for one in documents],
        "candidates": texts.column("stored_candidates"),
        "marginals": texts.column("stored_marginals"),
        "own_confidences": [None if one is None else [*one] for one in scored.column("replaced")],
        "confidence": scored.column("confidence"),
        "out_of_domain": scored.column("out_of_domain"),
        # Of members of enumerations `value` takes five times as long.
        "decision": [one._value_ for one in made.column("decision")],
        "reason": [one._value_ for one in made.column("reason")],
        "threshold": made.column("threshold"),
        "model_version": scored.column("model_version"),
        "calibrator_version": scored.column("calibrator_version"),
        "policy_version": made.column("policy_version"),
        "created_at": made.column("created_at"),
        "audit_role": [one._value_ for one in selections.column("role")],
        "draw": selections.column("draw"),
        "inclusion_probability": selections.column("inclusion_probability"),
        "rule": made.column("rule"),
        "actor_name": [caller.name for caller in callers],
        "request_id": answering.column("request_id"),
        "address": [caller.address for caller in callers],
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
