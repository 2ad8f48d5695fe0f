"""Models as versions: add, verify, roll back, shadow, compare."""

import tempfile
from datetime import datetime
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import ConfigDict, Field

from setwise.service.api.bodies import StrictRoute
from setwise.service.api.dependencies import CallerOf, EdgeOf, RequestId, VerbsOf, answer
from setwise.service.api.jobs import Job
from setwise.service.api.openapi import documented
from setwise.service.api.problem_kinds import UNSUPPORTED_MEDIA_TYPE
from setwise.service.api.problems import HttpFault
from setwise.service.api.schemas import AnswerBody, Example, Model, Paged, Probability, RequestBody
from setwise.service.domain import comparison
from setwise.service.domain.errors import (
    DuplicateModel,
    InvalidRequest,
    ModelDamaged,
    ModelNotFound,
    NothingToRollBack,
    ShadowNotFound,
    ShadowTaken,
    UploadTooLarge,
)
from setwise.service.domain.predictions import Decision, Prediction, Reason
from setwise.service.services.models import ComparisonReport

ARCHIVES = "/v1/admin/models"
ZIP = "application/zip"

router = APIRouter(prefix="/v1/admin/models", tags=["administration"], route_class=StrictRoute)
uploads = APIRouter(tags=["administration"])

_ONE_MODEL = (ModelNotFound,)
_ID = "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77"
_DIFFERENCE: Example = {
    "prediction_id": _ID,
    "document_id": "note-17",
    "serving": {"labels": ["J18.9"], "confidence": 0.93, "decision": "auto"},
    "candidate": {"labels": ["J18.9", "R50.9"], "confidence": 0.71, "decision": "review"},
    "reason": "below_threshold",
    "same_labels": False,
    "same_decision": False,
    "created_at": "2026-11-21T09:00:00Z",
}


class Side(AnswerBody):
    """What one of the two models said."""

    labels: list[str]
    confidence: Probability
    decision: Decision


class Difference(AnswerBody):
    """A document that the candidate would have answered otherwise."""

    prediction_id: str
    document_id: str | None
    serving: Side
    candidate: Side
    reason: Reason = Field(description="Why the candidate's set would have gone its way.")
    same_labels: bool
    same_decision: bool
    created_at: datetime

    @classmethod
    def of(cls, made: comparison.Comparison, prediction: Prediction) -> Self:
        """Describe a difference."""
        scored = prediction.scored
        return cls(
            prediction_id=prediction.id,
            document_id=prediction.document.id,
            serving=Side(
                labels=list(scored.labels),
                confidence=scored.confidence,
                decision=prediction.decision,
            ),
            candidate=Side(
                labels=list(made.labels), confidence=made.confidence, decision=made.decision
            ),
            reason=made.reason,
            same_labels=made.same_labels,
            same_decision=made.same_decision,
            created_at=made.created_at,
        )


class Comparison(AnswerBody):
    """How a candidate compares with what was predicted, and one page of the differences."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model_id": _ID,
                    "version": "3f9c0b7a1d2e",
                    "shadowing_since": "2026-11-21T08:00:00Z",
                    "compared": 1000,
                    "same_labels": 910,
                    "auto_both": 520,
                    "auto_serving": 30,
                    "auto_candidate": 70,
                    "review_both": 380,
                    "items": [_DIFFERENCE],
                    "next_cursor": None,
                    "limit": 50,
                }
            ]
        }
    )

    model_id: str
    version: str
    shadowing_since: datetime | None = Field(
        description="Set while the candidate scores live traffic."
    )
    compared: int = Field(ge=0, description="Documents that both have scored.")
    same_labels: int = Field(ge=0)
    auto_both: int = Field(ge=0, description="Sent, and the candidate's set would be too.")
    auto_serving: int = Field(ge=0, description="Sent, and the candidate's would wait.")
    auto_candidate: int = Field(ge=0, description="Waited, and the candidate's would be sent.")
    review_both: int = Field(ge=0)
    items: list[Difference] = Field(description="Newest first.")
    next_cursor: str | None
    limit: int

    @classmethod
    def of(cls, report: ComparisonReport, *, next_cursor: str | None, limit: int) -> Self:
        """Describe a comparison."""
        return cls(
            model_id=report.model.id,
            version=report.model.version,
            shadowing_since=report.shadow.started_at if report.shadow else None,
            **vars(report.tally),
            items=[Difference.of(*item) for item in report.differing.items],
            next_cursor=next_cursor,
            limit=limit,
        )


class ComparisonQuery(Paged):
    """Which differences to list."""

    differ: Literal["any", "decision"] = Field(
        "any", description="`decision`: only what would have gone another way."
    )


class CompareRequest(RequestBody):
    """How much to compare."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"documents": 1000}]})

    documents: int = Field(1_000, description="The most recent ones, up to 100000.")


