"""Predict documents and read what was predicted."""

import hashlib
import json
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.bodies import StrictRoute, strictly
from service.api.dependencies import (
    CallerOf,
    EdgeOf,
    RequestId,
    VerbsOf,
    answer,
    caller_of,
    request_id_of,
)
from service.api.openapi import documented
from service.api.problems import answer_to
from service.api.schemas import (
    Prediction,
    PredictionPage,
    PredictionQuery,
    PredictionRequest,
    written_prediction,
)
from service.domain.errors import (
    DocumentTooLarge,
    IdempotencyMismatch,
    ModelUnavailable,
    PredictionNotFound,
)
from service.use_cases.ports import IdempotencyKey, PredictionFilter
from service.use_cases.predict import Submission

ADDRESS = "/v1/predictions"

router = APIRouter(prefix=ADDRESS, tags=["predictions"], route_class=StrictRoute)


class Shortcut:
    """ASGI middleware, the innermost: answers `POST /v1/predictions` before FastAPI sees it.

    The arguments mean and answer the same as FastAPI's, whose way to an endpoint and whose
    resolution of arguments take longer than all the rest of a prediction. The route itself stays,
    for the OpenAPI document and for whoever mounts the routes without this.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if (
            scope["type"] != "http"
            or scope["path"] != ADDRESS
            or scope["method"] != "POST"
            or scope.get("root_path")
        ):
            await self._app(scope, receive, send)
            return
        scope["route"] = _ROUTE
        received = Request(scope, receive)
        try:
            response = await _handled(received)
        except Exception as error:  # noqa: BLE001 -- raised again unless it has an answer
            response = await answer_to(received, error)
        await response(scope, receive, send)


async def _handled(received: Request) -> Response:
    request = await strictly(received)
    content = await request.json() if await request.body() else None
    return await predict(
        await caller_of(request),
        _validated(content),
        request.app.state.edge,
        await request_id_of(request),
        request.headers.get("idempotency-key"),
    )


def _validated(content: object) -> PredictionRequest:
    try:
        return PredictionRequest.model_validate(content)
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from error


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
    prediction = await edge.predict(
        Submission(caller, body.as_document(), _idempotency(idempotency_key, body), request_id)
    )
    edge.metrics.decided(prediction.decision, prediction.reason)
    return answer(
        written_prediction(prediction),
        status=201,
        headers={"Location": f"/v1/predictions/{prediction.id}"},
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


_ROUTE = router.routes[-1]
"""The route of `predict`: its template stands for the request in logs and metrics."""


def _idempotency(key: str | None, body: PredictionRequest) -> IdempotencyKey | None:
    if key is None:
        return None
    # Of the meaning, not the bytes: the order of fields and white space may differ.
    canonical = json.dumps(body.model_dump(), sort_keys=True, separators=(",", ":"))
    return IdempotencyKey(key, hashlib.sha256(canonical.encode()).hexdigest())


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
