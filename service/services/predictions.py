"""Predict a document's label set, route it, record it; read what was recorded."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import overload

from setwise.service.domain.audits import NO_AUDIT, AuditPlan, AuditRole, Draws, Lottery, Selection
from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.columns import Rows
from setwise.service.domain.errors import (
    DocumentTooLarge,
    FieldFault,
    Forbidden,
    IdempotencyMismatch,
    InvalidRequest,
    ModelUnavailable,
    PredictionNotFound,
    StorageUnavailable,
)
from setwise.service.domain.paging import Page, check_page
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.predictions import (
    AUTO,
    Decision,
    Document,
    IdempotencyKey,
    Prediction,
    PredictionFilter,
    ScoredSet,
    Submission,
)
from setwise.service.domain.reviews import NewTask, ReviewKind
from setwise.service.domain.text import text_faults
from setwise.service.domain.webhooks import Message, auto_sent
from setwise.service.services.ports import PredictorSource
from setwise.service.stores.clock import Clock
from setwise.service.stores.identity import NewId
from setwise.service.stores.predictions import IdempotencyKeyTaken, Recording
from setwise.service.stores.transaction import Transaction, Transactions

Stage = Callable[[str], AbstractContextManager[object]]
"""Watches how long a part of the work takes: ``with stage("score"): …``."""

_UNWATCHED: AbstractContextManager[object] = nullcontext()


def unwatched(name: str) -> AbstractContextManager[object]:  # noqa: ARG001 -- a `Stage`
    """Watch nothing."""
    return _UNWATCHED


LONGEST_IDEMPOTENCY_KEY = 255
"""Characters; an index holds the key."""


_NO_PREDICTIONS: Rows[Prediction] = Rows.of(Prediction, [])
_NO_ANSWERS: Rows[ScoredSet] = Rows.of(ScoredSet, [])
_NO_MESSAGES: Rows[Message] = Rows.of(Message, [])

Outcome = Prediction | Exception
"""What became of one submission: its stored prediction, or why there is none."""


@dataclass(frozen=True)
class Outcomes(Sequence[Outcome]):
    """What became of submissions, in order.

    Attributes
    ----------
    others : sequence of Prediction, Exception or None
        For each submission what became of it; None if it has the next prediction of ``made``.
    made : Rows of Prediction
        All that were made together.
    """

    others: Sequence[Outcome | None]
    made: Rows[Prediction]

    def __len__(self) -> int:
        return len(self.others)

    @overload
    def __getitem__(self, place: int) -> Outcome: ...
    @overload
    def __getitem__(self, place: slice) -> list[Outcome]: ...
    def __getitem__(self, place: int | slice) -> Outcome | list[Outcome]:
        return [*self][place]

    def __iter__(self) -> Iterator[Outcome]:
        made = iter(self.made)
        return (next(made) if outcome is None else outcome for outcome in self.others)


@dataclass(frozen=True)
class _Scored:
    """Submissions and the model's answers to them."""

    submissions: Rows[Submission]
    answers: Rows[ScoredSet]

    def __len__(self) -> int:
        return len(self.submissions)

    def each(self) -> "list[_Scored]":
        """Return them one by one."""
        return [
            _Scored(self.submissions.pick([place]), self.answers.pick([place]))
            for place in range(len(self))
        ]


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
    made: Rows[Prediction]
    add: Callable[[], None]


_Ahead = tuple[Transaction, _Drafts]
"""Drafts, and the transaction that they are made for, which has not begun."""


