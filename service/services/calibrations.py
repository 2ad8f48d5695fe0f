"""Calibrators learnt from reviews: read them, let one serve, go back to the one before."""

from dataclasses import dataclass, replace

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import (
    CalibrationNotFound,
    CalibrationOfAnotherModel,
    NothingToRollBack,
    StaleVersion,
)
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.paging import Page, check_page
from setwise.service.domain.policy import RoutingPolicy, ThresholdMode
from setwise.service.domain.recalibration import Calibration, sending_notice
from setwise.service.services.policy import certified
from setwise.service.services.ports import CalibratorLoader, ModelLoader
from setwise.service.services.recalibration import active_model
from setwise.service.services.recording import Recorded
from setwise.service.stores.transaction import Transaction, Transactions


@dataclass(frozen=True)
class ServingCalibrator:
    """The calibrator that serves, and what that means for sending.

    Attributes
    ----------
    calibration : Calibration or None
        None is the model's own.
    policy : RoutingPolicy
        As it is in force.
    """

    model: ModelVersion
    calibration: Calibration | None
    policy: RoutingPolicy

    @property
    def version(self) -> str:
        """The calibrator version that predictions carry."""
        return _version(self.model, self.calibration)

    @property
    def threshold(self) -> float | None:
        """Least confidence of this calibrator's that is sent; None if nothing is."""
        least = self.policy.least_of(Scorer(self.model.version, self.version))
        sends = self.policy.auto_send and self.policy.trip_id is None
        return least if sends else None

    @property
    def notice(self) -> str:
        """What an owner should know of sending by itself."""
        return sending_notice(self.policy, Scorer(self.model.version, self.version))


@dataclass(frozen=True)
class GetCalibration:
    """Read one calibrator with its report."""

    begin: Transactions

    def __call__(self, caller: Caller, calibration_id: str) -> Calibration:
        """Return it; raises `CalibrationNotFound`."""
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            return _known(transaction, calibration_id)


@dataclass(frozen=True)
class ListCalibrations:
    """List the calibrators of all models, newest first."""

    begin: Transactions

    def __call__(
        self, caller: Caller, *, after: str | None = None, limit: int = 50
    ) -> Page[Calibration]:
        """Return one page."""
        caller.require(Permission.REPORT)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.calibrations.page(after=after, limit=limit)


@dataclass(frozen=True)
class _Switches(Recorded):
    """What activating and rolling back have in common."""

    loader: ModelLoader
    calibrators: CalibratorLoader

    def _switch(
        self,
        caller: Caller,
        model: ModelVersion,
        calibration: Calibration | None,
        request_id: str | None,
    ) -> ServingCalibrator:
        if calibration is not None:
            self.calibrators.load_calibration(model, calibration)
        with self.begin() as transaction:
            if active_model(transaction).id != model.id:
                raise CalibrationOfAnotherModel(
                    "Another model began to serve meanwhile; its calibrators are its own."
                )
            before = transaction.calibrations.active(model.id)
            wanted = calibration.id if calibration else None
            if wanted != (before.id if before else None):
                transaction.calibrations.activate(model.id, wanted, self.now(), self.new_id())
                self._note(
                    transaction,
                    caller,
                    "calibration.activated",
                    wanted or model.id,
                    request_id,
                    version=_version(model, calibration),
                    replaced=_version(model, before),
                )
            serving = replace(calibration, active=True) if calibration else None
            policy = self._follow_policy(transaction, model, serving)
            transaction.commit()
        self.loader.follow()
        return ServingCalibrator(model, serving, policy)

    def _follow_policy(
        self, transaction: Transaction, model: ModelVersion, calibration: Calibration | None
    ) -> RoutingPolicy:
        """Put into force what is proved for the calibrator already, if anything is."""
        policy = transaction.policies.current()
        scorer = Scorer(model.version, _version(model, calibration))
        if policy.threshold_mode is not ThresholdMode.CERTIFIED or policy.certified_for == scorer:
            return policy
        found = certified(transaction, policy, scorer)
        if found.certified_for != scorer:
            return policy
        new = replace(found, version=self.new_id(), created_at=self.now(), created_by="system")
        try:
            transaction.policies.add(new, replacing=policy.version)
        except StaleVersion as error:
            raise StaleVersion(
                "The policy changed while a calibrator was being activated; try again."
            ) from error
        return new


@dataclass(frozen=True)
class ActivateCalibration(_Switches):
    """Let a calibrator correct the confidences of the model that it was learnt for."""

    def __call__(
        self, caller: Caller, calibration_id: str, *, request_id: str | None = None
    ) -> ServingCalibrator:
        """Return it, serving in this process; others follow within seconds.

        Raises
        ------
        CalibrationNotFound
            If there is no such calibrator.
        CalibrationOfAnotherModel
            If its model does not serve.
        CalibrationDamaged
            If it cannot be loaded here; nothing has changed then.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin(read_only=True) as transaction:
            calibration = _known(transaction, calibration_id)
            model = active_model(transaction)
        if calibration.model_id != model.id:
            raise CalibrationOfAnotherModel(
                f"The calibrator was learnt for model {calibration.model_id}, and {model.id} "
                "serves; activate its model first, or recalibrate the present one."
            )
        return self._switch(caller, model, calibration, request_id)


@dataclass(frozen=True)
class RollBackCalibration(_Switches):
    """Let the calibrator serve again that served before the present one."""

    def __call__(self, caller: Caller, *, request_id: str | None = None) -> ServingCalibrator:
        """Return it; a second roll-back returns to where the first one began.

        Raises
        ------
        NothingToRollBack
            If no other calibrator has served with the active model.
        CalibrationDamaged
            If it does not load any more; the present one goes on serving.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin(read_only=True) as transaction:
            model = active_model(transaction)
            before = transaction.calibrations.previous(model.id)
        if before is None:
            raise NothingToRollBack("No other calibrator has served with the active model.")
        return self._switch(caller, model, before.calibration, request_id)


def _known(transaction: Transaction, calibration_id: str) -> Calibration:
    found = transaction.calibrations.get(calibration_id)
    if found is None:
        raise CalibrationNotFound(f"No calibrator has the id {calibration_id!r}.")
    return found


def _version(model: ModelVersion, calibration: Calibration | None) -> str:
    return calibration.version if calibration else str(model.summary.get("calibrator_version", ""))
