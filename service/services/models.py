"""Register models, activate one, and compare it with candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.certification import Scorer
from setwise.service.domain.jobs import Job
from setwise.service.domain.models import (
    ComparedAnswer,
    ModelVersion,
    Shadow,
    Tally,
    compared,
)
from setwise.service.domain.predictions import Prediction, PredictionFilter, ScoredSet
from setwise.service.domain.recalibration import calibrator_version
from setwise.service.domain.text import Page, check_page
from setwise.service.services.certification.in_force import adopt
from setwise.service.services.jobs import Requesting
from setwise.service.services.ports import ArtifactStore, ModelLoader, Predictor, Progress
from setwise.service.services.predictions import disclose
from setwise.service.stores.transaction import Transaction

COMPARE = "compare"
"""The kind of job."""

RESCORE = "rescore"
"""The kind of job that brings the order of reading up to date."""

MOST_COMPARED = 100_000
BLOCK = 200


@dataclass(frozen=True)
class ComparisonReport:
    """Comparison of a candidate with the stored predictions."""

    model: ModelVersion
    shadow: Shadow | None
    """Set while the candidate scores live traffic."""
    tally: Tally
    differing: Page[tuple[ComparedAnswer, Prediction]]
    """Documents that the candidate would have predicted differently, newest first."""


@dataclass(frozen=True)
class Models(Requesting):
    """Registered models, the active one, and candidates beside it."""

    loader: ModelLoader
    store: ArtifactStore

    def allow_adding(self, caller: Caller) -> None:
        """Raise `Forbidden`, before the upload, if the caller may not add models."""
        caller.require(Permission.ADMINISTER)

    def add(self, caller: Caller, source: str | BinaryIO) -> ModelVersion:
        """Verify and register an artifact without activating it.

        Raises `InvalidRequest` if ``source`` is not a valid artifact; `DuplicateModel` if the same
        content is already registered.

        ``source``: An artifact folder, or a ZIP file of one.
        """
        caller.require(Permission.ADMINISTER)
        if isinstance(source, str):
            added = self.store.add(source)
        else:
            added = self.store.add_archive(source)
        model = replace(added, active=False)
        with self.begin() as transaction:
            transaction.models.add(model)
            self._note(transaction, caller, "model.added", model.id, version=model.version)
        return model

    def page(self, caller: Caller) -> list[ModelVersion]:
        """Return all registered models, newest first; at most one is active."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.models.all()

    def verify(self, caller: Caller, model_id: str) -> ModelVersion:
        """Load a model beside the active one, and run one prediction.

        Raises `ModelNotFound` or `ModelDamaged` if the model does not exist or does not load.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin(read_only=True) as transaction:
            model = known_model(transaction, model_id)
        self.loader.load(model)
        return model

    def activate(self, caller: Caller, model_id: str) -> ModelVersion:
        """Activate a model; other processes follow within seconds.

        If a certificate of this model fits the policy, it comes into force.

        Raises `ModelNotFound` if the model does not exist; `ModelDamaged` if it does not load here;
        nothing changes then.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin(read_only=True) as transaction:
            model = known_model(transaction, model_id)
        vocabulary = self.loader.load(model).labels
        activated = self._activate(caller, model.id, vocabulary, leaving=None)
        self.loader.follow()
        return activated

    def _activate(
        self, caller: Caller, model_id: str, vocabulary: Sequence[str], *, leaving: str | None
    ) -> ModelVersion:
        with self.begin() as transaction:
            transaction.policies.lock()
            model, before = known_model(transaction, model_id), transaction.models.active()
            if leaving is not None:
                _check_leaving(before, leaving)
            if model.active:
                return model
            transaction.models.activate(model.id, self.now(), self.new_id())
            transaction.labels.follow_model(frozenset(vocabulary))
            self._note(
                transaction,
                caller,
                "model.activated",
                model.id,
                version=model.version,
                replaced=before.id if before else None,
            )
            learnt = transaction.calibrations.active(model.id)
            scorer = Scorer(model.version, calibrator_version(model, learnt))
            adopt(transaction, scorer, version=self.new_id(), now=self.now())
            due_at = self.lease_clock()
            transaction.jobs.enqueue(Job(self.new_id(), RESCORE, RESCORE, due_at, due_at))
        return replace(model, active=True)

    def roll_back(self, caller: Caller, leaving: str | None) -> ModelVersion:
        """Activate the previous model, unless another one serves than the caller means to leave.

        Raises `VersionRequired` or `StaleVersion` if the version is missing, or is not the one that
        serves; `NothingToRollBack` if no other model has served; `ModelDamaged` if that model no
        longer loads; the current one stays active.

        ``leaving``: The version to leave. Repeating a rollback does not undo it.
        """
        caller.require(Permission.ADMINISTER)
        if leaving is None:
            raise errors.VersionRequired("Name the version of the model to leave in If-Match.")
        with self.begin(read_only=True) as transaction:
            _check_leaving(transaction.models.active(), leaving)
            before = transaction.models.previous()
        if before is None:
            raise errors.NothingToRollBack("No other model has served before the present one.")
        vocabulary = self.loader.load(before).labels
        activated = self._activate(caller, before.id, vocabulary, leaving=leaving)
        self.loader.follow()
        return activated

    def begin_shadow(self, caller: Caller, model_id: str) -> Shadow:
        """Score live traffic with a model in all processes, without using its decisions.

        Raises `ModelNotFound` or `ModelDamaged` if the model does not exist or does not load;
        `ShadowTaken` if the model is active itself, or another model is shadowing.
        """
        model = self.verify(caller, model_id)
        with self.begin() as transaction:
            if known_model(transaction, model.id).active:
                raise errors.ShadowTaken(
                    "This model already serves, so it cannot be its own shadow."
                )
            present = transaction.comparisons.shadow()
            if present is not None and present.model_id == model.id:
                return present
            shadow = Shadow(self.new_id(), model.id, self.now(), caller.id)
            transaction.comparisons.begin_shadow(shadow)
            self._note(transaction, caller, "model.shadow_begun", model.id)
        self.loader.follow()
        return shadow

    def end_shadow(self, caller: Caller, model_id: str) -> None:
        """Stop a shadow and keep its comparisons; raises `ShadowNotFound`."""
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            if not transaction.comparisons.end_shadow(model_id, self.now()):
                raise errors.ShadowNotFound(f"Model {model_id!r} is not shadowing.")
            self._note(transaction, caller, "model.shadow_ended", model_id)
        self.loader.follow()

    def comparison(
        self,
        caller: Caller,
        model_id: str,
        *,
        routes_only: bool = False,
        after: str | None = None,
        limit: int = 50,
    ) -> ComparisonReport:
        """Return a candidate's counts and a page of its differences."""
        caller.require(Permission.INSPECT)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            model = known_model(transaction, model_id)
            shadow = transaction.comparisons.shadow()
            differing = transaction.comparisons.differing(
                model.id, routes_only=routes_only, after=after, limit=limit
            )
            tally = transaction.comparisons.tally(model.id)
        read = [prediction.id for _, prediction in differing.items]
        hidden = disclose(self.begin, self.now, caller, read)
        shown = tuple(pair for pair in differing.items if pair[1].id not in hidden)
        return ComparisonReport(
            model=model,
            shadow=shadow if shadow is not None and shadow.model_id == model.id else None,
            tally=tally,
            differing=replace(differing, items=shown),
        )

    def tally(self, caller: Caller, model_id: str) -> Tally:
        """Return a candidate's counts."""
        caller.require(Permission.INSPECT)
        with self.begin(read_only=True) as transaction:
            return transaction.comparisons.tally(known_model(transaction, model_id).id)

    def submit_compare(self, caller: Caller, model_id: str, documents: int) -> Job:
        """Queue a job that compares recent documents, or return the unfinished one."""
        caller.require(Permission.ADMINISTER)
        if not 1 <= documents <= MOST_COMPARED:
            fault = errors.FieldFault("/documents", f"must lie between 1 and {MOST_COMPARED}")
            raise errors.InvalidRequest("That many documents cannot be compared.", [fault])
        with self.begin() as transaction:
            model = known_model(transaction, model_id)
            key, payload = f"{COMPARE}/{model.id}", {"model_id": model.id, "documents": documents}
            return self._request(transaction, caller, COMPARE, key, **payload)

    def compare_recent(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Run a comparison job, newest documents first; return the candidate's counts."""
        n_documents = cast("int", job.payload["documents"])
        with self.begin(read_only=True) as transaction:
            model = known_model(transaction, cast("str", job.payload["model_id"]))
        candidate = self.loader.load(model)
        state = dict(job.checkpoint or {"seen": 0, "scored": 0, "after": None})
        while cast("int", state["seen"]) < n_documents:
            n_read = cast("int", state["seen"])
            progress(n_read / n_documents, f"{n_read} of {n_documents} documents")
            after, limit = cast("str | None", state["after"]), min(BLOCK, n_documents - n_read)
            with self.begin(read_only=True) as transaction:
                page = transaction.predictions.page(PredictionFilter(), after=after, limit=limit)
            scored = scored_again(candidate, page.items)
            self.record(
                model.id, [prediction for prediction, _ in scored], [score for _, score in scored]
            )
            state = {
                "seen": n_read + len(page.items),
                "scored": cast("int", state["scored"]) + len(scored),
                "after": page.next_after,
            }
            progress.checkpoint(state)
            if page.next_after is None:
                break
        with self.begin(read_only=True) as transaction:
            tally = transaction.comparisons.tally(model.id)
        return {"documents": state["seen"], "scored": state["scored"], **vars(tally)}

    def rescore(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Store what the active model says of documents that wait for a reader.

        It says which one is read next, and suggests where no model answered before. If another
        model is activated meanwhile, it begins again.
        """
        state = dict(job.checkpoint or {})
        predictor: Predictor | None = None
        while True:
            with self.begin(read_only=True) as transaction:
                model = transaction.models.active()
                if model is None:
                    return {"documents": 0}
                if state.get("model_id") != model.id:
                    predictor, state = None, {"model_id": model.id, "after": None, "documents": 0}
                after = cast("str | None", state["after"])
                tasks = transaction.reviews.unread(after=after, limit=BLOCK)
            if not tasks:
                return {"documents": state["documents"], "model_id": model.id}
            predictor = predictor or self.loader.load(model)
            scored = scored_again(predictor, [task.prediction for task in tasks])
            sets = {prediction.id: scores.candidates for prediction, scores in scored}
            with self.begin() as transaction:
                transaction.reviews.rescore(
                    (task, sets[task.prediction.id]) for task in tasks if task.prediction.id in sets
                )
            documents = cast("int", state["documents"]) + len(scored)
            state = {"model_id": model.id, "after": tasks[-1].id, "documents": documents}
            progress.checkpoint(state)
            progress(0.5, f"{documents:,} documents that wait")

    def record(
        self, model_id: str, predictions: Sequence[Prediction], scores: Sequence[ScoredSet]
    ) -> None:
        """Store comparisons, each routed by the policy that routed its prediction."""
        with self.begin() as transaction:
            policies = transaction.policies.of(
                prediction.policy_version for prediction in predictions
            )
            transaction.comparisons.add_all(
                [
                    compared(
                        prediction,
                        scored,
                        policies[prediction.policy_version],
                        model_id=model_id,
                        comparison_id=self.new_id(),
                        now=self.now(),
                    )
                    for prediction, scored in zip(predictions, scores, strict=True)
                ]
            )


def scored_again(
    candidate: Predictor, stored: Sequence[Prediction]
) -> list[tuple[Prediction, ScoredSet]]:
    """Score the documents whose content is kept; leave out those that cannot be scored."""
    predictions = [prediction for prediction in stored if prediction.document.kept]
    results = candidate.score([prediction.document for prediction in predictions])
    pairs = []
    for prediction, result in zip(predictions, results, strict=True):
        if isinstance(result, ScoredSet):
            pairs.append((prediction, result))
        elif not isinstance(result.error, errors.ServiceError):
            raise result.error  # the model's fault, not the document's
    return pairs


def _check_leaving(active: ModelVersion | None, leaving: str) -> None:
    if active is not None and active.version != leaving:
        raise errors.StaleVersion(
            f"Version {active.version} serves, not {leaving}; nothing was rolled back."
        )


def known_model(transaction: Transaction, model_id: str) -> ModelVersion:
    """Return a registered model; raises `ModelNotFound`."""
    model = transaction.models.get(model_id)
    if model is None:
        raise errors.ModelNotFound(f"No registered model has the id {model_id!r}.")
    return model
