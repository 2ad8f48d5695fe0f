"""Report which label set was right, and correct wrong ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.errors import FieldFault, InvalidRequest, ModelUnavailable
from setwise.service.domain.outcomes import (
    Outcome,
    UnknownLabel,
    outcome_faults,
    sent_labels,
    unknown_labels,
)
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.text import question
from setwise.service.domain.webhooks import document_corrected
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.ports import PredictorSource
from setwise.service.services.predictions import disclose_one, visible_prediction
from setwise.service.stores.outcomes import OutcomeRaced
from setwise.service.stores.transaction import Transaction
from setwise.spelling import spelled

MOST_RACES = 20
"""Most retries after concurrent reports on the same prediction."""


class OutcomeReport(NamedTuple):
    """A reported outcome as it is stored."""

    outcome: Outcome
    new: bool
    """Whether the report added it."""
    unknown: list[UnknownLabel] | None
    """Labels that neither the active model nor the prediction names; None without a model."""


@dataclass(frozen=True)
class Outcomes(Recorded):
    """Outcomes, which other programs report: the label sets that were right."""

    predictors: PredictorSource
    """Its active model knows the usual labels."""

    def report(
        self,
        caller: Caller,
        prediction_id: str,
        labels: Sequence[str],
        source: str,
        *,
        strict: bool = False,
    ) -> OutcomeReport:
        """Store an outcome.

        A source that repeats its last report changes nothing. A different report is added and
        counts from then on. If another label set was sent, the same transaction queues the
        message ``document.corrected``.

        Raises `PredictionNotFound` if the prediction does not exist or belongs to another client;
        `InvalidRequest` if the labels or the source cannot be stored, or if ``strict`` and a label
        is unknown; `ModelUnavailable` if ``strict`` and no model is active.
        """
        caller.require(Permission.PREDICT)
        labels = list(map(spelled, labels))
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
                        strict=strict,
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
        strict: bool,
    ) -> OutcomeReport:
        prediction = visible_prediction(transaction, caller, prediction_id)
        unknown = self._unknown(prediction, labels, strict=strict)
        # A concurrent review and this report must each see the labels that the other sent.
        transaction.reviews.lock(prediction.id)
        facts = transaction.truth.facts(prediction.id)
        before = facts.outcomes
        same_source = [outcome for outcome in before if outcome.source == source]
        if same_source and set(same_source[-1].labels) == set(labels):
            return OutcomeReport(same_source[-1], new=False, unknown=unknown)
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
        transaction.outcomes.add(outcome, facts)
        sent = sent_labels(prediction, facts.annotations, before)
        wrong = sent is not None and set(sent) != set(labels)
        if sent is not None and wrong:
            transaction.outbox.add(document_corrected(prediction, outcome, sent, self.new_id()))
        self._note(
            transaction,
            caller,
            "outcome.reported",
            prediction.id,
            outcome_id=outcome.id,
            source=source,
            agreed=outcome.agreed,
            corrects=wrong,
        )
        return OutcomeReport(outcome, new=True, unknown=unknown)

    def _unknown(
        self, prediction: Prediction, labels: Sequence[str], *, strict: bool
    ) -> list[UnknownLabel] | None:
        try:
            vocabulary = self.predictors.active().labels
        except ModelUnavailable:
            if strict:
                raise
            return None
        unknown = unknown_labels(labels, [*vocabulary, *prediction.scored.named])
        if strict and unknown:
            places = {label: place for place, label in enumerate(labels)}
            raise InvalidRequest(
                "The outcome names labels that the model does not know.",
                [
                    FieldFault(
                        f"/labels/{places[label.label]}",
                        f"{label.label!r} is not a label of the model{question(label.nearest)}",
                    )
                    for label in unknown
                ],
            )
        return unknown

    def page(self, caller: Caller, prediction_id: str) -> list[Outcome]:
        """Return a prediction's outcomes, oldest first; raises `PredictionNotFound`."""
        with self.begin(read_only=True) as transaction:
            prediction = visible_prediction(transaction, caller, prediction_id)
            outcomes = transaction.outcomes.of(prediction.id)
        disclose_one(self.begin, self.now, caller, prediction.id)
        return outcomes
