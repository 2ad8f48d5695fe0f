"""What is right: all that follows from the answers to a prediction.

Annotations and outcomes are facts. `check` alone derives from them whether a label set was right;
the table `checks` holds what it returns, and whoever asks reads that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from setwise.service.domain.outcomes import Outcome, last_word
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reviews import Annotation, ReviewKind


class Judge(StrEnum):
    """Who decided which label set is right."""

    OUTCOME = "outcome"
    """Another program reported it."""
    LEAD = "lead"
    AUDITOR = "auditor"
    """A person who saw no suggestion, to check the model."""
    REVIEWER = "reviewer"


class CheckedPrediction(NamedTuple):
    """What a check repeats of its prediction, to be found by."""

    id: str
    segment: str | None
    model_version: str | None
    calibrator_version: str | None
    confidence: float | None
    decision: Decision
    reason: Reason
    inclusion_probability: float | None
    in_rest: bool
    created_at: datetime


class AnswerFacts(NamedTuple):
    """What people and other programs said about a prediction."""

    prediction: CheckedPrediction
    gold_reread_rate: float
    """That of the policy that routed it, for audits without a rate of their own."""
    annotations: Sequence[Annotation] = ()
    """Oldest first."""
    outcomes: Sequence[Outcome] = ()
    """By number."""

    @property
    def check(self) -> "Check | None":
        """What is known about the prediction; None if nobody has answered."""
        rate = self.gold_reread_rate
        return check(self.prediction.id, self.annotations, self.outcomes, gold_reread_rate=rate)

    def last_sent(self, *, without: str = "") -> Annotation | Outcome | None:
        """Return the answer whose labels were sent last, or None.

        ``without``: Id of an answer to leave out.
        """
        return last_word(
            (annotation for annotation in self.annotations if annotation.id != without),
            (outcome for outcome in self.outcomes if outcome.id != without),
            sent=self.prediction.decision is Decision.AUTO,
        )

    def with_annotation(self, annotation: Annotation) -> "AnswerFacts":
        """Return the facts with one more annotation."""
        annotations = sorted([*self.annotations, annotation], key=lambda each: each.id)
        return self._replace(annotations=annotations)

    def with_outcome(self, outcome: Outcome) -> "AnswerFacts":
        """Return the facts with one more outcome."""
        return self._replace(outcomes=[*self.outcomes, outcome])


class PersonAnswer(NamedTuple):
    """What matters of a person's answer to whether the predicted set is right."""

    group: str
    """Id of the person's group at that time."""
    agreed: bool
    shown: bool
    """Whether it was given with a suggestion in view."""


@dataclass(frozen=True)
class Check:
    """What is known about whether a prediction is right; None where nobody has answered."""

    prediction_id: str
    contradicted: bool
    """Whether any person, or any outcome, gave other labels than the model."""
    answered_at: datetime
    """When the first person answered, or the last outcome came if that was earlier."""
    labels: tuple[str, ...] | None = None
    """The right set."""
    decided_by: Judge | None = None
    """Whose answer that is."""
    reviewer_agreed: bool | None = None
    """Whether people say that the predicted set is right; see `deciding`."""
    decided_at: datetime | None = None
    """When the answer came by which they say so."""
    outcome_agreed: bool | None = None
    """Whether the last outcome that counts says that it is right. It counts before people."""
    reported_at: datetime | None = None
    """When that outcome came."""
    waits: bool = False
    """Whether the audit waits for a lead: for a decision if the auditor contradicted the model,
    else for the second reading for which it was drawn.
    """
    audit_agreed: bool | None = None
    """Whether the auditor agreed with the predicted set."""
    audit_labels: tuple[str, ...] | None = None
    """What the auditor answered."""
    lead_agreed: bool | None = None
    """Whether a lead agreed with the predicted set."""
    lead_labels: tuple[str, ...] | None = None
    """What the lead answered."""
    reread: bool | None = None
    """Whether somebody has read the document although the first reader agreed: a lead after an
    audit, a second person without a suggestion after a review with one. None unless the first
    reader agreed, and for other reviews.
    """
    reread_rate: float | None = None
    """Probability, whatever the auditor's answer, that a lead reads the document after an audit."""
    reread_draw: float | None = None
    """What was drawn for that: a lead reads the document if it is below the rate."""
    first_id: str | None = None
    """The answer of the auditor or reviewer; before one came, that of a blind second reader."""
    first_reviewer: str | None = None
    first_group: str | None = None
    first_agreed: bool | None = None
    first_shown: bool | None = None
    """Whether it was given with a suggestion in view."""
    reopened_agreed: bool | None = None
    """Whether the last answer after a reopening is the predicted set. It is no evidence: somebody
    doubted the document.
    """

    @property
    def first(self) -> PersonAnswer | None:
        """The answer of the auditor or reviewer, if there is one."""
        if self.first_group is None or self.first_agreed is None or self.first_shown is None:
            return None
        return PersonAnswer(self.first_group, self.first_agreed, self.first_shown)

    @property
    def right(self) -> bool | None:
        """Whether the predicted set is right."""
        return self.reviewer_agreed if self.outcome_agreed is None else self.outcome_agreed


