"""Report which label set was right, and correct wrong ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.errors import InvalidRequest, ModelUnavailable
from setwise.service.domain.labels import NO_ADDITIONS, UNNAMED, Additions, Catalogue, LabelState
from setwise.service.domain.outcomes import (
    Outcome,
    Sampling,
    UnknownLabel,
    echoes,
    outcome_faults,
    sent_labels,
    unknown_labels,
)
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.webhooks import document_corrected
from setwise.service.services.labels import TakesLabels
from setwise.service.services.predictions import disclose_one, visible_prediction
from setwise.service.stores.database import WallClock
from setwise.service.stores.outcomes import OutcomeRaced
from setwise.service.stores.transaction import Transaction

MOST_RACES = 20
"""Most retries after concurrent reports on the same prediction."""


class OutcomeReport(NamedTuple):
    """A reported outcome as it is stored."""

    outcome: Outcome
    new: bool
    """Whether the report added it."""
    unknown: list[UnknownLabel] | None
    """Labels that neither the active model, the prediction nor the catalogue has; None without a
    model.
    """


@dataclass(frozen=True)
class Outcomes(TakesLabels):
    """Outcomes, which other programs report: the label sets that were right."""

    now: WallClock

    def report(
        self,
        caller: Caller,
        prediction_id: str,
        labels: Sequence[str],
        source: str,
        *,
        sampling: Sampling | None = None,
        strict: bool = False,
        additions: Additions = NO_ADDITIONS,
    ) -> OutcomeReport:
        """Store an outcome.

        A source that repeats its last report changes nothing. A different report is added and
        counts from then on. If another label set was sent, the same transaction queues the
        message ``document.corrected``.

        ``sampling``: The documents on which the source reports; None is what the caller last
        stated for it, or all.

        Raises `PredictionNotFound` if the prediction does not exist or belongs to another client;
        `InvalidRequest` if the labels or the source cannot be stored, or if ``strict`` and a label
        is unknown; `SimilarLabels` if ``strict`` and a new label has near-duplicates;
        `ModelUnavailable` if ``strict`` and the active model is not loaded.
        """
        caller.require(Permission.PREDICT)
        labels = additions.given(labels)
        faults = list(outcome_faults([label for label in labels if label != UNNAMED], source))
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
                        sampling=sampling,
                        strict=strict,
                        additions=additions,
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
        sampling: Sampling | None,
        strict: bool,
        additions: Additions,
    ) -> OutcomeReport:
        prediction = visible_prediction(transaction, caller, prediction_id)
        # A concurrent review and this report must each see the labels that the other sent.
        transaction.reviews.lock(prediction.id)
        facts = transaction.truth.facts(prediction.id)
        before = facts.outcomes
        labels, unknown = self._known(
            transaction, caller, prediction, labels, strict=strict, additions=additions
        )
        same_source = [outcome for outcome in before if outcome.source == source]
        if same_source and same_source[-1].repeats(labels, sampling):
            return OutcomeReport(same_source[-1], new=False, unknown=unknown)
        newest = transaction.outcomes.newest(caller.id, source)
        sent = sent_labels(prediction, facts.annotations, before)
        last, now = facts.last_sent(), self.now()
        outcome = Outcome(
            id=self.new_id(),
            prediction_id=prediction.id,
            number=len(before) + 1,
            labels=tuple(sorted(labels)),
            source=source,
            agreed=prediction.scored.agrees_with(labels),
            reported_by=caller.id,
            created_at=now,
            sampling=sampling or (Sampling.ALL if newest is None else newest.sampling),
            echoes=echoes(
                labels,
                prediction.scored.labels if sent is None else sent,
                now - (prediction if last is None else last).created_at,
                0 if newest is None else newest.echoes,
            ),
        )
        transaction.outcomes.add(outcome, facts)
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

    def _known(
        self,
        transaction: Transaction,
        caller: Caller,
        prediction: Prediction,
        labels: Sequence[str],
        *,
        strict: bool,
        additions: Additions,
    ) -> tuple[Sequence[str], list[UnknownLabel] | None]:
        """Return the labels as they are stored, and the unknown ones.

        Labels that neither the model nor the catalogue has enter the catalogue, as proposed; if
        ``strict``, those marked as new alone.
        """
        if strict:
            labels = self._resolved(
                transaction, caller, prediction, labels, additions, accepted=True
            )
        try:
            vocabulary = dict.fromkeys([*self._model_labels(), *prediction.scored.named])
        except ModelUnavailable:
            return labels, None
        stored = transaction.labels.held([each for each in labels if each not in vocabulary])
        catalogue = Catalogue(vocabulary, stored)
        resolved = catalogue.current_of(labels)
        self._propose(transaction, caller, resolved.proposed, prediction.id)
        accepted = (each.label for each in stored if each.state is LabelState.ACCEPTED)
        names = [*vocabulary, *accepted, UNNAMED]
        return resolved.labels, unknown_labels(resolved.labels, names)

    def page(self, caller: Caller, prediction_id: str) -> list[Outcome]:
        """Return a prediction's outcomes, oldest first; raises `PredictionNotFound`."""
        with self.begin(read_only=True) as transaction:
            prediction = visible_prediction(transaction, caller, prediction_id)
            outcomes = transaction.outcomes.of(prediction.id)
        disclose_one(self.begin, self.now, caller, prediction.id)
        return outcomes
