"""Routes for documents: find them, and read all that happened to one."""

import dataclasses
from typing import (
    Annotated,
)

from fastapi import (
    APIRouter,
    Response,
)
from fastapi import (
    Query as InQuery,
)
from fastapi.responses import StreamingResponse
from pydantic import Field

from setwise.service.api.files import exported, file_of
from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import (
    CallerOf,
    EdgeOf,
    ServicesOf,
    answer,
    listed,
    listed_wholly,
    needs,
)
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.http.streams import StreamedFile
from setwise.service.api.schemas import (
    UNREADABLE,
    Answered,
    Listed,
    Paged,
    Probability,
    Query,
    ReviewTaskBody,
    absent_if_false,
)
from setwise.service.api.views import View
from setwise.service.domain import (
    documents as domain,
)
from setwise.service.domain import (
    errors,
)
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.documents import (
    LISTS,
    Audited,
    Comment,
    DocumentFilter,
    DocumentRow,
    DocumentState,
    LifeEvent,
    ModelDifference,
    NewComments,
    Order,
    ShownPrediction,
)
from setwise.service.domain.files import DOCUMENT, Format
from setwise.service.domain.predictions import PRIORITIES, Decision, Document, Reason
from setwise.service.domain.routing.segments import LONGEST_VALUE
from setwise.service.domain.text import Page
from setwise.service.requests import Instant
from setwise.service.requests.documents import ActionRequest, CommentRequest
from setwise.service.requests.reviews import ReopenRequest
from setwise.service.services.documents.selections import SelectionOutcome

router = APIRouter(prefix="/v1/documents", tags=["documents"], route_class=StrictRoute)


class DocumentPage(Listed[DocumentRow]):
    """One page of documents."""


_Labels = Annotated[list[Annotated[str, Field(max_length=1_000)]], Field(max_length=20)]
_Version = Annotated[str | None, Field(max_length=100)]


class DocumentSearch(Query):
    """Which documents, and in which order."""

    id: list[str] = Field([], max_length=100, description="Ids of predictions.")

    text: str | None = Field(
        None,
        max_length=1_000,
        description="Words that the text has; words in quotes stand side by side. A new document "
        "is found by them after a second or two. Refused where texts are encrypted.",
    )
    document_id: str | None = Field(None, max_length=1_000)
    client_id: _Version = None
    label: _Labels = Field([], description="The predicted set has all of these.")
    without_label: _Labels = Field([], description="The predicted set has none of these.")
    final_label: _Labels = Field([], description="The set that was sent last has all of these.")
    without_final_label: _Labels = Field(
        [], description="A set was sent, and the last one has none of these."
    )
    state: DocumentState | None = Field(
        None,
        description="`sent` automatically, `waiting` for a review, `held` by a reviewer, "
        "`skipped` and waiting for a lead, `reviewed` by a person, or "
        "`contradicted` by a person or an outcome.",
    )
    audited: Audited | None = Field(
        None, description="`drawn` for an audit, whose answer `agreed` or `contradicted`."
    )
    decision: Decision | None = None
    reason: Reason | None = None
    segment: str | None = Field(
        None,
        max_length=LONGEST_VALUE,
        description="Value of `segment_by`, such as `north`; `other`: all that the policy does not "
        "list.",
    )
    confidence_from: Probability | None = Field(None, description="Included.")
    confidence_to: Probability | None = Field(None, description="Excluded.")
    model_version: _Version = None
    calibrator_version: _Version = None
    reviewer: _Version = Field(
        None, description="Id of a person who has answered, or `me` for yourself."
    )
    group: _Version = Field(
        None, description="Id of the group, at that time, of a person who has answered."
    )
    candidate: _Version = Field(
        None, description="Id of another model that was compared on the document."
    )
    difference: ModelDifference | None = Field(
        None, description="What the answer of the `candidate` is like: which of both would send."
    )
    undelivered_to: _Version = Field(
        None, description="Id of a webhook that did not accept a message about it."
    )
    assigned_to: _Version = Field(
        None,
        description="Id of the person who holds a review of it or to whom one is assigned, or `me` "
        "for yourself.",
    )
    prioritized: bool | None = Field(
        None, description="Whether a review of it was put first, or has priority."
    )
    beyond_model: bool | None = Field(
        None,
        description="Whether the set that was sent last has a label that the active model lacks.",
    )
    created_from: Instant | None = Field(None, description="RFC 3339, included.")
    created_before: Instant | None = Field(None, description="RFC 3339, excluded.")
    order: Order = Order.NEWEST

    def as_filter(self) -> DocumentFilter:
        """Return the filter for the service."""
        fields = LISTS.keys() | {field.name for field in dataclasses.fields(DocumentFilter)}
        values = self.model_dump(include=fields)
        return DocumentFilter(**{LISTS.get(name, name): x for name, x in values.items()})


class DocumentQuery(Paged, DocumentSearch):
    """Which documents to list, and in which order."""


class DocumentExportQuery(DocumentSearch):
    """Which documents to export, and how."""

    format: Format = Field(Format.JSON_LINES, description="One JSON object a line, or CSV.")
    content: bool = Field(False, description="With the documents themselves, as far as kept.")


class CommentPage(Listed[Comment]):
    """The comments on a document, by thread."""


class NewCommentsPage(Listed[NewComments]):
    """Documents with comments that you have not read."""


