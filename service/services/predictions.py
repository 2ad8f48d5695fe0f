"""Predict, route and store documents; read and derive stored predictions."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

from setwise.models.guarantees.copies import bands_of
from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.policy import Policy
from setwise.service.domain.predictions import (
    UNSCORED,
    Accepted,
    Decision,
    Document,
    GivenAnswer,
    Prediction,
    PredictionFilter,
    Refused,
    ScoredSet,
    Submission,
    SubmissionOutcome,
)
from setwise.service.domain.reviews import ReviewKind, ReviewState, ReviewTask
from setwise.service.domain.routing.audits import AuditRole, Draws, Lottery
from setwise.service.domain.routing.copies import Likeness
from setwise.service.domain.routing.derivations import Derivation
from setwise.service.domain.routing.rules import EARLIER_VERSIONS
from setwise.service.domain.routing.versions import VERSIONS_WITHIN, Version, Versions
from setwise.service.domain.text import Page, check_page, text_faults
from setwise.service.domain.webhooks import Message, auto_sent
from setwise.service.services.ports import Predictor, PredictorSource
from setwise.service.stores.database import Clock, NewId, WallClock
from setwise.service.stores.predictions import IdempotencyKeyTaken
from setwise.service.stores.transaction import Transaction, Transactions

Timer = Callable[[], AbstractContextManager[object]]


class Stages(NamedTuple):
    """Contexts that measure how long each step takes."""

    score: Timer = nullcontext
    route: Timer = nullcontext
    store: Timer = nullcontext


UNMEASURED = Stages()


def no_shadow(_: Sequence[Prediction]) -> None:
    """Do nothing: there is no shadow."""


LONGEST_IDEMPOTENCY_KEY = 255
"""Longest key, in characters, because an index holds it."""

MOST_DOCUMENTS = 256
"""Most documents in a batch; its transaction blocks other writers of an SQLite file."""

Scores = Sequence[ScoredSet | Refused]
"""A model's result for each document."""

Score = Callable[[Sequence[Document]], Scores]


def all_predicted(outcomes: Iterable[SubmissionOutcome]) -> list[Prediction]:
    """Return the predictions, or raise the first error."""
    predictions = []
    for outcome in outcomes:
        if isinstance(outcome, Refused):
            raise outcome.error
        predictions.append(outcome.prediction)
    return predictions


@dataclass(slots=True)
class _Entry:
    """A submission on its way to a prediction."""

    submission: Submission
    scored: ScoredSet | None = None
    outcome: SubmissionOutcome | None = None


class _Drawn(NamedTuple):
    """The id of a new prediction, what its document is like, its draws, and earlier versions."""

    prediction_id: str
    likeness: Likeness
    draws: Draws
    earlier: int = 0

    def version(self, submission: Submission, scored: ScoredSet) -> Version:
        """Return the version of the document that it is."""
        document_id, cluster = submission.document.id, self.draws.cluster
        return Version(submission.caller.id, document_id, cluster, scored.confidence)


@dataclass(frozen=True)
class _Made:
    """A prediction with its message if sent, or else its review tasks."""

    prediction: Prediction
    tasks: list[ReviewTask]
    messages: list[Message]


