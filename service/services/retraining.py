"""Fit the model again on its history and on people's decisions."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.annotators import Rates
from setwise.service.domain.files import annotation_row, content_row
from setwise.service.domain.jobs import Job
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.recalibration import NOT_ANSWERED, Noise, RatesOf, answer_of
from setwise.service.domain.reports import Span
from setwise.service.domain.retraining import OnAudits, Retrain, compare_on_audits
from setwise.service.domain.truth import check
from setwise.service.services.analysis.rates import group_rates
from setwise.service.services.certification import Certifications
from setwise.service.services.jobs import Requesting
from setwise.service.services.models import Models, known_model
from setwise.service.services.ports import Progress
from setwise.service.stores.transaction import Transaction

RETRAINING = "retraining"
"""The kind of job; one runs at a time."""

PAGE = 500


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
            kind = RETRAINING
            return self._request(transaction, caller, kind, kind, **options.to_json())

    def run(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Fit, register, shadow and compare a model; return what was found.

        What serves does not change. After a crash another worker begins again, with the registered
        model if there is one.

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
        }
        if model.active:
            return {**result, "reason": "it serves already: nothing new has been decided"}
        shadow = self._shadow(model)
        progress(0.85, "scoring the audited documents")
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
                serving,
                labels=labels,
                preset=options.preset,
                target=target,
                report=progress,
            )
            progress(0.8, "registering the model")
            model = replace(self.models.store.add(str(target)), active=False)
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
        return model, {"model_id": model.id, "learnt_from": learnt_from}

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

    def _compared(self, model: ModelVersion, progress: Progress) -> OnAudits:
        def report(share: float, message: str = "") -> None:
            progress(0.85 + 0.15 * share, message)

        candidate = self.certifications.score_audits(model, report)
        with self.begin(read_only=True) as transaction:
            serving = transaction.certifications.serving()
            if serving is None or serving == candidate:
                return OnAudits()
            audited = transaction.certifications.audited
            return compare_on_audits(audited(serving), audited(candidate))


def _reviewed(
    transaction: Transaction, rates: RatesOf | None, progress: Progress
) -> Iterator[tuple[Mapping[str, object], Rates | str | None]]:
    """Yield the export's row of each annotation, and its error rates."""
    after = None
    progress(0.0, "reading the reviews")
    while page := transaction.history.annotations(Span(), after=after, limit=PAGE):
        for annotation, of in page:
            errors: Rates | str | None = None
            if rates is not None:
                alone = check(of.id, [annotation])
                answer = NOT_ANSWERED if alone is None else answer_of(alone, Noise.KNOWN)
                sure = of.scored.confidence
                errors = answer if isinstance(answer, str) else answer.rates(rates, sure)
            yield {**annotation_row(annotation, of), **content_row(of)}, errors
        after = page[-1][0].id
        progress(0.0, "reading the reviews")
