"""Stored outcomes."""

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.truth import AnswerFacts
from setwise.service.stores.columns.rows import Store, row_of
from setwise.service.stores.tables import outcomes
from setwise.service.stores.truth import TruthStore, to_outcome


class OutcomeRaced(Exception):
    """A concurrent outcome took the same number; retry the transaction."""


class OutcomeStore(Store):
    """Outcomes: the label sets that turned out to be right."""

    def __init__(self, connection: Connection, truth: TruthStore) -> None:
        super().__init__(connection)
        self._truth = truth

    def add(self, outcome: Outcome, before: AnswerFacts | None = None) -> None:
        """Store an outcome; raises `OutcomeRaced` if its number is taken.

        ``before``: The facts without it, if they are known.
        """
        try:
            self._connection.execute(insert(outcomes), row_of(outcome, outcomes))
        except IntegrityError as error:
            if "number" in str(error.orig):
                raise OutcomeRaced(outcome.prediction_id) from error
            raise
        facts = before and before.with_outcome(outcome)
        self._truth.write(facts or self._truth.facts(outcome.prediction_id), outcome)

    def newest(self, reported_by: str, source: str) -> Outcome | None:
        """Return the last outcome that a caller has reported for a source, or None."""
        column = outcomes.c
        query = select(outcomes).where(column.reported_by == reported_by, column.source == source)
        return self._first(query.order_by(column.id.desc()).limit(1), to_outcome)

    def of(self, prediction_id: str) -> list[Outcome]:
        """Return the outcomes of a prediction, ordered by number."""
        query = select(outcomes).where(outcomes.c.prediction_id == prediction_id)
        return self._every(query.order_by(outcomes.c.number), to_outcome)
