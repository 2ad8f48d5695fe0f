"""Audits speak of documents: what they prove goes with a new calibrator."""

import random
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from setwise.models.calibration.recalibration import COLUMNS, ConfidenceCorrection
from setwise.models.guarantees.paths.spending import risk_of_family
from setwise.models.storage.recalibrations import StoredRecalibration
from setwise.service.domain.certification import Score, Scorer
from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.predictions import Decision, ScoredSet
from setwise.service.domain.recalibration import Activate, Calibration, Options
from setwise.service.domain.recalibration.report import CalibratorComparison
from setwise.service.domain.routing.audits import AuditRole, Selection
from setwise.service.services import recalibration
from setwise.service.services.analysis import lessons
from setwise.service.services.certification import attempts
from setwise.service.stores.transaction import Transactions
from tests.fakes import START, FakePredictor, scored_set
from tests.kit.databases import ON_BOTH, Database
from tests.kit.loop import Loop, remembered
from tests.samples import (
    ADMIN,
    add_predictions,
    calibration,
    calibration_report,
    checked,
    model,
    prediction,
)

OWN = "sha256:calibrator"
MODEL = replace(model("sha256:model"), summary={"calibrator_version": OWN})


class Office(Loop):
    """The loop with a registered model and calibrators that raise or lower its confidences."""

    def __post_init__(self) -> None:
        super().__post_init__()
        with self.begin() as transaction:
            transaction.models.add(MODEL)
            transaction.models.activate(MODEL.id, self.now(), self.new_id())
            transaction.commit()

    def learnt(self, shift: float) -> Calibration:
        """Return a registered calibrator that moves the log-odds."""
        made = ConfidenceCorrection(shift, np.zeros(len(COLUMNS)), np.zeros(4))
        kept = StoredRecalibration(MODEL.version, OWN, made)
        location = self.calibrators.add_calibrator(kept)
        added = replace(
            calibration(MODEL, kept.version), id=self.new_id(), location=location, replaces=OWN
        )
        with self.begin() as transaction:
            transaction.calibrations.add(added)
            transaction.commit()
        return added

    def serve(self, shift: float, version: str) -> None:
        """Answer with the calibrator's confidences from now on."""

        class Shifted(FakePredictor):
            @staticmethod
            def _score(text: str) -> ScoredSet:
                return moved(scored_set(float(text)), shift, version)

        self.predictors.predictor = Shifted()

    @remembered
    def certified(self) -> None:
        """Prove a threshold of 0.9 for the model's own calibrator."""
        self.plan()
        self.predict(*["0.9"] * 60, *["0.3"] * 20)
        self.read(wrong_below=0.5)
        assert self.certify(ADMIN.id).threshold == 0.9


def moved(scored: ScoredSet, shift: float, version: str) -> ScoredSet:
    one = prediction()._replace(scored=scored)
    learnt = ConfidenceCorrection(shift, np.zeros(len(COLUMNS)), np.zeros(4))
    (confidence,) = lessons.rescored([one], learnt, FakePredictor.labels)
    first, *rest = scored.candidates
    return scored._replace(
        candidates=(replace(first, confidence=confidence), *rest),
        calibrator_version=version,
        replaced=scored.own_confidences,
    )


@pytest.fixture
def office(begin: Transactions) -> Office:
    return Office(begin)


def test_a_new_calibrator_sends_at_once_what_the_audits_of_the_old_one_prove(
    office: Office,
) -> None:
    office.certified()
    new = office.learnt(-1.0)
    serving = office.recalibration.activate(ADMIN, new.id)
    odds = 9.0 * np.exp(-1.0)
    assert serving.threshold == pytest.approx(odds / (1.0 + odds))
    assert "A certificate holds for this calibrator" in serving.notice
    with office.begin(read_only=True) as transaction:
        (proof, first) = transaction.certifications.page(after=None, limit=9).items
    assert (proof.attempt, proof.scorer) == (2, Scorer(MODEL.version, new.version))
    assert proof.evidence.n_audits == first.evidence.n_audits
    assert proof.evidence.risk == risk_of_family(0.2, 2), "the count of families goes on"
    office.serve(-1.0, new.version)
    assert Decision.AUTO in {one.decision for one in office.predict(*["0.9"] * 8)}


