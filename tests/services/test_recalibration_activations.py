"""Calibrators take turns, and a threshold goes with the one that it was proved for."""

from dataclasses import dataclass, replace

import pytest

from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import (
    CalibrationDamaged,
    CalibrationOfAnotherModel,
    ModelUnavailable,
    NothingToRollBack,
    StaleVersion,
    VersionRequired,
)
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.recalibration import Calibration
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.fakes import FakeCalibrators, FakePredictor
from tests.kit.clinic import Clinic
from tests.kit.databases import ON_BOTH
from tests.samples import ADMIN, LEAD, calibration, certification, change, model

OWN = "sha256:own"


@dataclass
class Calibrated(Clinic):
    """A clinic with calibrators of two models, the first of which serves."""

    def __post_init__(self) -> None:
        self.model = replace(model("sha256:model"), summary={"calibrator_version": OWN})
        self.other = model("sha256:other")
        self.first, self.second = (calibration(self.model, f"sha256:{n}") for n in (1, 2))
        self.foreign = calibration(self.other, "sha256:3")
        with self.begin() as transaction:
            for one in (self.model, self.other):
                transaction.models.add(one)
            for one in (self.first, self.second, self.foreign):
                transaction.calibrations.add(one)
        self.serve(self.model)

    def serve(self, wanted: ModelVersion) -> None:
        with self.begin() as transaction:
            transaction.models.activate(wanted.id, self.now(), self.new_id())

    def serving(self) -> Calibration | None:
        with self.begin(read_only=True) as transaction:
            return transaction.calibrations.active(self.model.id)


@pytest.fixture
def clinic(begin: Transactions) -> Calibrated:
    return Calibrated(begin)


def test_a_calibrator_serves_once_it_is_activated(clinic: Calibrated) -> None:
    serving = clinic.recalibration.activate(ADMIN, clinic.first.id)
    assert serving.calibration == replace(clinic.first, active=True) == clinic.serving()
    assert (serving.version, serving.model.id) == ("sha256:1", clinic.model.id)
    assert clinic.loader.followed == 1
    assert clinic.actions()[-1:] == ["calibration.activated"]
    clinic.recalibration.activate(ADMIN, clinic.first.id)
    assert clinic.actions()[-2:] != ["calibration.activated"] * 2, "nothing changed"


@ON_BOTH
def test_a_roll_back_leads_to_the_one_before_and_back_again(clinic: Calibrated) -> None:
    with pytest.raises(NothingToRollBack):
        clinic.recalibration.roll_back(ADMIN, OWN)
    clinic.recalibration.activate(ADMIN, clinic.first.id)
    with pytest.raises(VersionRequired):
        clinic.recalibration.roll_back(ADMIN, None)
    own = clinic.recalibration.roll_back(ADMIN, "sha256:1")
    assert (own.calibration, own.version, clinic.serving()) == (None, OWN, None)
    assert clinic.recalibration.roll_back(ADMIN, OWN).calibration == replace(
        clinic.first, active=True
    )
    clinic.recalibration.activate(ADMIN, clinic.second.id)
    assert clinic.recalibration.roll_back(ADMIN, "sha256:2").version == "sha256:1"


def test_a_repeated_roll_back_of_a_calibrator_does_not_bring_it_back(clinic: Calibrated) -> None:
    for one in (clinic.first, clinic.second):
        clinic.recalibration.activate(ADMIN, one.id)
    assert clinic.recalibration.serving_version(LEAD) == "sha256:2"
    clinic.recalibration.roll_back(ADMIN, "sha256:2")
    with pytest.raises(StaleVersion, match="nothing was rolled back"):
        clinic.recalibration.roll_back(ADMIN, "sha256:2")
    assert clinic.recalibration.serving_version(LEAD) == "sha256:1"


def test_a_calibrator_of_another_model_is_refused(clinic: Calibrated) -> None:
    with pytest.raises(CalibrationOfAnotherModel, match=r"activate its model first"):
        clinic.recalibration.activate(ADMIN, clinic.foreign.id)
    clinic.serve(clinic.other)
    assert clinic.recalibration.activate(ADMIN, clinic.foreign.id).version == "sha256:3"
    clinic.serve(clinic.model)
    assert clinic.serving() is None


def test_a_damaged_calibrator_leaves_the_present_one(clinic: Calibrated) -> None:
    clinic.recalibration.activate(ADMIN, clinic.first.id)
    clinic.calibrators.damaged.add(clinic.second.location)
    with pytest.raises(CalibrationDamaged):
        clinic.recalibration.activate(ADMIN, clinic.second.id)
    assert clinic.serving() == replace(clinic.first, active=True)


def test_a_model_that_changes_meanwhile_keeps_its_own(clinic: Calibrated) -> None:
    class Slow(FakeCalibrators):
        def load_calibration(self, model: ModelVersion, calibration: Calibration) -> FakePredictor:
            clinic.serve(clinic.other)
            return super().load_calibration(model, calibration)

    slow = replace(clinic.recalibration, calibrator_loader=Slow())
    with pytest.raises(CalibrationOfAnotherModel, match="started to serve"):
        slow.activate(ADMIN, clinic.first.id)
    assert clinic.serving() is None


def test_an_owner_is_told_that_nothing_is_sent_before_a_new_proof(clinic: Calibrated) -> None:
    certified_change = change(
        threshold_mode=ThresholdMode.CERTIFIED, threshold=None, target_accuracy=0.9
    )
    clinic.policies.change(ADMIN, certified_change, None)
    serving = clinic.recalibration.activate(ADMIN, clinic.first.id)
    assert serving.threshold is None
    assert "everything goes to review until" in serving.notice
    clinic.policies.change(ADMIN, change(threshold=0.8), None)
    calibrator = clinic.recalibration.activate(ADMIN, clinic.second.id)
    assert calibrator.threshold == 0.8
    assert "nothing proves it" in calibrator.notice
    clinic.policies.change(ADMIN, change(threshold=0.8, auto_send=False), None)
    silent = clinic.recalibration.activate(ADMIN, clinic.first.id)
    assert silent.threshold is None
    assert "sends nothing" in silent.notice


def test_what_was_proved_for_a_calibrator_is_in_force_again_with_it(clinic: Calibrated) -> None:
    wanted_change = change(
        threshold_mode=ThresholdMode.CERTIFIED, threshold=None, target_accuracy=0.9, risk=0.1
    )
    clinic.policies.change(ADMIN, wanted_change, None)
    scorer = Scorer(clinic.model.version, clinic.first.version)
    with clinic.begin() as transaction:
        proof = replace(certification(0.85), scorer=scorer, id=clinic.new_id())
        transaction.certifications.add(proof)
    serving = clinic.recalibration.activate(ADMIN, clinic.first.id)
    assert serving.threshold == 0.85
    assert "its threshold is in force" in serving.notice
    with clinic.begin(read_only=True) as transaction:
        policy = transaction.policies.current()
    (state,) = policy.states
    assert (state.certificate_id, state.certified_for) == (proof.id, scorer)
    assert clinic.recalibration.activate(ADMIN, clinic.second.id).threshold is None
    assert clinic.recalibration.roll_back(ADMIN, clinic.second.version).threshold == 0.85


def test_without_an_active_model_no_calibrator_serves(begin: Transactions) -> None:
    with pytest.raises(ModelUnavailable):
        building.recalibration(begin).roll_back(ADMIN, "")
