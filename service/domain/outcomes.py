"""Outcomes: label sets that other programs report as right after the decision."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Self

from setwise.service.domain.errors import FieldFault
from setwise.service.domain.labels import shown_set
from setwise.service.domain.predictions import Decision, Prediction, size_faults
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.text import MOST_HINTED, name_faults, nearest
from setwise.shown import Shown

LONGEST_SOURCE = 100
LONGEST_LABEL = 500

ECHO_WITHIN = timedelta(seconds=10)
"""No source learns sooner after an answer whether it is right."""

ECHOES = 30
"""Reports in a row that repeat the answer within that time, from which on a source only echoes."""


class Sampling(StrEnum):
    """The documents on which a source reports outcomes."""

    ALL = "all"
    """Every document, in time."""
    RANDOM_SHARE = "random_share"
    """A share of them, drawn without regard to what was right."""
    ONLY_FAILURES = "only_failures"
    """Those that turn out to be wrong, such as complaints."""
    ONLY_ON_REQUEST = "only_on_request"
    """Those that people ask about."""

    @property
    def represents(self) -> bool:
        """Whether the reported documents speak for the others."""
        return self in {Sampling.ALL, Sampling.RANDOM_SHARE}


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
    agreed: bool | None
    """Whether the labels are those that the model predicted; None if none did."""
    reported_by: str
    """Id of the caller."""
    created_at: datetime
    written: tuple[str, ...] | None = None
    """The labels as they were reported, if one has been renamed or merged since."""
    sampling: Sampling = Sampling.ALL
    """The documents on which its source reports."""
    echoes: int = 0
    """Reports of its source in a row, this one included, that repeat at once what was answered."""

    @property
    def echo(self) -> bool:
        """Whether its source reports nothing but what the service has just answered."""
        return self.echoes >= ECHOES

    @property
    def counts(self) -> bool:
        """Whether it teaches confidences and judges them."""
        return self.sampling.represents and not self.echo

    def repeats(self, labels: Collection[str], sampling: Sampling | None) -> bool:
        """Return whether a report of the same source says nothing new."""
        return set(self.labels) == set(labels) and sampling in {None, self.sampling}


def echoes(
    labels: Collection[str], answer: Collection[str] | None, waited: timedelta, before: int
) -> int:
    """Return how many reports in a row repeat the answer at once; 0 if this one does not.

    ``answer``: None if nothing was answered before.
    ``waited``: Time between the answer and the report.
    ``before``: The same of the source's last report.

    >>> echoes(["a"], ["a"], timedelta(seconds=2), 4), echoes(["a"], ["a"], timedelta(days=2), 4)
    (5, 0)
    """
    same = answer is not None and set(labels) == set(answer)
    at_once = same and waited <= ECHO_WITHIN
    return before + 1 if at_once else 0


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
    agreed: bool | None
    """The labels are those that were predicted; null if nothing was."""
    sampling: Sampling
    """The documents on which the source reports, as it stated."""
    echo: bool
    """The source has reported nothing but the answer, within seconds, many times in a row."""
    counts: bool
    """It calibrates confidences and judges them: it is no echo, and the source reports on all
    documents or on a random share. The others are shown, and correct what was sent.
    """
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
            sampling=outcome.sampling,
            echo=outcome.echo,
            counts=outcome.counts,
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
    yield from name_faults(source, "/source", longest=LONGEST_SOURCE)
    if too_many := size_faults(labels, "/labels"):
        yield from too_many
        return
    seen: set[str] = set()
    for place, label in enumerate(labels):
        pointer = f"/labels/{place}"
        if label in seen:
            yield FieldFault(pointer, f"{label!r} is given twice")
        seen.add(label)
        yield from name_faults(label, pointer, longest=LONGEST_LABEL)


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
    """Labels of the reviewer that the decided set lacks."""

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
