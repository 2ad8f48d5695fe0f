"""Stored outcomes."""

from sqlalchemy import RowMapping, Select, exists, insert, or_, select
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.predictions import Decision
from setwise.service.stores.columns.rows import Store, of_row, row_of
from setwise.service.stores.search_index import SearchIndex
from setwise.service.stores.tables import annotations, outcomes, predictions


class OutcomeRaced(Exception):
    """A concurrent outcome took the same number; retry the transaction."""


class OutcomeStore(Store):
    """Outcomes: the label sets that turned out to be right."""

    def add(self, outcome: Outcome) -> None:
        """Store an outcome; raises `OutcomeRaced` if its number is taken."""
        try:
            self._connection.execute(insert(outcomes), row_of(outcome, outcomes))
        except IntegrityError as error:
            if "number" in str(error.orig):
                raise OutcomeRaced(outcome.prediction_id) from error
            raise
        if self._connection.execute(_sent(outcome.prediction_id)).scalar_one():
            SearchIndex(self._connection).replace_final({outcome.prediction_id: outcome.labels})

    def of(self, prediction_id: str) -> list[Outcome]:
        """Return the outcomes of a prediction, ordered by number."""
        query = select(outcomes).where(outcomes.c.prediction_id == prediction_id)
        return self._every(query.order_by(outcomes.c.number), to_outcome)


def _sent(prediction_id: str) -> Select[tuple[bool]]:
    """Select whether labels of a document were sent; an outcome by itself sends nothing."""
    automatically = exists().where(
        predictions.c.id == prediction_id, predictions.c.decision == Decision.AUTO.value
    )
    settled = annotations.c.prediction_id == prediction_id, annotations.c.settles
    return select(or_(automatically, exists().where(*settled)))


def to_outcome(row: RowMapping) -> Outcome:
    """Return the outcome in a row with the columns of its table."""
    return of_row(Outcome, outcomes, row, labels=tuple(row["labels"]))
