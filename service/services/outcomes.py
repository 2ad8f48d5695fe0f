"""Take in what turned out to be right, and tell other programs where they were told wrong."""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.service.domain.audit_trail import Event
from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.errors import InvalidRequest, PredictionNotFound
from setwise.service.domain.outcomes import Outcome, outcome_faults, sent_labels
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.webhooks import document_corrected
from setwise.service.services.predictions import visible_to
from setwise.service.stores.clock import Clock
from setwise.service.stores.identity import NewId
from setwise.service.stores.outcomes import OutcomeRaced
from setwise.service.stores.transaction import Transaction, Transactions

MOST_RACES = 20
"""Reports on one prediction at the same instant, each of which makes the others start again."""


@dataclass(frozen=True)
class ReportOutcome:
    """Store the label set that turned out to be right for one of the caller's documents.

    A set that was sent, by itself or after a review, and is found wrong is corrected: the message
    ``document.corrected`` is written in the same transaction.
    """

    begin: Transactions
    now: Clock
    new_id: NewId

    def __call__(
        self,
        caller: Caller,
        prediction_id: str,
        labels: Sequence[str],
        source: str,
        *,
        request_id: str | None = None,
    ) -> tuple[Outcome, bool]:
        """Return the stored outcome, and whether it is new.

        What a source has said last it may say again, and nothing changes; when it changes its mind
        the new outcome is added, and counts from then on.

        Raises
        ------
        PredictionNotFound
            If there is no such prediction, or it is another client's.
        InvalidRequest
            If the labels or the source cannot be kept.
        """
        caller.require(Permission.PREDICT)
        faults = list(outcome_faults(labels, source))
        if faults:
            raise InvalidRequest("The outcome cannot be stored like this.", faults)
        for _ in range(MOST_RACES):
            try:
                with self.begin() as transaction:
                    return self._report(
                        transaction,
                        caller,
                        prediction_id,
                        labels=labels,
                        source=source,
                        request_id=request_id,
                    )
            except OutcomeRaced:
                continue
        raise RuntimeError(f"{MOST_RACES} outcomes of one prediction were reported at once")

    def _report(
        self,
        transaction: Transaction,
        caller: Caller,
        prediction_id: str,
        *,
        labels: Sequence[str],
        source: str,
        request_id: str | None,
    ) -> tuple[Outcome, bool]:
        prediction = _readable(transaction, caller, prediction_id)
        # Of this and a review that is settled at the same time, one must know what the other told.
        transaction.reviews.lock(prediction.id)
        before = transaction.outcomes.of(prediction.id)
        same_source = [outcome for outcome in before if outcome.source == source]
        if same_source and set(same_source[-1].labels) == set(labels):
            return same_source[-1], False
        outcome = Outcome(
            id=self.new_id(),
            prediction_id=prediction.id,
            number=len(before) + 1,
            labels=tuple(sorted(labels)),
            source=source,
            agreed=set(labels) == set(prediction.scored.labels),
            reported_by=caller.id,
            created_at=self.now(),
        )
        transaction.outcomes.add(outcome)
        sent = sent_labels(prediction, transaction.reviews.annotations_of(prediction.id), before)
        wrong = sent is not None and set(sent) != set(labels)
        if sent is not None and wrong:
            transaction.outbox.add(document_corrected(prediction, outcome, sent, self.new_id()))
        transaction.audit_trail.add(
            Event.by(
                caller,
                "outcome.reported",
                prediction.id,
                id=self.new_id(),
                at=outcome.created_at,
                request_id=request_id,
                outcome_id=outcome.id,
                source=source,
                agreed=outcome.agreed,
                corrects=wrong,
            )
        )
        transaction.commit()
        return outcome, True


@dataclass(frozen=True)
class ListOutcomes:
    """List the outcomes of one prediction; a client sees those of its own."""

    begin: Transactions

    def __call__(self, caller: Caller, prediction_id: str) -> list[Outcome]:
        """Return them in the order in which they came; raises `PredictionNotFound`."""
        with self.begin(read_only=True) as transaction:
            prediction = _readable(transaction, caller, prediction_id)
            return transaction.outcomes.of(prediction.id)


def _readable(transaction: Transaction, caller: Caller, prediction_id: str) -> Prediction:
    visible = visible_to(caller)
    prediction = transaction.predictions.get(prediction_id)
    if prediction is None or visible not in {None, prediction.client_id}:
        raise PredictionNotFound(f"No prediction of yours has the id {prediction_id!r}.")
    return prediction
