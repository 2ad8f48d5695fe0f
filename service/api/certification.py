"""Routes for certificates and for attempts that proved no threshold."""

from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Query, Response
from pydantic import ConfigDict, Field, JsonValue

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, EdgeOf, RequestId, ServicesOf, answer
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.jobs import Job
from setwise.service.api.schemas import AnswerBody, Example, Paged, Probability
from setwise.service.domain import certification
from setwise.service.domain.errors import CertificationNotFound

router = APIRouter(
    prefix="/v1/admin/certifications", tags=["administration"], route_class=StrictRoute
)

_EXAMPLE: Example = {
    "id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77",
    "model_version": "sha256:3f9c0b7a1d2e",
    "calibrator_version": "sha256:77aa0b7a1d2e",
    "policy_version": "019aa4c1-8f60-7bd1-8a3e-5a1f6f0f6f10",
    "target_accuracy": 0.95,
    "risk": 0.1,
    "attempt": 2,
    "threshold": None,
    "reason": "too-few-audits",
    "further_audits": 37,
    "evidence": {"n_audits": 212, "errors_known": 9, "errors_missed": 1, "reread_rate": 0.1},
    "requested_by": "system",
    "created_at": "2026-11-21T09:00:00Z",
}


class Certification(AnswerBody):
    """One attempt to prove a threshold from audits."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str
    model_version: str
    calibrator_version: str = Field(description="It holds for confidences of this one only.")
    policy_version: str = Field(description="The policy whose target and risk were asked for.")
    target_accuracy: float
    risk: float = Field(description="Shared by all attempts for this model, with any calibrator.")
    attempt: int
    threshold: Probability | None = Field(description="What is proved; null if nothing is.")
    reason: str | None = Field(description="Why nothing is proved; null for a certificate.")
    further_audits: int | None = Field(
        description="How many more would probably prove one; null where no number would."
    )
    evidence: dict[str, JsonValue] = Field(
        description="Counts, p-values along the sequence of thresholds, audits left out."
    )
    requested_by: str
    created_at: datetime

    @classmethod
    def of(cls, made: certification.Certification) -> Self:
        """Return the body for an attempt."""
        own = {name: value for name, value in vars(made).items() if name != "scorer"}
        return cls.model_validate({**own, **made.scorer._asdict(), "evidence": dict(made.evidence)})


class CertificationPage(AnswerBody):
    """One page of attempts, newest first."""

    items: list[Certification]
    next_cursor: str | None
    limit: int


@router.post("", status_code=202, response_model=Job, responses=answering("Location", status=202))
def request_certification(
    caller: CallerOf, services: ServicesOf, request_id: RequestId
) -> Response:
    """Queue a job that finds the lowest threshold that audits prove.

    If the policy's mode is `certified`, a proved threshold is in force at once. One certification
    runs at a time; while it runs, this returns its job.
    """
    job = services.certification.request(caller, request_id=request_id)
    return answer(Job.of(job), status=202, headers={"Location": f"/v1/jobs/{job.id}"})


@router.get("", response_model=CertificationPage)
def list_certifications(
    caller: CallerOf, wanted: Annotated[Paged, Query()], edge: EdgeOf
) -> Response:
    """List all attempts, newest first, including those that proved nothing."""
    page = edge.services.certification.page(
        caller, after=edge.cursors.read(wanted.cursor, "certifications"), limit=wanted.limit
    )
    return answer(
        CertificationPage(
            items=[Certification.of(one) for one in page.items],
            next_cursor=edge.cursors.write(page.next_after, "certifications"),
            limit=wanted.limit,
        )
    )


@router.get(
    "/{certification_id}",
    response_model=Certification,
    responses=documented(CertificationNotFound),
)
def get_certification(caller: CallerOf, certification_id: str, services: ServicesOf) -> Response:
    """Read one attempt with all its evidence."""
    return answer(Certification.of(services.certification.get(caller, certification_id)))
