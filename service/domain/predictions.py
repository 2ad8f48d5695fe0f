"""Documents, scored label sets, and the decisions about them."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from setwise.limits import LARGEST_SCORE, MOST_SET_LABELS, MOST_SETS
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.errors import FieldFault, first_faults
from setwise.service.domain.routing.audits import NOT_DRAWN, Selection
from setwise.service.domain.routing.copies import Likeness
from setwise.service.domain.routing.rules import EARLIER_VERSIONS
from setwise.service.domain.text import (
    json_faults,
    name_faults,
    text_faults,
    unnameable,
    unstorable,
)
from setwise.shown import Probability, Shown
from setwise.spelling import escaped, spelled, spelled_keys

LONGEST_DOCUMENT_ID = 200
"""Characters; the id is indexed."""

MOST_METADATA_BYTES = 64 * 1024
"""Bytes of metadata as JSON; every listing and review task carries it."""


MOST_SCORES = 10_000
"""Labels of another model's scores."""

ANSWERS = ("scores", "candidates", "labels")
"""Members of a document that say what another model answered: scores, label sets or one set."""


class Decision(StrEnum):
    """Whether a label set is sent automatically or waits for a person."""

    AUTO = "auto"
    REVIEW = "review"


class Reason(StrEnum):
    """Reason for a decision."""

    ABOVE_THRESHOLD = "above_threshold"
    BELOW_THRESHOLD = "below_threshold"
    AUDIT = "audit"
    NO_THRESHOLD = "no_threshold"
    OUT_OF_DOMAIN = "out_of_domain"
    BREAKER = "breaker"
    RULE = "rule"
    NO_MODEL = "no_model"


class Priority(IntEnum):
    """How urgent a person's review of a document is, as its client says."""

    NORMAL = 0
    HIGH = 1
    URGENT = 2


PRIORITIES = ", ".join(f"{priority.value} ({priority.name.lower()})" for priority in Priority)

NO_METADATA: Mapping[str, object] = MappingProxyType({})
"""The metadata of a document that has none."""


GivenAnswer = Mapping[str, Any]  # Any: as sent, by one of the names in `ANSWERS`
"""What another model answered.

>>> {"scores": {"grain": 0.9}}, {"candidates": [{"labels": ["grain"], "score": -0.1}]}
({'scores': {'grain': 0.9}}, {'candidates': [{'labels': ['grain'], 'score': -0.1}]})
"""


