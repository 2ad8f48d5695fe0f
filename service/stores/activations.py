"""Since when models and calibrators have served: no prediction of theirs is older.

Histories are long, and a new model's part of one is short. Predictions lie in the order of their
ids, so with the first of them that a model can have made, no index on models is needed: an index
would cost each prediction that is stored.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, select

from setwise.service.domain.certification import Scorer
from setwise.service.domain.identity import id_earlier
from setwise.service.stores.tables import (
    calibration_activations,
    calibrations,
    model_activations,
    models,
    predictions,
)

CLOCKS_DIFFER_BY = timedelta(minutes=10)
"""More than those of sound machines do; an activation and predictions have ids by several."""

_MADE = predictions.c
_CALIBRATOR = calibration_activations.c
_MODEL = model_activations.c


def made_by_model(connection: Connection, version: str) -> ColumnElement[bool]:
    """Return the condition that a prediction is of a model."""
    since = _since(connection, _model_activated(version))
    return and_(_MADE.model_version == version, *since)


def made_by(connection: Connection, scorer: Scorer) -> ColumnElement[bool]:
    """Return the condition that a prediction is of a model with a calibrator."""
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
    # A model's own calibrator is activated with the model.
    since = _since(connection, _model_activated(scorer.model_version), calibrator_activated)
    return and_(
        _MADE.model_version == scorer.model_version,
        _MADE.calibrator_version == scorer.calibrator_version,
        *since,
    )


def _model_activated(version: str) -> Select[Any]:  # Any: of one column, as below
    return (
        select(_MODEL.id)
        .join(models, models.c.id == _MODEL.model_id)
        .where(models.c.version == version)
        .order_by(_MODEL.id)
        .limit(1)
    )


def _since(connection: Connection, *firsts: Select[Any]) -> Iterator[ColumnElement[bool]]:
    known = [one for first in firsts for one in connection.execute(first).scalars()]
    if known:
        yield _MADE.id >= id_earlier(max(known), CLOCKS_DIFFER_BY)