@dataclass(frozen=True)
class Predictions:
    """Predictions of documents."""

    predictors: PredictorSource
    begin: Transactions
    now: WallClock
    new_id: NewId
    lottery: Lottery
    """Draws the documents to audit."""
    max_text_bytes: int = 2_000_000
    """Longest text that is scored, in bytes of UTF-8."""
    shadow: Callable[[Sequence[Prediction]], None] = no_shadow
    """Receives committed predictions for a candidate to score too. It must return at once and never
    raise.
    """
    stages: Stages = UNMEASURED
    """Measures scoring, routing and storing, for all documents of a call together."""

    def predict(
        self, submissions: Sequence[Submission], score: Score | None = None
    ) -> list[SubmissionOutcome]:
        """Return the outcome of each submission, after all are committed.

        ``score``: Returns the model's results for documents of these submissions; None: the active
        model in this process.

        All are scored in one pass of the model and stored in one transaction, with their messages,
        review tasks and audit rows. An idempotency key stores one prediction, however often and
        from however many processes the request comes, and every call returns it.

        A submission that is rejected, unreadable for the model or impossible to store does not
        affect the others. While the database does not answer, all of them fail.
        """
        entries = [_Entry(submission) for submission in submissions]
        for entry in entries:
            _take([entry], self._check)
        _take([entry for entry in entries if entry.submission.idempotency], self._replay)
        with self.stages.score():
            _take(entries, partial(self._score, score=score))
        with self.stages.store():
            _take(entries, self._store)
        return [entry.outcome for entry in entries if entry.outcome is not None]

    def get(self, caller: Caller, prediction_id: str) -> Prediction:
        """Return a prediction; a client sees only its own.

        Raises `PredictionNotFound` if it does not exist, or the caller may not read it;
        `BlindReviewHeld` if the caller holds a blind review of it.
        """
        with self.begin(read_only=True) as transaction:
            prediction = visible_prediction(transaction, caller, prediction_id)
        disclose_one(self.begin, self.now, caller, prediction.id)
        return prediction

    def page(
        self,
        caller: Caller,
        filters: PredictionFilter | None = None,
        *,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[Prediction]:
        """Return a page of predictions, newest first; a client sees its own.

        Predictions of which the caller holds a blind review are left out.
        """
        filters = filters or PredictionFilter()
        visible = visible_to(caller)
        if visible is not None:
            if filters.client_id not in {None, visible}:
                raise errors.Forbidden("A client key lists its own predictions only.")
            filters = replace(filters, client_id=visible)
        check_page(after, limit)
        _check_range(filters)
        with self.begin(read_only=True) as transaction:
            page = transaction.predictions.page(filters, after=after, limit=limit)
        hidden = disclose(
            self.begin, self.now, caller, [prediction.id for prediction in page.items]
        )
        return replace(
            page,
            items=tuple(prediction for prediction in page.items if prediction.id not in hidden),
        )

    def derive(self, caller: Caller, prediction_id: str) -> Derivation:
        """Repeat the decision on a stored prediction; return both decisions.

        Raises `PredictionNotFound` if the prediction does not exist.
        """
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            prediction = transaction.predictions.get(prediction_id)
            if prediction is None:
                raise errors.PredictionNotFound(f"No prediction has the id {prediction_id!r}.")
            policy = transaction.policies.get(prediction.policy_version)
        disclose_one(self.begin, self.now, caller, prediction.id)
        return Derivation.of(prediction, policy, self.lottery)

    def _check(self, entries: Sequence[_Entry]) -> None:
        """Raise the error of a submission that is rejected before scoring."""
        for submission in [entry.submission for entry in entries]:
            submission.caller.require(Permission.PREDICT)
            document = submission.document
            if document.text is not None:
                size = len(document.text.encode("utf-8", "surrogatepass"))
                if size > self.max_text_bytes:
                    raise errors.DocumentTooLarge(
                        f"The text takes {size} bytes of UTF-8; at most {self.max_text_bytes} are "
                        "scored. Send its parts as documents of their own."
                    )
            faults = document.faults(metadata_pointer="/metadata")
            if submission.idempotency is not None:
                faults += text_faults(
                    submission.idempotency.key,
                    "/header/Idempotency-Key",
                    longest=LONGEST_IDEMPOTENCY_KEY,
                )
            if faults:
                detail = "The document cannot be predicted as it stands."
                raise errors.InvalidRequest(detail, faults)

    def _replay(self, entries: Sequence[_Entry]) -> None:
        """Give known idempotency keys their predictions."""
        keys = [
            (entry, (entry.submission.caller.id, key.key), key.request_digest)
            for entry in entries
            if (key := entry.submission.idempotency) is not None
        ]
        with self.begin(read_only=True) as transaction:
            replays = transaction.predictions.replayed([name for _, name, _ in keys])
        for entry, name, digest in keys:
            if name in replays:
                prediction, first_digest = replays[name]
                entry.outcome = (
                    Accepted(prediction, replayed=True)
                    if digest == first_digest
                    else Refused(errors.IdempotencyMismatch(_MISMATCH))
                )

    def _score(self, entries: Sequence[_Entry], *, score: Score | None) -> None:
        documents = [entry.submission.document for entry in entries]
        try:
            results = score(documents) if score else scores(self.predictors.active(), documents)
        except errors.NoModel:
            results = [UNSCORED] * len(documents)
        for entry, result in zip(entries, results, strict=True):
            if isinstance(result, Refused):
                entry.outcome = result
            else:
                entry.scored = result

    def _store(self, entries: Sequence[_Entry]) -> None:
        """Store predictions in one transaction; raises the error of one that spoils it."""
        try:
            with self.begin() as transaction:
                predictions = self._add(transaction, entries)
        except IdempotencyKeyTaken:
            if len(entries) > 1:
                raise
            self._replay(entries)  # another request used the key first
            if entries[0].outcome is None:  # yet its prediction is missing
                raise
            return
        for entry, prediction in zip(entries, predictions, strict=True):
            entry.outcome = Accepted(prediction)
        self.shadow(predictions)

    def _add(self, transaction: Transaction, entries: Sequence[_Entry]) -> list[Prediction]:
        policy, now = transaction.policies.current(), self.now()
        submissions = [entry.submission for entry in entries]
        drawn = [self._drawn(submission) for submission in submissions]
        versions = self._versions(transaction, submissions, drawn, now)
        made: list[_Made] = []
        with self.stages.route():
            for entry, draw in zip(entries, drawn, strict=True):
                if entry.scored is not None:
                    version = draw.version(entry.submission, entry.scored)
                    drew = draw._replace(earlier=versions.before(version))
                    made.append(self._made(policy, now, entry.submission, entry.scored, drew))
                    if made[-1].prediction.decision is Decision.REVIEW:
                        versions.add(version)
        predictions = [each.prediction for each in made]
        transaction.predictions.add_all(list(zip(predictions, submissions, strict=True)))
        transaction.reviews.add_all([task for each in made for task in each.tasks])
        for each, submission in zip(made, submissions, strict=True):
            reader = submission.caller  # gets the prediction as the response
            if reader.may(Permission.REVIEW) and any(task.blind for task in each.tasks):
                transaction.reviews.note_reader(reader.id, [each.prediction.id], now)
        transaction.outbox.add_all([message for each in made for message in each.messages])
        return predictions

    def _drawn(self, submission: Submission) -> _Drawn:
        prediction_id, document = self.new_id(), submission.document
        name = document.id or prediction_id
        content = document.content or prediction_id.encode()
        likeness = document.likeness or Likeness(content)
        drawn = self.lottery(submission.caller.id, name, content, likeness.form)
        return _Drawn(prediction_id, likeness, drawn)

    def _versions(
        self,
        transaction: Transaction,
        submissions: Sequence[Submission],
        drawn: Sequence[_Drawn],
        now: datetime,
    ) -> Versions:
        """Return the versions of documents that were posted lately and not sent."""
        return Versions(
            transaction.predictions.unsent_versions(
                {submission.document.id for submission in submissions if submission.document.id},
                {each.draws.cluster for each in drawn},
                now - VERSIONS_WITHIN,
            )
        )

    def _made(
        self,
        policy: Policy,
        now: datetime,
        submission: Submission,
        scored: ScoredSet,
        drawn: _Drawn,
    ) -> _Made:
        prediction_id, likeness, draws, earlier = drawn
        caller, document = submission.caller, submission.document
        segment = policy.segment_by.of(document).key
        facts = {**document.metadata, EARLIER_VERSIONS: earlier}
        gate = policy.gate_of(segment)
        route = gate.route(scored, draws, facts)
        selection = route.selection
        if selection.drawn or gate.audits.two_rates:  # a proof may count it
            selection = selection._replace(bands=self.lottery.hashed(bands_of(likeness.words)))
        prediction = Prediction(
            id=prediction_id,
            client_id=caller.id,
            document=document,
            scored=scored,
            decision=route.decision,
            reason=route.reason,
            threshold=route.threshold,
            policy_version=policy.version,
            created_at=now,
            selection=selection,
            rule=route.rule,
            segment=segment,
            earlier_versions=earlier,
        )
        kinds = _kinds(
            prediction, overlaps=policy.audits.overlaps(draws, sends=policy.has_threshold)
        )
        marked = gate.audits.marks(draws)
        return _Made(
            prediction,
            [
                ReviewTask(
                    self.new_id(), prediction, kind, ReviewState.WAITING, 1, now, marked=marked
                )
                for kind in kinds
            ],
            [auto_sent(prediction, self.new_id())] if route.decision is Decision.AUTO else [],
        )


_MISMATCH = (
    "This Idempotency-Key was used before with another body; use a new key for a new document."
)


def _take(entries: Sequence[_Entry], step: Callable[[Sequence[_Entry]], None]) -> None:
    """Take the open entries through a step: together or, where one spoils that, one by one.

    What is missing for all of them is not tried again.
    """
    entries = [entry for entry in entries if entry.outcome is None]
    if not entries:
        return
    try:
        step(entries)
    except Exception as error:  # noqa: BLE001 -- the outcome of the entry that it is about
        if len(entries) == 1 or isinstance(error, _FOR_ALL):
            for entry in entries:
                entry.outcome = Refused(error)
        else:
            for entry in entries:
                _take([entry], step)


_FOR_ALL = (errors.ModelUnavailable, errors.StorageUnavailable)


def scores(predictor: Predictor, documents: Sequence[Document]) -> Scores:
    """Return the model's result for each document; none for an answer that it does not read."""
    results = predictor.score(documents)
    if predictor.external:
        return results
    return [
        result if document.answer is None else Refused(_unread(document.answer))
        for document, result in zip(documents, results, strict=True)
    ]


def _unread(answer: GivenAnswer) -> errors.InvalidRequest:
    detail = (
        "The active model reads documents, not another model's answers; activate one of kind "
        "`external`, or send the text or features alone."
    )
    return errors.InvalidRequest(
        detail, [errors.FieldFault(f"/document/{next(iter(answer))}", detail)]
    )


def _kinds(prediction: Prediction, *, overlaps: bool) -> Iterator[ReviewKind]:
    """Yield the kinds of review that a prediction needs."""
    if prediction.selection.role is not AuditRole.NONE:
        yield ReviewKind.AUDIT
    elif prediction.decision is Decision.REVIEW:
        yield ReviewKind.REVIEW
        if overlaps:
            yield ReviewKind.OVERLAP


_HELD = "You hold a blind review of this document; answer it first."


def disclose(
    begin: Transactions, now: Clock, caller: Caller, prediction_ids: Collection[str]
) -> frozenset[str]:
    """Return the predictions that the caller must answer blindly before seeing them.

    The caller reads the others, and so is never given a blind review of them. Call it outside a
    transaction, before the predictions leave the service.
    """
    if not caller.may(Permission.REVIEW) or not prediction_ids:
        return frozenset()
    with begin(read_only=True) as transaction:
        if not transaction.reviews.open_blind(caller.id, prediction_ids):
            return frozenset()
    with begin() as transaction:
        return _disclose(transaction, now, caller, prediction_ids)


def _disclose(
    transaction: Transaction, now: Clock, caller: Caller, prediction_ids: Collection[str]
) -> frozenset[str]:
    transaction.reviews.note_reader(caller.id, prediction_ids, now())
    return transaction.reviews.held_blind(caller.id).intersection(prediction_ids)


def disclose_one(begin: Transactions, now: Clock, caller: Caller, prediction_id: str) -> None:
    """Raise `BlindReviewHeld` if the caller must not see the prediction yet; see `disclose`."""
    if disclose(begin, now, caller, [prediction_id]):
        raise errors.BlindReviewHeld(_HELD)


def disclose_in(transaction: Transaction, now: Clock, caller: Caller, prediction_id: str) -> None:
    """Do as `disclose_one` in the transaction of a change."""
    if transaction.reviews.open_blind(caller.id, [prediction_id]) and _disclose(
        transaction, now, caller, [prediction_id]
    ):
        raise errors.BlindReviewHeld(_HELD)


def disclose_all(transaction: Transaction, now: Clock, caller: Caller) -> None:
    """Raise `BlindReviewHeld` if the caller must not see all predictions; see `disclose`."""
    if not caller.may(Permission.REVIEW):
        return
    transaction.reviews.note_reader(caller.id, None, now())
    if transaction.reviews.held_blind(caller.id):
        raise errors.BlindReviewHeld("You hold blind reviews; answer them before you read this.")


def visible_to(caller: Caller) -> str | None:
    """Return the client whose predictions ``caller`` may read; None for all."""
    if caller.may(Permission.READ_ALL_PREDICTIONS):
        return None
    caller.require(Permission.PREDICT)
    return caller.id


def visible_prediction(transaction: Transaction, caller: Caller, prediction_id: str) -> Prediction:
    """Return a prediction that the caller may read; raises `PredictionNotFound`."""
    visible = visible_to(caller)
    prediction = transaction.predictions.get(prediction_id)
    if prediction is None or visible not in {None, prediction.client_id}:
        raise errors.PredictionNotFound(f"No prediction of yours has the id {prediction_id!r}.")
    return prediction


def _check_range(filters: PredictionFilter) -> None:
    first, last = filters.created_from, filters.created_before
    if first is not None and last is not None and first >= last:
        fault = errors.FieldFault("/created_before", "must be later than created_from")
        raise errors.InvalidRequest("The range of time is empty.", [fault])