@dataclass(frozen=True)
class Prepared:
    """Submissions that are refused, answered, or scored and still to be stored.

    Attributes
    ----------
    outcomes : list
        For each submission what became of it; None if it is still to be stored.
    scored : _Scored
        The latter in order, with their scores.
    ahead : tuple or None
        What was decided on them already.
    """

    outcomes: list[Outcome | None]
    scored: _Scored
    ahead: _Ahead | None

    def expected(self) -> Outcomes | None:
        """Return what becomes of all unless something comes between; None if nobody knows yet."""
        return None if self.ahead is None else self.filled(self.ahead[1].made)

    def filled(self, stored: Sequence[Outcome]) -> Outcomes:
        """Return what became of all, given what became of those that were still to be stored."""
        if isinstance(stored, Rows):
            return Outcomes(self.outcomes, stored)
        rest = iter(stored)
        others = [next(rest) if one is None else one for one in self.outcomes]
        return Outcomes(others, _NO_PREDICTIONS)


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
    begin: Transactions
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
        return [*self.store(self.prepare(submissions))]

    def prepare(self, submissions: Sequence[Submission]) -> Prepared:
        """Do all of `together` that needs no transaction; `store` does the rest."""
        asked = Rows.of(Submission, submissions)
        documents = asked.column("document")
        settled = map(self._settled, asked.column("caller"), documents, asked.column("idempotency"))
        outcomes = [*settled]
        places = [place for place, outcome in enumerate(outcomes) if outcome is None]
        with self.stage("score"):
            answers, faults = self._answers([documents[place] for place in places])
        for place, fault in faults.items():
            outcomes[places[place]] = fault
        if len(answers) < len(asked):
            asked = asked.pick([place for place, outcome in enumerate(outcomes) if outcome is None])
        scored = _Scored(asked, answers)
        return Prepared(outcomes, scored, self._ahead(scored))

    def store(self, prepared: Prepared) -> Outcomes:
        """Store what `prepare` returned, once; returns what `together` does."""
        with self.stage("store"):
            stored = self._stored(prepared.scored, prepared.ahead)
        return prepared.filled(stored)

    def _settled(
        self, caller: Caller, document: Document, idempotency: IdempotencyKey | None
    ) -> Outcome | None:
        """Return what is known before anything is scored: a refusal, or an earlier prediction."""
        try:
            caller.require(Permission.PREDICT)
            self._check(document, idempotency)
            return None if idempotency is None else self._replayed(caller, idempotency)
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

    def _replayed(self, caller: Caller, idempotency: IdempotencyKey) -> Prediction | None:
        with self.begin(read_only=True) as transaction:
            found = transaction.predictions.replayed(caller.id, idempotency.key)
        if found is None:
            return None
        prediction, digest = found
        if digest != idempotency.request_digest:
            raise IdempotencyMismatch(
                "This Idempotency-Key was used before with another body; "
                "use a new key for a new document."
            )
        return prediction

    def _answers(
        self, documents: Sequence[Document]
    ) -> tuple[Rows[ScoredSet], dict[int, Exception]]:
        """Return what the model says of documents, and by place why it says nothing of others."""
        if not documents:
            return _NO_ANSWERS, {}
        try:
            return Rows.of(ScoredSet, self.predictors.active().score(documents)), {}
        except Exception as error:  # noqa: BLE001 -- as above
            if len(documents) == 1:
                return _NO_ANSWERS, {0: error}
        # A model refuses all for one that it cannot read.
        answers: list[ScoredSet] = []
        faults: dict[int, Exception] = {}
        for place, document in enumerate(documents):
            said, fault = self._answers([document])
            answers += said
            if fault:
                faults[place] = fault[0]
        return Rows.of(ScoredSet, answers), faults

    def _stored(self, scored: _Scored, ahead: _Ahead | None) -> Sequence[Outcome]:
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
                    made, spoiled = _NO_PREDICTIONS, error
                else:
                    transaction.commit()
        except Exception as error:  # noqa: BLE001 -- as above
            return [error] * len(scored)
        if made:
            self.shadow(made)
            return made
        if len(scored) > 1:
            # Whatever spoiled the transaction for all spoils only its own now.
            return [out for one in scored.each() for out in self._stored(one, self._ahead(one))]
        return [self._winner(scored.submissions[0], spoiled)]

    def _winner(self, submission: Submission, spoiled: Exception) -> Outcome:
        """Return the prediction of the request that was first to use the key."""
        if not isinstance(spoiled, IdempotencyKeyTaken) or submission.idempotency is None:
            return spoiled
        try:
            # Taken, yet not there, would be nothing that a caller could act on.
            return self._replayed(submission.caller, submission.idempotency) or spoiled
        except Exception as error:  # noqa: BLE001 -- as above
            return error

    def _ahead(self, scored: _Scored) -> _Ahead | None:
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
        self, transaction: Transaction, drafts: _Drafts | None, scored: _Scored
    ) -> Rows[Prediction]:
        policy = transaction.policies.current()
        if drafts is None or drafts.policy_version != policy.version:
            self.seen.policy = policy
            drafts = self._drafted(transaction, policy, scored)
        drafts.add()
        return drafts.made

    def _drafted(self, transaction: Transaction, policy: RoutingPolicy, scored: _Scored) -> _Drafts:
        now, count = self.now(), len(scored)
        documents = scored.submissions.column("document")
        clients = [caller.id for caller in scored.submissions.column("caller")]
        with self.stage("route"):  # each step for all, which takes less time than all for each
            ids = [self.new_id() for _ in clients]
            draws = [
                self.lottery(client_id, document.id or id_)
                for id_, client_id, document in zip(ids, clients, documents, strict=True)
            ]
            metadata = [document.metadata for document in documents]
            routes = policy.routes(scored.answers, draws, metadata)
        decisions, selections = routes.column("decision"), routes.column("selection")
        made = Rows(
            Prediction,
            id=ids,
            client_id=clients,
            document=documents,
            scored=scored.answers,
            decision=decisions,
            reason=routes.column("reason"),
            threshold=routes.column("threshold"),
            policy_version=[policy.version] * count,
            created_at=[now] * count,
            selection=selections,
            rule=routes.column("rule"),
        )
        roles = Rows.of(Selection, selections).column("role")
        waiting = [
            (id_, kind)
            for id_, decision, role, drawn in zip(ids, decisions, roles, draws, strict=True)
            for kind in _kinds(decision, role, policy.audits, drawn)
        ]
        sent = [place for place, decision in enumerate(decisions) if decision is AUTO]
        recording = Recording(
            predictions=made,
            submissions=scored.submissions,
            tasks=Rows(
                NewTask,
                id=[self.new_id() for _ in waiting],
                prediction_id=[id_ for id_, _ in waiting],
                kind=[kind for _, kind in waiting],
                created_at=[now] * len(waiting),
            ),
            messages=auto_sent(made.pick(sent), [self.new_id() for _ in sent])
            if sent
            else _NO_MESSAGES,
        )
        return _Drafts(policy.version, made, transaction.adding(recording))