class Document(NamedTuple):
    """A document as sent: text or features, another model's answer, or both."""

    id: str | None = None
    text: str | None = None
    """For models of text; None if it was not sent, or has been deleted."""
    features: Mapping[str, float] | None = None
    metadata: Mapping[str, object] = NO_METADATA
    answer: GivenAnswer | None = None
    unreadable: bool = False
    """Its content is stored, but was damaged or moved, or its key is missing."""
    priority: int = Priority.NORMAL
    due_at: datetime | None = None
    """When a person's answer is needed, in UTC."""

    @classmethod
    def received(
        cls,
        id: str | None = None,  # noqa: A002 -- as the field
        text: str | None = None,
        features: Mapping[str, float] | None = None,
        metadata: Mapping[str, object] = NO_METADATA,
        answer: GivenAnswer | None = None,
        *,
        priority: int = Priority.NORMAL,
        due_at: datetime | None = None,
    ) -> Self:
        """Return a document with its features and labels spelled as models have them.

        >>> Document.received(answer={"labels": ["fie\u0300vre "]}).answer
        {'labels': ['fièvre']}
        """
        features = None if features is None else _spelled_members(features)
        answer = None if answer is None else _spelled_answer(answer)
        return cls(id, text, features, metadata, answer, priority=priority, due_at=due_at)

    @property
    def kept(self) -> bool:
        """Whether its content is stored; metadata is deleted with it."""
        return self.text is not None or self.features is not None or self.answer is not None

    @property
    def content(self) -> bytes | None:
        """The text or features as bytes, equal for equal contents.

        None once erased, and for a document of an answer alone: many documents share one.
        """
        if self.text is not None:
            return b"text\0" + self.text.encode("utf-8", "surrogatepass")
        if self.features is not None:
            numbers = {name: float(value) for name, value in self.features.items()}
            return b"features\0" + json.dumps(numbers, sort_keys=True).encode()
        return None

    @property
    def likeness(self) -> Likeness | None:
        """What copies have in common; None where there is no content."""
        if self.text is not None:
            return Likeness.of_text(self.text)
        content = self.content
        return None if content is None else Likeness(content)

    def faults(
        self, pointer: str = "/document", *, metadata_pointer: str | None = None
    ) -> list[FieldFault]:
        """Return why the document cannot be scored or stored: the first faults.

        ``pointer`` is its place in a request; ``metadata_pointer`` is the place of the metadata if
        that is elsewhere, and then `priority` stands beside it.

        >>> [fault.detail for fault in Document(text="fever", features={"bp": 1.0}).faults()]
        ['has both text and features; send one of them']
        """
        return first_faults(self._faults(pointer, metadata_pointer or f"{pointer}/metadata"))

    def _faults(self, pointer: str, metadata_pointer: str) -> Iterator[FieldFault]:
        if self.id is not None:
            yield from name_faults(self.id, f"{pointer}/id", longest=LONGEST_DOCUMENT_ID)
        if self.text is not None and self.features is not None:
            yield FieldFault(pointer, "has both text and features; send one of them")
        elif self.text is not None:
            yield from text_faults(self.text, f"{pointer}/text", longest=len(self.text))
        elif self.features is not None:
            yield from self._feature_faults(f"{pointer}/features")
        elif self.answer is None:
            yield FieldFault(pointer, "has neither text nor features; send one of them")
        if self.answer is not None:
            yield from _answer_faults(self.answer, pointer)
        if self.metadata:
            yield from self._metadata_faults(metadata_pointer)
        if self.priority not in set(Priority):
            beside = metadata_pointer.rpartition("/")[0]
            yield FieldFault(f"{beside}/priority", f"is {self.priority}; send {PRIORITIES}")

    def _feature_faults(self, pointer: str) -> Iterator[FieldFault]:
        if not self.features:
            yield FieldFault(pointer, "is empty; name at least one feature")
            return
        for name, value in self.features.items():
            why = unstorable(name)
            if why:
                yield FieldFault(pointer, f"has a name that {why}")
            elif spelled(name) != name:
                yield FieldFault(f"{pointer}/{escaped(name)}", _RESPELLED)
            elif not math.isfinite(value):
                yield FieldFault(f"{pointer}/{escaped(name)}", f"is {value}; send a finite number")

    def _metadata_faults(self, pointer: str) -> Iterator[FieldFault]:
        faults = first_faults(json_faults(self.metadata, pointer))
        yield from faults
        if not faults:
            size = len(json.dumps(dict(self.metadata), ensure_ascii=False).encode())
            if size > MOST_METADATA_BYTES:
                yield FieldFault(
                    pointer, f"takes {size} bytes; at most {MOST_METADATA_BYTES} are kept"
                )


def _spelled_members(members: Mapping[str, float]) -> Mapping[str, float]:
    """Return numbers by spelled names; unchanged where two names are one, which is a fault."""
    try:
        return spelled_keys(members)
    except ValueError:
        return members


def _spelled_answer(answer: GivenAnswer) -> GivenAnswer:
    result = dict(answer)
    if "scores" in answer:
        result["scores"] = _spelled_members(answer["scores"])
    if "labels" in answer:
        result["labels"] = list(map(spelled, answer["labels"]))
    if "candidates" in answer:
        result["candidates"] = [
            {**candidate, "labels": list(map(spelled, candidate["labels"]))}
            for candidate in answer["candidates"]
        ]
    return result


_RESPELLED = "is another spelling of a name beside it; send the name once"


