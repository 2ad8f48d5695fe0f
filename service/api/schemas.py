"""Bodies of requests and responses; the domain checks their content."""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Annotated, Any, Generic, Literal, NotRequired, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    field_validator,
    with_config,
)
from typing_extensions import TypedDict  # Pydantic needs it before Python 3.12

from setwise.limits import MOST_SET_LABELS
from setwise.service.api.views import AnswerBody, View
from setwise.service.domain import (
    documents,
    outcomes,
    predictions,
    reviews,
)
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.errors import MOST_FAULTS
from setwise.service.domain.labels import (
    LabelSet,
    shown_set,
)
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reviews import ReviewKind, ReviewState
from setwise.service.domain.routing.segments import (
    LONGEST_VALUE,
)
from setwise.service.requests import FewFaults, Instant, RequestBody, few_unknown

LARGEST_FEATURE = 3.4e38
"""Models compute in single precision; a larger value would become infinite."""

Probability = Annotated[float, Field(ge=0, le=1)]

_CANDIDATES = [
    {"labels": ["J18.9", "R50.9"], "confidence": 0.93, "score": 0.61},
    {"labels": ["J18.9"], "confidence": 0.05, "score": 0.12},
]


_Item = TypeVar("_Item")


class Listed(AnswerBody, Generic[_Item]):
    """Base of one page of a list."""

    items: list[_Item]
    next_cursor: str | None
    limit: int


class WhollyListed(AnswerBody, Generic[_Item]):
    """Base of a list that has only one page."""

    items: list[_Item]
    next_cursor: str | None = None
    limit: int


class Query(BaseModel):
    """Base of query parameters: unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _storable(cls, value: object) -> object:
        values = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and "\x00" in text for text in values):
            raise ValueError("must not contain NUL")
        return value


class Paged(Query):
    """Which page of a list."""

    cursor: str | None = Field(
        None,
        max_length=500,
        description="`next_cursor` of the page before; the first page has none.",
    )
    limit: int = Field(50, ge=1, le=200, description="Most items in the page.")

    def filters(self) -> str:
        """Return what the list is restricted to, which a cursor is bound to."""
        return self.model_dump_json(exclude={"cursor", "limit"})


# Predictions


def _few_faulty(value: object) -> object:
    """Return an object of numbers, of which only the first faults are left if there are many."""
    if not isinstance(value, dict):
        return value
    faulty = (
        name
        for name, number in value.items()
        if type(number) not in {int, float} or not -LARGEST_FEATURE <= number <= LARGEST_FEATURE
    )
    first = list(islice(faulty, MOST_FAULTS))
    return {name: value[name] for name in first} if len(first) == MOST_FAULTS else value


def few_members_of(kind: type) -> BeforeValidator:
    """Return what leaves only the first unknown members of a dictionary of this kind."""
    return BeforeValidator(partial(few_unknown, known=kind.__annotations__.keys()))


_Feature = Annotated[float, Field(allow_inf_nan=False, ge=-LARGEST_FEATURE, le=LARGEST_FEATURE)]
# The domain checks the range, so that one bad document does not spoil a batch.
_Score = Annotated[float, Field(json_schema_extra={"minimum": 0, "maximum": 1})]
_Set = Annotated[
    list[str],
    FewFaults,
    Field(json_schema_extra={"uniqueItems": True, "maxItems": MOST_SET_LABELS}),
]


@with_config(RequestBody.model_config)
class GivenSet(TypedDict):
    """A label set that another model answered."""

    labels: _Set
    score: NotRequired[
        Annotated[
            float | None,
            Field(
                default=None,
                allow_inf_nan=False,
                description="Any number that is larger for likelier sets, such as a "
                "log-probability.",
            ),
        ]
    ]


@with_config(RequestBody.model_config)
class DocumentIn(TypedDict):
    """A document to predict: text or named features, another model's answer, or both."""

    id: NotRequired[
        Annotated[
            str | None,
            Field(
                default=None,
                description="Your own, unique name for the document; never use it for another.",
            ),
        ]
    ]
    text: NotRequired[Annotated[str | None, Field(default=None, description="For models of text.")]]
    features: NotRequired[
        Annotated[
            dict[str, _Feature] | None,
            BeforeValidator(_few_faulty),
            Field(
                default=None,
                description="For models of vectors: the features that are not zero, by name.",
            ),
        ]
    ]
    scores: NotRequired[
        Annotated[
            dict[str, _Score] | None,
            BeforeValidator(_few_faulty),
            Field(
                default=None,
                description="For models of kind `external`: another model's probability of each "
                "label. Labels left out count as less likely than those named. Sums do not matter.",
            ),
        ]
    ]
    candidates: NotRequired[
        Annotated[
            Annotated[list[Annotated[GivenSet, few_members_of(GivenSet)]], FewFaults] | None,
            Field(
                default=None,
                description="Label sets that another model answered, alone or beside `scores`. If "
                "it was asked several times, repeat a set as often as it came.",
            ),
        ]
    ]
    labels: NotRequired[
        Annotated[
            _Set | None,
            Field(default=None, description="Its one label set, instead of `candidates`."),
        ]
    ]


