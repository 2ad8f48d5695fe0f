"""Learn calibrators from reviews, and activate one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.annotators import Rates
from setwise.service.domain.certification import Score, Scorer
from setwise.service.domain.errors import (
    CalibrationNotFound,
    CalibrationOfAnotherModel,
    NoModel,
    NotEnoughReviews,
    NothingToRollBack,
    StaleVersion,
    VersionRequired,
)
from setwise.service.domain.jobs import Job
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.recalibration import (
    EXACT,
    Activate,
    Calibration,
    Noise,
    Options,
    Progress,
    RatesOf,
    RecalibrationQuestion,
    ServingCalibrator,
    calibrator_version,
    gather,
    learnt_until,
    least_rows,
    sending_notice,
    shortage,
)
from setwise.service.domain.text import Page, check_page
from setwise.service.domain.truth import PersonAnswer
from setwise.service.services.analysis.rates import group_rates, refuse_contradicted
from setwise.service.services.certification.attempts import Certifications
from setwise.service.services.jobs import Requesting
from setwise.service.services.ports import CalibratorLoader, CalibratorStore, ModelLoader
from setwise.service.stores.transaction import Transaction

if TYPE_CHECKING:
    from setwise.service.services.analysis.lessons import Learnt

CALIBRATION = "calibration"
"""The kind of job; one runs at a time."""

MOST_REVIEWED = 100_000
"""Most reviewed predictions to read, the newest."""

MOST_ROUTED = 5_000
"""Most predictions whose change of route is reported, the newest."""

MOST_RESCORED = 5_000
"""Most unaudited predictions that a new calibrator scores: they set the thresholds to prove."""


@dataclass(frozen=True)
class Recalibration(Requesting):
    """Calibrators learnt from reviews, and the active one."""

    loader: ModelLoader
    """Loads the model that provides a calibrator's labels."""
    calibrator_loader: CalibratorLoader
    """Tries a calibrator before it is activated."""
    calibrators: CalibratorStore
    """Stores learnt calibrators."""
    certifications: Certifications
    """Proves a threshold for a calibrator before it serves."""

    def request(self, caller: Caller, options: Options) -> Job:
        """Queue a recalibration job; return the unfinished one if there is one.

        Raises `InvalidRequest` if the options contradict each other, or gold labels contradict the
        rates; `NoModel` if no model
        is active.
        """
        caller.require(Permission.ADMINISTER)
        options.check()
        with self.begin() as transaction:
            _active_model(transaction)
            if options.rates is not None:
                refuse_contradicted(transaction, options.rates)
            kind = CALIBRATION
            return self._request(transaction, caller, kind, kind, **vars(options))

    def run(
        self, options: Options, report: Progress, *, requested_by: str = SYSTEM.id
    ) -> tuple[Calibration, str]:
        """Return a learnt and stored calibrator, and why it is or is not active.

        Data is read in one transaction, learnt from outside transactions, and stored in another
        one, so after a crash the current calibrator stays active. The same reviews give the same
        calibrator.

        Raises `ModelUnavailable` or `ModelDamaged` if no model is active, or it does not load;
        `NotEnoughReviews` or `RatesUnknown` if there is too little to learn from.
        """
        from setwise.service.services.analysis.lessons import learn  # noqa: PLC0415 -- scipy loads slowly

        report(0.0, "reading the reviews")
        with self.begin(read_only=True, snapshot=True) as transaction:
            question = self._question(transaction, options)
        lacking = shortage(question.lessons, least_rows(question.model))
        if lacking is not None:
            raise NotEnoughReviews(lacking)
        model = self.loader.load(question.model)
        learnt = learn(question, model, self.calibrators, report)
        report(0.95, "storing the calibrator")
        location = self.calibrators.add_calibrator(learnt.kept)
        calibration = Calibration(
            id=self.new_id(),
            model_id=question.model.id,
            model_version=question.model.version,
            version=learnt.kept.version,
            replaces=learnt.replaces,
            location=location,
            noise=options.noise,
            report=learnt.report,
            requested_by=requested_by,
            created_at=self.now(),
        )
        scores: Sequence[Score] = ()
        if options.activate is Activate.IF_BETTER and learnt.better and learnt.blind_spot is None:
            scores = self._rescored(calibration.scorer, calibration, model.labels)
            self.certifications.prove_ahead(calibration.scorer, scores, requested_by)
        calibration, why = self._store(calibration, options, scores, learnt)
        if calibration.active:
            self.loader.follow()
        return calibration, why

    def get(self, caller: Caller, calibration_id: str) -> Calibration:
        """Return a calibrator with its report; raises `CalibrationNotFound`."""
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return _known(transaction, calibration_id)

    def page(
        self, caller: Caller, *, after: str | None = None, limit: int = 50
    ) -> Page[Calibration]:
        """Return a page of all models' calibrators, newest first."""
        caller.require(Permission.REPORT, Permission.INSPECT)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.calibrations.page(after=after, limit=limit)

    def serving_version(self, caller: Caller) -> str | None:
        """Return the version of the calibrator that serves; None without a model."""
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            model = transaction.models.active()
            if model is None:
                return None
            return calibrator_version(model, transaction.calibrations.active(model.id))

    def activate(self, caller: Caller, calibration_id: str) -> ServingCalibrator:
        """Activate a calibrator; other processes follow within seconds.

        Raises `CalibrationNotFound` if the calibrator does not exist; `CalibrationOfAnotherModel`
        if its model is not active; `CalibrationDamaged` if it does not load here; nothing changes
        then.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin(read_only=True) as transaction:
            calibration = _known(transaction, calibration_id)
            model = _active_model(transaction)
        if calibration.model_id != model.id:
            raise CalibrationOfAnotherModel(
                f"The calibrator was learnt for model {calibration.model_id}, but {model.id} "
                "serves; activate its model first, or recalibrate the present one."
            )
        return self._switch(caller, model, calibration)

    def roll_back(self, caller: Caller, leaving: str | None) -> ServingCalibrator:
        """Activate the previous calibrator, unless another one serves than the caller means.

        Raises `VersionRequired` or `StaleVersion` if the version is missing, or is not the one that
        serves; `NothingToRollBack` if no other calibrator has served with the active model;
        `CalibrationDamaged` if that calibrator no longer loads; the current one stays active.

        ``leaving``: The version to leave. Repeating a rollback does not undo it.
        """
        caller.require(Permission.ADMINISTER)
        if leaving is None:
            raise VersionRequired("Name the version of the calibrator to leave in If-Match.")
        with self.begin(read_only=True) as transaction:
            model = _active_model(transaction)
            _check_leaving(model, transaction.calibrations.active(model.id), leaving)
            before = transaction.calibrations.previous(model.id)
        if before is None:
            raise NothingToRollBack("No other calibrator has served with the active model.")
        return self._switch(caller, model, before.calibration, leaving=leaving)

    def _question(self, transaction: Transaction, options: Options) -> RecalibrationQuestion:
        model = _active_model(transaction)
        active = transaction.calibrations.active(model.id)
        reviewed = transaction.evidence.of_model(model.version, limit=MOST_REVIEWED)
        policies = transaction.policies.of(document.policy_version for document in reviewed)
        alarm = transaction.breakers.newest_trip(sets_evidence_aside=True)
        if options.rates is not None:
            refuse_contradicted(transaction, options.rates)
        rates: RatesOf = partial(_same_rates, options.rates or EXACT)
        if options.noise is not Noise.NONE and options.rates is None:
            rates = group_rates(transaction, options.noise)
        lessons = gather(
            reviewed,
            policies,
            rates,
            noise=options.noise,
            learnt_until=learnt_until(active),
            alarm_id=None if alarm is None else alarm.id,
        )
        return RecalibrationQuestion(
            model=model,
            active=active,
            policy=transaction.policies.current(),
            lessons=lessons,
            taught=transaction.predictions.several([row.document.id for row in lessons.rows]),
            recent=transaction.calibrations.recent(model.version, limit=MOST_ROUTED),
            by_hand=options.noise is Noise.KNOWN,
            options=options,
        )

    def _rescored(
        self, scorer: Scorer, calibration: Calibration | None, labels: Sequence[str]
    ) -> list[Score]:
        """Return a calibrator's answers to what the model's other calibrators answered.

        A calibrator changes confidences, never label sets, and learns nothing from certification
        audits. So the audits of a model speak of each of its calibrators.
        """
        from setwise.service.services.analysis.lessons import rescored  # noqa: PLC0415 -- scipy loads slowly

        with self.begin(read_only=True) as transaction:
            stored = transaction.certifications.unscored(scorer, limit=MOST_RESCORED)
        learnt = None
        if stored and calibration is not None:
            learnt = self.calibrators.load_calibrator(calibration.location).recalibration
        confidences = rescored(stored, learnt, labels)
        return [
            Score(prediction.id, scorer, prediction.scored.best.labels, confidence, self.now())
            for prediction, confidence in zip(stored, confidences, strict=True)
        ]

    def _store(
        self,
        calibration: Calibration,
        options: Options,
        scores: Sequence[Score],
        learnt: "Learnt",
    ) -> tuple[Calibration, str]:
        with self.begin() as transaction:
            transaction.policies.lock()
            active = transaction.calibrations.active(calibration.model_id)
            if active is not None and active.version == calibration.version:
                return active, "it serves already: nothing has been reviewed since it was made"
            known = transaction.calibrations.same(
                calibration.model_id, calibration.version, calibration.replaces
            )
            if known is None:
                transaction.calibrations.add(calibration)
                self._note(
                    transaction,
                    SYSTEM,
                    "calibration.made",
                    calibration.id,
                    requested_by=calibration.requested_by,
                    version=calibration.version,
                    model_version=calibration.model_version,
                    noise=calibration.noise.value,
                )
            stored = known or calibration
            why = _why_not(transaction, stored, active, options, learnt)
            if why is None:
                transaction.calibrations.activate(
                    stored.model_id, stored.id, self.now(), self.new_id()
                )
                self._note(
                    transaction,
                    SYSTEM,
                    "calibration.activated",
                    stored.id,
                    requested_by=calibration.requested_by,
                    version=stored.version,
                    replaced=stored.replaces,
                )
                stored = replace(stored, active=True)
                self.certifications.put_into_force(transaction, stored.scorer, scores)
            notice = sending_notice(transaction.policies.current(), stored.scorer)
        return stored, why or f"it is better, so it serves now. {notice}"

    def _switch(
        self,
        caller: Caller,
        model: ModelVersion,
        calibration: Calibration | None,
        *,
        leaving: str | None = None,
    ) -> ServingCalibrator:
        labels: Sequence[str] = ()
        if calibration is not None:
            labels = self.calibrator_loader.load_calibration(model, calibration).labels
        scorer = Scorer(model.version, calibrator_version(model, calibration))
        scores = self._rescored(scorer, calibration, labels)
        self.certifications.prove_ahead(scorer, scores, caller.id)
        with self.begin() as transaction:
            transaction.policies.lock()
            if _active_model(transaction).id != model.id:
                raise CalibrationOfAnotherModel(
                    "Another model has started to serve; choose one of its calibrators."
                )
            before = transaction.calibrations.active(model.id)
            if leaving is not None:
                _check_leaving(model, before, leaving)
            calibration_id = calibration.id if calibration else None
            if calibration_id != (before.id if before else None):
                transaction.calibrations.activate(
                    model.id, calibration_id, self.now(), self.new_id()
                )
                self._note(
                    transaction,
                    caller,
                    "calibration.activated",
                    calibration_id or model.id,
                    version=calibrator_version(model, calibration),
                    replaced=calibrator_version(model, before),
                )
            serving = replace(calibration, active=True) if calibration else None
            policy = self.certifications.put_into_force(transaction, scorer, scores)
        self.loader.follow()
        return ServingCalibrator(model, serving, policy)


def _active_model(transaction: Transaction) -> ModelVersion:
    model = transaction.models.active()
    if model is None:
        raise NoModel("No model is active, so there is nothing to calibrate.")
    return model


def _check_leaving(model: ModelVersion, active: Calibration | None, leaving: str) -> None:
    serving = calibrator_version(model, active)
    if serving != leaving:
        raise StaleVersion(f"Version {serving} serves, not {leaving}; nothing was rolled back.")


def _known(transaction: Transaction, calibration_id: str) -> Calibration:
    calibration = transaction.calibrations.get(calibration_id)
    if calibration is None:
        raise CalibrationNotFound(f"No calibrator has the id {calibration_id!r}.")
    return calibration


def _why_not(
    transaction: Transaction,
    calibration: Calibration,
    active: Calibration | None,
    options: Options,
    learnt: "Learnt",
) -> str | None:
    serving = transaction.models.active()
    if options.activate is Activate.NEVER:
        return "not asked to: activate it by hand"
    if not learnt.better:
        return calibration.report.comparison.sentence
    if learnt.blind_spot is not None:
        return learnt.blind_spot
    if serving is None or serving.id != calibration.model_id:
        return "another model serves by now"
    if active is not None and active.version != calibration.replaces:
        return "another calibrator serves by now; compare again"
    return None


def _same_rates(rates: Rates, answer: PersonAnswer, confidence: float) -> Rates:  # noqa: ARG001 -- a `RatesOf`
    return rates
