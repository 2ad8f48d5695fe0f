"""Documents as people look for them: every prediction with what became of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Self

from setwise.characters import has_runs, searched_form
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.labels import UNNAMED, shown_set
from setwise.service.domain.outcomes import Outcome, Resolution, Sampling, sent_labels
from setwise.service.domain.predictions import (
    Candidate,
    Decision,
    Marginal,
    Prediction,
    Reason,
)
from setwise.service.domain.reviews import Annotation, ReviewTask, Skip
from setwise.service.domain.routing.audits import AuditRole
from setwise.service.domain.routing.segments import Segment, value_of
from setwise.service.domain.text import is_id, text_faults
from setwise.service.domain.truth import contradicted
from setwise.service.domain.webhooks import Delivery, DeliveryState, Message
from setwise.shown import Probability, Shown
from setwise.spelling import spelled

LONGEST_COMMENT = 4_000
MOST_LABELS = 20
"""Most labels that one search names."""

LISTS = {
    "id": "ids",
    "label": "labels",
    "without_label": "without_labels",
    "final_label": "final_labels",
    "without_final_label": "without_final_labels",
}
"""Fields of a filter with several values, by the names that addresses give them."""


class DocumentState(StrEnum):
    """What became of a document; it may be in more than one state."""

    SENT = "sent"
    """Sent automatically."""
    WAITING = "waiting"
    """A review of it is open."""
    HELD = "held"
    """A person is reviewing it."""
    SKIPPED = "skipped"
    """Reviewers have skipped it, and a lead decides."""
    REVIEWED = "reviewed"
    """A person has answered."""
    CONTRADICTED = "contradicted"
    """A person or an outcome gave other labels than the model."""
    FLAGGED = "flagged"
    """A person asked for attention, and the thread is not resolved."""


class Audited(StrEnum):
    """What an audit found."""

    DRAWN = "drawn"
    AGREED = "agreed"
    CONTRADICTED = "contradicted"


class ModelDifference(StrEnum):
    """How another model compares with the one that answered."""

    BOTH_SEND = "both-send"
    ONLY_ACTIVE_SENDS = "only-active-sends"
    ONLY_CANDIDATE_SENDS = "only-candidate-sends"
    NEITHER_SENDS = "neither-sends"
    LABELS = "labels"
    """The label sets differ."""


class Order(StrEnum):
    """Order of a list of documents; by confidence, those that came before a model are left out."""

    NEWEST = "newest"
    OLDEST = "oldest"
    LEAST_CONFIDENT = "least-confident"
    MOST_CONFIDENT = "most-confident"


@dataclass(frozen=True)
class DocumentFilter:
    """Which documents to list; None does not restrict."""

    text: str | None = None
    """Words that the text has, in any order, or parts of them: `fev` and `ver` find `fever`. In
    quotes: whole words, side by side. Accents do not count.
    """
    ids: Sequence[str] = ()
    """Ids of predictions; empty for any."""
    document_id: str | None = None
    client_id: str | None = None
    labels: Sequence[str] = ()
    """The predicted set has all of these."""
    without_labels: Sequence[str] = ()
    """The predicted set has none of these."""
    final_labels: Sequence[str] = ()
    """The set that was sent last has all of these."""
    without_final_labels: Sequence[str] = ()
    """A set was sent, and the last one has none of these."""
    state: DocumentState | None = None
    audited: Audited | None = None
    decision: Decision | None = None
    reason: Reason | None = None
    segment: str | None = None
    """Its value, as in ``north``."""
    of_segment: Segment | None = None
    """The documents of the segment; services set it."""
    confidence_from: float | None = None
    """Included."""
    confidence_to: float | None = None
    """Excluded."""
    model_version: str | None = None
    calibrator_version: str | None = None
    reviewer: str | None = None
    """Id of a person who has answered."""
    group: str | None = None
    """Id of the group of a person who has answered, at that time."""
    candidate: str | None = None
    """Id of another model that was compared on the document."""
    difference: ModelDifference | None = None
    """What that model's answer is like."""
    undelivered_to: str | None = None
    """Id of a webhook that did not accept a message about it."""
    assigned_to: str | None = None
    """Id of the person who holds a review of it, or alone is given one."""
    prioritized: bool | None = None
    """Whether it stands before the documents of normal priority."""
    beyond_model: bool | None = None
    """Whether the set that was sent last has a label that the active model lacks."""
    created_from: datetime | None = None
    created_before: datetime | None = None

    def __post_init__(self) -> None:
        """Spell the names of labels as documents have them."""
        for name in ("labels", "without_labels", "final_labels", "without_final_labels"):
            object.__setattr__(self, name, tuple(map(spelled, getattr(self, name))))

    def faults(self) -> Iterator[FieldFault]:
        """Yield why nothing can match.

        >>> [fault.detail for fault in DocumentFilter(text='""').faults()]
        ['has no word; write at least one letter or digit']
        """
        if self.text is not None and not phrases(self.text):
            yield FieldFault("/text", "has no word; write at least one letter or digit")
        if not all(map(is_id, self.ids)):
            yield FieldFault("/id", "is not the id of a prediction")
        for name, field in LISTS.items():
            labels = getattr(self, field)
            if field != "ids" and len(labels) > MOST_LABELS:
                yield FieldFault(f"/{name}", f"names {len(labels)} labels; at most {MOST_LABELS}")
        if self.difference is not None and self.candidate is None:
            yield FieldFault("/difference", "needs a candidate to compare with")
        for name in ("candidate", "undelivered_to"):
            instant = getattr(self, name)
            if instant is not None and not is_id(instant):
                yield FieldFault(f"/{name}", "is no id")
        low, high = self.confidence_from, self.confidence_to
        if low is not None and high is not None and low >= high:
            yield FieldFault("/confidence_to", "must be greater than confidence_from")
        first, last = self.created_from, self.created_before
        if first is not None and last is not None and first >= last:
            yield FieldFault("/created_before", "must be later than created_from")


