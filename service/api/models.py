"""Routes for models: register, activate, roll back, shadow, compare."""

import tempfile
from datetime import datetime
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute, UploadRoute
from setwise.service.api.http.conditions import version_in
from setwise.service.api.http.dependencies import (
    CallerOf,
    EdgeOf,
    ServicesOf,
    answer,
    listed_wholly,
    needs,
)
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.http.problem_kinds import UNSUPPORTED_MEDIA_TYPE
from setwise.service.api.http.problems import HttpFault
from setwise.service.api.jobs import JobBody, accepted
from setwise.service.api.schemas import Paged, WhollyListed
from setwise.service.api.views import View
from setwise.service.domain import errors, models
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.predictions import Prediction
from setwise.service.requests.models import CompareRequest, RetrainRequest
from setwise.service.services.models import ComparisonReport

ARCHIVES = "/v1/admin/models"
ARCHIVE_TYPES = ("application/zip", "application/octet-stream")

router = APIRouter(prefix="/v1/admin/models", tags=["administration"], route_class=StrictRoute)
uploads = APIRouter(tags=["administration"], route_class=UploadRoute)


class ModelVersionBody(View, of=models.ModelVersion, shows="id version active summary created_at"):
    """A registered model."""


class ModelPage(WhollyListed[ModelVersionBody]):
    """Every registered model, newest first."""


class Side(View, of=models.ComparedAnswer, shows="labels confidence decision"):
    """The answer of one of the two models."""


class Difference(
    View,
    of=models.ComparedAnswer,
    shows="prediction_id reason same_labels same_decision created_at",
):
    """A document that the candidate would have answered differently."""

    document_id: str | None
    serving: Side
    candidate: Side

    @classmethod
    def of(cls, comparison: models.ComparedAnswer, prediction: Prediction) -> Self:
        """Return the body for a difference."""
        return cls.show(
            comparison,
            document_id=prediction.document.id,
            serving=Side.show(prediction.scored.best, decision=prediction.decision),
            candidate=Side.show(comparison),
        )


class Comparison(
    View,
    of=models.Tally,
    shows="compared same_labels auto_both auto_serving auto_candidate review_both",
):
    """A candidate's comparison with stored predictions, and a page of differences."""

    model_id: str
    version: str
    shadowing_since: datetime | None = Field(
        description="Set while the candidate scores live traffic."
    )
    items: list[Difference] = Field(description="Newest first.")
    next_cursor: str | None
    limit: int

    @classmethod
    def of(cls, report: ComparisonReport, *, next_cursor: str | None, limit: int) -> Self:
        """Return the body for a comparison."""
        return cls.show(
            report.tally,
            model_id=report.model.id,
            version=report.model.version,
            shadowing_since=report.shadow.started_at if report.shadow else None,
            items=[Difference.of(*item) for item in report.differing.items],
            next_cursor=next_cursor,
            limit=limit,
        )


class ComparisonQuery(Paged):
    """Which differences to list."""

    differ: Literal["any", "decision"] = Field(
        "any", description="`decision`: only differences in the decision."
    )


class Verified(View, of=models.ModelVersion, shows="id version"):
    """A model that passed verification."""

    sound: bool = Field(description="Always true: a model that is not sound gets a problem.")


