"""Label sets that turned out to be right."""

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from service.db.tables import outcomes
from service.domain.outcomes import Outcome
from service.use_cases.prediction_ports import OutcomeRaced


class SqlOutcomes:
    """Fills the port `service.use_cases.prediction_ports.Outcomes`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, outcome: Outcome) -> None:
        try:
            self._connection.execute(
                insert(outcomes), {**vars(outcome), "labels": list(outcome.labels)}
            )
        except IntegrityError as error:
            if "number" in str(error.orig):
                raise OutcomeRaced(outcome.prediction_id) from error
            raise

    def of(self, prediction_id: str) -> list[Outcome]:
        rows = self._connection.execute(
            select(outcomes)
            .where(outcomes.c.prediction_id == prediction_id)
            .order_by(outcomes.c.number)
        ).mappings()
        return [Outcome(**{**row, "labels": tuple(row["labels"])}) for row in rows]
