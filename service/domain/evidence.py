"""Evidence: what is known about a document's label set, and what that counts for.

`truth.check` says what follows from the answers to one document. Whoever asks how good a model is
(certification, breaker, accuracy, recalibration, noise) reads sequences of `CheckedDocument` and
nothing else: which copy of a document counts, and what an unfinished audit counts for, is decided
here alone.
"""

from collections.abc import Collection, Sequence
from datetime import date, datetime
from typing import NamedTuple

from setwise.service.domain.certification import Scorer
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.routing.audits import AuditRole
from setwise.service.domain.routing.copies import Identity, without_copies
from setwise.service.domain.routing.rules import (
    EARLIER_VERSIONS,
    Metadata,
    Rule,
    first_broken,
)
from setwise.service.domain.truth import Check

CONFIDENT = frozenset({Reason.ABOVE_THRESHOLD, Reason.AUDIT})
"""Reasons of documents that are sent unless an audit holds them."""


class CheckedDocument(NamedTuple):
    """A document, a scorer's label set for it, and what has been found so far."""

    id: str
    """That of the prediction."""
    client_id: str
    name: str
    """The client's id of the document or, without one, the prediction's."""
    scorer: Scorer
    """The one that answered."""
    confidence: float
    """That of the set in question, as are the labels: the scorer's own or, in certification, those
    of the scorer that is to be proved.
    """
    decision: Decision
    reason: Reason
    policy_version: str
    created_at: datetime
    role: AuditRole = AuditRole.NONE
    draw: float | None = None
    """What was drawn for the audit; None for predictions from before audits existed."""
    inclusion_probability: float | None = None
    """Probability, before scoring, that a person would read it; None if ``draw`` is."""
    audit_chance: float | None = None
    """As of `Selection`, like the next one."""
    in_rest: bool = False
    cluster: float | None = None
    """As of `Selection`, like the next one; None if ``draw`` is."""
    bands: bytes | None = None
    check: Check | None = None
    """What follows from the answers; None if nobody has answered."""
    reread_rate: float | None = None
    """Probability, whatever the auditor's answer, that a lead reads it after the audit."""
    reread_draw: float | None = None
    """What was drawn for that: a lead reads it if it is below the rate."""
    segment: str | None = None
    """Key of its segment; None if nothing divided documents."""
    labels: tuple[str, ...] = ()
    """Empty unless content was requested."""
    metadata: Metadata | None = None
    """None if it was erased, or content was not requested."""
    own: bool = True
    """Whether the set in question is that of the model that answered."""
    held_back: bool = False
    """Whether the model that answered kept it from audits."""
    uncalibrated: bool = False
    """Nothing had taught the model how sure to be."""
    earlier_versions: int = 0
    """As of `Prediction`."""

    @property
    def facts(self) -> Metadata:
        """What rules look at besides the labels."""
        metadata = self.metadata or {}
        return {**metadata, EARLIER_VERSIONS: self.earlier_versions}

    @property
    def documents(self) -> int:
        """One, as a `Cell` counts several."""
        return 1

    # What people and other programs say of the set that was answered.

    @property
    def reviewer_agreed(self) -> bool | None:
        """Whether people say that the set is right; None if nobody has answered."""
        return None if self.check is None else self.check.reviewer_agreed

    @property
    def outcome_agreed(self) -> bool | None:
        """Whether the last outcome says so; None without one."""
        return None if self.check is None else self.check.outcome_agreed

    @property
    def right(self) -> bool | None:
        """Whether the set is right by the last outcome or, without one, by people."""
        return None if self.check is None else self.check.right

    @property
    def truth(self) -> tuple[str, ...]:
        """The right set; empty if nobody knows it."""
        return () if self.check is None else self.check.labels or ()

    @property
    def reread(self) -> bool | None:
        """Whether a second person has read what the first reader agreed with; see `Check`."""
        return None if self.check is None else self.check.reread

    @property
    def first_shown(self) -> bool | None:
        """Whether the first reader saw a suggestion; None before the first reading."""
        return None if self.check is None else self.check.first_shown

    # What the audit says of the set in question.

    @property
    def auditor_agrees(self) -> bool | None:
        """Whether the auditor's labels are the set in question; None before the audit."""
        check = self.check
        return None if check is None else self._agrees(check.audit_agreed, check.audit_labels)

    @property
    def lead_agrees(self) -> bool | None:
        """Whether a lead's labels are the set in question; None if no lead has read it."""
        check = self.check
        return None if check is None else self._agrees(check.lead_agreed, check.lead_labels)

    @property
    def audited_set(self) -> tuple[str, ...] | None:
        """The set that people found right in its audit; None before the audit."""
        check = self.check
        if check is None:
            return None
        return check.audit_labels if check.lead_labels is None else check.lead_labels

    def _agrees(self, with_answer: bool | None, labels: Collection[str] | None) -> bool | None:
        if self.own or labels is None:
            return with_answer
        return set(labels) == set(self.labels)

    @property
    def answered(self) -> bool:
        """Whether anything is known from its audit, finished or not."""
        read = self.auditor_agrees is not None or self.lead_agrees is not None
        return read or self.held_back

    @property
    def found_right(self) -> bool | None:
        """Whether the audit found the set right; None until the audit has ended.

        It has not while a contradiction waits for a lead's decision, or an agreement for the second
        reading for which it was drawn.
        """
        if self.lead_agrees is not None:
            return self.lead_agrees
        waits = self.check is not None and self.check.waits
        return True if self.auditor_agrees and not waits else None

    @property
    def found_wrong(self) -> bool | None:
        """Whether the set counts as wrong in a proof; None until that is known.

        So does a contradiction that no lead has decided on: leaving it out would favour the model.
        So would counting an agreement that a lead has yet to read again. What could not be audited
        is wrong.
        """
        if self.held_back or self.contradiction_waits:
            return True
        return None if self.found_right is None else not self.found_right

    @property
    def contradiction_waits(self) -> bool:
        """Whether the auditor contradicts the set and no lead has decided."""
        return self.auditor_agrees is False and self.lead_agrees is None

    @property
    def drawn_again(self) -> bool:
        """Whether a lead reads it after the audit, whatever the auditor answers."""
        rate, draw = self.reread_rate, self.reread_draw
        return rate is not None and draw is not None and draw < rate

    @property
    def agreement_drawn(self) -> bool:
        """Whether the auditor agrees and a lead reads it, or has read it, nevertheless."""
        return self.drawn_again and self.auditor_agrees is True

    @property
    def read_again(self) -> bool:
        """Whether a lead has read it although the auditor agreed."""
        return self.agreement_drawn and self.found_right is not None

    @property
    def overlooked(self) -> bool:
        """Whether a lead found wrong what the auditor agreed with."""
        return self.agreement_drawn and self.found_right is False

    @property
    def errors(self) -> tuple[bool, bool]:
        """Whether an error was found, and whether the auditor missed it.

        What is not known counts against the model.
        """
        if self.found_wrong is False:
            return False, False
        return not self.agreement_drawn, self.agreement_drawn

    @property
    def stands_for(self) -> float:
        """How many errors it counts for if it counts as wrong.

        An agreement that a lead finds wrong stands for all those that were not drawn: ten if one in
        ten is. So errors that auditors overlook count in full on average.
        """
        return 1.0 / self.reread_rate if self.agreement_drawn and self.reread_rate else 1.0

    @property
    def ended_at(self) -> datetime | None:
        """When the audit ended; None until then."""
        ended = self.check is not None and self.found_right is not None
        return self.check.decided_at if self.check is not None and ended else None

    def overdue(self, read_by: datetime) -> bool:
        """Return whether the audit has not ended, though it was predicted before ``read_by``."""
        return self.found_right is None and self.created_at <= read_by

    def counts_as_right(self, read_by: datetime) -> bool:
        """Return how the detectors of drift bet on it.

        An audit that finds a fault takes longer, because a lead decides on it. In the order in
        which audits end, faults would come in clusters, and the detector's bound would not hold.
        It therefore takes audits in the order of the predictions, and unfinished ones as right: a
        fault found later only raises the statistic, so the bound holds. It must not wait forever,
        or an unread audit would hide a fault: an overdue audit, or second reading of one, counts
        as wrong.
        """
        if self.held_back:
            return False
        return self.found_right is True or (self.found_right is None and not self.overdue(read_by))

    def passes(self, rules: Sequence[Rule]) -> bool:
        """Return whether the rules would let the set be sent."""
        return (
            self.reason is not Reason.OUT_OF_DOMAIN
            and first_broken(rules, self.labels, self.facts) is None
        )

    @property
    def identity(self) -> Identity:
        """What its copies share."""
        return Identity(self.client_id, self.name, self.cluster, self.bands)


