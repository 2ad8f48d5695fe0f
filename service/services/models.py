"""Try a model before it serves: check it, let it shadow the present one, compare the two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.comparison import Comparison, Shadow, Tally, compared
from setwise.service.domain.errors import (
    FieldFault,
    InvalidRequest,
    ModelNotFound,
    NothingToRollBack,
    ServiceError,
    ShadowNotFound,
    ShadowTaken,
)
from setwise.service.domain.jobs import Job
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.paging import Page, check_page
from setwise.service.domain.predictions import Prediction, PredictionFilter, ScoredSet
from setwise.service.services.administer import ActivateModel
from setwise.service.services.ports import ModelLoader, Predictor
from setwise.service.services.recording import Recorded
from setwise.service.services.score import Progress
from setwise.service.stores.clock import Clock
from setwise.service.stores.identity import NewId
from setwise.service.stores.transaction import Transaction, Transactions

COMPARE = "compare"
"""The kind of job."""

MOST_COMPARED = 100_000
BLOCK = 200


@dataclass(frozen=True)
class VerifyModel:
    """Load a registered model beside the one that serves, and let it predict once."""

    begin: Transactions
    loader: ModelLoader

    def __call__(self, caller: Caller, model_id: str) -> ModelVersion:
        """Return the model if it is sound; raises `ModelNotFound` or `ModelDamaged`."""
        caller.require(Permission.ADMINISTER)
        with self.begin(read_only=True) as transaction:
            model = _known(transaction, model_id)
        self.loader.load(model)
        return model


@dataclass(frozen=True)
class RollBackModel(Recorded):
    """Let the model serve again that served before the present one."""

    activate: ActivateModel

    def __call__(self, caller: Caller, *, request_id: str | None = None) -> ModelVersion:
        """Return it, active; a second roll-back returns to where the first one began.

        Raises
        ------
        NothingToRollBack
            If no other model has served before.
        ModelDamaged
            If it does not load any more; the present one goes on serving.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin(read_only=True) as transaction:
            before = transaction.models.previous()
        if before is None:
            raise NothingToRollBack("No other model has served before the present one.")
        return self.activate(caller, before.id, request_id=request_id)


