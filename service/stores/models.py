"""Registered models, shadows, and comparisons with candidates."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import RowMapping, Select, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.errors import DuplicateModel, ShadowTaken
from setwise.service.domain.models import ComparedAnswer, ModelVersion, Shadow, Tally
from setwise.service.domain.predictions import Decision, Prediction
from setwise.service.domain.text import Page, is_id
from setwise.service.stores.columns.rows import Store, of_row, row_of
from setwise.service.stores.predictions import to_prediction
from setwise.service.stores.tables import (
    SHADOWING,
    model_activations,
    model_comparisons,
    model_shadows,
    models,
    predictions,
)

_ACTIVE = (
    select(model_activations.c.model_id)
    .order_by(model_activations.c.ordinal.desc())
    .limit(1)
    .scalar_subquery()
)


class ModelStore(Store):
    """Registered models, their activations, and the active one."""

    def add(self, model: ModelVersion) -> None:
        """Store a model; raises `DuplicateModel` if its content is registered."""
        model_id = self._connection.execute(
            select(models.c.id).where(models.c.version == model.version)
        ).scalar_one_or_none()
        if model_id is not None:
            raise DuplicateModel(f"The artifact is already registered as model {model_id}.")
        try:
            self._connection.execute(insert(models), row_of(model, models))
        except IntegrityError as error:
            if "version" in str(error.orig):  # added by a concurrent transaction
                raise DuplicateModel("The artifact is already registered.") from error
            raise

    def get(self, model_id: str) -> ModelVersion | None:
        return self._named(_query(), models.c.id, model_id, _to_model)

    def active(self) -> ModelVersion | None:
        return self._first(_query().where(models.c.id == _ACTIVE), _to_model)

    def previous(self) -> ModelVersion | None:
        """Return the model that was active before the current one."""
        column = model_activations.c
        before = (
            select(column.model_id)
            .where(column.model_id != _ACTIVE)
            .order_by(column.ordinal.desc())
            .limit(1)
            .scalar_subquery()
        )
        return self._first(_query().where(models.c.id == before), _to_model)

    def all(self) -> list[ModelVersion]:
        """Return all models, newest first."""
        return self._every(_query().order_by(models.c.id.desc()), _to_model)

    def activate(self, model_id: str, now: datetime, activation_id: str) -> None:
        self._connection.execute(
            insert(model_activations),
            {"id": activation_id, "model_id": model_id, "activated_at": now},
        )


class ComparisonStore(Store):
    """Shadows, and comparisons of candidates with stored predictions."""

    def begin_shadow(self, shadow: Shadow) -> None:
        """Store a shadow; raises `ShadowTaken` if another model is shadowing."""
        try:
            self._connection.execute(insert(model_shadows), vars(shadow))
        except IntegrityError as error:
            raise ShadowTaken("Another model is shadowing; end its shadow first.") from error

    def shadow(self) -> Shadow | None:
        """Return the current shadow, or None."""
        query = select(model_shadows).where(SHADOWING)
        return self._first(query, lambda row: of_row(Shadow, model_shadows, row))

    def end_shadow(self, model_id: str, now: datetime) -> bool:
        """End the model's shadow; return False if it is not shadowing."""
        if not is_id(model_id):
            return False
        column = model_shadows.c
        ended = self._connection.execute(
            update(model_shadows).where(SHADOWING, column.model_id == model_id).values(ended_at=now)
        )
        return ended.rowcount == 1

    def add_all(self, comparisons: Sequence[ComparedAnswer]) -> None:
        """Store new comparisons and leave existing ones unchanged."""
        if not comparisons:
            return
        self._connection.execute(
            self._missing(model_comparisons),
            [row_of(comparison, model_comparisons) for comparison in comparisons],
        )

    def tally(self, model_id: str) -> Tally:
        column = model_comparisons.c
        kinds = (column.decision, column.same_decision, column.same_labels)
        rows = self._connection.execute(
            select(*kinds, func.count()).where(column.model_id == model_id).group_by(*kinds)
        ).all()

        def total(**values: object) -> int:
            return sum(
                row[3]
                for row in rows
                if all(getattr(row, name) == value for name, value in values.items())
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
    ) -> Page[tuple[ComparedAnswer, Prediction]]:
        """Return a page of comparisons that differ, newest first."""
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


def _query() -> Select[tuple[object, ...]]:
    return select(models, (models.c.id == _ACTIVE).label("active"))


def _to_model(row: RowMapping) -> ModelVersion:
    active = bool(row["active"])  # NULL before the first activation
    return of_row(ModelVersion, models, row, active=active)


def _to_comparison(row: RowMapping) -> ComparedAnswer:
    labels = tuple(row[model_comparisons.c.labels])
    return of_row(ComparedAnswer, model_comparisons, row, labels=labels)
