"""What turned out to be right: label sets that other programs report after the decision."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from setwise.service.domain.errors import FieldFault
from setwise.service.domain.predictions import Decision, Prediction
from setwise.service.domain.reviews import Annotation
from setwise.service.domain.text import text_faults

LONGEST_SOURCE = 100
LONGEST_LABEL = 500
MOST_LABELS = 10_000


@dataclass(frozen=True)
class Outcome:
    """The label set that a source says is right; never changed once stored.

    Attributes
    ----------
    number : int
        Place among the outcomes of the prediction, from 1; the last one counts.
    labels : tuple of str
        Sorted. They need not be known to any model: this is what happened.
    source : str
        Who says so, such as ``billing`` or ``second reading``.
    agreed : bool
        The labels are those that the model predicted.
    reported_by : str
        Id of the caller.
    """

    id: str
    prediction_id: str
    number: int
    labels: tuple[str, ...]
    source: str
    agreed: bool
    reported_by: str
    created_at: datetime


def outcome_faults(labels: Sequence[str], source: str) -> Iterator[FieldFault]:
    """Yield what keeps a report from being stored.

    >>> [fault.detail for fault in outcome_faults(["a", "a"], "billing")]
    ["'a' is given twice"]
    """
    yield from text_faults(source, "/source", longest=LONGEST_SOURCE)
    if len(labels) > MOST_LABELS:
        yield FieldFault("/labels", f"has {len(labels)} labels; at most {MOST_LABELS} are kept")
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
    """Return the label set that other programs were told last, None while they were told none.

    A set that was sent by itself is told first; what settled the document and, once anything was
    told, outcomes replace it in the order in which they came.
    """
    told = prediction.scored.labels if prediction.decision is Decision.AUTO else None
    later: list[Annotation | Outcome] = [*annotations, *outcomes]
    for one in sorted(later, key=lambda one: (one.created_at, one.id)):
        if one.settles if isinstance(one, Annotation) else told is not None:
            told = one.labels
    return told
