"""Facts about predictions, and the checks that follow from them."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Insert,
    RowMapping,
    Select,
    Table,
    bindparam,
    delete,
    insert,
    or_,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite

from setwise.service.domain.outcomes import Outcome, Sampling
from setwise.service.domain.predictions import Decision
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.text import UNREADABLE
from setwise.service.domain.truth import AnswerFacts, Check, CheckedPrediction
from setwise.service.stores.columns.rows import Store, of_row, row_of
from setwise.service.stores.columns.types import opened
from setwise.service.stores.reports.counts import UNKNOWN, CountStore, evident
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
# Composed once, as each answer asks for it.
_FACTS_OF_ONE = _FACTS.where(predictions.c.id == bindparam("about"))


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
    """Facts about predictions, and the checks that follow from them.

    ``counts``: Counts of the same predictions.
    """

    def __init__(self, connection: Connection, counts: CountStore) -> None:
        super().__init__(connection)
        self.counts = counts

    def facts(self, prediction_id: str) -> AnswerFacts:
        """Return what has been said about a stored prediction."""
        (facts,) = self._read(_FACTS_OF_ONE, about=prediction_id)
        return facts

    def facts_of(self, ids: Sequence[str]) -> list[AnswerFacts]:
        """Return what has been said about stored predictions, by id."""
        return list(self._read(_FACTS.where(predictions.c.id.in_(ids))))

    def write(self, facts: AnswerFacts, answer: Annotation | Outcome) -> None:
        """Store what follows from facts; ``answer`` is the one of them that is new."""
        if isinstance(answer, Annotation):
            self.counts.completed(answer, facts.prediction.segment)
        if not self._store([facts]):
            return
        last, before = facts.last_sent(), facts.last_sent(without=answer.id)
        if last is not None and last is not before:
            sent = before is not None or facts.prediction.decision is Decision.AUTO
            SearchIndex(self._connection).set_final({last.prediction_id: last.labels}, sent=sent)

    def write_all(self, several: Sequence[AnswerFacts]) -> None:
        """Store what follows from facts that have changed, without a new answer among them."""
        self._store(several)
        self._set_final(several)

    def _store(self, several: Sequence[AnswerFacts]) -> bool:
        """Store the checks that follow from facts; return whether any does."""
        answered = [(facts.prediction, found) for facts in several if (found := facts.check)]
        if not answered:
            return False
        before = self.counts.evident([of.id for of, _ in answered])
        for of, found in answered:
            self.counts.learnt(of, before.get(of.id, UNKNOWN), evident(found))
        rows = [_row(of, found) for of, found in answered]
        self._connection.execute(_STORE[self._connection.dialect.name], rows)
        return True

    def rebuild(self, after: str | None, limit: int) -> tuple[int, str | None]:
        """Derive the checks and final labels of the next ``limit`` predictions again, uncounted.

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
        some = _FACTS.where(answered, *_between(predictions.c.id, after, last))
        part = list(self._read(some))
        rows = [_row(facts.prediction, found) for facts in part if (found := facts.check)]
        if rows:
            self._connection.execute(insert(checks), rows)
        self._set_final(part)
        return len(ids), last

    def _set_final(self, several: Sequence[AnswerFacts]) -> None:
        answers = [answer for facts in several if (answer := facts.last_sent()) is not None]
        SearchIndex(self._connection).set_final(
            {answer.prediction_id: answer.labels for answer in answers}, sent=True
        )

    def _read(self, query: Select[Any], **given: object) -> Iterator[AnswerFacts]:
        rows = self._connection.execute(query, given).mappings()
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
    sampling = Sampling(row[outcomes.c.sampling])
    return of_row(Outcome, outcomes, row, **_sets(row, outcomes), sampling=sampling)


def _sets(row: RowMapping, table: Table) -> dict[str, tuple[str, ...] | None]:
    """Return the labels of an answer, and those that were written."""
    labels, written = row[table.c.labels], row[table.c.written]
    return {"labels": tuple(labels), "written": None if written is None else tuple(written)}


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


def _row(of: CheckedPrediction, found: Check) -> dict[str, Any]:  # Any: a column's value
    """Return the row of what is known about a prediction."""
    return {**row_of(of, checks), **row_of(found, checks), "predicted_at": of.created_at}
