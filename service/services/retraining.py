"""Fit the model again on its history and on people's decisions, when asked or by itself."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.annotators import Rates
from setwise.service.domain.certification import Scorer
from setwise.service.domain.files import annotation_row, content_row
from setwise.service.domain.jobs import Job, JobFilter
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.policy import RetrainMode
from setwise.service.domain.recalibration import NOT_ANSWERED, Noise, RatesOf, answer_of
from setwise.service.domain.reports import Span
from setwise.service.domain.retraining import (
    RARE,
    Learning,
    Measured,
    OnAudits,
    RareLabel,
    Retrain,
    compare_on_audits,
    foretell,
    next_at,
)
from setwise.service.domain.truth import check
from setwise.service.services.analysis.rates import group_rates
from setwise.service.services.certification.attempts import Certifications
from setwise.service.services.jobs import Requesting
from setwise.service.services.models import Models, known_model
from setwise.service.services.ports import Progress
from setwise.service.stores.transaction import Transaction

RETRAINING = "retraining"
"""The kind of job; one runs at a time."""

PAGE = 500

MOST_JOBS = 200
"""Jobs, the newest, that say when the next model is due and how good they were: 1.4 ** 40 already
is more answers than people give.
"""


@dataclass(frozen=True)
class Retraining(Requesting):
    """New versions of the model, fitted on what people decided; a person activates them."""

    models: Models
    """Registers a new model and lets it score live traffic."""
    certifications: Certifications
    """Has a new model score the audits of the one that serves."""
    training_data: Path | None = None
    """Folder of files that a request may name; None allows none."""

    def request(self, caller: Caller, options: Retrain) -> Job:
        """Queue a job that fits a model; return the unfinished one if there is one.

        Raises `InvalidRequest` if an option is out of range, or there is no such training data.
        """
        caller.require(Permission.ADMINISTER)
        options.check()
        self._history(options)
        with self.begin() as transaction:
            answers = transaction.reviews.count_answered()
            return self._request(
                transaction, caller, RETRAINING, RETRAINING, answers=answers, **options.to_json()
            )

    def request_if_due(self) -> Job | None:
        """Queue a job if there are enough new answers for the next model by itself."""
        with self.begin(read_only=True) as transaction:
            if not _is_due(transaction):
                return None
        with self.begin() as transaction:
            if not _is_due(transaction) or transaction.jobs.unfinished(RETRAINING):
                return None
            return self._request(
                transaction,
                SYSTEM,
                RETRAINING,
                RETRAINING,
                answers=transaction.reviews.count_answered(),
                by_itself=True,
                **Retrain(preset="best").to_json(),
            )

    def learning(self, caller: Caller) -> Learning:
        """Return how far people and the models of their answers have come."""
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            found = (_measured(job.result or {}) for job in _finished(transaction))
            curve = [measured for measured in found if measured is not None]
            return Learning(
                answers=transaction.reviews.count_answered(),
                next_at=_next_at(transaction),
                rare=tuple(
                    RareLabel(label, n) for label, n in transaction.labels.rare(RARE).items()
                ),
                curve=tuple(curve),
                gain=foretell(curve),
            )

    def run(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Fit, register, shadow and compare a model; return what was found.

        What serves does not change, unless the model was trained by itself while nothing is sent.
        After a crash another worker begins again, with the registered model if there is one.

        Raises `InvalidRequest` if the training data cannot be used; `NotEnoughReviews` if there is
        too little of it.
        """
        state = job.checkpoint or {}
        if "model_id" in state:
            with self.begin(read_only=True) as transaction:
                model = known_model(transaction, str(state["model_id"]))
        else:
            model, state = self._fitted(job, progress)
            progress.checkpoint(state)
        result = {
            "model_id": model.id,
            "model_version": model.version,
            "learnt_from": state["learnt_from"],
            "measured": state.get("measured"),
            **({"remark": state["remark"]} if state.get("remark") else {}),
        }
        measured = _measured(result)
        if model.active:
            return {**result, "reason": "it serves already: nothing new has been decided"}
        if job.payload.get("by_itself") and self._may_enter():
            if measured is None or not measured.helps:
                why = "it ranks no better than the most frequent sets, and does not suggest yet"
                return {**result, "reason": why}
            self._score_audits(model, progress)
            progress(0.99, "activating the model")
            self.models.activate(SYSTEM, model.id)
            return {**result, "reason": f"it suggests on the desk; {_says(measured)}"}
        shadow = self._shadow(model)
        on_audits = self._compared(model, progress)
        return {
            **result,
            "shadow": shadow,
            "on_audits": on_audits.to_json(),
            "reason": f"{on_audits.sentence()}; activate it by hand",
        }

    def _fitted(self, job: Job, progress: Progress) -> tuple[ModelVersion, dict[str, object]]:
        """Fit and register a model; return it with the state of the job."""
        from setwise.service.services.analysis.retraining import fit_again  # noqa: PLC0415 -- scikit-learn loads slowly

        options = Retrain.from_json(job.payload)
        options.check()
        history = self._history(options)
        with self.begin(read_only=True, snapshot=True) as transaction:
            serving = transaction.models.active()
            noisy = options.noise is not Noise.NONE
            of = group_rates(transaction, options.noise) if noisy else None
            rows = list(_reviewed(transaction, of, progress))
        labels = self.models.loader.load(serving).labels if serving else ()
        with TemporaryDirectory(prefix="setwise-") as folder:
            target = Path(folder) / "model"
            learnt_from = fit_again(
                rows,
                history,
                None if options.texts else serving,
                labels=labels,
                preset=options.preset,
                target=target,
                report=progress,
            )
            progress(0.8, "registering the model")
            added = self.models.store.add(str(target))
            measured = learnt_from.get("measured")
            summary = _without_its_own_figures(added.summary, measured)
            model = replace(added, active=False, summary=summary)
        with self.begin() as transaction:
            same = [
                candidate
                for candidate in transaction.models.all()
                if candidate.version == model.version
            ]
            if same:  # the same documents as before, or a worker died after registering it
                model = same[0]
            else:
                transaction.models.add(model)
                self._note(
                    transaction,
                    SYSTEM,
                    "model.added",
                    model.id,
                    version=model.version,
                    requested_by=str(job.payload.get("requested_by", SYSTEM.id)),
                )
        said = {name: learnt_from.get(name) for name in ("measured", "remark")}
        counts = {name: value for name, value in learnt_from.items() if name not in said}
        return model, {"model_id": model.id, "learnt_from": counts, **said}

    def _may_enter(self) -> bool:
        """Return whether a model may be activated by itself: if nothing can be sent."""
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
        return policy.retrain is RetrainMode.AUTOMATIC and not policy.has_threshold

    def _history(self, options: Retrain) -> Path | None:
        """Return the file that a request names; raises `InvalidRequest` outside the folder."""
        if options.training_data is None:
            return None
        fault = "no folder of training data is configured (SETWISE_TRAINING_DATA)"
        if self.training_data is not None:
            folder = self.training_data.resolve()
            with suppress(OSError, RuntimeError):  # too long a name, or links in a circle
                file = (folder / options.training_data).resolve()  # follows links
                if file.is_relative_to(folder) and file.is_file():
                    return file
            fault = "is no file in the folder of training data"
        raise errors.InvalidRequest(
            "There is no such training data.", [errors.FieldFault("/training_data", fault)]
        )

    def _shadow(self, model: ModelVersion) -> str:
        """Let the model score live traffic, unless another one does; return which."""
        try:
            self.models.begin_shadow(SYSTEM, model.id)
        except errors.ShadowTaken as error:
            return error.detail
        return "It scores live documents and decides nothing."

    def _score_audits(self, model: ModelVersion, progress: Progress) -> Scorer:
        """Let the audits so far count for the model: none of them taught it."""

        def report(share: float, message: str = "") -> None:
            progress(0.85 + 0.14 * share, message)

        report(0.0, "scoring the audited documents")
        return self.certifications.score_audits(model, report, taught_by_answers=True)

    def _compared(self, model: ModelVersion, progress: Progress) -> OnAudits:
        candidate = self._score_audits(model, progress)
        with self.begin(read_only=True) as transaction:
            serving = transaction.certifications.serving()
            if serving is None or serving == candidate:
                return OnAudits()
            audited = transaction.evidence.audited
            return compare_on_audits(audited(serving), audited(candidate))