def _answer_faults(answer: GivenAnswer, pointer: str) -> Iterator[FieldFault]:
    """Yield why another model's answer cannot be read.

    >>> [fault.detail for fault in _answer_faults({"scores": {"grain": 1.5}}, "/document")]
    ['is 1.5; send a probability from 0 to 1']
    """
    if "scores" in answer:
        yield from _score_faults(answer["scores"], f"{pointer}/scores")
    if "labels" in answer:
        yield from _set_faults(answer["labels"], f"{pointer}/labels")
    if "candidates" not in answer:
        return
    candidates, pointer = answer["candidates"], f"{pointer}/candidates"
    if "labels" in answer:
        yield FieldFault(pointer, "stands beside labels; make those one of the candidates")
    if not 1 <= len(candidates) <= MOST_SETS:
        yield FieldFault(pointer, f"has {len(candidates)} label sets; send 1 to {MOST_SETS}")
        return
    for place, candidate in enumerate(candidates):
        yield from _set_faults(candidate["labels"], f"{pointer}/{place}/labels")
        score = candidate.get("score")
        if score is not None and not abs(score) <= LARGEST_SCORE:  # also not NaN
            why = f"is {score}; send a number within ±{LARGEST_SCORE:g}"
            yield FieldFault(f"{pointer}/{place}/score", why)


def _score_faults(scores: Mapping[str, float], pointer: str) -> Iterator[FieldFault]:
    if not scores:
        yield FieldFault(pointer, "is empty; send at least the likeliest label")
    if len(scores) > MOST_SCORES:
        yield FieldFault(pointer, f"has {len(scores):,} labels; send the {MOST_SCORES:,} likeliest")
        return
    for label, probability in scores.items():
        why = unnameable(label)
        if why:
            yield FieldFault(pointer, f"has a label that {why}")
        elif not label:
            yield FieldFault(pointer, "has a label without a name; name it")
        elif spelled(label) != label:
            yield FieldFault(f"{pointer}/{escaped(label)}", _RESPELLED)
        elif not 0.0 <= probability <= 1.0:  # also not NaN
            yield FieldFault(
                f"{pointer}/{escaped(label)}", f"is {probability}; send a probability from 0 to 1"
            )


def size_faults(labels: Sequence[str], pointer: str) -> list[FieldFault]:
    """Return the fault of a label set with too many labels, before they are looked at."""
    if len(labels) <= MOST_SET_LABELS:
        return []
    detail = f"has {len(labels):,} labels; a set has at most {MOST_SET_LABELS:,}"
    return [FieldFault(pointer, detail)]


def _set_faults(labels: Sequence[str], pointer: str) -> Iterator[FieldFault]:
    if too_many := size_faults(labels, pointer):
        yield from too_many
        return
    seen = set()
    for place, label in enumerate(labels):
        why = unnameable(label)
        if why:
            yield FieldFault(f"{pointer}/{place}", why)
        elif not label:
            yield FieldFault(f"{pointer}/{place}", "is empty; name a label")
        elif label in seen:
            yield FieldFault(f"{pointer}/{place}", f"names {label!r} again; name each label once")
        seen.add(label)


@dataclass(frozen=True, slots=True)
class Candidate(Shown):
    """A label set that may be the right one."""

    labels: tuple[str, ...]
    """In the order of the model's vocabulary."""
    confidence: Probability
    """Calibrated probability that the whole set is right."""
    score: Probability
    """The model's own probability of the set."""


@dataclass(frozen=True, slots=True)
class Marginal(Shown):
    """The probability that one label applies."""

    label: str
    probability: Probability


class TermWeight(NamedTuple):
    """A term of a document and its contribution to a label's log-odds.

    A negative weight counts against the label.
    """

    term: str
    weight: float


