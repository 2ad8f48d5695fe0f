"""What recalibration needs from the world outside, as Protocols."""

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from setwise.service.domain.models import ModelVersion
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.recalibration import (
    Calibration,
    Noise,
    RatesOf,
    ReviewedPrediction,
    Serving,
)

if TYPE_CHECKING:
    from setwise.models.calibration.calibration_rows import CalibrationRows
    from setwise.models.storage.recalibrations import KeptRecalibration
    from setwise.service.domain.paging import Page
    from setwise.service.services.ports import UnitOfWork


class Calibrations(Protocol):
    """Calibrators learnt from reviews, which of them serve, and what they are learnt from."""

    def add(self, calibration: Calibration) -> None:
        """Store one that does not serve yet."""

    def get(self, calibration_id: str) -> Calibration | None:
        """Return one; None if there is none."""

    def same(self, model_id: str, version: str, replaces: str) -> Calibration | None:
        """Return the newest one with this content that was compared with this calibrator."""

    def page(self, *, after: str | None, limit: int) -> "Page[Calibration]":
        """List newest first."""

    def active(self, model_id: str) -> Calibration | None:
        """Return the one that serves with a model; None is the model's own calibrator."""

    def previous(self, model_id: str) -> Serving | None:
        """Return what served with a model before; None if nothing else ever did."""

    def activate(
        self, model_id: str, calibration_id: str | None, now: datetime, activation_id: str
    ) -> None:
        """Let a calibrator serve with a model; None is the model's own."""

    def reviewed(self, model_version: str, *, limit: int) -> list[ReviewedPrediction]:
        """List predictions of a model that people or outcomes spoke of, newest first."""

    def recent(self, model_version: str, *, limit: int) -> list[Prediction]:
        """List the newest predictions of a model, newest first."""


class CalibratorStore(Protocol):
    """Keeps calibrators beside the artifacts of their models."""

    def add_calibrator(self, kept: "KeptRecalibration") -> str:
        """Keep a calibrator under the digest of its content; returns its location."""

    def load_calibrator(self, location: str) -> "KeptRecalibration":
        """Return a calibrator; raises `CalibrationDamaged`."""

    def original_rows(self, model: ModelVersion) -> "CalibrationRows | None":
        """Return the rows that a model was calibrated on; None if its artifact keeps none.

        Raises `ModelDamaged` if it cannot be read.
        """


class CalibratorLoader(Protocol):
    """Tries calibrators in this process."""

    def load_calibration(self, model: ModelVersion, calibration: Calibration) -> None:
        """Apply a calibrator once, beside the one that serves; raises `CalibrationDamaged`."""


class GroupRates(Protocol):
    """Error rates of annotators, by the group that each belonged to."""

    def rates(self, transaction: "UnitOfWork", noise: Noise) -> RatesOf:
        """Return what tells them for an answer; raises `RatesUnknown` if it could tell none."""