def _without_its_own_figures(
    summary: Mapping[str, object], measured: object
) -> Mapping[str, object]:
    """Return the summary with what marked documents say, if they say something.

    Cross-fitting over all answers judges the picked documents too, which are harder than others.
    """
    return summary if measured is None else {**summary, "metrics": measured}


def _is_due(transaction: Transaction) -> bool:
    due_at = _next_at(transaction)
    return due_at is not None and transaction.reviews.count_answered() >= due_at


def _next_at(transaction: Transaction) -> int | None:
    """Return at how many answers a model is trained by itself; None if none will be.

    A model that a person registered is never replaced by one trained on the answers alone.
    """
    if transaction.policies.current().retrain is RetrainMode.NEVER:
        return None
    jobs = _requested(transaction)
    active = transaction.models.active()
    made = {(job.result or {}).get("model_id") for job in jobs if _of_answers(job)}
    if active is not None and active.id not in made:
        return None
    answers = (job.payload["answers"] for job in jobs if "answers" in job.payload)
    return next_at(cast("int | None", next(answers, None)))


def _requested(transaction: Transaction) -> Sequence[Job]:
    """Return the last jobs, newest first."""
    return transaction.jobs.page(JobFilter(kind=RETRAINING), after=None, limit=MOST_JOBS).items


def _of_answers(job: Job) -> bool:
    """Return whether a job learns from answers alone."""
    return job.payload.get("training_data") is None


def _finished(transaction: Transaction) -> Sequence[Job]:
    """Return the last jobs that made a model of answers, oldest first."""
    return [job for job in reversed(_requested(transaction)) if job.result and _of_answers(job)]


def _measured(result: Mapping[str, object]) -> Measured | None:
    measured = result.get("measured")
    return Measured(**measured) if isinstance(measured, Mapping) else None


def _says(measured: Measured) -> str:
    return f"{measured.right:,} of {measured.marked:,} marked documents are right"


def _reviewed(
    transaction: Transaction, rates: RatesOf | None, progress: Progress
) -> Iterator[tuple[Mapping[str, object], Rates | str | None]]:
    """Yield the export's row of each annotation, and its error rates."""
    after = None
    progress(0.0, "reading the reviews")
    while page := transaction.history.annotations(Span(), after=after, limit=PAGE):
        marked = transaction.reviews.marked({of.id for _, of in page})
        for annotation, of in page:
            errors: Rates | str | None = None
            sure = of.scored.confidence
            if rates is not None and sure is not None:  # no rates of answers without a suggestion
                alone = check(of.id, [annotation])
                answer = NOT_ANSWERED if alone is None else answer_of(alone, Noise.KNOWN)
                errors = answer if isinstance(answer, str) else answer.rates(rates, sure)
            row = {**annotation_row(annotation, of), **content_row(of), "marked": of.id in marked}
            yield row, errors
        after = page[-1][0].id
        progress(0.0, "reading the reviews")