def _kinds(
    decision: Decision, role: AuditRole, plan: AuditPlan, draws: Draws
) -> tuple[ReviewKind, ...]:
    """Return the kinds of review that a prediction gets."""
    if role is not NO_AUDIT:
        return _AUDIT
    if decision is AUTO:
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
    ) -> Outcomes:
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
        count = len(documents)
        keys: Sequence[IdempotencyKey | None] = [None] * count
        if idempotency is not None:
            places = range(count)
            keys = [replace(idempotency, key=f"{idempotency.key}#{place}") for place in places]
        submissions = Rows(
            Submission,
            caller=[caller] * count,
            document=documents,
            idempotency=keys,
            request_id=[request_id] * count,
        )
        return self.predict.prepare(submissions)

    def store(self, prepared: Prepared) -> Outcomes:
        """Do the rest; raises `ModelUnavailable` and `StorageUnavailable`."""
        outcomes = self.predict.store(prepared)
        if not outcomes.made and not any(isinstance(one, Prediction) for one in outcomes.others):
            for outcome in outcomes.others:
                if isinstance(outcome, ModelUnavailable | StorageUnavailable):
                    raise outcome
        return outcomes


@dataclass(frozen=True)
class GetPrediction:
    """Read one prediction; a client sees its own."""

    begin: Transactions

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

    begin: Transactions

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
