"""Calibrators take turns, and a threshold goes with the one that it was proved for."""

from dataclasses import dataclass, field, replace

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
from setwise.service.services.policy import Policies
from setwise.service.stores.transaction import Transactions
from tests import building
from tests.database import ON_BOTH
from tests.fakes import FakeCalibrators, FakeClock, FakeIds, FakeLoader, FakePredictor
from tests.samples import ADMIN, LEAD, calibration, certification, change, model

OWN = "sha256:own"


@dataclass
class Desk:
    """Calibrators of two models, the first of which serves."""

    begin: Transactions
    now: FakeClock = field(default_factory=FakeClock)
    new_id: FakeIds = field(default_factory=lambda: FakeIds(0x7300_0000_0000))

    def __post_init__(self) -> None:
        parts = (self.begin, self.now, self.new_id)
        self.loader, self.calibrators = FakeLoader(), FakeCalibrators()
        self.recalibration = building.recalibration(
            *parts, loader=self.loader, calibrators=self.calibrators
        )
        self.change_policy = Policies(*parts).change
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

    def actions(self, n: int) -> list[str]:
        with self.begin(read_only=True) as transaction:
            return [one.action for one in transaction.audit_trail.page(after=None, limit=n).items]


@pytest.fixture
def desk(begin: Transactions) -> Desk:
    return Desk(begin)


def test_a_calibrator_serves_once_it_is_activated(desk: Desk) -> None:
    serving = desk.recalibration.activate(ADMIN, desk.first.id)
    assert serving.calibration == replace(desk.first, active=True) == desk.serving()
    assert (serving.version, serving.model.id) == ("sha256:1", desk.model.id)
    assert desk.loader.followed == 1
    assert desk.actions(1) == ["calibration.activated"]
    desk.recalibration.activate(ADMIN, desk.first.id)
    assert desk.actions(2) != ["calibration.activated"] * 2, "nothing changed"


@ON_BOTH
def test_a_roll_back_leads_to_the_one_before_and_back_again(desk: Desk) -> None:
    with pytest.raises(NothingToRollBack):
        desk.recalibration.roll_back(ADMIN, OWN)
    desk.recalibration.activate(ADMIN, desk.first.id)
    with pytest.raises(VersionRequired):
        desk.recalibration.roll_back(ADMIN, None)
    own = desk.recalibration.roll_back(ADMIN, "sha256:1")
    assert (own.calibration, own.version, desk.serving()) == (None, OWN, None)
    assert desk.recalibration.roll_back(ADMIN, OWN).calibration == replace(desk.first, active=True)
    desk.recalibration.activate(ADMIN, desk.second.id)
    assert desk.recalibration.roll_back(ADMIN, "sha256:2").version == "sha256:1"


def test_a_repeated_roll_back_of_a_calibrator_does_not_bring_it_back(desk: Desk) -> None:
    for one in (desk.first, desk.second):
        desk.recalibration.activate(ADMIN, one.id)
    assert desk.recalibration.serving_version(LEAD) == "sha256:2"
    desk.recalibration.roll_back(ADMIN, "sha256:2")
    with pytest.raises(StaleVersion, match="nothing was rolled back"):
        desk.recalibration.roll_back(ADMIN, "sha256:2")
    assert desk.recalibration.serving_version(LEAD) == "sha256:1"


def test_a_calibrator_of_another_model_is_refused(desk: Desk) -> None:
    with pytest.raises(CalibrationOfAnotherModel, match=r"activate its model first"):
        desk.recalibration.activate(ADMIN, desk.foreign.id)
    desk.serve(desk.other)
    assert desk.recalibration.activate(ADMIN, desk.foreign.id).version == "sha256:3"
    desk.serve(desk.model)
    assert desk.serving() is None


def test_a_damaged_calibrator_leaves_the_present_one(desk: Desk) -> None:
    desk.recalibration.activate(ADMIN, desk.first.id)
    desk.calibrators.damaged.add(desk.second.location)
    with pytest.raises(CalibrationDamaged):
        desk.recalibration.activate(ADMIN, desk.second.id)
    assert desk.serving() == replace(desk.first, active=True)


def test_a_model_that_changes_meanwhile_keeps_its_own(desk: Desk) -> None:
    class Slow(FakeCalibrators):
        def load_calibration(self, model: ModelVersion, calibration: Calibration) -> FakePredictor:
            desk.serve(desk.other)
            return super().load_calibration(model, calibration)

    slow = replace(desk.recalibration, calibrator_loader=Slow())
    with pytest.raises(CalibrationOfAnotherModel, match="started to serve"):
        slow.activate(ADMIN, desk.first.id)
    assert desk.serving() is None


def test_an_owner_is_told_that_nothing_is_sent_before_a_new_proof(desk: Desk) -> None:
    certified = change(threshold_mode=ThresholdMode.CERTIFIED, threshold=None, target_accuracy=0.9)
    desk.change_policy(ADMIN, certified, None)
    serving = desk.recalibration.activate(ADMIN, desk.first.id)
    assert serving.threshold is None
    assert "everything goes to review until" in serving.notice
    desk.change_policy(ADMIN, change(threshold=0.8), None)
    fixed = desk.recalibration.activate(ADMIN, desk.second.id)
    assert fixed.threshold == 0.8
    assert "nothing proves it" in fixed.notice
    desk.change_policy(ADMIN, change(threshold=0.8, auto_send=False), None)
    silent = desk.recalibration.activate(ADMIN, desk.first.id)
    assert silent.threshold is None
    assert "sends nothing" in silent.notice


def test_what_was_proved_for_a_calibrator_is_in_force_again_with_it(desk: Desk) -> None:
    wanted = change(
        threshold_mode=ThresholdMode.CERTIFIED, threshold=None, target_accuracy=0.9, risk=0.1
    )
    desk.change_policy(ADMIN, wanted, None)
    scorer = Scorer(desk.model.version, desk.first.version)
    with desk.begin() as transaction:
        proof = replace(certification(0.85), scorer=scorer, id=desk.new_id())
        transaction.certifications.add(proof)
    serving = desk.recalibration.activate(ADMIN, desk.first.id)
    assert serving.threshold == 0.85
    assert "its threshold is in force" in serving.notice
    with desk.begin(read_only=True) as transaction:
        policy = transaction.policies.current()
    (state,) = policy.states
    assert (state.certificate_id, state.certified_for) == (proof.id, scorer)
    assert desk.recalibration.activate(ADMIN, desk.second.id).threshold is None
    assert desk.recalibration.roll_back(ADMIN, desk.second.version).threshold == 0.85


def test_without_an_active_model_no_calibrator_serves(begin: Transactions) -> None:
    with pytest.raises(ModelUnavailable):
        building.recalibration(begin).roll_back(ADMIN, "")