def phrases(text: str) -> list[str]:
    """Return what the searched form of a text must hold: parts of words, whole words if quoted.

    In a script without spaces words have no ends, so that what is quoted is a part too.

    >>> phrases('fev "dry cough" -- J18.9 "发烧"')
    ['fev', ' dry cough ', 'j18.9', '发烧']
    """
    forms = []
    for place, part in enumerate(text.split('"')):
        if place % 2:
            form = searched_form(part)
            forms.append(form[has_runs(form[1:2]) : len(form) - has_runs(form[-2:-1])])
        else:
            forms += [searched_form(word).strip() for word in part.split()]
    return [form for form in forms if form]


@dataclass(frozen=True, slots=True)
class ShownPrediction(Shown):
    """A document's predicted label set, its confidence and the decision."""

    id: str
    document_id: str | None
    labels: tuple[str, ...] | None
    """The likeliest set; empty when that is the empty set, null without a model."""
    confidence: Probability | None
    """null without a model."""
    decision: Decision
    """`auto`: sent; `review`: waits for a person."""
    reason: Reason
    """Why; with `no_model` there was no model yet, and a person gives the labels."""
    threshold: Probability | None
    """What the confidence was compared with."""
    rule: str | None
    """Name of the policy's rule that held it back."""
    earlier_versions: int
    """Other versions that you posted within 30 days before and that were not sent: with the same id
    or, but for numbers and punctuation, the same words, and with another confidence. Somebody may
    be posting a document until it is sent; a rule of kind `versions` reviews it.
    """
    segment: str | None
    """Its value of `segment_by`, whose threshold decided; one that the policy does not list is
    decided as `other`. null without segments.
    """
    candidates: tuple[Candidate, ...]
    """Likeliest first; the first is the prediction. Empty without a model."""
    marginals: tuple[Marginal, ...]
    """Likeliest first, negligible ones left out."""
    model_version: str | None
    calibrator_version: str | None
    policy_version: str
    created_at: datetime

    @classmethod
    def of(cls, prediction: Prediction) -> Self:
        """Return a prediction as it is shown, without its document."""
        scored = prediction.scored
        return cls(
            prediction.id,
            prediction.document.id,
            scored.labels,
            scored.confidence,
            prediction.decision,
            prediction.reason,
            prediction.threshold,
            prediction.rule,
            prediction.earlier_versions,
            value_of(prediction.segment),
            scored.candidates,
            scored.marginals,
            scored.model_version,
            scored.calibrator_version,
            prediction.policy_version,
            prediction.created_at,
        )


