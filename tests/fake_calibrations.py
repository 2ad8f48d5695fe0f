"""Calibrators learnt from reviews, in memory."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from setwise.service.domain.errors import CalibrationDamaged
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.paging import Page
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.recalibration import Calibration, ReviewedPrediction, Serving

if TYPE_CHECKING:
    from setwise.models.calibration.calibration_rows import CalibrationRows
    from setwise.models.storage.recalibrations import KeptRecalibration
    from tests.fakes import _Contents


@dataclass
class FakeCalibrations:
    """Fills the port `setwise.service.services.calibration_ports.Calibrations`."""

    contents: "_Contents" = field(repr=False)

    def _served(self, model_id: str) -> list[str | None]:
        activations = self.contents.calibration_activations
        return [None, *(served for model, served, _ in activations if model == model_id)]

    def _shown(self, calibration: Calibration) -> Calibration:
        serves = self._served(calibration.model_id)[-1] == calibration.id
        return replace(calibration, active=serves)

    def _newest_first(self) -> list[Calibration]:
        stored = sorted(self.contents.calibrations.values(), key=lambda one: one.id, reverse=True)
        return [self._shown(one) for one in stored]

    def add(self, calibration: Calibration) -> None:
        self.contents.calibrations[calibration.id] = calibration

    def get(self, calibration_id: str) -> Calibration | None:
        found = self.contents.calibrations.get(calibration_id)
        return None if found is None else self._shown(found)

    def same(self, model_id: str, version: str, replaces: str) -> Calibration | None:
        wanted = (model_id, version, replaces)
        stored = self._newest_first()
        return next((o for o in stored if (o.model_id, o.version, o.replaces) == wanted), None)

    def page(self, *, after: str | None, limit: int) -> Page[Calibration]:
        found = [one for one in self._newest_first() if after is None or one.id < after]
        items = tuple(found[:limit])
        return Page(items, items[-1].id if len(found) > limit else None)

    def active(self, model_id: str) -> Calibration | None:
        serving = self._served(model_id)[-1]
        return None if serving is None else self.get(serving)

    def previous(self, model_id: str) -> Serving | None:
        served = self._served(model_id)
        before = [one for one in served if one != served[-1]]
        if not before:
            return None
        return Serving(None if before[-1] is None else self.get(before[-1]))

    def activate(
        self, model_id: str, calibration_id: str | None, now: datetime, activation_id: str
    ) -> None:
        self.contents.calibration_activations.append((model_id, calibration_id, now))

    def reviewed(self, model_version: str, *, limit: int) -> list[ReviewedPrediction]:
        annotations, outcomes = self.contents.annotations, self.contents.outcomes
        found = [
            ReviewedPrediction(
                one,
                tuple(
                    sorted(
                        (said for said in annotations.values() if said.prediction_id == one.id),
                        key=lambda said: said.id,
                    )
                ),
                max(
                    (out for out in outcomes.values() if out.prediction_id == one.id),
                    key=lambda out: out.number,
                    default=None,
                ),
            )
            for one in self._predictions(model_version)
        ]
        return [one for one in found if one.annotations or one.outcome][:limit]

    def recent(self, model_version: str, *, limit: int) -> list[Prediction]:
        return self._predictions(model_version)[:limit]

    def _predictions(self, model_version: str) -> list[Prediction]:
        stored = self.contents.predictions.values()
        found = [one for one in stored if one.scored.model_version == model_version]
        return sorted(found, key=lambda one: one.id, reverse=True)


@dataclass
class FakeCalibrators:
    """Keeps calibrators in memory, and tries them; those in ``damaged`` fail."""

    kept: "dict[str, KeptRecalibration]" = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    original: "CalibrationRows | None" = None

    def add_calibrator(self, kept: "KeptRecalibration") -> str:
        self.kept[kept.version] = kept
        return kept.version

    def load_calibrator(self, location: str) -> "KeptRecalibration":
        if location in self.damaged or location not in self.kept:
            raise CalibrationDamaged(f"The calibrator {location} cannot be loaded.")
        return self.kept[location]

    def original_rows(self, model: ModelVersion) -> "CalibrationRows | None":
        return self.original

    def load_calibration(self, model: ModelVersion, calibration: Calibration) -> None:
        if calibration.location in self.damaged:
            raise CalibrationDamaged(f"The calibrator {calibration.id} cannot be loaded.")
