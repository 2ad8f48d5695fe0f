"""Stored rows in the order of their ids, for exports."""

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, select

from setwise.service.domain.audit_trail import AuditEvent, EventFilter
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.predictions import Decision, Prediction, Reason
from setwise.service.domain.reports import Evidence, Span
from setwise.service.domain.reviews import Annotation
from setwise.service.stores.audit_trail import read_events
from setwise.service.stores.columns.rows import Store
from setwise.service.stores.columns.types import opened
from setwise.service.stores.predictions import to_prediction
from setwise.service.stores.tables import annotations, checks, outcomes, predictions
from setwise.service.stores.truth import (
    SECOND_READING,
    to_annotation,
    to_outcome,
    to_second_reading,
)

Query = Select[Any]  # Any: rows of any columns


class HistoryStore(Store):
    """Stored rows in the order of their ids."""

    def predictions(self, span: Span, *, after: str | None, limit: int) -> list[Prediction]:
        query = _part(select(predictions), predictions, span, after, limit)
        return self._every(query, to_prediction)

    def annotations(
        self, span: Span, *, after: str | None, limit: int
    ) -> list[tuple[Annotation, Prediction]]:
        query = _part(_with_prediction(annotations), annotations, span, after, limit)
        return self._every(query, lambda row: (to_annotation(row), to_prediction(row)))

    def outcomes(
        self, span: Span, *, after: str | None, limit: int
    ) -> list[tuple[Outcome, Prediction]]:
        query = _part(_with_prediction(outcomes), outcomes, span, after, limit)
        return self._every(query, lambda row: (to_outcome(row), to_prediction(row)))

    def events(self, span: Span, *, after: str | None, limit: int) -> list[AuditEvent]:
        """Return events of all clients from the audit trail."""
        filters = EventFilter(since=span.created_from, before=span.created_before)
        return read_events(self._connection, filters, after=after, limit=limit, newest_first=False)

    def evidence(self, limit: int, *, with_labels: bool) -> list[Evidence]:
        """Return the evidence on the most recent predictions, newest first."""
        column = predictions.c
        columns: list[ColumnElement[Any]] = [  # Any: of several types
            column.confidence,
            column.decision,
            column.reason,
            column.created_at,
            column.inclusion_probability,
            column.segment,
            column.uncalibrated,
            checks.c.reviewer_agreed,
            checks.c.outcome_agreed,
            *SECOND_READING,
        ]
        if with_labels:
            columns += [
                column.candidates[0].label("first"),
                column.metadata,
                column.id,
                column.client_id,
            ]
        rows = self._connection.execute(
            select(*columns)
            .select_from(predictions)
            .outerjoin(checks, checks.c.prediction_id == column.id)
            .order_by(column.id.desc())
            .limit(limit)
        ).mappings()
        return [
            Evidence(
                confidence=row["confidence"],
                sent=row["decision"] == Decision.AUTO.value,
                reason=Reason(row["reason"]),
                created_at=row["created_at"],
                inclusion_probability=row["inclusion_probability"],
                reviewer_agreed=row["reviewer_agreed"],
                outcome_agreed=row["outcome_agreed"],
                agreement=to_second_reading(*(row[each] for each in SECOND_READING)),
                segment=row["segment"],
                uncalibrated=row["uncalibrated"] or False,
                labels=tuple(row["first"]["labels"]) if with_labels else (),
                metadata=opened(row["metadata"], row["id"], row["client_id"], otherwise={})
                if with_labels
                else {},
            )
            for row in rows
        ]


def _part(query: Query, table: Table, span: Span, after: str | None, limit: int) -> Query:
    """Return the query for rows of a span after an id, oldest first."""
    if span.client_id is not None:
        query = query.where(predictions.c.client_id == span.client_id)
    if span.created_from is not None:
        query = query.where(table.c.created_at >= span.created_from)
    if span.created_before is not None:
        query = query.where(table.c.created_at < span.created_before)
    if after is not None:
        query = query.where(table.c.id > after)
    return query.order_by(table.c.id).limit(limit)


def _with_prediction(table: Table) -> Query:
    return select(table, predictions).join(predictions, predictions.c.id == table.c.prediction_id)
