"""Outcomes: label sets that other programs report as right after the decision."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from setwise.service.domain.errors import FieldFault
from setwise.service.domain.predictions import Decision, Prediction, size_faults
from setwise.service.domain.reviews import Annotation
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


@dataclass(frozen=True)
class UnknownLabel:
    """A label of an outcome that the active model does not know; perhaps a misspelling."""

    label: str
    nearest: tuple[str, ...]
    """Labels that may be meant, likeliest first; looked up for the first unknown ones only."""


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


def sent_labels(
    prediction: Prediction, annotations: Iterable[Annotation], outcomes: Iterable[Outcome]
) -> tuple[str, ...] | None:
    """Return the label set that was sent last, or None.

    An automatically sent set comes first. In order of creation, annotations that settle the
    document replace it, and so do outcomes once a set was sent.
    """
    sent = prediction.scored.labels if prediction.decision is Decision.AUTO else None
    later: list[Annotation | Outcome] = [*annotations, *outcomes]
    for annotation in sorted(later, key=lambda annotation: (annotation.created_at, annotation.id)):
        if annotation.settles if isinstance(annotation, Annotation) else sent is not None:
            sent = annotation.labels
    return sent
