"""Recalibrate: learn from reviews how sure to be, compare, and let the better calibrator serve."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from setwise.service.domain.callers import SYSTEM, Caller, Permission
from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import (
    FieldFault,
    InvalidRequest,
    ModelUnavailable,
    NotEnoughReviews,
)
from setwise.service.domain.jobs import Job, JobFilter
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.recalibration import (
    EXACT,
    Activate,
    Calibration,
    Lessons,
    Noise,
    Rates,
    RatesOf,
    gather,
    sending_notice,
    shortage,
)
from setwise.service.domain.reviews import Annotation
from setwise.service.services.ports import CalibratorStore, ModelLoader
from setwise.service.services.rates import ReportedRates
from setwise.service.services.recording import Recorded
from setwise.service.stores.transaction import Transaction

CALIBRATION = "calibration"
"""The kind of job; one at a time."""

MOST_REVIEWED = 100_000
"""Reviewed predictions that are looked at: the newest."""

MOST_ROUTED = 5_000
"""Newest predictions of which is told where they would go."""

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Options:
    """What a recalibration is asked for.

    Attributes
    ----------
    rates : Rates or None
        Error rates of all reviewers alike, with ``noise`` ``known``; None takes those of groups.
    """

    noise: Noise = Noise.NONE
    activate: Activate = Activate.NEVER
    rates: Rates | None = None

    def check(self) -> None:
        """Raise `InvalidRequest` for what cannot be."""
        faults = []
        if self.rates is not None:
            if self.noise is not Noise.KNOWN:
                faults.append(FieldFault("/rates", f"say nothing with noise '{self.noise}'"))
            for name, rate in zip(Rates._fields, self.rates, strict=True):
                if not 0.0 <= rate < 1.0:
                    faults.append(FieldFault(f"/rates/{name}", f"is {rate}; it lies in [0, 1)"))
            if not faults and sum(self.rates) >= 1.0:
                faults.append(
                    FieldFault(
                        "/rates",
                        f"add up to {sum(self.rates):g}; from 1 on answers say nothing of the "
                        "truth: correct the rates, or leave such reviewers out",
                    )
                )
        if faults:
            raise InvalidRequest("The calibrator cannot be learnt like this.", faults)

    def to_json(self) -> dict[str, object]:
        """Return what a job keeps."""
        rates = None if self.rates is None else [*self.rates]
        return {"noise": self.noise.value, "activate": self.activate.value, "rates": rates}

    @classmethod
    def from_json(cls, kept: Mapping[str, object]) -> "Options":
        """Read what a job has kept."""
        rates = kept.get("rates")
        return cls(
            Noise(str(kept["noise"])),
            Activate(str(kept["activate"])),
            Rates(*map(float, rates)) if isinstance(rates, list) else None,
        )


@dataclass(frozen=True)
class RequestCalibration(Recorded):
    """Ask for a recalibration in the background."""

    def __call__(self, caller: Caller, options: Options, *, request_id: str | None = None) -> Job:
        """Return the job: the one that waits or runs already, if there is one.

        Raises
        ------
        InvalidRequest
            If the options cannot be.
        ModelUnavailable
            If no model is active.
        """
        caller.require(Permission.ADMINISTER)
        options.check()
        now = self.now()
        job = Job(
            id=self.new_id(),
            kind=CALIBRATION,
            key=CALIBRATION,
            due_at=now,
            created_at=now,
            owner_id=caller.id,
            payload={**options.to_json(), "requested_by": caller.id},
        )
        with self.begin() as transaction:
            active_model(transaction)
            if not transaction.jobs.enqueue(job):
                # Its key keeps others of its kind out, so the newest one is the unfinished one.
                wanted = JobFilter(kind=CALIBRATION)
                (running,) = transaction.jobs.page(wanted, after=None, limit=1).items
                return running
            self._note(
                transaction,
                caller,
                "job.requested",
                job.id,
                request_id,
                kind=CALIBRATION,
                **options.to_json(),
            )
            transaction.commit()
        return job


def active_model(transaction: Transaction) -> ModelVersion:
    """Return the model that serves; raises `ModelUnavailable`."""
    model = transaction.models.active()
    if model is None:
        raise ModelUnavailable("No model is active, so there is nothing to calibrate.")
    return model


@dataclass(frozen=True)
class Question:
    """What is to be learnt, on what."""

    model: ModelVersion
    active: Calibration | None
    policy: RoutingPolicy
    lessons: Lessons
    recent: list[Prediction]
    options: Options


@dataclass(frozen=True)
class Recalibrate(Recorded):
    """Learn a calibrator from reviews, and compare it with the one that serves.

    Everything is read in one transaction, learnt outside any, and recorded in another: a crash
    leaves the present calibrator serving. The same reviews give the same calibrator again.

    Attributes
    ----------
    loader : ModelLoader
        Gives the model, whose labels the calibrator reads.
    calibrators : CalibratorStore
    group_rates : ReportedRates
    """

    loader: ModelLoader
    calibrators: CalibratorStore
    group_rates: ReportedRates

    def __call__(
        self, options: Options, report: Progress, *, requested_by: str = SYSTEM.id
    ) -> tuple[Calibration, str]:
        """Return the calibrator, stored with its report, and why it serves now or does not.

        Raises
        ------
        ModelUnavailable, ModelDamaged
            If no model is active, or it cannot be loaded.
        NotEnoughReviews, RatesUnknown
            If there is too little to learn from.
        """
        from setwise.service.services.lessons import learn  # noqa: PLC0415 -- scipy loads slowly

        report(0.0, "collecting what was reviewed")
        with self.begin(read_only=True, snapshot=True) as transaction:
            question = self._question(transaction, options)
        lacking = shortage(question.lessons)
        if lacking is not None:
            raise NotEnoughReviews(lacking)
        learnt = learn(question, self.loader.load(question.model), self.calibrators, report)
        report(0.95, "storing the calibrator")
        location = self.calibrators.add_calibrator(learnt.kept)
        made = Calibration(
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
        made, why = self._kept(made, options, better=learnt.better)
        if made.active:
            self.loader.follow()
        return made, why

    def _question(self, transaction: Transaction, options: Options) -> Question:
        model = active_model(transaction)
        active = transaction.calibrations.active(model.id)
        reviewed = transaction.calibrations.reviewed(model.version, limit=MOST_REVIEWED)
        versions = {one.prediction.policy_version for one in reviewed}
        plans = {version: transaction.policies.get(version).audits for version in sorted(versions)}
        rates: RatesOf = partial(_alike, options.rates or EXACT)
        if options.noise is not Noise.NONE and options.rates is None:
            rates = self.group_rates.rates(transaction, options.noise)
        return Question(
            model=model,
            active=active,
            policy=transaction.policies.current(),
            lessons=gather(
                reviewed, plans, rates, noise=options.noise, learnt_until=learnt_until(active)
            ),
            recent=transaction.calibrations.recent(model.version, limit=MOST_ROUTED),
            options=options,
        )

    def _kept(
        self, made: Calibration, options: Options, *, better: bool
    ) -> tuple[Calibration, str]:
        with self.begin() as transaction:
            active = transaction.calibrations.active(made.model_id)
            if active is not None and active.version == made.version:
                return active, "it serves already: nothing has been reviewed since it was made"
            known = transaction.calibrations.same(made.model_id, made.version, made.replaces)
            if known is None:
                transaction.calibrations.add(made)
                self._note(
                    transaction,
                    SYSTEM,
                    "calibration.made",
                    made.id,
                    None,
                    requested_by=made.requested_by,
                    version=made.version,
                    model_version=made.model_version,
                    noise=made.noise.value,
                )
            kept = known or made
            why = self._why_not(transaction, kept, active, options, better=better)
            if why is None:
                transaction.calibrations.activate(kept.model_id, kept.id, self.now(), self.new_id())
                self._note(
                    transaction,
                    SYSTEM,
                    "calibration.activated",
                    kept.id,
                    None,
                    requested_by=made.requested_by,
                    version=kept.version,
                    replaced=kept.replaces,
                )
                kept = replace(kept, active=True)
            notice = sending_notice(
                transaction.policies.current(), Scorer(kept.model_version, kept.version)
            )
            transaction.commit()
        return kept, why or f"it is better, so it serves now. {notice}"

    @staticmethod
    def _why_not(
        transaction: Transaction,
        made: Calibration,
        active: Calibration | None,
        options: Options,
        *,
        better: bool,
    ) -> str | None:
        serving = transaction.models.active()
        if options.activate is Activate.NEVER:
            return "not asked to: activate it by hand"
        if not better:
            return "not proved better than the calibrator that serves"
        if serving is None or serving.id != made.model_id:
            return "another model serves by now"
        if active is not None and active.version != made.replaces:
            return "another calibrator serves by now; compare again"
        return None


def _alike(rates: Rates, said: Annotation, confidence: float) -> Rates:  # noqa: ARG001 -- a `RatesOf`
    return rates


def learnt_until(calibration: Calibration | None) -> datetime | None:
    """Return when the rows ended that a calibrator was learnt from; None for a model's own."""
    if calibration is None:
        return None
    rows = calibration.report.get("rows")
    until = rows.get("until") if isinstance(rows, Mapping) else None
    return datetime.fromisoformat(until) if isinstance(until, str) else calibration.created_at