def test_a_calibrator_that_proved_better_serves_with_its_certificate(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.certified()
    made = ConfidenceCorrection(-1.0, np.zeros(len(COLUMNS)), np.zeros(4))
    kept = StoredRecalibration(MODEL.version, OWN, made)
    better = CalibratorComparison.tested(240, 0.02, 0.001)
    report = replace(calibration_report(), comparison=better)
    found = lessons.Learnt(kept, OWN, report, blind_spot=None)
    monkeypatch.setattr(lessons, "learn", lambda *_: found)
    monkeypatch.setattr(recalibration, "shortage", lambda *_: None)
    active, why = office.recalibration.run(Options(activate=Activate.IF_BETTER), lambda *_: None)
    assert active.active
    assert "A certificate holds for this calibrator; its threshold is in force" in why
    assert office.gate.certified_for == Scorer(MODEL.version, kept.version)


def test_back_at_the_old_calibrator_no_second_attempt_is_spent(office: Office) -> None:
    office.certified()
    new = office.learnt(0.5)
    office.recalibration.activate(ADMIN, new.id)
    back = office.recalibration.roll_back(ADMIN, new.version)
    assert back.threshold == 0.9
    office.recalibration.activate(ADMIN, new.id)
    with office.begin(read_only=True) as transaction:
        assert len(transaction.certifications.page(after=None, limit=9).items) == 2


def test_audits_since_a_change_count_with_those_before_it(office: Office) -> None:
    office.certified()
    new = office.learnt(-1.0)
    office.recalibration.activate(ADMIN, new.id)
    office.serve(-1.0, new.version)
    made = office.predict(*["0.9"] * 40)
    office.read()
    before = sum(one.selection.role is AuditRole.CERTIFICATION for one in made)
    with office.begin(read_only=True) as transaction:
        (proof, _) = transaction.certifications.page(after=None, limit=9).items
    assert office.certify(ADMIN.id).evidence.n_audits == proof.evidence.n_audits + before


def test_without_a_certificate_in_force_the_schedule_decides_on_an_attempt(
    office: Office,
) -> None:
    office.plan()
    office.predict(*["0.9"] * 10)
    office.read()
    serving = office.recalibration.activate(ADMIN, office.learnt(0.5).id)
    assert serving.threshold is None
    with office.begin(read_only=True) as transaction:
        assert transaction.certifications.page(after=None, limit=9).items == ()


def test_after_an_alarm_audits_from_before_it_prove_nothing_for_a_new_calibrator() -> None:
    office = Office(Database())
    office.certified()
    office.predict(*["0.9"] * 100)
    office.read(wrong_below=0.95)
    assert office.gate.trip_id is not None
    office.recalibration.activate(ADMIN, office.learnt(-1.0).id)
    office.predict(*["0.9"] * 40)
    office.read()
    found = office.certify(ADMIN.id).evidence
    assert found.excluded["before the alarm"] > 0
    assert found.n_drawn < 40


def test_a_change_of_policy_before_the_next_prediction_keeps_the_new_certificate(
    office: Office,
) -> None:
    office.certified()
    new = office.learnt(-1.0)
    office.recalibration.activate(ADMIN, new.id)
    office.plan(target=0.75)
    assert office.gate.certified_for == Scorer(MODEL.version, new.version)


@ON_BOTH
def test_two_attempts_at_once_do_not_spend_the_same_share_of_the_risk(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.plan()
    office.predict(*["0.9"] * 10)
    office.read()
    certify = attempts.answer

    def after_another(*question: Any) -> Any:
        monkeypatch.undo()
        office.certify(ADMIN.id)
        return certify(*question)

    monkeypatch.setattr(attempts, "answer", after_another)
    with pytest.raises(StaleVersion, match="just spent"):
        office.certify(ADMIN.id)


# What a stored audit says of a scorer's set

SETS = (("a",), ("b",), ("a", "b"))


@pytest.mark.parametrize("labels", SETS)
@pytest.mark.parametrize("served", SETS)
def test_a_set_is_wrong_unless_everybody_who_has_to_read_it_says_that_set(
    labels: tuple[str, ...], served: tuple[str, ...]
) -> None:
    for auditor, lead, again in product(SETS, (*SETS, None), (False, True)):
        waits = again or auditor != served
        read = lead if waits else None
        found = checked(
            "1", auditor, read, labels=labels, answered=served, reread_rate=1.0 if again else 0.0
        )
        if read is not None:
            assert found.found_wrong is (read != labels)
        elif auditor != labels:
            assert found.found_wrong is True, "a contradiction that nobody has decided counts"
        else:
            assert found.found_wrong is (None if waits else False)
        assert found.answered
    unread = checked(labels=labels, answered=served)
    assert (unread.found_wrong, unread.answered) == (None, False)
    assert unread._replace(held_back=True).found_wrong is True


# The query, against brute force

SCORERS = [Scorer(m, c) for m in ("m1", "m2") for c in ("c1", "c2")]


@pytest.mark.parametrize("seed", range(3))
def test_evidence_is_what_a_scorer_answered_or_scored_later(begin: Transactions, seed: int) -> None:
    draw = random.Random(seed)
    expected: dict[Scorer, list[tuple[str, tuple[str, ...], float]]] = {s: [] for s in SCORERS}
    free: dict[Scorer, list[tuple[str, float]]] = {s: [] for s in SCORERS}
    with begin() as transaction:
        for _ in range(40):
            by, role = draw.choice(SCORERS), draw.choice(list(AuditRole))
            made = prediction(confidence=draw.random())
            made = made._replace(
                scored=made.scored._replace(
                    model_version=by.model_version, calibrator_version=by.calibrator_version
                ),
                selection=Selection(role, draw.random() * 0.9, 1.0),
            )
            add_predictions(transaction, made)
            said = [Score(made.id, by, made.scored.labels, made.scored.confidence, START)]
            later = [
                Score(made.id, other, draw.choice(SETS), draw.random(), START)
                for other in SCORERS
                if other != by and draw.random() < 0.5
            ]
            transaction.certifications.add_scores(later)
            transaction.certifications.add_scores([one._replace(confidence=0.0) for one in later])
            for one in (*said, *later):
                if role is AuditRole.CERTIFICATION:
                    expected[one.scorer].append((made.id, one.labels, one.confidence))
                else:
                    free[one.scorer].append((made.id, one.confidence))
        transaction.commit()
    with begin(read_only=True) as transaction:
        store = transaction.certifications
        for scorer in SCORERS:
            audits = transaction.evidence.audited(scorer)
            found = [(one.id, one.labels, one.confidence) for one in audits]
            assert found == expected[scorer]
            assert sorted(store.unaudited(scorer, limit=99)) == sorted(c for _, c in free[scorer])
