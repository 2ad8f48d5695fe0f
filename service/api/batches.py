"""Predict many documents in one request."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Annotated, NotRequired

from fastapi import APIRouter, Header, Response
from pydantic import ConfigDict, Field, JsonValue

from setwise.service.api.bodies import StrictRoute, digest_of
from setwise.service.api.dependencies import CallerOf, Edge, EdgeOf, RequestId, answer
from setwise.service.api.openapi import documented
from setwise.service.api.problems import Problem, problem_of
from setwise.service.api.schemas import (
    AnswerBody,
    DocumentIn,
    Prediction,
    RequestBody,
    parts_of_predictions,
    written_prediction,
)
from setwise.service.domain import predictions
from setwise.service.domain.callers import Caller
from setwise.service.domain.errors import ModelUnavailable
from setwise.service.domain.predictions import Decision, IdempotencyKey, Reason
from setwise.service.domain.predictions import Prediction as Stored
from setwise.service.services.predictions import MOST_DOCUMENTS, Outcomes

ADDRESS = "/v1/predictions/batch"

router = APIRouter(tags=["predictions"], route_class=StrictRoute)


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


class BatchRequest(RequestBody):
    """Documents to predict together."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "documents": [
                        {
                            "id": "note-17",
                            "text": "Fever and productive cough for five days.",
                            "metadata": {"site": "north"},
                        },
                        {"id": "note-18", "text": " "},
                    ]
                }
            ]
        }
    )

    documents: list[BatchDocument] = Field(min_length=1, max_length=MOST_DOCUMENTS)

    def as_documents(self) -> list[predictions.Document]:
        """Return what the use case takes."""
        return [predictions.Document(**given) for given in self.documents]


class Batch(AnswerBody):
    """What became of each document of a batch."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "items": [
                        {
                            "id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77",
                            "document_id": "note-17",
                            "labels": ["J18.9"],
                            "confidence": 0.93,
                            "decision": "auto",
                            "reason": "above_threshold",
                            "threshold": 0.9,
                            "candidates": [
                                {"labels": ["J18.9"], "confidence": 0.93, "score": 0.61}
                            ],
                            "marginals": [{"label": "J18.9", "probability": 0.98}],
                            "model_version": "3f9c0b7a1d2e",
                            "calibrator_version": "90ab12cd34ef",
                            "policy_version": "019aa4c1-8f60-7bd1-8a3e-5a1f6f0f6f10",
                            "created_at": "2026-11-21T09:00:00Z",
                        },
                        {
                            "type": "/problems/invalid-request",
                            "title": "The request says something that cannot be done",
                            "status": 422,
                            "detail": "The document cannot be predicted as it stands.",
                            "instance": ADDRESS,
                            "errors": [
                                {
                                    "pointer": "/documents/1/text",
                                    "detail": "is empty; write at least one character",
                                }
                            ],
                        },
                    ]
                }
            ]
        }
    )

    items: list[Prediction | Problem] = Field(
        description="One for each document, in order: a prediction, or a problem, which has a "
        "`type` and no `id`."
    )


def prepared(
    edge: Edge,
    caller: Caller,
    body: BatchRequest,
    request_id: str | None,
    idempotency_key: str | None,
) -> Callable[[], bytes]:
    """Return what commits the predictions and gives the body of the answer."""
    verb = edge.verbs.predict_batch
    batch = verb.prepare(
        caller,
        body.as_documents(),
        idempotency=_idempotency(idempotency_key, body),
        request_id=request_id,
    )
    expected = batch.expected()
    answer = None if expected is None else _written(expected, request_id)

    def store() -> bytes:
        outcomes = verb.store(batch)
        for (decision, reason), times in _kinds(outcomes).items():
            edge.metrics.decided(decision, reason, times)
        if answer is not None and outcomes == expected:
            return answer
        return _written(outcomes, request_id)

    return store


def _kinds(outcomes: Outcomes) -> "Counter[tuple[Decision, Reason]]":
    """Count predictions by decision and reason."""
    made, earlier = outcomes.made, outcomes.others
    kinds = Counter(zip(made.column("decision"), made.column("reason"), strict=True))
    kinds.update([(one.decision, one.reason) for one in earlier if isinstance(one, Stored)])
    return kinds


def _written(outcomes: Outcomes, request_id: str | None) -> bytes:
    parts: list[bytes | memoryview] = [b'{"items":[']
    made = parts_of_predictions(outcomes.made)
    for number, outcome in enumerate(outcomes.others):
        if number:
            parts.append(b",")
        if outcome is None:
            parts += next(made)
        elif isinstance(outcome, Exception):
            place = partial(_in_batch, number)
            problem = problem_of(outcome, ADDRESS, place=place, request_id=request_id)
            parts.append(problem.model_dump_json(exclude_defaults=True).encode())
        else:
            parts.append(written_prediction(outcome))
    parts.append(b"]}")
    return b"".join(parts)


def predict_batch(
    caller: CallerOf,
    body: BatchRequest,
    edge: EdgeOf,
    request_id: RequestId,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Your name for this batch. Sent again with the same body it gives the "
            "predictions that are stored and tries the other documents anew."
        ),
    ] = None,
) -> Response:
    """Predict up to 256 documents together, many times as fast as one by one.

    A document that cannot be predicted or stored has a problem in its place, such as
    `document-too-large` or `idempotency-mismatch`, and never spoils the others. A body of the wrong
    form is refused as a whole. The limit on the size of a body holds for the whole batch.
    """
    return answer(prepared(edge, caller, body, request_id, idempotency_key)())


router.add_api_route(
    ADDRESS,
    predict_batch,
    methods=["POST"],
    response_model=Batch,
    responses=documented(ModelUnavailable),
)


ROUTE = router.routes[-1]
"""The route of `predict_batch`: its template stands for the request in logs and metrics."""


def _in_batch(number: int, pointer: str) -> str:
    if pointer.startswith("/header/"):
        return pointer
    return f"/documents/{number}{pointer.removeprefix('/document')}"


def _idempotency(key: str | None, body: BatchRequest) -> IdempotencyKey | None:
    if key is None:
        return None
    return IdempotencyKey(key, digest_of(body))
