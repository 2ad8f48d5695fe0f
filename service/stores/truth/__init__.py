"""Facts about predictions, and the checks that follow from them."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Insert,
    RowMapping,
    Table,
    and_,
    delete,
    insert,
    or_,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite

from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.predictions import Decision
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.routing.audits import RereadDraw
from setwise.service.domain.text import UNREADABLE
from setwise.service.domain.truth import AnswerFacts, Check, CheckedPrediction, SecondReading
from setwise.service.stores.columns.rows import Store, of_row, row_of
from setwise.service.stores.columns.types import opened
from setwise.service.stores.tables import (
    annotations,
    checks,
    outcomes,
    policies,
    predictions,
)
from setwise.service.stores.truth.search_index import SearchIndex

_FACTS = (
    select(
        *(predictions.c[name] for name in CheckedPrediction._fields),
        policies.c.gold_reread_rate,
        annotations,
        outcomes,
    )
    .select_from(predictions)
    .join(policies, policies.c.version == predictions.c.policy_version)
    .outerjoin(annotations, annotations.c.prediction_id == predictions.c.id)
    .outerjoin(outcomes, outcomes.c.prediction_id == predictions.c.id)
    .order_by(predictions.c.id)
)


SECOND_READING = checks.c.reread_rate, checks.c.reread
"""The columns that `to_second_reading` reads."""

REREAD_DRAW = checks.c.reread_rate, checks.c.reread_draw
"""The columns that `to_reread_draw` reads."""


def _replacing(statement: sqlite.Insert | postgresql.Insert) -> Insert:
    """Return a statement that stores a check in place of the one before."""
    others = {column.name: column for column in statement.excluded if not column.primary_key}
    return statement.on_conflict_do_update(index_elements=[checks.c.prediction_id], set_=others)


# Made once: to build a statement that names each column takes longer than to run it.
_STORE = {
    "sqlite": _replacing(sqlite.insert(checks)),
    "postgresql": _replacing(postgresql.insert(checks)),
}


class TruthStore(Store):
    """Facts about predictions, and the checks that follow from them."""

    def facts(self, prediction_id: str) -> AnswerFacts:
        """Return what has been said about a stored prediction."""
        (facts,) = self._facts(predictions.c.id == prediction_id)
        return facts

    def write(self, facts: AnswerFacts, answer: Annotation | Outcome | None = None) -> None:
        """Store what follows from facts.

        ``answer``: The one of them that is new; None if others have changed.
        """
        row = _row(facts)
        if row is None:
            return
        self._connection.execute(_STORE[self._connection.dialect.name], row)
        last = facts.last_sent()
        before = last if answer is None else facts.last_sent(without=answer.id)
        if last is not None and (answer is None or last is not before):
            sent = before is not None or facts.prediction.decision is Decision.AUTO
            SearchIndex(self._connection).set_final({last.prediction_id: last.labels}, sent=sent)

    def rebuild(self, after: str | None, limit: int) -> tuple[int, str | None]:
        """Derive the checks and final labels of the next ``limit`` predictions again.

        Others that store facts wait until this transaction ends. Returns how many predictions there
        were, and the last one to go on after; None at the end.

        ``after``: The last prediction of the part before; None to begin.
        """
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(text("LOCK TABLE checks IN SHARE ROW EXCLUSIVE MODE"))
        next_ids = select(predictions.c.id).where(*_between(predictions.c.id, after, None))
        next_ids = next_ids.order_by(predictions.c.id).limit(limit)
        ids = list(self._connection.execute(next_ids).scalars())
        last = ids[-1] if len(ids) == limit else None
        self._connection.execute(
            delete(checks).where(*_between(checks.c.prediction_id, after, last))
        )
        answered = or_(annotations.c.id.is_not(None), outcomes.c.id.is_not(None))
        part = list(self._facts(and_(answered, *_between(predictions.c.id, after, last))))
        if rows := [row for row in map(_row, part) if row is not None]:
            self._connection.execute(insert(checks), rows)
        answers = [answer for facts in part if (answer := facts.last_sent()) is not None]
        SearchIndex(self._connection).set_final(
            {answer.prediction_id: answer.labels for answer in answers}, sent=True
        )
        return len(ids), last

    def _facts(self, condition: ColumnElement[bool]) -> Iterator[AnswerFacts]:
        rows = self._connection.execute(_FACTS.where(condition)).mappings()
        for _, alike in groupby(rows, key=lambda row: row[predictions.c.id]):
            yield _to_facts(list(alike))


def _between(
    column: Column[str], after: str | None, last: str | None
) -> Iterator[ColumnElement[bool]]:
    if after is not None:
        yield column > after
    if last is not None:
        yield column <= last


def to_annotation(row: RowMapping) -> Annotation:
    """Return the annotation in a row with the columns of its table."""
    column = annotations.c
    kind = kind_of(row[column.kind], round_=row[column.round])
    bound_to = row[column.id], row[column.prediction_id]
    comment = opened(row[column.comment], *bound_to, otherwise=UNREADABLE)
    return of_row(
        Annotation, annotations, row, **_sets(row, annotations), comment=comment, kind=kind
    )


def kind_of(kind: str, *, round_: int) -> ReviewKind:
    """Return the kind of a task or annotation; of reopened documents a round is stored."""
    return ReviewKind.REOPENED if round_ else ReviewKind(kind)


def to_outcome(row: RowMapping) -> Outcome:
    """Return the outcome in a row with the columns of its table."""
    return of_row(Outcome, outcomes, row, **_sets(row, outcomes))


def _sets(row: RowMapping, table: Table) -> dict[str, tuple[str, ...] | None]:
    """Return the labels of an answer, and those that were written."""
    labels, written = row[table.c.labels], row[table.c.written]
    return {"labels": tuple(labels), "written": None if written is None else tuple(written)}


def to_check(row: RowMapping) -> Check:
    """Return the check in a row with the columns of its table."""
    labels = {
        name: None if row[checks.c[name]] is None else tuple(row[checks.c[name]])
        for name in ("labels", "audit_labels", "lead_labels")
    }
    return of_row(Check, checks, row, **labels)


def to_second_reading(rate: float | None, done: bool | None) -> SecondReading | None:
    """Return what became of an auditor's agreement; None without one."""
    return None if done is None else SecondReading(rate or 1.0, done)


def to_reread_draw(row: RowMapping) -> RereadDraw | None:
    """Return what decided on a second reading; None unless it is stored with the answer."""
    rate, draw = (row[column] for column in REREAD_DRAW)
    return None if rate is None or draw is None else RereadDraw(rate, draw)


def _to_facts(rows: Sequence[RowMapping]) -> AnswerFacts:
    """Return the facts in the rows of a prediction, with each annotation beside each outcome."""
    answers = {row[annotations.c.id]: row for row in rows if row[annotations.c.id] is not None}
    reports = {row[outcomes.c.number]: row for row in rows if row[outcomes.c.id] is not None}
    return AnswerFacts(
        prediction=of_row(CheckedPrediction, predictions, rows[0]),
        gold_reread_rate=rows[0][policies.c.gold_reread_rate],
        annotations=[to_annotation(row) for _, row in sorted(answers.items())],
        outcomes=[to_outcome(row) for _, row in sorted(reports.items())],
    )


def _row(facts: AnswerFacts) -> dict[str, Any] | None:  # Any: a column's value
    """Return the row of what follows from the facts, if anything does."""
    answered = facts.check
    if answered is None:
        return None
    return {
        **row_of(facts.prediction, checks),
        **row_of(answered, checks),
        "predicted_at": facts.prediction.created_at,
    }