@dataclass(frozen=True)
class BeginShadow(Recorded):
    """Let a model score live traffic without deciding anything."""

    loader: ModelLoader

    def __call__(self, caller: Caller, model_id: str, *, request_id: str | None = None) -> Shadow:
        """Return the shadow; every process follows within seconds.

        Raises
        ------
        ModelNotFound, ModelDamaged
            If there is no such model or it does not load.
        ShadowTaken
            If it serves itself, or another model is shadowing.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin(read_only=True) as transaction:
            model = _known(transaction, model_id)
        self.loader.load(model)
        with self.begin() as transaction:
            if _known(transaction, model_id).active:
                raise ShadowTaken("This model serves already; it cannot be its own shadow.")
            present = transaction.comparisons.shadow()
            if present is not None and present.model_id == model_id:
                return present
            shadow = Shadow(self.new_id(), model_id, self.now(), caller.id)
            transaction.comparisons.begin_shadow(shadow)
            self._note(transaction, caller, "model.shadow_begun", model_id, request_id)
            transaction.commit()
        self.loader.follow()
        return shadow


@dataclass(frozen=True)
class EndShadow(Recorded):
    """Let a model score live traffic no longer; what it said is kept."""

    loader: ModelLoader

    def __call__(self, caller: Caller, model_id: str, *, request_id: str | None = None) -> None:
        """End it; raises `ShadowNotFound` where there is nothing to end."""
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            if not transaction.comparisons.end_shadow(model_id, self.now()):
                raise ShadowNotFound(f"Model {model_id!r} does not shadow the one that serves.")
            self._note(transaction, caller, "model.shadow_ended", model_id, request_id)
            transaction.commit()
        self.loader.follow()


@dataclass(frozen=True)
class RecordComparisons:
    """Store what a candidate would have said of predictions, once for each."""

    begin: Transactions
    now: Clock
    new_id: NewId

    def __call__(
        self, model_id: str, predictions: Sequence[Prediction], scores: Sequence[ScoredSet]
    ) -> None:
        """Store the comparisons, each routed by the policy that routed its prediction."""
        with self.begin() as transaction:
            versions = {prediction.policy_version for prediction in predictions}
            policies = {version: transaction.policies.get(version) for version in versions}
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
            transaction.commit()


@dataclass(frozen=True)
class ComparisonReport:
    """What is known of a candidate.

    Attributes
    ----------
    shadow : Shadow or None
        Set while it scores live traffic.
    differing : Page
        Documents that it would have answered otherwise, newest first.
    """

    model: ModelVersion
    shadow: Shadow | None
    tally: Tally
    differing: Page[tuple[Comparison, Prediction]]


@dataclass(frozen=True)
class GetComparison:
    """Read how a candidate compares with what was predicted."""

    begin: Transactions

    def __call__(
        self,
        caller: Caller,
        model_id: str,
        *,
        routes_only: bool = False,
        after: str | None = None,
        limit: int = 50,
    ) -> ComparisonReport:
        """Return the counts and one page of the documents on which the two differ."""
        caller.require(Permission.INSPECT)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            model = _known(transaction, model_id)
            shadow = transaction.comparisons.shadow()
            return ComparisonReport(
                model=model,
                shadow=shadow if shadow is not None and shadow.model_id == model.id else None,
                tally=transaction.comparisons.tally(model.id),
                differing=transaction.comparisons.differing(
                    model.id, routes_only=routes_only, after=after, limit=limit
                ),
            )


@dataclass(frozen=True)
class SubmitCompare(Recorded):
    """Have a model score recent documents again in the background."""

    def __call__(
        self, caller: Caller, model_id: str, documents: int, *, request_id: str | None = None
    ) -> Job:
        """Return the job; the one of the same model that is not finished, if there is one."""
        caller.require(Permission.ADMINISTER)
        if not 1 <= documents <= MOST_COMPARED:
            fault = FieldFault("/documents", f"must lie between 1 and {MOST_COMPARED}")
            raise InvalidRequest("That many documents cannot be compared.", [fault])
        now = self.now()
        with self.begin() as transaction:
            model = _known(transaction, model_id)
            job = Job(
                id=self.new_id(),
                kind=COMPARE,
                key=f"{COMPARE}/{model.id}",
                due_at=now,
                created_at=now,
                owner_id=caller.id,
                payload={"model_id": model.id, "documents": documents},
            )
            if not transaction.jobs.enqueue(job):
                present = transaction.jobs.unfinished(f"{COMPARE}/{model.id}")
                if present is not None:
                    return present
                raise InvalidRequest("The job before ended just now; ask again.")
            self._note(
                transaction, caller, "job.requested", job.id, request_id, kind=COMPARE,
                model_id=model.id, documents=documents,
            )  # fmt: skip
            transaction.commit()
        return job


@dataclass(frozen=True)
class CompareRecent:
    """Run a comparison job: newest documents first, as far as their content is still kept."""

    begin: Transactions
    loader: ModelLoader
    record: RecordComparisons

    def __call__(self, job: Job, progress: Progress) -> Mapping[str, object]:
        """Score and record; returns the counts of all that is known of the candidate."""
        wanted = cast("int", job.payload["documents"])
        with self.begin(read_only=True) as transaction:
            model = _known(transaction, cast("str", job.payload["model_id"]))
        candidate = self.loader.load(model)
        state = dict(job.checkpoint or {"seen": 0, "scored": 0, "after": None})
        while cast("int", state["seen"]) < wanted:
            seen = cast("int", state["seen"])
            progress(seen / wanted, f"{seen} of {wanted} documents")
            page = self._page(cast("str | None", state["after"]), min(BLOCK, wanted - seen))
            kept = [one for one in page.items if _has_content(one)]
            scored = _scored(candidate, kept)
            self.record(model.id, [one for one, _ in scored], [score for _, score in scored])
            state = {
                "seen": seen + len(page.items),
                "scored": cast("int", state["scored"]) + len(scored),
                "after": page.next_after,
            }
            progress.checkpoint(state)
            if page.next_after is None:
                break
        with self.begin(read_only=True) as transaction:
            tally = transaction.comparisons.tally(model.id)
        return {"documents": state["seen"], "scored": state["scored"], **vars(tally)}

    def _page(self, after: str | None, limit: int) -> Page[Prediction]:
        with self.begin(read_only=True) as transaction:
            return transaction.predictions.page(PredictionFilter(), after=after, limit=limit)


def _scored(
    candidate: Predictor, predictions: Sequence[Prediction]
) -> list[tuple[Prediction, ScoredSet]]:
    """Score together; where the candidate cannot read one document, score one by one."""
    if not predictions:
        return []
    try:
        scores = candidate.score([one.document for one in predictions])
    except ServiceError:
        if len(predictions) == 1:
            return []
        return [pair for one in predictions for pair in _scored(candidate, [one])]
    return list(zip(predictions, scores, strict=True))


def _has_content(prediction: Prediction) -> bool:
    return prediction.document.text is not None or prediction.document.features is not None


def _known(transaction: Transaction, model_id: str) -> ModelVersion:
    model = transaction.models.get(model_id)
    if model is None:
        raise ModelNotFound(f"No registered model has the id {model_id!r}.")
    return model
