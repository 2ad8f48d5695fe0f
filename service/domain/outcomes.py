"""Outcomes: label sets that other programs report as right after the decision."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Self

from setwise.service.domain.errors import FieldFault
from setwise.service.domain.labels import shown_set
from setwise.service.domain.predictions import Decision, Prediction, size_faults
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.shown import Shown
from setwise.service.domain.text import MOST_HINTED, nearest, text_faults

LONGEST_SOURCE = 100
LONGEST_LABEL = 500


@dataclass(frozen=True)
class Outcome:
    """The label set that a source reports as right; immutable once stored."""

    id: str
    prediction_id: str
    number: int
    """Number among the outcomes of the prediction, from 1; the highest counts."""
    labels: tuple[str, ...]
    """Sorted; the model may not know them."""
    source: str
    """Who reports it, such as ``billing`` or ``second reading``."""
    agreed: bool
    """Whether the labels are those that the model predicted."""
    reported_by: str
    """Id of the caller."""
    created_at: datetime
    written: tuple[str, ...] | None = None
    """The labels as they were reported, if one has been renamed or merged since."""


@dataclass(frozen=True)
class ShownOutcome(Shown):
    """A label set that turned out to be right."""

    id: str
    prediction_id: str
    number: int
    """The outcome with the highest number counts."""
    labels: tuple[str, ...]
    label_missing: bool
    """A label applies besides that has no name."""
    source: str
    agreed: bool
    """The labels are those that were predicted."""
    created_at: datetime

    @classmethod
    def of(cls, outcome: Outcome, **more: Any) -> Self:  # noqa: ANN401 -- fields of a subclass
        """Return an outcome as it is shown."""
        return cls(
            id=outcome.id,
            prediction_id=outcome.prediction_id,
            number=outcome.number,
            **vars(shown_set(outcome.labels)),
            source=outcome.source,
            agreed=outcome.agreed,
            created_at=outcome.created_at,
            **more,
        )


@dataclass(frozen=True)
class UnknownLabel(Shown):
    """A label that neither the active model, the prediction nor the catalogue has."""

    label: str
    nearest: tuple[str, ...]
    """Labels that may be meant, likeliest first; looked up for the first unknown labels only."""


@dataclass(frozen=True)
class ReportedOutcome(ShownOutcome):
    """An outcome as it was stored, and its labels that may be misspelt."""

    unknown_labels: list[UnknownLabel] | None
    """Labels that neither the active model, the prediction nor the catalogue has: new ones, or
    misspelt. They are proposed for the catalogue, where a lead can merge them into others. null
    without an active model.
    """


def unknown_labels(labels: Iterable[str], vocabulary: Collection[str]) -> list[UnknownLabel]:
    """Return the labels that are not in a vocabulary, with the nearest that are.

    >>> unknown_labels(["feevr", "cough"], ["cough", "fever"])
    [UnknownLabel(label='feevr', nearest=('fever',))]
    """
    names = set(vocabulary)
    unknown = [label for label in labels if label not in names]
    return [
        UnknownLabel(label, nearest(label, vocabulary) if place < MOST_HINTED else ())
        for place, label in enumerate(unknown)
    ]


def outcome_faults(labels: Sequence[str], source: str) -> Iterator[FieldFault]:
    """Yield the faults of a reported outcome.

    >>> [fault.detail for fault in outcome_faults(["a", "a"], "billing")]
    ["'a' is given twice"]
    """
    yield from text_faults(source, "/source", longest=LONGEST_SOURCE)
    if too_many := size_faults(labels, "/labels"):
        yield from too_many
        return
    seen: set[str] = set()
    for place, label in enumerate(labels):
        pointer = f"/labels/{place}"
        if label in seen:
            yield FieldFault(pointer, f"{label!r} is given twice")
        seen.add(label)
        yield from text_faults(label, pointer, longest=LONGEST_LABEL)


class DecidedBy(StrEnum):
    """Who decided a document, as one of its reviewers is told; never by name."""

    YOU = "you"
    """The reviewer's set counts, or somebody decided the same one: who read it again is not told,
    because that would tell which reviews were checks.
    """
    REVIEWER = "reviewer"
    """Another reviewer."""
    LEAD = "lead"
    """A lead, between answers that differ."""
    OUTCOME = "outcome"
    """Another program, which reported the right set."""


class Resolution(NamedTuple):
    """What was decided on a document, beside what one of its reviewers answered."""

    labels: tuple[str, ...]
    """The decided set."""
    by: DecidedBy
    decided_at: datetime
    missed: tuple[str, ...]
    """Labels of the decided set that the reviewer left out."""
    surplus: tuple[str, ...]
    """Labels that the reviewer gave and the decided set lacks."""

    @property
    def agreed(self) -> bool:
        """Whether the reviewer gave the decided set."""
        return not (self.missed or self.surplus)


def resolution(
    answer: Annotation, annotations: Iterable[Annotation], outcomes: Iterable[Outcome]
) -> Resolution | None:
    """Return what was decided on a document that nobody reads any more; None if nothing was.

    ``answer``: One of its annotations, whose reviewer is told.
    """
    last = last_word(annotations, outcomes, sent=False)
    if last is None:
        return None
    decided, own = set(last.labels), set(answer.labels)
    decided_at = last.created_at
    if isinstance(last, Outcome):
        by = DecidedBy.OUTCOME
    elif last.reviewer == answer.reviewer:
        by = DecidedBy.YOU
    elif decided == own:
        by, decided_at = DecidedBy.YOU, answer.created_at
    else:
        by = DecidedBy.LEAD if last.kind is ReviewKind.ADJUDICATION else DecidedBy.REVIEWER
    return Resolution(
        last.labels,
        by,
        decided_at,
        missed=tuple(label for label in last.labels if label not in own),
        surplus=tuple(label for label in answer.labels if label not in decided),
    )


def sent_labels(
    prediction: Prediction, annotations: Iterable[Annotation], outcomes: Iterable[Outcome]
) -> tuple[str, ...] | None:
    """Return the label set that was sent last, or None.

    An automatically sent set comes first; what people and other programs decide replaces it.
    """
    automatically = prediction.decision is Decision.AUTO
    last = last_word(annotations, outcomes, sent=automatically)
    if last is not None:
        return last.labels
    return prediction.scored.labels if automatically else None


def last_word(
    annotations: Iterable[Annotation], outcomes: Iterable[Outcome], *, sent: bool
) -> Annotation | Outcome | None:
    """Return what decided last on a document, or None.

    Annotations that settle the document decide, and so do outcomes once a set was sent.

    ``sent``: Whether a set was sent automatically.
    """
    last: Annotation | Outcome | None = None
    later: list[Annotation | Outcome] = [*annotations, *outcomes]
    for answer in sorted(later, key=lambda answer: (answer.created_at, answer.id)):
        if answer.settles if isinstance(answer, Annotation) else sent or last is not None:
            last = answer
    return last
