"""Predict documents and read what was predicted."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from setwise.service.api.bodies import StrictRoute, digest_of
from setwise.service.api.dependencies import CallerOf, Edge, EdgeOf, RequestId, VerbsOf, answer
from setwise.service.api.openapi import documented
from setwise.service.api.schemas import (
    Prediction,
    PredictionPage,
    PredictionQuery,
    PredictionRequest,
    written_prediction,
)
from setwise.service.domain.callers import Caller
from setwise.service.domain.errors import (
    DocumentTooLarge,
    IdempotencyMismatch,
    ModelUnavailable,
    PredictionNotFound,
)
from setwise.service.domain.predictions import IdempotencyKey, PredictionFilter, Submission
from setwise.service.domain.predictions import Prediction as Stored

ADDRESS = "/v1/predictions"

LONGEST_SMALL = 10_000
"""Characters of a small text; a feature of a vector counts as ten."""

router = APIRouter(prefix=ADDRESS, tags=["predictions"], route_class=StrictRoute)


async def predicted(
    edge: Edge,
    caller: Caller,
    body: PredictionRequest,
    request_id: str | None,
    idempotency_key: str | None,
) -> Stored:
    """Return the stored prediction that a request asks for, once it is committed."""
    prediction = await edge.predict(
        Submission(caller, body.as_document(), _idempotency(idempotency_key, body), request_id)
    )
    edge.metrics.decided(prediction.decision, prediction.reason)
    return prediction


def is_small(submission: Submission) -> bool:
    """Tell whether a document takes about as long as most, a millisecond at most."""
    document = submission.document
    return len(document.text or "") + 10 * len(document.features or ()) <= LONGEST_SMALL


def address(prediction: Stored) -> str:
    """Return where a prediction can be read."""
    return f"{ADDRESS}/{prediction.id}"


async def predict(
    caller: CallerOf,
    body: PredictionRequest,
    edge: EdgeOf,
    request_id: RequestId,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Your name for this request. Sent again with the same body it gives the "
            "first prediction instead of a second one."
        ),
    ] = None,
) -> Response:
    """Predict the label set of one document, decide whether it is sent, and store both.

    A document in which nothing is known to the model always goes to review. The answer leaves
    after the prediction, its review task and its audit row are committed together.
    """
    prediction = await predicted(edge, caller, body, request_id, idempotency_key)
    return answer(
        written_prediction(prediction), status=201, headers={"Location": address(prediction)}
    )


router.add_api_route(
    "",
    predict,
    methods=["POST"],
    status_code=201,
    response_model=Prediction,
    response_description="The prediction, stored; `Location` is its address.",
    responses=documented(DocumentTooLarge, IdempotencyMismatch, ModelUnavailable),
)


ROUTE = router.routes[-1]
"""The route of `predict`: its template stands for the request in logs and metrics."""


def _idempotency(key: str | None, body: PredictionRequest) -> IdempotencyKey | None:
    if key is None:
        return None
    return IdempotencyKey(key, digest_of(body))


@router.get(
    "",
    response_model=PredictionPage,
)
def list_predictions(
    caller: CallerOf, wanted: Annotated[PredictionQuery, Query()], edge: EdgeOf
) -> Response:
    """List predictions, newest first. A client sees its own, leads and administrators all."""
    scope = f"predictions?{wanted.model_dump_json(exclude={'cursor', 'limit'})}"
    page = edge.verbs.list_predictions(
        caller,
        PredictionFilter(
            decision=wanted.decision,
            document_id=wanted.document_id,
            created_from=wanted.created_from,
            created_before=wanted.created_before,
        ),
        after=edge.cursors.read(wanted.cursor, scope),
        limit=wanted.limit,
    )
    return answer(
        PredictionPage(
            items=[Prediction.of(item) for item in page.items],
            next_cursor=edge.cursors.write(page.next_after, scope),
            limit=wanted.limit,
        )
    )


@router.get(
    "/{prediction_id}",
    response_model=Prediction,
    responses=documented(PredictionNotFound),
)
def get_prediction(caller: CallerOf, prediction_id: str, verbs: VerbsOf) -> Response:
    """Read one prediction as it was stored; it never changes."""
    return answer(Prediction.of(verbs.get_prediction(caller, prediction_id)))