class ScoredSet(NamedTuple):
    """A model's scored label sets for one document."""

    candidates: tuple[Candidate, ...]
    """Likeliest first; the first is the prediction. Empty only without a model."""
    marginals: tuple[Marginal, ...]
    """Likeliest first; labels with a negligible probability are left out."""
    out_of_domain: bool
    """The model knows nothing in the document."""
    model_version: str | None
    calibrator_version: str | None
    """Content digests of the model and the calibrator; None without a model."""
    uncalibrated: bool = False
    """Nothing has taught the model how sure to be; a threshold set by hand does not apply."""
    replaced: tuple[float, ...] | None = None
    """The model's own confidences, in the order of the candidates, if a calibrator learnt from
    reviews replaced them.
    """

    @property
    def own_confidences(self) -> tuple[float, ...]:
        """The model's own confidence in each candidate."""
        if self.replaced is not None:
            return self.replaced
        return tuple(candidate.confidence for candidate in self.candidates)

    @property
    def named(self) -> dict[str, None]:
        """Every label of the candidates and marginals, each once."""
        labels = [label for candidate in self.candidates for label in candidate.labels]
        return dict.fromkeys([*labels, *(marginal.label for marginal in self.marginals)])

    @property
    def best(self) -> Candidate:
        """The predicted label set with its confidence; there is one if a model answered."""
        return self.candidates[0]

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The predicted label set; None without a model."""
        return self.best.labels if self.candidates else None

    @property
    def confidence(self) -> float | None:
        """The calibrated probability that the whole set ``labels`` is right, or None."""
        return self.best.confidence if self.candidates else None

    def agrees_with(self, labels: Collection[str]) -> bool | None:
        """Return whether ``labels`` is the predicted set; None if nothing was predicted."""
        return None if self.labels is None else set(labels) == set(self.labels)


UNSCORED = ScoredSet((), (), out_of_domain=False, model_version=None, calibrator_version=None)
"""What is known of a document that came before there was a model."""


class Prediction(NamedTuple):
    """A scored document with its decision; immutable once stored."""

    id: str
    client_id: str
    document: Document
    scored: ScoredSet
    decision: Decision
    reason: Reason
    threshold: float | None
    """Least confidence that would have been sent; None if nothing would."""
    policy_version: str
    created_at: datetime
    selection: Selection = NOT_DRAWN
    """Whether the document was drawn for an audit, and with what probability."""
    rule: str | None = None
    """Name of the rule that held the document back."""
    segment: str | None = None
    """Key of its segment; None if nothing divided documents."""
    earlier_versions: int = 0
    """Other versions of it that its client posted before, and that were not sent."""

    @property
    def name(self) -> str:
        """The client's id of the document or, without one, the prediction's."""
        return self.document.id or self.id

    @property
    def facts(self) -> Mapping[str, object]:
        """What rules look at besides the labels."""
        return {**self.document.metadata, EARLIER_VERSIONS: self.earlier_versions}

    @property
    def content(self) -> bytes | None:
        """What draws its audits; None once erased."""
        if self.document.answer is None:
            return self.document.content
        return self.document.content or self.id.encode()


@dataclass(frozen=True)
class PredictionFilter:
    """Which predictions to list; None does not restrict."""

    client_id: str | None = None
    decision: Decision | None = None
    document_id: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True)
class IdempotencyKey:
    """A client's name for a request, with a digest of its body."""

    key: str
    request_digest: str

    def of_part(self, place: int) -> "IdempotencyKey":
        """Return the key of one document of a batch."""
        # No client can send this key itself, because a header cannot contain a line break. A file's
        # keys end in a number alone (`setwise.service.services.files`).
        return replace(self, key=f"{self.key}\n#{place}")


class Submission(NamedTuple):
    """One document that a caller submits for prediction."""

    caller: Caller
    document: Document
    idempotency: IdempotencyKey | None = None


@dataclass(frozen=True)
class Accepted:
    """The stored prediction of a submission."""

    prediction: Prediction
    replayed: bool = False
    """An earlier submission with the same idempotency key made it."""


@dataclass(frozen=True)
class Refused:
    """Why there is no prediction of a submission, or no label set of a document."""

    error: Exception


SubmissionOutcome = Accepted | Refused
