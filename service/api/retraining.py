"""Route to train the model again."""

from fastapi import APIRouter, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.jobs import Job
from setwise.service.api.schemas import RequestBody
from setwise.service.domain.retraining import Retrain

router = APIRouter(prefix="/v1/admin/models", tags=["administration"], route_class=StrictRoute)


class RetrainRequest(RequestBody):
    """What to train on, and how."""

    examples = ({"preset": "fast"},)

    training_data: str | None = Field(
        None,
        max_length=1_000,
        description="Name of a file of earlier training documents in the folder that the setting "
        "`TRAINING_DATA` names. Without one, the model learns from reviewed documents alone.",
    )
    preset: str | None = Field(
        None,
        max_length=20,
        description="`fast`, `best` or `paper`; by default that of the model that serves.",
    )


@router.post(
    "/retrain",
    status_code=202,
    response_model=Job,
    response_description="The job, or the unfinished one; `Location` is its address.",
    responses=answering("Location", status=202),
)
def retrain_model(caller: CallerOf, body: RetrainRequest, services: ServicesOf) -> Response:
    """Queue a job that fits a new version of the model.

    It learns from reviewed documents whose texts are kept, and from earlier ones if you name a
    file; documents drawn to certify teach nothing. The new version is registered, scores live
    documents in the shadow if no other one does, and is compared with the model that serves on the
    same audits. What serves does not change: activate the new version yourself.
    """
    job = services.retraining.request(caller, Retrain(**body.model_dump()))
    return answer(Job.of(job), status=202, headers={"Location": f"/v1/jobs/{job.id}"})