def check(
    prediction_id: str,
    annotations: Sequence[Annotation],
    outcomes: Sequence[Outcome] = (),
    *,
    gold_reread_rate: float = 0.0,
) -> Check | None:
    """Return what is known about a prediction; None if nobody has answered.

    ``annotations``: Oldest first.
    ``outcomes``: By number.
    ``gold_reread_rate``: That of the policy, for audits without a rate of their own.
    """
    if not annotations and not outcomes:
        return None
    counting = [outcome for outcome in outcomes if outcome.counts][-1:]
    answers: Sequence[Annotation | Outcome] = [*annotations, *counting] or outcomes[-1:]
    answered = Check(
        prediction_id=prediction_id,
        contradicted=contradicted(annotations, outcomes),
        answered_at=min(answer.created_at for answer in answers),
    )
    answered = _with_people(answered, annotations, gold_reread_rate)
    return _with_outcome(answered, counting)


def _with_people(
    answered: Check, annotations: Sequence[Annotation], gold_reread_rate: float
) -> Check:
    """Return a check with what people answered."""
    of_kind = {annotation.kind: annotation for annotation in annotations}
    audit, lead = of_kind.get(ReviewKind.AUDIT), of_kind.get(ReviewKind.ADJUDICATION)
    review, second = of_kind.get(ReviewKind.REVIEW), of_kind.get(ReviewKind.OVERLAP)
    first, reopened = audit or review or second, of_kind.get(ReviewKind.REOPENED)
    decision = deciding(annotations)
    if decision is not None:
        answered = replace(
            answered,
            labels=decision.labels,
            decided_by=_JUDGES.get(decision.kind, Judge.REVIEWER),
            reviewer_agreed=decision.agreed,
            decided_at=decision.created_at,
        )
    if audit is not None:
        own = audit.reread_rate
        answered = replace(
            answered,
            waits=not audit.settles and lead is None,
            audit_agreed=audit.agreed,
            audit_labels=audit.labels,
            reread=lead is not None if audit.agreed else None,
            reread_rate=gold_reread_rate if own is None else own,
            reread_draw=audit.reread_draw,
        )
    if lead is not None:
        answered = replace(answered, lead_agreed=lead.agreed, lead_labels=lead.labels)
    if first is not None:
        answered = replace(
            answered,
            first_id=first.id,
            first_reviewer=first.reviewer,
            first_group=first.group,
            first_agreed=first.agreed,
            first_shown=first.suggestion_shown,
        )
    if first is not None and first is review and first.agreed and first.suggestion_shown:
        answered = replace(answered, reread=second is not None)
    if reopened is not None:
        answered = replace(answered, reopened_agreed=reopened.agreed)
    return answered


def _with_outcome(answered: Check, outcomes: Sequence[Outcome]) -> Check:
    """Return a check with the last outcome that counts, which decides."""
    if not outcomes:
        return answered
    last = outcomes[-1]
    return replace(
        answered,
        labels=last.labels,
        decided_by=Judge.OUTCOME,
        outcome_agreed=last.agreed,
        reported_at=last.created_at,
    )


def deciding(annotations: Iterable[Annotation]) -> Annotation | None:
    """Return the annotation by which people say whether a prediction is right, or None.

    A lead's decides before those that settled the document; among several, one that disagrees with
    the model. An audit that waits for a lead counts with the auditor's answer: leaving out only
    agreements, or only disagreements, would favour one side. A reopening does not count: a person
    doubted the document, and errors would count more often than others. A blind second reading
    counts beside the review that it repeats.
    """
    kinds = {annotation.kind for annotation in annotations}
    repeats = {ReviewKind.OVERLAP} if ReviewKind.REVIEW in kinds else set[ReviewKind]()
    counting = [
        annotation
        for annotation in annotations
        if annotation.kind is not ReviewKind.REOPENED
        and (annotation.settles or annotation.kind in {ReviewKind.AUDIT, *repeats})
    ]
    leads = [each for each in counting if each.kind is ReviewKind.ADJUDICATION]
    return min(
        leads or counting, key=lambda each: (each.agreed is not False, each.id), default=None
    )


def contradicted(annotations: Iterable[Annotation], outcomes: Iterable[Outcome]) -> bool:
    """Return whether a person or an outcome gave other labels than the model."""
    answers: list[Annotation | Outcome] = [*annotations, *outcomes]
    return any(answer.agreed is False for answer in answers)


_JUDGES = {ReviewKind.ADJUDICATION: Judge.LEAD, ReviewKind.AUDIT: Judge.AUDITOR}
