"""Candidates beside the model that serves: shadows, and what they would have said."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.comparison import Comparison, Shadow, Tally
from setwise.service.domain.errors import ShadowTaken
from setwise.service.domain.identity import is_id
from setwise.service.domain.paging import Page
from setwise.service.domain.predictions import Decision, Prediction, Reason
from setwise.service.stores.predictions import to_prediction
from setwise.service.stores.tables import SHADOWING, model_comparisons, model_shadows, predictions


class ComparisonStore:
    """Candidates beside the model that serves."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin_shadow(self, shadow: Shadow) -> None:
        """Store the present shadow; raises `ShadowTaken` when there is one."""
        try:
            self._connection.execute(insert(model_shadows), vars(shadow))
        except IntegrityError as error:
            raise ShadowTaken("Another model is shadowing; end that first.") from error

    def shadow(self) -> Shadow | None:
        """Return the present one."""
        columns = [column for column in model_shadows.columns if column.name != "place"]
        row = self._connection.execute(select(*columns).where(SHADOWING)).mappings()
        found = row.one_or_none()
        return None if found is None else Shadow(**found)

    def end_shadow(self, model_id: str, now: datetime) -> bool:
        """End the present shadow; False unless it is this model."""
        if not is_id(model_id):
            return False
        column = model_shadows.c
        ended = self._connection.execute(
            update(model_shadows).where(SHADOWING, column.model_id == model_id).values(ended_at=now)
        )
        return ended.rowcount == 1

    def add_all(self, comparisons: Sequence[Comparison]) -> None:
        """Store what is not stored yet of a model and a prediction."""
        if not comparisons:
            return
        dialect = postgresql if self._connection.dialect.name == "postgresql" else sqlite
        self._connection.execute(
            dialect.insert(model_comparisons).on_conflict_do_nothing(),
            [
                {
                    **vars(one),
                    "labels": list(one.labels),
                    "decision": one.decision.value,
                    "reason": one.reason.value,
                }
                for one in comparisons
            ],
        )

    def tally(self, model_id: str) -> Tally:
        column = model_comparisons.c
        kinds = (column.decision, column.same_decision, column.same_labels)
        rows = self._connection.execute(
            select(*kinds, func.count()).where(column.model_id == model_id).group_by(*kinds)
        ).all()

        def total(**wanted: object) -> int:
            return sum(
                row[3]
                for row in rows
                if all(getattr(row, name) == value for name, value in wanted.items())
            )

        auto, review = Decision.AUTO.value, Decision.REVIEW.value
        return Tally(
            compared=total(),
            same_labels=total(same_labels=True),
            auto_both=total(decision=auto, same_decision=True),
            auto_serving=total(decision=review, same_decision=False),
            auto_candidate=total(decision=auto, same_decision=False),
            review_both=total(decision=review, same_decision=True),
        )

    def differing(
        self, model_id: str, *, routes_only: bool, after: str | None, limit: int
    ) -> Page[tuple[Comparison, Prediction]]:
        """List, newest first, where a candidate differs; by id of the comparison."""
        column = model_comparisons.c
        differs = (
            ~column.same_decision if routes_only else ~(column.same_decision & column.same_labels)
        )
        query = (
            select(model_comparisons, predictions)
            .join(predictions, predictions.c.id == column.prediction_id)
            .where(column.model_id == model_id, differs)
            .order_by(column.id.desc())
            .limit(limit + 1)
        )
        if after is not None:
            query = query.where(column.id < after)
        rows = self._connection.execute(query).mappings().all()
        items = tuple((_to_comparison(row), to_prediction(row)) for row in rows[:limit])
        return Page(items, items[-1][0].id if len(rows) > limit else None)


def _to_comparison(row: RowMapping) -> Comparison:
    values = {column.name: row[column] for column in model_comparisons.columns}
    return Comparison(
        **{
            **values,
            "labels": tuple(values["labels"]),
            "decision": Decision(values["decision"]),
            "reason": Reason(values["reason"]),
        }
    )
