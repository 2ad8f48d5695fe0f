"""Predict a document's label set, route it, record it; read what was recorded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from service.domain.audits import NO_AUDIT, AuditPlan, Draws, Lottery
from service.domain.delivery import auto_sent
from service.domain.errors import (
    DocumentTooLarge,
    FieldFault,
    Forbidden,
    IdempotencyMismatch,
    InvalidRequest,
    ModelUnavailable,
    PredictionNotFound,
    StorageUnavailable,
)
from service.domain.people import Caller, Permission
from service.domain.predictions import AUTO, Document, Prediction, ScoredSet
from service.domain.reviews import NewTask, ReviewKind
from service.domain.routing import RoutingPolicy
from service.domain.text import text_faults
from service.use_cases.model_ports import PredictorSource
from service.use_cases.paging import Page, check_page
from service.use_cases.ports import Begin, Clock, NewId, Stage, UnitOfWork, unwatched
from service.use_cases.prediction_ports import (
    IdempotencyKey,
    IdempotencyKeyTaken,
    PredictionFilter,
    Recording,
    Submission,
)

LONGEST_IDEMPOTENCY_KEY = 255
"""Characters; an index holds the key."""


Outcome = Prediction | Exception
"""What became of one submission: its stored prediction, or why there is none."""

_Scored = tuple[Submission, ScoredSet]


def nobody(_: Sequence[Prediction]) -> None:
    """Shadow nothing."""


@dataclass
class SeenPolicy:
    """The policy that a transaction has found in force; most probably it still is."""

    policy: RoutingPolicy | None = None


@dataclass(frozen=True)
class _Drafts:
    """What is to be stored if the policy is in force that decided on it."""

    policy_version: str
    made: list[Prediction]
    add: Callable[[], None]


_Ahead = tuple[UnitOfWork, _Drafts]
"""Drafts, and the transaction that they are made for, which has not begun."""


@dataclass(frozen=True)
class Prepared:
    """Submissions that are refused, answered, or scored and still to be stored.

    Attributes
    ----------
    outcomes : list
        For each submission what became of it; None if it is still to be stored.
    scored : list
        The latter in order, with their scores.
    ahead : tuple or None
        What was decided on them already.
    """

    outcomes: list[Outcome | None]
    scored: list[_Scored]
    ahead: _Ahead | None

    def expected(self) -> list[Outcome] | None:
        """Return what becomes of all unless something comes between; None if nobody knows yet."""
        return None if self.ahead is None else self.filled(self.ahead[1].made)

    def filled(self, stored: Sequence[Outcome]) -> list[Outcome]:
        """Return what became of all, given what became of those that were still to be stored."""
        rest = iter(stored)
        return [next(rest) if outcome is None else outcome for outcome in self.outcomes]


@dataclass(frozen=True)
class Predict:
    """Score documents, decide on each, and store each with what follows and its audit row.

    What follows is a message to other programs if the label set is sent, else a review task.

    Predictions are committed when a call returns. With an idempotency key, however often and from
    however many processes at once the same request comes, one prediction is stored and each call
    gives that one.

    Attributes
    ----------
    lottery : Lottery
        Draws the documents that are checked.
    max_text_bytes : int
        Longest text that is scored, in bytes of UTF-8.
    shadow : callable
        Told of what was committed, at once and without fail: a candidate may score it too.
    stage : callable
        Watches how long scoring, deciding and storing take, for all documents of a call together.
    seen : SeenPolicy
        Decides before the transaction that stores; there it is compared with what is in force.
    """

    predictors: PredictorSource
    begin: Begin
    now: Clock
    new_id: NewId
    lottery: Lottery
    max_text_bytes: int = 2_000_000
    shadow: Callable[[Sequence[Prediction]], None] = nobody
    stage: Stage = unwatched
    seen: SeenPolicy = field(default_factory=SeenPolicy)

    def __call__(
        self,
        caller: Caller,
        document: Document,
        *,
        idempotency: IdempotencyKey | None = None,
        request_id: str | None = None,
    ) -> Prediction:
        """Return the stored prediction of one document.

        Raises
        ------
        Forbidden
            If the caller may not predict.
        DocumentTooLarge, InvalidRequest
            If the document cannot be scored or stored.
        IdempotencyMismatch
            If the key was used before for another body.
        ModelUnavailable, StorageUnavailable
            If nothing can be predicted or stored for now.
        """
        (outcome,) = self.together([Submission(caller, document, idempotency, request_id)])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def together(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """Predict many documents in one pass of the model and one transaction.

        Returns
        -------
        list of Prediction or Exception
            For each submission what a call of its own would have returned or raised. A faulty one
            never spoils the others; while the database does not answer, all fail alike.
        """
        return self.store(self.prepare(submissions))

    def prepare(self, submissions: Sequence[Submission]) -> Prepared:
        """Do all of `together` that needs no transaction; `store` does the rest."""
        outcomes = [self._settled(submission) for submission in submissions]
        places = [place for place, outcome in enumerate(outcomes) if outcome is None]
        with self.stage("score"):
            scores = self._scored([submissions[place] for place in places])
        scored: list[_Scored] = []
        for place, score in zip(places, scores, strict=True):
            if isinstance(score, Exception):
                outcomes[place] = score
            else:
                scored.append((submissions[place], score))
        return Prepared(outcomes, scored, self._ahead(scored))

    def store(self, prepared: Prepared) -> list[Outcome]:
        """Store what `prepare` returned, once; returns what `together` does."""
        with self.stage("store"):
            stored = self._stored(prepared.scored, prepared.ahead)
        return prepared.filled(stored)

    def _settled(self, submission: Submission) -> Outcome | None:
        """Return what is known before anything is scored: a refusal, or an earlier prediction."""
        try:
            submission.caller.require(Permission.PREDICT)
            self._check(submission.document, submission.idempotency)
            return self._replayed(submission)
        except Exception as error:  # noqa: BLE001 -- raised where this submission's answer is due
            return error

    def _check(self, document: Document, idempotency: IdempotencyKey | None) -> None:
        if document.text is not None:
            text = document.text
            size = len(text if text.isascii() else text.encode("utf-8", "surrogatepass"))
            if size > self.max_text_bytes:
                raise DocumentTooLarge(
                    f"The text takes {size} bytes of UTF-8; at most {self.max_text_bytes} are "
                    "scored. Send its parts as documents of their own."
                )
        faults = document.faults(metadata_pointer="/metadata")
        if idempotency is not None:
            faults += text_faults(
                idempotency.key, "/header/Idempotency-Key", longest=LONGEST_IDEMPOTENCY_KEY
            )
        if faults:
            raise InvalidRequest("The document cannot be predicted as it stands.", faults)

    def _replayed(self, submission: Submission) -> Prediction | None:
        idempotency = submission.idempotency
        if idempotency is None:
            return None
        with self.begin(read_only=True) as transaction:
            found = transaction.predictions.replayed(submission.caller.id, idempotency.key)
        if found is None:
            return None
        prediction, digest = found
        if digest != idempotency.request_digest:
            raise IdempotencyMismatch(
                "This Idempotency-Key was used before with another body; "
                "use a new key for a new document."
            )
        return prediction

    def _scored(self, submissions: Sequence[Submission]) -> list[ScoredSet | Exception]:
        if not submissions:
            return []
        try:
            return [*self.predictors.active().score([one.document for one in submissions])]
        except Exception as error:  # noqa: BLE001 -- as above
            if len(submissions) == 1:
                return [error]
        # A model refuses all for one that it cannot read.
        return [score for one in submissions for score in self._scored([one])]

    def _stored(self, scored: Sequence[_Scored], ahead: _Ahead | None) -> list[Outcome]:
        if not scored:
            return []
        try:
            transaction, drafts = ahead or (self.begin(), None)
            with transaction:
                try:
                    made = self._record(transaction, drafts, scored)
                except StorageUnavailable:
                    raise
                except Exception as error:  # noqa: BLE001 -- as above; nothing was committed
                    made, spoiled = [], error
                else:
                    transaction.commit()
        except Exception as error:  # noqa: BLE001 -- as above
            return [error] * len(scored)
        if made:
            self.shadow(made)
            return [*made]
        if len(scored) > 1:
            # Whatever spoiled the transaction for all spoils only its own now.
            return [out for one in scored for out in self._stored([one], self._ahead([one]))]
        return [self._winner(scored[0][0], spoiled)]

    def _winner(self, submission: Submission, spoiled: Exception) -> Outcome:
        """Return the prediction of the request that was first to use the key."""
        if not isinstance(spoiled, IdempotencyKeyTaken):
            return spoiled
        try:
            # Taken, yet not there, would be nothing that a caller could act on.
            return self._replayed(submission) or spoiled
        except Exception as error:  # noqa: BLE001 -- as above
            return error

    def _ahead(self, scored: Sequence[_Scored]) -> _Ahead | None:
        """Decide before the transaction begins, so that others who want to write wait less."""
        policy = self.seen.policy
        if policy is None:
            return None
        try:
            transaction = self.begin()
            return transaction, self._drafted(transaction, policy, scored)
        except Exception:  # noqa: BLE001 -- raised again in the transaction that it spoils
            return None

    def _record(
        self, transaction: UnitOfWork, drafts: _Drafts | None, scored: Sequence[_Scored]
    ) -> list[Prediction]:
        policy = transaction.policies.current()
        if drafts is None or drafts.policy_version != policy.version:
            self.seen.policy = policy
            drafts = self._drafted(transaction, policy, scored)
        drafts.add()
        return drafts.made

    def _drafted(
        self, transaction: UnitOfWork, policy: RoutingPolicy, scored: Sequence[_Scored]
    ) -> _Drafts:
        now, version = self.now(), policy.version
        with self.stage("route"):  # each step for all, which takes less time than all for each
            ids = [self.new_id() for _ in scored]
            draws = [
                self.lottery(submission.caller.id, submission.document.id or id_)
                for id_, (submission, _) in zip(ids, scored, strict=True)
            ]
            routes = [
                policy.route(answer, drawn, submission.document.metadata)
                for drawn, (submission, answer) in zip(draws, scored, strict=True)
            ]
            made = []
            for id_, (submission, answer), route in zip(ids, scored, routes, strict=True):
                decision, reason, selection, threshold, rule = route
                prediction = Prediction(  # by place, which takes half as long as by name
                    id_,
                    submission.caller.id,
                    submission.document,
                    answer,
                    decision,
                    reason,
                    threshold,
                    version,
                    now,
                    selection,
                    rule,
                )
                made.append(prediction)
        recording = Recording(
            predictions=[
                (prediction, submission)
                for prediction, (submission, _) in zip(made, scored, strict=True)
            ],
            tasks=[
                NewTask(self.new_id(), prediction, kind)
                for prediction, drawn in zip(made, draws, strict=True)
                for kind in _kinds(prediction, policy.audits, drawn)
            ],
            messages=[
                auto_sent(prediction, self.new_id())
                for prediction in made
                if prediction.decision is AUTO
            ],
        )
        return _Drafts(version, made, transaction.adding(recording))


def _kinds(prediction: Prediction, plan: AuditPlan, draws: Draws) -> tuple[ReviewKind, ...]:
    """Return the kinds of review that a prediction gets."""
    if prediction.selection.role is not NO_AUDIT:
        return _AUDIT
    if prediction.decision is AUTO:
        return ()
    return _READ_TWICE if plan.overlaps(draws) else _READ


_AUDIT = (ReviewKind.AUDIT,)
_READ = (ReviewKind.REVIEW,)
_READ_TWICE = (ReviewKind.REVIEW, ReviewKind.OVERLAP)


MOST_DOCUMENTS = 256
"""Documents of one batch; its transaction keeps other writers of an SQLite file waiting."""


@dataclass(frozen=True)
class PredictBatch:
    """Predict several documents of one caller together."""

    predict: Predict

    def __call__(
        self,
        caller: Caller,
        documents: Sequence[Document],
        *,
        idempotency: IdempotencyKey | None = None,
        request_id: str | None = None,
    ) -> list[Outcome]:
        """Return for each document its stored prediction, or why there is none.

        Under an idempotency key each place of the batch counts as a request of its own: sent
        again, the batch gives the predictions that are stored and tries the other documents anew.

        Raises
        ------
        Forbidden
            If the caller may not predict.
        InvalidRequest
            If there are no documents, or too many.
        ModelUnavailable, StorageUnavailable
            If that is why nothing was stored.
        """
        prepared = self.prepare(caller, documents, idempotency=idempotency, request_id=request_id)
        return self.store(prepared)

    def prepare(
        self,
        caller: Caller,
        documents: Sequence[Document],
        *,
        idempotency: IdempotencyKey | None = None,
        request_id: str | None = None,
    ) -> Prepared:
        """Do all that needs no transaction; raises `Forbidden` and `InvalidRequest`."""
        caller.require(Permission.PREDICT)
        if not 1 <= len(documents) <= MOST_DOCUMENTS:
            detail = f"has {len(documents)} documents; send 1 to {MOST_DOCUMENTS}"
            raise InvalidRequest(f"The batch {detail}.", [FieldFault("/documents", detail)])
        return self.predict.prepare(
            [
                Submission(caller, document, _in_batch(idempotency, place), request_id)
                for place, document in enumerate(documents)
            ]
        )

    def store(self, prepared: Prepared) -> list[Outcome]:
        """Do the rest; raises `ModelUnavailable` and `StorageUnavailable`."""
        outcomes = self.predict.store(prepared)
        if not any(isinstance(outcome, Prediction) for outcome in outcomes):
            for outcome in outcomes:
                if isinstance(outcome, ModelUnavailable | StorageUnavailable):
                    raise outcome
        return outcomes


def _in_batch(idempotency: IdempotencyKey | None, place: int) -> IdempotencyKey | None:
    if idempotency is None:
        return None
    return replace(idempotency, key=f"{idempotency.key}#{place}")


@dataclass(frozen=True)
class GetPrediction:
    """Read one prediction; a client sees its own."""

    begin: Begin

    def __call__(self, caller: Caller, prediction_id: str) -> Prediction:
        """Return it; raises `PredictionNotFound` also where the caller may not know of it."""
        visible = visible_to(caller)
        with self.begin(read_only=True) as transaction:
            prediction = transaction.predictions.get(prediction_id)
        if prediction is None or visible not in {None, prediction.client_id}:
            raise PredictionNotFound(f"No prediction of yours has the id {prediction_id!r}.")
        return prediction


@dataclass(frozen=True)
class ListPredictions:
    """List predictions, newest first; a client sees its own."""

    begin: Begin

    def __call__(
        self,
        caller: Caller,
        wanted: PredictionFilter | None = None,
        *,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[Prediction]:
        """Return one page of the predictions that match ``wanted``."""
        wanted = wanted or PredictionFilter()
        visible = visible_to(caller)
        if visible is not None:
            if wanted.client_id not in {None, visible}:
                raise Forbidden("A client key lists its own predictions only.")
            wanted = replace(wanted, client_id=visible)
        check_page(after, limit)
        _check_range(wanted)
        with self.begin(read_only=True) as transaction:
            return transaction.predictions.page(wanted, after=after, limit=limit)


def visible_to(caller: Caller) -> str | None:
    """Return the client whose predictions ``caller`` may read; None for everybody's."""
    if caller.may(Permission.READ_ALL_PREDICTIONS):
        return None
    caller.require(Permission.PREDICT)
    return caller.id


def _check_range(wanted: PredictionFilter) -> None:
    first, last = wanted.created_from, wanted.created_before
    if first is not None and last is not None and first >= last:
        fault = FieldFault("/created_before", "must be later than created_from")
        raise InvalidRequest("The range of time is empty.", [fault])