class ListedDocument(NamedTuple):
    """A document in a list."""

    prediction: Prediction
    waiting: bool
    """Whether a review of it is open."""
    annotations: Sequence[Annotation]
    outcomes: Sequence[Outcome]
    """Both in the order of their creation."""
    assigned_to: Sequence[str] = ()
    """Ids of the people to whom open reviews of it are assigned."""
    prioritized: bool = False
    """Whether an open review of it stands before the documents of normal priority."""
    skips: Sequence[Skip] = ()
    """Who skipped open reviews of it, and why."""

    @property
    def contradicted(self) -> bool:
        """Whether a person or an outcome gave other labels than the model."""
        return contradicted(self.annotations, self.outcomes)

    @property
    def final_labels(self) -> tuple[str, ...] | None:
        """The label set that was sent last; None if none was."""
        return sent_labels(self.prediction, self.annotations, self.outcomes)


@dataclass(frozen=True)
class DocumentRow(Shown):
    """A document in a list, with what became of it."""

    id: str
    """Id of the prediction."""
    document_id: str | None
    client_id: str
    labels: tuple[str, ...] | None
    """The predicted set; null, as the confidence and the versions, without a model."""
    confidence: Probability | None
    decision: Decision
    reason: Reason
    segment: str | None
    """Its value of `segment_by`; null without segments."""
    waiting: bool
    """A review of it is open."""
    assigned_to: tuple[str, ...]
    """Ids of the people who alone are given a review."""
    priority: int
    """0 (normal), 1 (high), 2 (urgent)."""
    due_at: datetime | None
    """When the client needs a person's answer."""
    prioritized: bool
    """A review was put first, or has priority."""
    skips: tuple[Skip, ...]
    """Who skipped an open review of it, and why."""
    answers: int
    """How many people have answered."""
    reviewers: tuple[str, ...]
    """Their ids."""
    contradicted: bool
    """A person or an outcome gave other labels."""
    outcome: tuple[str, ...] | None
    """The set that another program reported last."""
    final_labels: tuple[str, ...] | None
    """The set that was sent last; null if none was."""
    label_missing: bool
    """A label applies besides that has no name."""
    model_version: str | None
    calibrator_version: str | None
    created_at: datetime

    @classmethod
    def of(cls, listed: ListedDocument) -> Self:
        """Return a document with what became of it."""
        prediction, final = listed.prediction, listed.final_labels
        return cls(
            id=prediction.id,
            document_id=prediction.document.id,
            client_id=prediction.client_id,
            labels=prediction.scored.labels,
            confidence=prediction.scored.confidence,
            decision=prediction.decision,
            reason=prediction.reason,
            segment=value_of(prediction.segment),
            waiting=listed.waiting,
            assigned_to=tuple(listed.assigned_to),
            priority=prediction.document.priority,
            due_at=prediction.document.due_at,
            prioritized=listed.prioritized,
            skips=tuple(listed.skips),
            answers=len(listed.annotations),
            reviewers=tuple(dict.fromkeys(each.reviewer for each in listed.annotations)),
            contradicted=listed.contradicted,
            outcome=shown_set(listed.outcomes[-1].labels).labels if listed.outcomes else None,
            final_labels=None if final is None else shown_set(final).labels,
            label_missing=UNNAMED in (final or ()),
            model_version=prediction.scored.model_version,
            calibrator_version=prediction.scored.calibrator_version,
            created_at=prediction.created_at,
        )


