"""What is stored, in the order of its ids, for exports."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, RowMapping, Select, Table, case, func, select

from service.db.predictions import to_prediction
from service.db.reviews import to_annotation
from service.db.tables import annotations, audit_events, outcomes, predictions
from service.domain.evidence import Evidence
from service.domain.history import Event
from service.domain.outcomes import Outcome
from service.domain.predictions import Decision, Prediction
from service.domain.reviews import Annotation
from service.use_cases.ports import Span

Query = Select[Any]  # Any: rows of whatever columns


class SqlHistory:
    """Fills the port `service.use_cases.ports.History`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def predictions(self, span: Span, *, after: str | None, limit: int) -> list[Prediction]:
        query = _of_client(select(predictions), span)
        found = self._page(query, predictions, predictions.c.created_at, span, after, limit)
        return [to_prediction(row) for row in found]

    def annotations(
        self, span: Span, *, after: str | None, limit: int
    ) -> list[tuple[Annotation, Prediction]]:
        query = _of_client(_with_prediction(annotations), span)
        found = self._page(query, annotations, annotations.c.created_at, span, after, limit)
        return [(to_annotation(row), to_prediction(row)) for row in found]

    def outcomes(
        self, span: Span, *, after: str | None, limit: int
    ) -> list[tuple[Outcome, Prediction]]:
        query = _of_client(_with_prediction(outcomes), span)
        found = self._page(query, outcomes, outcomes.c.created_at, span, after, limit)
        return [(Outcome(**_own(row, outcomes)), to_prediction(row)) for row in found]

    def events(self, span: Span, *, after: str | None, limit: int) -> list[Event]:
        found = self._page(
            select(audit_events), audit_events, audit_events.c.at, span, after, limit
        )
        return [Event(**_own(row, audit_events)) for row in found]

    def evidence(self, limit: int, *, with_labels: bool) -> list[Evidence]:
        column = predictions.c
        said = annotations.c
        settled = select(said.id).where(said.prediction_id == column.id, said.settles)
        # Should several people have settled it, one who disagreed is enough.
        reviewed = case(
            (settled.where(~said.agreed).exists(), False), (settled.exists(), True), else_=None
        )
        reported = (
            select(outcomes.c.agreed)
            .where(outcomes.c.prediction_id == column.id)
            .order_by(outcomes.c.number.desc())
            .limit(1)
            .scalar_subquery()
        )
        wanted = [
            column.confidence,
            column.out_of_domain,
            column.decision,
            column.created_at,
            func.coalesce(reported, reviewed).label("correct"),
        ]
        if with_labels:
            wanted += [column.candidates, column.metadata]
        rows = self._connection.execute(
            select(*wanted).order_by(column.id.desc()).limit(limit)
        ).mappings()
        return [
            Evidence(
                confidence=row["confidence"],
                sendable=not row["out_of_domain"],
                sent=row["decision"] == Decision.AUTO.value,
                correct=None if row["correct"] is None else bool(row["correct"]),
                created_at=row["created_at"],
                labels=row["candidates"][0]["labels"] if with_labels else (),
                metadata=row["metadata"] if with_labels else {},
            )
            for row in rows
        ]

    def _page(  # noqa: PLR0917 -- the same six for four tables
        self,
        query: Query,
        table: Table,
        at: Column[Any],  # Any: an instant
        span: Span,
        after: str | None,
        limit: int,
    ) -> Sequence[RowMapping]:
        if span.created_from is not None:
            query = query.where(at >= span.created_from)
        if span.created_before is not None:
            query = query.where(at < span.created_before)
        if after is not None:
            query = query.where(table.c.id > after)
        return self._connection.execute(query.order_by(table.c.id).limit(limit)).mappings().all()


def _of_client(query: Query, span: Span) -> Query:
    return (
        query if span.client_id is None else query.where(predictions.c.client_id == span.client_id)
    )


def _with_prediction(table: Table) -> Query:
    return select(table, predictions).join(predictions, predictions.c.id == table.c.prediction_id)


def _own(row: RowMapping, table: Table) -> dict[str, Any]:  # Any: values of every type
    values = {column.name: row[column] for column in table.columns}
    return values | {"labels": tuple(values["labels"])} if "labels" in values else values
