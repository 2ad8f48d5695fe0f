"""Predict a document's label set, route it, record it; read what was recorded."""

from dataclasses import dataclass, replace

from service.domain.delivery import auto_sent
from service.domain.errors import (
    DocumentTooLarge,
    FieldFault,
    Forbidden,
    IdempotencyMismatch,
    InvalidRequest,
    PredictionNotFound,
)
from service.domain.history import Event
from service.domain.people import Caller, Permission
from service.domain.predictions import Decision, Document, Prediction, ScoredSet
from service.domain.reviews import ReviewKind, ReviewState, ReviewTask
from service.domain.text import text_faults
from service.use_cases.paging import check_page
from service.use_cases.ports import (
    Begin,
    Clock,
    IdempotencyKey,
    IdempotencyKeyTaken,
    NewId,
    Page,
    PredictionFilter,
    PredictorSource,
    UnitOfWork,
)

LONGEST_IDEMPOTENCY_KEY = 255
"""Characters; an index holds the key."""


@dataclass(frozen=True)
class Predict:
    """Score one document, decide on it, and store it with what follows and its audit row.

    What follows is a message to other programs if the label set is sent, else a review task.

    The prediction is committed when the call returns. With an idempotency key, however often and
    from however many processes at once the same request comes, one prediction is stored and each
    call gives that one.

    Attributes
    ----------
    max_text_bytes : int
        Longest text that is scored, in bytes of UTF-8.
    """

    predictors: PredictorSource
    begin: Begin
    now: Clock
    new_id: NewId
    max_text_bytes: int = 2_000_000

    def __call__(
        self,
        caller: Caller,
        document: Document,
        *,
        idempotency: IdempotencyKey | None = None,
        request_id: str | None = None,
    ) -> Prediction:
        """Return the stored prediction.

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
        caller.require(Permission.PREDICT)
        self._check(document, idempotency)
        stored = self._replayed(caller, idempotency)
        if stored is not None:
            return stored
        scored = self.predictors.active().score([document])[0]
        try:
            with self.begin() as transaction:
                prediction = self._record(
                    transaction,
                    caller,
                    document,
                    scored,
                    idempotency=idempotency,
                    request_id=request_id,
                )
                transaction.commit()
        except IdempotencyKeyTaken:
            stored = self._replayed(caller, idempotency)
            if stored is None:  # taken, yet not there: nothing that a caller could act on
                raise
            return stored
        return prediction

    def _check(self, document: Document, idempotency: IdempotencyKey | None) -> None:
        if document.text is not None:
            size = len(document.text.encode("utf-8", "surrogatepass"))
            if size > self.max_text_bytes:
                raise DocumentTooLarge(
                    f"The text takes {size} bytes of UTF-8; at most {self.max_text_bytes} are "
                    "scored. Send its parts as documents of their own."
                )
        faults = list(document.faults(metadata_pointer="/metadata"))
        if idempotency is not None:
            faults += text_faults(
                idempotency.key, "/header/Idempotency-Key", longest=LONGEST_IDEMPOTENCY_KEY
            )
        if faults:
            raise InvalidRequest("The document cannot be predicted as it stands.", faults)

    def _replayed(self, caller: Caller, idempotency: IdempotencyKey | None) -> Prediction | None:
        if idempotency is None:
            return None
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

    def _record(
        self,
        transaction: UnitOfWork,
        caller: Caller,
        document: Document,
        scored: ScoredSet,
        *,
        idempotency: IdempotencyKey | None,
        request_id: str | None,
    ) -> Prediction:
        policy = transaction.policies.current()
        decision, reason = policy.decide(scored)
        prediction = Prediction(
            id=self.new_id(),
            client_id=caller.id,
            document=document,
            scored=scored,
            decision=decision,
            reason=reason,
            threshold=policy.threshold,
            policy_version=policy.version,
            created_at=self.now(),
        )
        transaction.predictions.add(prediction, idempotency=idempotency)
        if decision is Decision.REVIEW:
            transaction.reviews.add(
                ReviewTask(
                    id=self.new_id(),
                    prediction=prediction,
                    kind=ReviewKind.REVIEW,
                    state=ReviewState.WAITING,
                    version=1,
                    created_at=prediction.created_at,
                )
            )
        else:
            transaction.outbox.add(auto_sent(prediction, self.new_id()))
        transaction.audit_trail.add(
            Event.by(
                caller,
                "prediction.created",
                prediction.id,
                id=self.new_id(),
                at=prediction.created_at,
                request_id=request_id,
                decision=decision.value,
                reason=reason.value,
                confidence=scored.confidence,
                threshold=policy.threshold,
                model_version=scored.model_version,
                calibrator_version=scored.calibrator_version,
                policy_version=policy.version,
            )
        )
        return prediction


@dataclass(frozen=True)
class GetPrediction:
    """Read one prediction; a client sees its own."""

    begin: Begin

    def __call__(self, caller: Caller, prediction_id: str) -> Prediction:
        """Return it; raises `PredictionNotFound` also where the caller may not know of it."""
        visible_to = _visible_to(caller)
        with self.begin(read_only=True) as transaction:
            prediction = transaction.predictions.get(prediction_id)
        if prediction is None or visible_to not in {None, prediction.client_id}:
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
        visible_to = _visible_to(caller)
        if visible_to is not None:
            if wanted.client_id not in {None, visible_to}:
                raise Forbidden("A client key lists its own predictions only.")
            wanted = replace(wanted, client_id=visible_to)
        check_page(after, limit)
        _check_range(wanted)
        with self.begin(read_only=True) as transaction:
            return transaction.predictions.page(wanted, after=after, limit=limit)


def _visible_to(caller: Caller) -> str | None:
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