class OwnAnswer(NamedTuple):
    """What a person answered, to what, and what was decided."""

    annotation: Annotation
    prediction: Prediction
    resolution: Resolution | None = None
    """What was decided; None while anybody still reads the document, or blindly a copy of it."""
    obstacle: str | None = None
    """Why the person may not correct it; None if theirs is the last word and no review is open."""

    @property
    def id(self) -> str:
        """Id of the answer."""
        return self.annotation.id


class CommentKind(StrEnum):
    """What a comment does."""

    COMMENT = "comment"
    FLAGGED = "flagged"
    """It asks for attention, until its thread is resolved."""
    RESOLVED = "resolved"
    REOPENED = "reopened"
    """It gives the reason why the document is decided again."""


@dataclass(frozen=True)
class Comment(Shown):
    """A comment on a document."""

    id: str
    prediction_id: str
    thread: str
    """Id of the comment that began the thread."""
    kind: CommentKind
    author: str
    """Id of the person or key."""
    text: str
    created_at: datetime
    task_id: str | None = None
    """Id of the review that it opened."""
    name: str | None = None
    """Name of the person or key; looked up for readers."""


class Thread(NamedTuple):
    """Comments that answer each other, oldest first."""

    comments: Sequence[Comment]

    @property
    def flagged(self) -> bool:
        """Whether it asks for attention."""
        marks = (CommentKind.FLAGGED, CommentKind.RESOLVED)
        last = [comment.kind for comment in self.comments if comment.kind in marks][-1:]
        return last == [CommentKind.FLAGGED]


@dataclass(frozen=True)
class NewComments(Shown):
    """A document with comments that you have not read."""

    prediction_id: str
    document_id: str | None
    new: int
    """How many comments you have not read."""


def threads_of(comments: Sequence[Comment]) -> list[Thread]:
    """Return comments by thread, both in the order of their creation."""
    threads: dict[str, list[Comment]] = {}
    for comment in comments:
        threads.setdefault(comment.thread, []).append(comment)
    return [Thread(inside) for inside in threads.values()]


def check_comment(text: str, pointer: str) -> None:
    """Raise `InvalidRequest` if a comment cannot be stored."""
    if faults := text_faults(text, pointer, longest=LONGEST_COMMENT):
        raise InvalidRequest("The comment cannot be stored like this.", faults)


class EventKind(StrEnum):
    """What happened to a document."""

    PREDICTED = "predicted"
    DRAWN = "drawn"
    """For an audit."""
    QUEUED = "queued"
    """A review of it was opened."""
    SKIPPED = "skipped"
    COMMENT = "comment"
    FLAGGED = "flagged"
    RESOLVED = "resolved"
    REOPENED = "reopened"
    """These are comments, too; see `CommentKind`."""
    ANSWERED = "answered"
    OUTCOME = "outcome"
    """Another program reported the right labels."""
    SENT = "sent"
    """Its labels were sent to other programs."""
    DELIVERED = "delivered"
    """A webhook accepted them."""
    UNDELIVERED = "undelivered"
    """A webhook did not, and there are no further attempts."""


def _shown_only(outcome: Outcome) -> str:
    """Return the source of an outcome that neither calibrates nor judges, and why."""
    why = "an echo of what was answered" if outcome.echo else _SAMPLED[outcome.sampling]
    return f"{outcome.source} ({why}; shown, not counted)"


_SAMPLED = {
    Sampling.ONLY_FAILURES: "reports only failures",
    Sampling.ONLY_ON_REQUEST: "reports only on request",
}


