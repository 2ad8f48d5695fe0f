"""Routes for certificates and for attempts that certified no threshold."""

from functools import partial
from typing import Annotated, Self

from fastapi import APIRouter, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import (
    CallerOf,
    EdgeOf,
    ServicesOf,
    answer,
    listed,
    needs,
)
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.jobs import JobBody, accepted
from setwise.service.api.schemas import Listed, Paged, Probability
from setwise.service.api.views import AnswerBody, View
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.certification import (
    Certification,
    CertificationOutlook,
)
from setwise.service.domain.errors import CertificationNotFound, ModelNotFound
from setwise.service.domain.models import CertificationCandidate
from setwise.service.domain.routing.segments import LONGEST_VALUE, value_of
from setwise.service.requests import RequestBody

router = APIRouter(
    prefix="/v1/admin/certifications", tags=["administration"], route_class=StrictRoute
)


class CertificationBody(
    View,
    of=Certification,
    shows="id policy_version target_accuracy risk attempt threshold reason further_audits evidence "
    "requested_by created_at",
):
    """One attempt to certify a threshold from audits."""

    model_version: str
    calibrator_version: str = Field(description="It holds for confidences of this one only.")
    risk: float = Field(description="Shared by all attempts for this model, with any calibrator.")
    threshold: Probability | None = Field(description="What is certified; null if nothing is.")
    segment: str | None = Field(description="Whose documents it is about; null: all.")

    @classmethod
    def of(cls, attempt: Certification) -> Self:
        """Return the body for an attempt."""
        return cls.show(attempt, **attempt.scorer._asdict(), segment=value_of(attempt.segment))


class CertificationPage(Listed[CertificationBody]):
    """One page of attempts, newest first."""


class CertificationRequest(RequestBody):
    """What to certify."""

    model_id: str | None = Field(None, description="By default the model that serves.")
    trained_on_audits: bool = Field(
        True,
        description="State `false` if the model with this id was trained on none of the audits. By "
        "default only documents that arrived after its artifact was made count; if the artifact "
        "does not say when that was, the statement is required.",
    )

    segment: str | None = Field(
        None,
        max_length=LONGEST_VALUE,
        description="Only this segment of what serves, however few its audits are. By default all "
        "segments that have enough.",
    )

    def as_candidate(self) -> CertificationCandidate | None:
        """Return the model for the service; None for what serves."""
        if self.model_id is None:
            return None
        return CertificationCandidate(self.model_id, self.trained_on_audits)


_SERVING = CertificationRequest()


class Outlooks(AnswerBody):
    """The outlook of each segment, or of all documents; empty before the first prediction."""

    items: list[CertificationOutlook]


@router.post(
    "",
    status_code=202,
    response_model=JobBody,
    responses={**answering("Location", status=202), **documented(ModelNotFound)},
    dependencies=[needs(Permission.ADMINISTER)],
)
def request_certification(
    caller: CallerOf, services: ServicesOf, body: CertificationRequest = _SERVING
) -> Response:
    """Queue a job that finds the lowest threshold that audits prove.

    If the policy's mode is `certified`, the threshold is in force at once. One attempt runs at a
    time; while it runs, this returns its job.

    Looks come by themselves, and share nearly all of the risk. If none is due, this attempt spends
    half of what is left of a reserve, a twentieth of the risk: its moment may depend on what was
    found. Once more audits of the last look are read, it repeats that look and spends nothing.

    With a `model_id` it certifies a registered model on the kept documents of earlier audits, while
    another one serves. What is certified comes into force when you activate that model.
    """
    return accepted(services.certification.request(caller, body.as_candidate(), body.segment))


@router.get(
    "",
    response_model=CertificationPage,
    dependencies=[needs(Permission.REPORT, Permission.INSPECT)],
)
def list_certifications(
    caller: CallerOf, query: Annotated[Paged, Query()], edge: EdgeOf
) -> Response:
    """List all attempts, newest first, including those that certified nothing."""
    read = partial(edge.services.certification.page, caller)
    return listed(edge, query, "certifications", read, CertificationBody.of)


@router.get(
    "/outlook", response_model=Outlooks, dependencies=[needs(Permission.REPORT, Permission.INSPECT)]
)
def get_outlook(
    caller: CallerOf,
    services: ServicesOf,
    rate: Annotated[
        float | None,
        Query(allow_inf_nan=False, description="An audit rate to compare with the policy's."),
    ] = None,
    target: Annotated[
        float | None,
        Query(allow_inf_nan=False, description="An accuracy to prove instead of the policy's."),
    ] = None,
) -> Response:
    """Read how many more audits would probably certify a threshold, and how long they take.

    Before the first attempt the confidences alone say how many: they are taken to be right.
    """
    return answer({"items": services.outlook.of_segments(caller, rate, target)})


@router.get(
    "/{certification_id}",
    response_model=CertificationBody,
    responses=documented(CertificationNotFound),
    dependencies=[needs(Permission.REPORT, Permission.INSPECT)],
)
def get_certification(caller: CallerOf, certification_id: str, services: ServicesOf) -> Response:
    """Read one attempt with all its evidence."""
    return answer(CertificationBody.of(services.certification.get(caller, certification_id)))