class Verified(AnswerBody):
    """A model that is sound."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": _ID, "version": "3f9c0b7a1d2e", "sound": True}]}
    )

    id: str
    version: str
    sound: Literal[True]


class Shadowing(AnswerBody):
    """A model that scores live traffic without deciding."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model_id": _ID, "started_at": "2026-11-21T08:00:00Z"}]}
    )

    model_id: str
    started_at: datetime


@uploads.post(
    ARCHIVES,
    status_code=201,
    response_model=Model,
    response_description="The model, registered; it does not serve yet.",
    responses=documented(UNSUPPORTED_MEDIA_TYPE, UploadTooLarge, InvalidRequest, DuplicateModel),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "An artifact folder that `setwise train` wrote, as a ZIP file.",
            "content": {ZIP: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def add_model(
    request: Request, caller: CallerOf, edge: EdgeOf, request_id: RequestId
) -> Response:
    """Verify an artifact and register a copy of it.

    Every file is checked against its checksum, and nothing in it is executed.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != ZIP:
        raise HttpFault(UNSUPPORTED_MEDIA_TYPE, f"Send a ZIP file as {ZIP}.")
    verbs, limit, size = edge.verbs, edge.max_upload_bytes, 0
    verbs.add_model.allow(caller)
    with tempfile.TemporaryFile() as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise UploadTooLarge(f"The file has more than the {limit} bytes allowed.")
            await run_in_threadpool(file.write, chunk)
        file.seek(0)
        model = await run_in_threadpool(verbs.add_model, caller, file, request_id=request_id)
    return answer(Model.of(model), status=201)


@router.post(
    "/rollback",
    response_model=Model,
    responses=documented(NothingToRollBack, ModelDamaged),
)
def roll_back_model(caller: CallerOf, verbs: VerbsOf, request_id: RequestId) -> Response:
    """Let the model serve again that served before the present one.

    Repeated, it returns to where the first roll-back began.
    """
    return answer(Model.of(verbs.roll_back_model(caller, request_id=request_id)))


@router.post(
    "/{model_id}/verify",
    response_model=Verified,
    responses=documented(*_ONE_MODEL, ModelDamaged),
)
def verify_model(caller: CallerOf, model_id: str, verbs: VerbsOf) -> Response:
    """Load a registered model anew, checksums included, and let it predict once."""
    model = verbs.verify_model(caller, model_id)
    return answer(Verified(id=model.id, version=model.version, sound=True))


@router.post(
    "/{model_id}/shadow",
    response_model=Shadowing,
    responses=documented(*_ONE_MODEL, ModelDamaged, ShadowTaken),
)
def begin_shadow(
    caller: CallerOf, model_id: str, verbs: VerbsOf, request_id: RequestId
) -> Response:
    """Let a model score live traffic without deciding anything.

    It scores what has been answered already, when there is time, and never delays a request; under
    load it leaves documents out. See `…/comparison` for what it would have said.
    """
    shadow = verbs.begin_shadow(caller, model_id, request_id=request_id)
    return answer(Shadowing(model_id=shadow.model_id, started_at=shadow.started_at))


@router.delete(
    "/{model_id}/shadow",
    status_code=204,
    response_description="It shadows no longer; what it said is kept.",
    responses=documented(*_ONE_MODEL, ShadowNotFound),
)
def end_shadow(caller: CallerOf, model_id: str, verbs: VerbsOf, request_id: RequestId) -> Response:
    """Let a model score live traffic no longer."""
    verbs.end_shadow(caller, model_id, request_id=request_id)
    return Response(status_code=204)


@router.get("/{model_id}/comparison", response_model=Comparison, responses=documented(*_ONE_MODEL))
def get_comparison(
    caller: CallerOf, model_id: str, wanted: Annotated[ComparisonQuery, Query()], edge: EdgeOf
) -> Response:
    """Read how a model compares with what was predicted: from its shadowing and from jobs."""
    scope = f"comparison?{model_id}&{wanted.differ}"
    report = edge.verbs.get_comparison(
        caller,
        model_id,
        routes_only=wanted.differ == "decision",
        after=edge.cursors.read(wanted.cursor, scope),
        limit=wanted.limit,
    )
    cursor = edge.cursors.write(report.differing.next_after, scope)
    return answer(Comparison.of(report, next_cursor=cursor, limit=wanted.limit))


@router.post(
    "/{model_id}/compare",
    status_code=202,
    response_model=Job,
    response_description="The job; `Location` is its address.",
    responses=documented(*_ONE_MODEL, UNSUPPORTED_MEDIA_TYPE),
)
def compare_model(
    caller: CallerOf, model_id: str, body: CompareRequest, *, verbs: VerbsOf, request_id: RequestId
) -> Response:
    """Have a model score recent documents again in the background, as far as they are kept."""
    job = verbs.submit_compare(caller, model_id, body.documents, request_id=request_id)
    return answer(Job.of(job), status=202, headers={"Location": f"/v1/jobs/{job.id}"})