@dataclass(frozen=True)
class LifeEvent(Shown):
    """Something that happened to a document."""

    at: datetime
    kind: EventKind
    by: str | None
    """Id of the person or key that did it."""
    name: str | None
    """Name of the person or key."""
    labels: tuple[str, ...] | None
    """As they were given then."""
    label_missing: bool
    """A label applied besides that had no name."""
    agreed: bool | None
    """Whether these are the labels of the model."""
    detail: str | None
    """Kind of the review, type of the message, source of the outcome, role of the audit or id of
    the webhook.
    """
    comment: str | None


class Life(NamedTuple):
    """All that happened to a document."""

    prediction: Prediction
    tasks: Sequence[ReviewTask]
    annotations: Sequence[Annotation]
    outcomes: Sequence[Outcome]
    messages: Sequence[Message]
    deliveries: Sequence[Delivery]
    comments: Sequence[Comment]
    names: Mapping[str, str]
    """Names of the people and keys that took part, by id."""

    def events(self) -> list[LifeEvent]:
        """Return what happened, in order."""
        # Sorting is stable: what happened at one instant stays in this order.
        return sorted(
            [
                *self._routed(),
                *(
                    self._event(
                        comment.created_at,
                        EventKind(comment.kind),
                        comment.author,
                        comment=comment.text,
                    )
                    for comment in self.comments
                ),
                *self._reviewed(),
                *(
                    self._event(
                        outcome.created_at,
                        EventKind.OUTCOME,
                        outcome.reported_by,
                        labels=outcome.written or outcome.labels,
                        agreed=outcome.agreed,
                        detail=outcome.source if outcome.counts else _shown_only(outcome),
                    )
                    for outcome in self.outcomes
                ),
                *self._sent(),
            ],
            key=lambda event: event.at,
        )

    def _event(
        self,
        at: datetime,
        kind: EventKind,
        by: str | None = None,
        *,
        labels: Sequence[str] | None = None,
        agreed: bool | None = None,
        detail: str | None = None,
        comment: str | None = None,
    ) -> LifeEvent:
        shown = shown_set(labels or ())
        return LifeEvent(
            at,
            kind,
            by,
            self.names.get(by or ""),
            None if labels is None else shown.labels,
            shown.label_missing,
            agreed,
            detail,
            comment,
        )

    def _routed(self) -> Iterator[LifeEvent]:
        prediction = self.prediction
        yield self._event(
            prediction.created_at,
            EventKind.PREDICTED,
            prediction.client_id,
            labels=prediction.scored.labels,
        )
        if prediction.selection.role is not AuditRole.NONE:
            yield self._event(
                prediction.created_at, EventKind.DRAWN, detail=prediction.selection.role
            )

    def _reviewed(self) -> Iterator[LifeEvent]:
        # Before the tasks: an answer may open another review at once.
        for annotation in self.annotations:
            yield self._event(
                annotation.created_at,
                EventKind.ANSWERED,
                annotation.reviewer,
                labels=annotation.written or annotation.labels,
                agreed=annotation.agreed,
                detail=annotation.kind,
                comment=annotation.comment,
            )
        for task in self.tasks:
            yield self._event(task.created_at, EventKind.QUEUED, detail=task.kind)
            for skip in task.skips:
                yield self._event(
                    skip.skipped_at,
                    EventKind.SKIPPED,
                    skip.reviewer,
                    detail=task.kind,
                    comment=skip.reason,
                )

    def _sent(self) -> Iterator[LifeEvent]:
        for message in self.messages:
            labels = message.data.get("labels")
            named = tuple(map(str, labels)) if isinstance(labels, list) else None
            yield self._event(message.created_at, EventKind.SENT, labels=named, detail=message.type)
        for each in self.deliveries:
            if each.finished_at is not None:
                done = each.state is DeliveryState.DELIVERED
                kind = EventKind.DELIVERED if done else EventKind.UNDELIVERED
                yield self._event(each.finished_at, kind, detail=each.endpoint_id)