def document_of(
    document: DocumentIn, beside: Mapping[str, object] | None = None
) -> predictions.Document:
    """Return a document for the service, with the other model's answer in one member.

    ``beside``: Members that stand beside the document instead of in it.
    """
    members: dict[str, Any] = {**document, **(beside or {})}  # Any: arguments of `Document`
    answer = {name: members.pop(name) for name in predictions.ANSWERS if name in members}
    answer = {name: value for name, value in answer.items() if value is not None}
    return predictions.Document.received(**members, answer=answer or None)


# The domain checks the range, as above.
PriorityIn = Annotated[
    int,
    Field(
        json_schema_extra={"minimum": 0, "maximum": max(predictions.Priority)},
        description=f"Who is reviewed first: {predictions.PRIORITIES}.",
    ),
]
DueAt = Annotated[
    Instant | None,
    Field(
        description="When a person's answer is needed, RFC 3339. At equal priority, the document "
        "that is due first is reviewed first; one without a time counts as due a week after it "
        "came."
    ),
]


class PredictionRequest(RequestBody):
    """One document to predict, and what to store with it."""

    document: Annotated[DocumentIn, few_members_of(DocumentIn)]
    metadata: dict[str, JsonValue] = Field(
        default_factory=dict, description="Kept with the document, never read; up to 64 kB."
    )
    priority: PriorityIn = predictions.Priority.NORMAL
    due_at: DueAt = None

    def as_document(self) -> predictions.Document:
        """Return the document for the service."""
        beside = {"metadata": self.metadata, "priority": self.priority, "due_at": self.due_at}
        return document_of(self.document, beside)


class PredictionPage(Listed[documents.ShownPrediction]):
    """One page of predictions, newest first."""


class PredictionQuery(Paged):
    """Which predictions to list."""

    decision: Decision | None = None
    document_id: str | None = Field(None, max_length=1_000)
    created_from: Instant | None = Field(None, description="RFC 3339, included.")
    created_before: Instant | None = Field(None, description="RFC 3339, excluded.")


# Reviews


def _absent_if_none(description: str) -> Any:  # noqa: ANN401 -- as `pydantic.Field` itself
    return Field(None, description=description, exclude_if=lambda value: value is None)


UNREADABLE = (
    "The content is stored, but was damaged, or its encryption key is missing; nothing is shown."
)


def absent_if_false(description: str) -> Any:  # noqa: ANN401 -- as `pydantic.Field` itself
    """Return a member that only true bodies have."""
    return Field(False, description=description, exclude_if=lambda value: not value)


class Answered(AnswerBody):
    """Base of documents that may have another model's answer."""

    scores: dict[str, float] | None = _absent_if_none(
        "What another model answered, as it was sent; absent where it must not be known."
    )
    candidates: list[GivenSet] | None = _absent_if_none("The same as label sets.")
    labels: list[str] | None = _absent_if_none("The same as one label set.")


class ReviewDocument(
    View, Answered, of=predictions.Document, shows="id text features metadata unreadable"
):
    """The document that a reviewer reads."""

    features: dict[str, float] | None = None
    unreadable: bool = absent_if_false(UNREADABLE)