def copies_of(documents: Sequence[CheckedDocument]) -> list[list[CheckedDocument]]:
    """Return the copies of each document, in the order in which documents first came.

    Copies are right or wrong together, so that only one of them is evidence.
    """
    places = without_copies([document.identity for document in documents])
    return [[documents[place] for place in copies] for copies in places]


def one_of_each(documents: Sequence[CheckedDocument]) -> list[CheckedDocument]:
    """Return the copy of each document that counts, named and dated as the first one.

    The first copy with an answer counts. The first that ends would more often be one that no lead
    is to read again.
    """
    return [_that_counts(copies) for copies in copies_of(documents)]


def each_message(documents: Sequence[CheckedDocument]) -> list[CheckedDocument]:
    """Return each message once: what is posted again has the same draw.

    Which posting counts is as in `one_of_each`.
    """
    messages: dict[object, list[CheckedDocument]] = {}
    for each in documents:
        messages.setdefault(each.id if each.draw is None else each.draw, []).append(each)
    return [_that_counts(copies) for copies in messages.values()]


def _that_counts(copies: Sequence[CheckedDocument]) -> CheckedDocument:
    first = copies[0]
    found = next((copy for copy in copies if copy.answered), first)
    return found if found is first else found._replace(id=first.id, created_at=first.created_at)


class Cell(NamedTuple):
    """Documents of one day, alike in all else."""

    day: date
    decision: Decision
    reason: Reason
    inclusion_probability: float | None
    """As in `CheckedDocument`, like the rest."""
    in_rest: bool
    reviewer_agreed: bool | None
    outcome_agreed: bool | None
    reread: bool | None
    reread_rate: float | None
    first_shown: bool | None
    documents: int
    """Number of predictions."""
    confidence: float
    """Sum of their confidences."""

    @property
    def right(self) -> bool | None:
        """Whether the sets are right by the last outcome or, without one, by people."""
        return self.reviewer_agreed if self.outcome_agreed is None else self.outcome_agreed


Evidence = Cell | CheckedDocument
"""One document or several alike, and whether they were right."""


def in_view(of: Evidence) -> bool:
    """Return whether all that is known comes from an answer with the suggestion in view.

    People who see a suggestion accept wrong ones too, so such an answer is not the truth.
    """
    return of.first_shown is True and of.outcome_agreed is None


def confident(of: Evidence) -> bool:
    """Return whether the set was sent unless an audit held it."""
    return of.reason in CONFIDENT