@uploads.post(
    ARCHIVES,
    status_code=201,
    response_model=ModelVersionBody,
    response_description="The registered model; it does not serve yet.",
    responses=documented(
        UNSUPPORTED_MEDIA_TYPE,
        errors.UploadTooLarge,
        errors.InvalidRequest,
        errors.DuplicateModel,
        errors.StorageFull,
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "A ZIP file of an artifact folder written by `setwise train`. "
            f"`{ARCHIVE_TYPES[0]}` means the same.",
            "content": {ARCHIVE_TYPES[-1]: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
    dependencies=[needs(Permission.ADMINISTER)],
)
async def add_model(request: Request, caller: CallerOf, edge: EdgeOf) -> Response:
    """Verify an artifact and register a copy of it.

    Every file is checked against its checksum. Nothing in the artifact is executed.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in ARCHIVE_TYPES:
        raise HttpFault(UNSUPPORTED_MEDIA_TYPE, f"Send a ZIP file as {ARCHIVE_TYPES[0]}.")
    services, limit, size = edge.services, edge.max_upload_bytes, 0
    services.models.allow_adding(caller)
    with tempfile.TemporaryFile() as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise errors.UploadTooLarge(f"The file has more than the {limit} bytes allowed.")
            await run_in_threadpool(file.write, chunk)
        file.seek(0)
        model = await run_in_threadpool(services.models.add, caller, file)
    return answer(ModelVersionBody.show(model), status=201)


@router.get(
    "",
    response_model=ModelPage,
    dependencies=[needs(Permission.INSPECT)],
)
def list_models(caller: CallerOf, services: ServicesOf) -> Response:
    """List the registered models, newest first, all in one page."""
    return listed_wholly(map(ModelVersionBody.show, services.models.page(caller)))


@router.post(
    "/{model_id}/activate",
    response_model=ModelVersionBody,
    responses=documented(errors.ModelNotFound, errors.ModelDamaged),
    dependencies=[needs(Permission.ADMINISTER)],
)
def activate_model(caller: CallerOf, model_id: str, services: ServicesOf) -> Response:
    """Replace the model that serves.

    The model is loaded first. It serves in this process when the response arrives and in the other
    processes within seconds; no request is dropped. If it does not load, the present model keeps
    serving.
    """
    return answer(ModelVersionBody.show(services.models.activate(caller, model_id)))


@router.post(
    "/rollback",
    response_model=ModelVersionBody,
    responses=documented(
        errors.NothingToRollBack, errors.ModelDamaged, errors.StaleVersion, errors.VersionRequired
    ),
    dependencies=[needs(Permission.ADMINISTER)],
)
def roll_back_model(
    caller: CallerOf,
    services: ServicesOf,
    if_match: Annotated[
        str | None,
        Header(
            description="The `version` of the model to leave, in quotes, as predictions carry it "
            "in `model_version`. Required."
        ),
    ] = None,
) -> Response:
    """Activate the model that served before the one named in `If-Match`.

    If another model serves, nothing happens: a repeated request cannot undo the first.
    """
    model = services.models.roll_back(caller, version_in(if_match))
    return answer(ModelVersionBody.show(model))


@router.post(
    "/{model_id}/verify",
    response_model=Verified,
    responses=documented(errors.ModelNotFound, errors.ModelDamaged),
    dependencies=[needs(Permission.ADMINISTER)],
)
def verify_model(caller: CallerOf, model_id: str, services: ServicesOf) -> Response:
    """Load a registered model, check its checksums, and run one prediction."""
    model = services.models.verify(caller, model_id)
    return answer(Verified.show(model, sound=True))


@router.post(
    "/{model_id}/shadow",
    response_model=models.Shadow,
    responses=documented(errors.ModelNotFound, errors.ModelDamaged, errors.ShadowTaken),
    dependencies=[needs(Permission.ADMINISTER)],
)
def begin_shadow(caller: CallerOf, model_id: str, services: ServicesOf) -> Response:
    """Start scoring live traffic with a model that decides nothing.

    The model scores documents after the response is sent, so it never delays a request; under load
    it skips documents. `…/comparison` shows what it would have decided.
    """
    return answer(services.models.begin_shadow(caller, model_id))


@router.delete(
    "/{model_id}/shadow",
    status_code=204,
    response_description="The shadow has ended; its comparisons are kept.",
    responses=documented(errors.ModelNotFound, errors.ShadowNotFound),
    dependencies=[needs(Permission.ADMINISTER)],
)
def end_shadow(caller: CallerOf, model_id: str, services: ServicesOf) -> Response:
    """Stop a model from scoring live traffic."""
    services.models.end_shadow(caller, model_id)
    return Response(status_code=204)


@router.get(
    "/{model_id}/comparison",
    response_model=Comparison,
    responses=documented(errors.ModelNotFound),
    dependencies=[needs(Permission.INSPECT)],
)
def get_comparison(
    caller: CallerOf, model_id: str, query: Annotated[ComparisonQuery, Query()], edge: EdgeOf
) -> Response:
    """Read a model's comparison with stored predictions, from shadowing and jobs."""
    scope = f"comparison?{model_id}&{query.differ}"
    report = edge.services.models.comparison(
        caller,
        model_id,
        routes_only=query.differ == "decision",
        after=edge.cursors.read(query.cursor, scope),
        limit=query.limit,
    )
    cursor = edge.cursors.write(report.differing.next_after, scope)
    return answer(Comparison.of(report, next_cursor=cursor, limit=query.limit))


@router.post(
    "/{model_id}/compare",
    status_code=202,
    response_model=JobBody,
    response_description="The job; `Location` is its address.",
    responses=answering("Location", status=202)
    | documented(errors.ModelNotFound, UNSUPPORTED_MEDIA_TYPE),
    dependencies=[needs(Permission.ADMINISTER)],
)
def compare_model(
    caller: CallerOf, model_id: str, body: CompareRequest, *, services: ServicesOf
) -> Response:
    """Queue a job that scores recent documents with a model.

    It scores only documents whose content is still stored.
    """
    return accepted(services.models.submit_compare(caller, model_id, body.documents))


@router.post(
    "/retrain",
    status_code=202,
    response_model=JobBody,
    response_description="The job, or the unfinished one; `Location` is its address.",
    responses=answering("Location", status=202),
    dependencies=[needs(Permission.ADMINISTER)],
)
def retrain_model(caller: CallerOf, body: RetrainRequest, services: ServicesOf) -> Response:
    """Queue a job that fits a new version of the model.

    It learns from reviewed documents whose content is kept, and from earlier ones if you name a
    file; documents drawn to certify teach nothing. The new version is registered, scores live
    documents in the shadow if no other one does, and is compared with the model that serves on the
    same audits. What serves does not change: activate the new version yourself.
    """
    return accepted(services.retraining.request(caller, body.as_options()))
