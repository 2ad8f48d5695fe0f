"""Calibrators learnt from reviews, their activations, and predictions by model."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    func,
    insert,
    select,
)

from setwise.service.domain.certification import Scorer
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.recalibration import Calibration, Noise, Serving
from setwise.service.domain.text import Page, id_earlier
from setwise.service.stores.columns.rows import Store, by_scorer, of_row, row_of
from setwise.service.stores.predictions import to_prediction
from setwise.service.stores.tables import (
    calibration_activations,
    calibrations,
    model_activations,
    models,
    predictions,
)

CLOCKS_DIFFER_BY = timedelta(minutes=10)
"""Bound on clock skew: different machines make the ids of activations and predictions."""

_MADE = predictions.c
_CALIBRATOR = calibration_activations.c
_MODEL = model_activations.c


class CalibrationStore(Store):
    """Calibrators, their activations, and the reviews they are learnt from."""

    def add(self, calibration: Calibration) -> None:
        """Store a calibrator that is not active yet."""
        self._connection.execute(
            insert(calibrations),
            {
                **row_of(calibration, calibrations),
                "noise": calibration.noise.value,
            },
        )

    def get(self, calibration_id: str) -> Calibration | None:
        """Return a calibrator by its id."""
        return self._named(_query(), calibrations.c.id, calibration_id, _to_calibration)

    def same(self, model_id: str, version: str, replaces: str) -> Calibration | None:
        """Return the newest calibrator with this content and this predecessor."""
        column = calibrations.c
        query = _query().where(
            column.model_id == model_id, column.version == version, column.replaces == replaces
        )
        return self._first(query.order_by(column.id.desc()).limit(1), _to_calibration)

    def page(self, *, after: str | None, limit: int) -> Page[Calibration]:
        """Return a page of calibrators, newest first."""
        column = calibrations.c.id
        return self._page(_query(), column, _to_calibration, after=after, limit=limit)

    def active(self, model_id: str) -> Calibration | None:
        """Return a model's active calibrator; None means the model's own."""
        column = calibration_activations.c
        newest = (
            select(column.calibration_id)
            .where(column.model_id == model_id)
            .order_by(column.ordinal.desc())
            .limit(1)
        )
        query = _query().where(calibrations.c.id == newest.scalar_subquery())
        return self._first(query, _to_calibration)

    def previous(self, model_id: str) -> Serving | None:
        """Return the previously active calibrator; None if there was no other."""
        column = calibration_activations.c
        query = select(column.calibration_id).where(column.model_id == model_id)
        served = [None, *self._connection.execute(query.order_by(column.ordinal)).scalars()]
        before = [version for version in served if version != served[-1]]
        if not before:
            return None
        return Serving(None if before[-1] is None else self.get(before[-1]))

    def activate(
        self, model_id: str, calibration_id: str | None, now: datetime, activation_id: str
    ) -> None:
        """Activate a calibrator for a model; None means the model's own."""
        self._connection.execute(
            insert(calibration_activations),
            {
                "id": activation_id,
                "model_id": model_id,
                "calibration_id": calibration_id,
                "activated_at": now,
            },
        )

    def recent(self, model_version: str, *, limit: int) -> list[Prediction]:
        """Return the newest predictions of a model, newest first."""
        query = select(predictions).where(made_by_model(self._connection, model_version))
        return self._every(query.order_by(predictions.c.id.desc()).limit(limit), to_prediction)


def _query() -> Select[tuple[object, ...]]:
    column = calibration_activations.c
    newest = select(func.max(column.ordinal)).group_by(column.model_id)
    serving = select(column.calibration_id).where(
        column.ordinal.in_(newest), column.calibration_id.is_not(None)
    )
    return select(calibrations, calibrations.c.id.in_(serving).label("active"))


def _to_calibration(row: RowMapping) -> Calibration:
    noise = Noise(row[calibrations.c.noise])
    return of_row(Calibration, calibrations, row, noise=noise, active=bool(row["active"]))


# No prediction is older than the first activation of its model and calibrator. Ids of predictions
# sort by time, so a lower bound on the id replaces an index on models, which would slow down every
# insert.


def made_by_model(connection: Connection, version: str) -> ColumnElement[bool]:
    """Return the condition that a prediction was made by a model."""
    since = _since(connection, _model_activated(version))
    return and_(_MADE.model_version == version, *since)


def made_by(connection: Connection, scorer: Scorer) -> ColumnElement[bool]:
    """Return the condition that a model with a calibrator predicted."""
    calibrator_activated = (
        select(_CALIBRATOR.id)
        .join(calibrations, calibrations.c.id == _CALIBRATOR.calibration_id)
        .where(
            calibrations.c.model_version == scorer.model_version,
            calibrations.c.version == scorer.calibrator_version,
        )
        .order_by(_CALIBRATOR.id)
        .limit(1)
    )
    # A model's own calibrator is active from the activation of the model.
    since = _since(connection, _model_activated(scorer.model_version), calibrator_activated)
    return and_(by_scorer(predictions, scorer), *since)


def _model_activated(version: str) -> Select[Any]:  # Any: of one column, as below
    return (
        select(_MODEL.id)
        .join(models, models.c.id == _MODEL.model_id)
        .where(models.c.version == version)
        .order_by(_MODEL.id)
        .limit(1)
    )


def _since(connection: Connection, *firsts: Select[Any]) -> Iterator[ColumnElement[bool]]:
    ids = [id_ for first in firsts for id_ in connection.execute(first).scalars()]
    if ids:
        yield _MADE.id >= id_earlier(max(ids), CLOCKS_DIFFER_BY)
