"""Routes for predictions: predict one or many documents, list, read."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, NotRequired

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, Field, JsonValue
from starlette.types import Scope

from setwise.service.api.http.bodies import StrictRoute, meaning_of
from setwise.service.api.http.dependencies import (
    CallerOf,
    Edge,
    EdgeOf,
    ServicesOf,
    answer,
    listed,
    needs,
)
from setwise.service.api.http.idempotency import REPLAYED
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.http.problems import Problem, problem_of
from setwise.service.api.http.streams import run_soon
from setwise.service.api.schemas import (
    DocumentIn,
    DueAt,
    PredictionPage,
    PredictionQuery,
    PredictionRequest,
    PriorityIn,
    document_of,
    few_members_of,
)
from setwise.service.api.views import AnswerBody
from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.documents import ShownPrediction
from setwise.service.domain.predictions import (
    Accepted,
    Document,
    IdempotencyKey,
    PredictionFilter,
    Refused,
    Submission,
    SubmissionOutcome,
)
from setwise.service.requests import RequestBody
from setwise.service.services.predictions import MOST_DOCUMENTS, all_predicted

ADDRESS = "/v1/predictions"

router = APIRouter(prefix=ADDRESS, tags=["predictions"], route_class=StrictRoute)


class BatchDocument(DocumentIn):
    """One document of a batch."""

    metadata: NotRequired[
        Annotated[
            dict[str, JsonValue],
            Field(
                default_factory=dict, description="Kept with the document, never read; up to 64 kB."
            ),
        ]
    ]
    priority: NotRequired[PriorityIn]
    due_at: NotRequired[DueAt]


class BatchRequest(RequestBody):
    """Documents to predict together."""

    documents: list[Annotated[BatchDocument, few_members_of(BatchDocument)]] = Field(
        min_length=1, max_length=MOST_DOCUMENTS
    )

    def as_documents(self) -> list[Document]:
        """Return the documents for the service."""
        return [document_of(document) for document in self.documents]


class Batch(AnswerBody):
    """The outcome of each document of a batch."""

    items: list[ShownPrediction | Problem] = Field(
        description="One for each document, in order: a prediction, or a problem, which has a "
        "`type` and no `id`."
    )


@router.post(
    "",
    status_code=201,
    response_model=ShownPrediction,
    response_description="The prediction, stored; `Location` is its address.",
    responses=answering("Location", status=201)
    | documented(
        errors.DocumentTooLarge,
        errors.IdempotencyMismatch,
        errors.ModelLoading,
        errors.ModelUnreadable,
    ),
    dependencies=[needs(Permission.PREDICT)],
)
async def predict(
    caller: CallerOf,
    edge: EdgeOf,
    body: PredictionRequest,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Your name for this request. Sent again with the same body it gives the "
            "first prediction instead of a second one."
        ),
    ] = None,
) -> Response:
    """Predict one document's label set and decide whether to send it.

    A document in which the model knows nothing always goes to review, and so does each one while
    there is no model (`no_model`): `labels`, `confidence` and `model_version` are null then. The
    response is sent after the prediction, its review task and its audit row are committed together.
    """
    key = _idempotency(edge, idempotency_key, body)
    submission = Submission(caller, body.as_document(), key)
    outcomes = await edge.predict([submission])
    edge.metrics.decided(outcomes)
    (prediction,) = all_predicted(outcomes)
    headers = {"Location": f"{ADDRESS}/{prediction.id}", **_mark(outcomes)}
    return answer(ShownPrediction.of(prediction), status=201, headers=headers)


@router.post(
    "/batch",
    response_model=Batch,
    responses=documented(errors.ModelLoading, errors.ModelUnreadable),
    dependencies=[needs(Permission.PREDICT)],
)
async def predict_batch(
    request: Request,
    caller: CallerOf,
    edge: EdgeOf,
    body: BatchRequest,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Your name for this batch. Sent again with the same body it gives the "
            "predictions that are stored and tries the other documents again."
        ),
    ] = None,
) -> Response:
    """Predict up to 256 documents in one request.

    If a document cannot be predicted or stored, its item is a problem, such as `document-too-large`
    or `idempotency-mismatch`, and the other documents are not affected. A body of the wrong form is
    refused as a whole. The size limit of a body applies to the whole batch.
    """
    caller.require(Permission.PREDICT)
    key = _idempotency(edge, idempotency_key, body)
    outcomes = await edge.predict(
        [
            Submission(caller, document, key and key.of_part(place))
            for place, document in enumerate(body.as_documents())
        ]
    )
    faults = [outcome.error for outcome in outcomes if isinstance(outcome, Refused)]
    if len(faults) == len(outcomes):
        for fault in faults:
            if isinstance(fault, errors.ModelUnavailable | errors.StorageUnavailable):
                raise fault
    edge.metrics.decided(outcomes)
    # In a thread, because writing hundreds of predictions would block the event loop.
    return await run_soon(_batch_answer, outcomes, request.scope)


def _mark(outcomes: Sequence[SubmissionOutcome]) -> Mapping[str, str]:
    """Return the header of a response that only repeats stored predictions."""
    replayed = all(isinstance(each, Accepted) and each.replayed for each in outcomes)
    return {REPLAYED: "true"} if replayed else {}


def _batch_answer(outcomes: Sequence[SubmissionOutcome], scope: Scope) -> Response:
    return answer(
        {
            "items": [
                _problem(outcome.error, place, scope)
                if isinstance(outcome, Refused)
                else ShownPrediction.of(outcome.prediction)
                for place, outcome in enumerate(outcomes)
            ]
        },
        headers=_mark(outcomes),
    )


def _problem(fault: Exception, place: int, scope: Scope) -> dict[str, object]:
    def in_batch(pointer: str) -> str:
        if pointer.startswith("/header/"):
            return pointer
        return f"/documents/{place}{pointer.removeprefix('/document')}"

    problem = problem_of(fault, scope, place=in_batch)
    return problem.model_dump(exclude_defaults=True)


def _idempotency(edge: Edge, key: str | None, body: BaseModel) -> IdempotencyKey | None:
    if key is None:
        return None
    return IdempotencyKey(key, edge.services.idempotency.digest(meaning_of(body)).hexdigest())


@router.get(
    "",
    response_model=PredictionPage,
    dependencies=[needs(Permission.PREDICT, Permission.READ_ALL_PREDICTIONS)],
)
def list_predictions(
    caller: CallerOf, query: Annotated[PredictionQuery, Query()], edge: EdgeOf
) -> Response:
    """List predictions, newest first.

    Clients see their own predictions; leads, administrators and auditors see all.
    """
    filters = PredictionFilter(**query.model_dump(exclude={"cursor", "limit"}))
    read = partial(edge.services.predictions.page, caller, filters)
    return listed(edge, query, f"predictions?{query.filters()}", read, ShownPrediction.of)


@router.get(
    "/{prediction_id}",
    response_model=ShownPrediction,
    responses=documented(errors.PredictionNotFound, errors.BlindReviewHeld),
    dependencies=[needs(Permission.PREDICT, Permission.READ_ALL_PREDICTIONS)],
)
def get_prediction(caller: CallerOf, prediction_id: str, services: ServicesOf) -> Response:
    """Read one stored prediction; it never changes."""
    return answer(ShownPrediction.of(services.predictions.get(caller, prediction_id)))
