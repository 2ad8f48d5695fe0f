"""Stored rows in the order of their ids, for exports."""

from typing import Any

from sqlalchemy import Select, Table, select

from setwise.service.domain.audit_trail import AuditEvent, EventFilter
from setwise.service.domain.files import Exported
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reports import Span
from setwise.service.domain.reviews import Annotation
from setwise.service.stores.audit_trail import read_events
from setwise.service.stores.columns.rows import Store
from setwise.service.stores.predictions import to_prediction
from setwise.service.stores.tables import annotations, audit_events, outcomes, predictions
from setwise.service.stores.truth import to_annotation, to_outcome

Query = Select[Any]  # Any: rows of any columns

_TABLES = {
    Exported.PREDICTIONS: predictions,
    Exported.ANNOTATIONS: annotations,
    Exported.OUTCOMES: outcomes,
    Exported.AUDIT_EVENTS: audit_events,
}


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

    def last_id(self, what: Exported) -> str | None:
        """Return the greatest id of the rows of an export; None if there is none."""
        column = _TABLES[what].c.id  # PostgreSQL before 18 has no max() of UUIDs
        last: str | None = self._connection.scalar(select(column).order_by(column.desc()).limit(1))
        return last


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