class ReviewTaskBody(View, of=reviews.ReviewTask, shows="id state due_at lease version created_at"):
    """A document that waits for a person."""

    prediction_id: str
    document: ReviewDocument
    kind: ReviewKind
    reason: Reason | None
    priority: int = Field(description=f"{predictions.PRIORITIES}.")
    candidates: list[predictions.Candidate] | None = _absent_if_none(
        "Likeliest first; absent where the answer must not be known, empty without a model."
    )
    marginals: list[predictions.Marginal] | None = _absent_if_none("Absent on blind tasks.")
    answers: list[LabelSet] | None = _absent_if_none(
        "Of an `adjudication`: the label sets that people or the model gave, sorted."
    )
    reopened_because: str | None = _absent_if_none("Why the document is to be decided again.")
    skips: list[reviews.Skip] | None = _absent_if_none(
        "Who skipped it, and why, oldest first; absent unless you may read all predictions."
    )

    @classmethod
    def of(cls, task: reviews.ReviewTask, caller: Caller) -> Self:
        """Return the body of a task for a caller; blind reviews hide earlier answers."""
        document, scored, blind = task.shown, task.prediction.scored, task.blind
        given = {**dict.fromkeys(predictions.ANSWERS), **(document.answer or {})}
        return cls.show(
            task,
            prediction_id=task.prediction.id,
            document=ReviewDocument.show(document, **given),
            kind=ReviewKind.REVIEW if blind else task.kind,
            reason=None if blind else task.prediction.reason,
            priority=task.prediction.document.priority,
            candidates=None if blind else task.candidates,
            marginals=None if blind else scored.marginals,
            answers=[shown_set(labels) for labels in task.answers] or None,
            reopened_because=task.because,
            skips=task.skips_shown_to(caller),
        )


class ReviewPage(Listed[ReviewTaskBody]):
    """One page of review tasks, oldest first."""


class ReviewQuery(Paged):
    """Which review tasks to list."""

    state: ReviewState | None = None
    reason: Reason | None = None


class ClaimQuery(Query):
    """Which documents of the queue to claim; all without a filter."""

    segment: str | None = Field(
        None,
        max_length=LONGEST_VALUE,
        description="Value of `segment_by`; `other`: all that the policy does not list.",
    )
    label: str | None = Field(
        None,
        max_length=1_000,
        description="A predicted label. Documents whose reviewer must not know the prediction come "
        "whatever their labels are, and so do adjudications.",
    )
    prioritized: bool = Field(
        False, description="Only documents that were put first or have a priority above 0."
    )


class ReleaseQuery(Query):
    """Where a task returns to."""

    later: bool = Field(
        False,
        description="To the end of the queue, behind all that waits now, instead of its old place.",
    )


class Completion(View, of=LabelSet, shows="labels label_missing"):
    """The stored result of a review."""

    id: str
    state: Literal["completed"]
    agreed: bool | None = Field(
        description="The labels are those that were predicted; null if nothing was."
    )
    annotation_id: str

    @classmethod
    def of(cls, annotation: reviews.Annotation) -> Self:
        """Return the body for the annotation that completed a task."""
        return cls.show(
            shown_set(annotation.labels),
            id=annotation.task_id,
            state="completed",
            agreed=annotation.agreed,
            annotation_id=annotation.id,
        )


class ResolutionBody(View, of=outcomes.Resolution, shows="by decided_at missed surplus"):
    """What was decided on a document, beside your answer."""

    labels: list[str] = Field(description="The decided set.")
    label_missing: bool = Field(description="A label applies besides that has no name.")
    by: outcomes.DecidedBy = Field(
        description="`you` if your set counts or the same was decided, `reviewer` for another "
        "reviewer, `lead` between answers that differ, `outcome` for another program."
    )

    @classmethod
    def of(cls, resolution: outcomes.Resolution) -> Self:
        """Return the body for what was decided."""
        return cls.show(
            resolution,
            **vars(shown_set(resolution.labels)),
            missed=shown_set(resolution.missed).labels,
            surplus=shown_set(resolution.surplus).labels,
        )


class OwnAnswerBody(View, of=reviews.Annotation, shows="prediction_id comment created_at"):
    """An answer of your own."""

    annotation_id: str
    review_id: str
    document_id: str | None
    labels: list[str]
    label_missing: bool = Field(description="A label applies besides that has no name.")
    resolution: ResolutionBody | None = Field(
        description="Null while the document, or a copy of it, is still read by others."
    )

    @classmethod
    def of(cls, own: documents.OwnAnswer) -> Self:
        """Return the body for an answer."""
        annotation = own.annotation
        return cls.show(
            annotation,
            annotation_id=annotation.id,
            review_id=annotation.task_id,
            document_id=own.prediction.document.id,
            **vars(shown_set(annotation.labels)),
            resolution=own.resolution and ResolutionBody.of(own.resolution),
        )


class OwnAnswerPage(Listed[OwnAnswerBody]):
    """One page of your answers, newest first."""