class DocumentBody(View, Answered, of=Document, shows="text features metadata due_at"):
    """A document, its prediction, and all that happened to it."""

    prediction: ShownPrediction
    priority: int = Field(description=f"{PRIORITIES}.")
    unreadable: bool = absent_if_false(UNREADABLE)
    events: list[LifeEvent] = Field(description="In the order in which they happened.")


@router.get("", response_model=DocumentPage, dependencies=[needs(Permission.READ_ALL_PREDICTIONS)])
def list_documents(
    caller: CallerOf, search: Annotated[DocumentQuery, InQuery()], edge: EdgeOf
) -> Response:
    """List documents with what became of them.

    Documents of which you hold a blind review are left out.
    """
    filters = search.as_filter()

    def read(*, after: str | None, limit: int) -> Page[domain.ListedDocument]:
        documents = edge.services.documents
        return documents.find(caller, filters, search.order, after=after, limit=limit).page

    return listed(edge, search, f"documents?{search.filters()}", read, DocumentRow.of)


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses=exported(DOCUMENT),
    dependencies=[needs(Permission.READ_ALL_PREDICTIONS)],
)
async def export_documents(
    caller: CallerOf, search: Annotated[DocumentExportQuery, InQuery()], edge: EdgeOf
) -> Response:
    """Export documents with what became of them, at most 100,000.

    Documents of which you hold a blind review are left out. You can receive four files at a time.
    In CSV, lists are JSON, and text that a spreadsheet would run as a formula starts with an
    apostrophe.
    """
    filters = search.as_filter()

    def opened() -> StreamedFile:
        parts = edge.services.selections.export(
            caller, filters, search.order, written=search.format, content=search.content
        )
        return file_of(parts, "documents", search.format)

    return edge.streams.send(caller, opened)


@router.get(
    "/new-comments",
    response_model=NewCommentsPage,
    dependencies=[needs(Permission.REVIEW)],
)
def list_new_comments(caller: CallerOf, services: ServicesOf) -> Response:
    """List documents that you answered or wrote about, and on which others have commented since.

    The last written about comes first, at most 20. Reading the comments of a document takes it off
    the list. Documents of which you hold a blind review are left out.
    """
    return listed_wholly(services.comments.unread(caller))


@router.get(
    "/{prediction_id}",
    response_model=DocumentBody,
    responses=documented(errors.PredictionNotFound, errors.BlindReviewHeld),
    dependencies=[needs(Permission.READ_ALL_PREDICTIONS)],
)
def get_document(caller: CallerOf, prediction_id: str, services: ServicesOf) -> Response:
    """Read a document and all that happened to it."""
    life = services.documents.get(caller, prediction_id)
    document = life.prediction.document
    return answer(
        {
            "prediction": ShownPrediction.of(life.prediction),
            "text": document.text,
            "features": document.features,
            "metadata": document.metadata,
            "priority": document.priority,
            "due_at": document.due_at,
            **({"unreadable": True} if document.unreadable else {}),
            **(document.answer or {}),
            "events": life.events(),
        }
    )


@router.post(
    "/actions", response_model=SelectionOutcome, dependencies=[needs(Permission.REVIEW, leads=True)]
)
def act_on_documents(caller: CallerOf, body: ActionRequest, services: ServicesOf) -> Response:
    """Assign, prioritize or reopen several documents, in one transaction.

    A document that is assigned to a person is given to no one else. Documents that the action does
    not fit stay as they are and are listed with the reason.
    """
    return answer(body.carry_out(services.selections, caller))


@router.post(
    "/{prediction_id}/reopen",
    status_code=201,
    response_model=ReviewTaskBody,
    responses=answering("ETag", status=201)
    | documented(
        errors.PredictionNotFound,
        errors.ReviewOpen,
        errors.ReviewAlreadyDecided,
        errors.SimilarLabels,
        errors.ModelUnavailable,
    ),
    dependencies=[needs(Permission.REVIEW)],
)
def reopen_document(
    caller: CallerOf, prediction_id: str, body: ReopenRequest, services: ServicesOf
) -> Response:
    """Have a document decided again.

    If the answer differs from what was sent, `document.corrected` follows. The answer is no
    evidence: certificates, the breaker and reports keep to the answers before. Without the scope
    `read-predictions` you can correct your own last answer only, with `labels`.
    """
    task = services.answers.reopen(
        caller, prediction_id, body.reason, body.labels, additions=body.additions()
    )
    return answer(ReviewTaskBody.of(task, caller), status=201, etag=task.version)


_SHOWN = (errors.PredictionNotFound, errors.BlindReviewHeld)


@router.get(
    "/{prediction_id}/comments",
    response_model=CommentPage,
    responses=documented(*_SHOWN),
    dependencies=[needs(Permission.REVIEW, Permission.READ_ALL_PREDICTIONS)],
)
def list_comments(caller: CallerOf, prediction_id: str, services: ServicesOf) -> Response:
    """List the comments on a document, by thread.

    Without the scope `read-predictions`, only of documents that you have answered.
    """
    threads = services.comments.of(caller, prediction_id)
    return listed_wholly(comment for thread in threads for comment in thread.comments)


@router.post(
    "/{prediction_id}/comments",
    status_code=201,
    response_model=Comment,
    responses=documented(*_SHOWN),
    dependencies=[needs(Permission.REVIEW)],
)
def add_comment(
    caller: CallerOf, prediction_id: str, body: CommentRequest, services: ServicesOf
) -> Response:
    """Comment on a document, or flag it.

    People who answered it or commented on it see the comment on their start page. Comments are
    erased with the text.
    """
    return answer(body.write(services.comments, caller, prediction_id), status=201)
