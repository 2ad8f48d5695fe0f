"""Stored outcomes."""

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.outcomes import Outcome
from setwise.service.stores.tables import outcomes


class OutcomeRaced(Exception):
    """A concurrent outcome took the same number; retry the transaction."""


class OutcomeStore:
    """Outcomes: the label sets that turned out to be right."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, outcome: Outcome) -> None:
        """Store an outcome; raises `OutcomeRaced` if its number is taken."""
        try:
            self._connection.execute(
                insert(outcomes), {**vars(outcome), "labels": list(outcome.labels)}
            )
        except IntegrityError as error:
            if "number" in str(error.orig):
                raise OutcomeRaced(outcome.prediction_id) from error
            raise

    def of(self, prediction_id: str) -> list[Outcome]:
        """Return the outcomes of a prediction, ordered by number."""
        rows = self._connection.execute(
            select(outcomes)
            .where(outcomes.c.prediction_id == prediction_id)
            .order_by(outcomes.c.number)
        ).mappings()
        return [Outcome(**{**row, "labels": tuple(row["labels"])}) for row in rows]
