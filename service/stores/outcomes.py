"""Stored outcomes."""

from sqlalchemy import insert, select
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
        truth = TruthStore(self._connection)
        facts = before and before.with_outcome(outcome)
        truth.write(facts or truth.facts(outcome.prediction_id), outcome)

    def of(self, prediction_id: str) -> list[Outcome]:
        """Return the outcomes of a prediction, ordered by number."""
        query = select(outcomes).where(outcomes.c.prediction_id == prediction_id)
        return self._every(query.order_by(outcomes.c.number), to_outcome)
