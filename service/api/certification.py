"""Routes for certificates and for attempts that proved no threshold."""

from datetime import datetime
from functools import partial
from typing import Annotated, Self

from fastapi import APIRouter, Query, Response
from pydantic import Field, JsonValue

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, EdgeOf, ServicesOf, answer, listed
from setwise.service.api.http.openapi import documented
from setwise.service.api.http.openapi_answers import answering
from setwise.service.api.jobs import Job, accepted
from setwise.service.api.schemas import (
    AnswerBody,
    Example,
    Listed,
    Mirror,
    Paged,
    Probability,
    RequestBody,
)
from setwise.service.domain import certification
from setwise.service.domain.errors import CertificationNotFound, ModelNotFound
from setwise.service.domain.models import Candidate
from setwise.service.domain.routing.segments import LONGEST_VALUE, value_of
from setwise.service.services.analysis.plans import MOST_BINS, MOST_RATES, Bin, PlanRequest

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
    "segment": None,
}


class Certification(AnswerBody):
    """One attempt to prove a threshold from audits."""

    examples = (_EXAMPLE,)

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
    segment: str | None = Field(
        description="Whose documents it is about; null: all. The `members` of `(pool)` are in the "
        "evidence."
    )

    @classmethod
    def of(cls, made: certification.Certification) -> Self:
        """Return the body for an attempt."""
        own = {name: value for name, value in vars(made).items() if name != "scorer"}
        own["segment"] = value_of(made.segment)
        return cls.model_validate({**own, **made.scorer._asdict(), "evidence": dict(made.evidence)})


class CertificationPage(Listed[Certification]):
    """One page of attempts, newest first."""


_WEEK: Example = {
    "audits": 300.0,
    "rereads": 51.2,
    "adjudications": 95.3,
    "reviews": 700.0,
    "sent": 0.0,
    "errors": 0.0,
    "readings": 1146.5,
}
_PLAN: Example = {
    "rates": {"certification_rate": 0.08, "ramp_up_rate": 0.3, "gold_reread_rate": 0.25},
    "weeks": 4,
    "weeks_at_most": 6,
    "automation": 0.386,
    "ramp_up": _WEEK,
    "running": {
        "audits": 80.0,
        "rereads": 13.7,
        "adjudications": 25.4,
        "reviews": 534.0,
        "sent": 386.0,
        "errors": 23.2,
        "readings": 653.1,
    },
    "delay": {
        "drop": 0.05,
        "audits": 290,
        "audits_at_most": 624,
        "weeks": 9,
        "weeks_at_most": 19,
    },
    "retest": {
        "drop": 0.05,
        "audits": 149,
        "audits_at_most": 331,
        "weeks": 5,
        "weeks_at_most": 10,
    },
    "cost_a_week": 912.0,
    "meets": True,
}


class CertifyBody(RequestBody):
    """What to certify."""

    examples = ({"model_id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77", "trained_on_audits": False},)

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
        description="Only this segment of what serves, or `(pool)`, however few its audits are; it "
        "leaves the pool. By default all segments that have enough.",
    )

    def as_candidate(self) -> Candidate | None:
        """Return the model for the service; None for what serves."""
        if self.model_id is None:
            return None
        return Candidate(self.model_id, self.trained_on_audits)


_SERVING = CertifyBody()


class BinIn(RequestBody):
    """Documents of one confidence."""

    confidence: float = Field(allow_inf_nan=False)
    share: float = Field(
        allow_inf_nan=False, description="How many there are, against the other entries."
    )


_Number = Annotated[float, Field(allow_inf_nan=False)]
_Rates = Annotated[list[_Number], Field(max_length=MOST_RATES)]


class PlanBody(RequestBody):
    """What to plan audits for; everything has a default."""

    examples = (
        {"certificate_weeks": 8, "find_weeks": 26},
        {
            "target_accuracy": 0.95,
            "documents_a_week": 1000,
            "distribution": [
                {"confidence": 0.98, "share": 0.5},
                {"confidence": 0.8, "share": 0.3},
                {"confidence": 0.4, "share": 0.2},
            ],
            "certification_rates": [0.04, 0.12],
            "error_price": 50,
        },
    )

    target_accuracy: _Number | None = Field(None, description="By default the policy's.")
    risk: _Number | None = Field(None, description="By default the policy's.")
    documents_a_week: _Number | None = Field(
        None, description="By default as many as in the last four weeks."
    )
    distribution: list[BinIn] | None = Field(
        None,
        max_length=MOST_BINS,
        description="Confidences that are expected; by default those of recent predictions.",
    )
    miss_rate: _Number = Field(0.05, description="How often auditors agree with a wrong set.")
    false_alarm_rate: _Number = Field(
        0.1, description="How often auditors contradict a set that is right."
    )
    overconfidence: _Number = Field(
        0.0, description="How much higher than the accuracy the confidences are."
    )
    certification_rates: _Rates = Field([], description="To compare; by default a usual range.")
    ramp_up_rates: _Rates = Field(
        [], description="Shares audited while nothing is sent; by default a usual range."
    )
    gold_reread_rates: _Rates = Field([], description="To compare; by default a usual range.")
    audit_price: _Number = Field(
        1.0, description="Of an audit, a second reading or an adjudication, in any unit."
    )
    review_price: _Number = Field(1.0, description="Of a review.")
    error_price: _Number = Field(10.0, description="Of a set that is sent and wrong.")
    drop: _Number = Field(
        0.05, description="How far below the target the accuracy falls in the drop to be found."
    )
    certificate_weeks: _Number | None = Field(
        26.0,
        description="Weeks in which the first certificate should come, in 80 of 100 cases; null "
        "for any.",
    )
    find_weeks: _Number | None = Field(
        26.0,
        description="Weeks in which the drop should be found, in 90 of 100 cases; null for any.",
    )

    def as_request(self) -> PlanRequest:
        """Return the request for the service."""
        given = self.model_dump(exclude={"distribution"})
        bins = None
        if self.distribution is not None:
            bins = [Bin(one.confidence, one.share) for one in self.distribution]
        return PlanRequest(distribution=bins, **given)


class PlannedRates(Mirror):
    """How much is read, as in the policy."""

    certification_rate: Probability
    ramp_up_rate: Probability = Field(description="While nothing is sent.")
    gold_reread_rate: Probability


class PlannedWeek(Mirror):
    """Numbers of an average week."""

    examples = (_WEEK,)

    audits: float
    rereads: float = Field(description="Audits that a lead reads although the auditor agreed.")
    adjudications: float = Field(description="Contradictions that a lead decides.")
    reviews: float
    sent: float
    errors: float = Field(description="Sets that are sent and wrong.")
    readings: float = Field(description="Readings of any kind.")


class PlannedDelay(Mirror):
    """How long a drop of the accuracy stays unnoticed."""

    drop: float
    audits: int | None = Field(
        description="Audits of sets that would be sent until the breaker trips, in half of the "
        "cases at most; null beyond 20,000."
    )
    audits_at_most: int | None = Field(description="The same in 90 of 100 cases.")
    weeks: int | None = Field(description="`audits` in weeks; null without audits.")
    weeks_at_most: int | None = Field(description="`audits_at_most` in weeks.")


class AuditPlan(Mirror):
    """What rates lead to, by simulation."""

    examples = (_PLAN,)

    rates: PlannedRates
    weeks: int | None = Field(
        description="Weeks to the first certificate, in half of the cases at most; null if none "
        "comes in eight attempts."
    )
    weeks_at_most: int | None = Field(description="The same in 80 of 100 cases.")
    automation: Probability | None = Field(
        description="Share of all documents sent automatically then; null without a certificate."
    )
    ramp_up: PlannedWeek = Field(description="Before the certificate.")
    running: PlannedWeek | None = Field(description="After it; null without one.")
    delay: PlannedDelay | None = Field(
        description="Until the breaker stops sending; null if nothing is sent."
    )
    retest: PlannedDelay | None = Field(
        description="Until the certificate in force gives up its threshold for a higher one."
    )
    cost_a_week: float = Field(description="Mean over the first year.")
    meets: bool = Field(description="Whether it certifies and meets the goals.")


class AuditPlans(Mirror):
    """Plans of audits, and what they are for."""

    examples = (
        {
            "target_accuracy": 0.9,
            "risk": 0.1,
            "documents_a_week": 1000.0,
            "sendable": 0.97,
            "confidences": 5000,
            "items": [_PLAN],
            "recommended": _PLAN,
            "now": None,
            "sentence": "Audit 30% of the documents until the first certificate, which takes about "
            "4 weeks, and 8% from then on; have 25% of the agreements read again. Then 38.6% are "
            "sent, and a drop to 85.0% takes about 9 weeks to find.",
        },
    )

    target_accuracy: Probability
    risk: Probability
    documents_a_week: float
    sendable: Probability = Field(description="Share of the documents that may be sent at all.")
    confidences: int = Field(description="Number of confidences that the plans rest on.")
    items: list[AuditPlan] = Field(
        description="One for each combination of rates: those that meet the goals first, then by "
        "cost."
    )
    recommended: AuditPlan | None = Field(
        description="The cheapest one that meets the goals; null if none does."
    )
    now: AuditPlan | None = Field(
        description="What the rates of the policy lead to; null if it audits nothing."
    )
    sentence: str


@router.post("/plan", response_model=AuditPlans)
def plan_audits(caller: CallerOf, body: PlanBody, services: ServicesOf) -> Response:
    """Plan audits: weeks to the first certificate, readings, costs, weeks until a drop is found.

    Each plan is simulated with the tests of certification and with the detector of the breaker, for
    the confidences and the number of documents of the last weeks, or for those that you describe.
    It takes the confidences to be right, less `overconfidence`. Nothing changes.
    """
    return answer(AuditPlans.of(services.certification.plan(caller, body.as_request())))


@router.post(
    "",
    status_code=202,
    response_model=Job,
    responses={**answering("Location", status=202), **documented(ModelNotFound)},
)
def request_certification(
    caller: CallerOf, services: ServicesOf, body: CertifyBody = _SERVING
) -> Response:
    """Queue a job that finds the lowest threshold that audits prove.

    If the policy's mode is `certified`, a proved threshold is in force at once. One certification
    runs at a time; while it runs, this returns its job.

    With a `model_id` it certifies a registered model on the kept documents of earlier audits, while
    another one serves. What is proved comes into force when you activate that model.
    """
    return accepted(services.certification.request(caller, body.as_candidate(), body.segment))


@router.get("", response_model=CertificationPage)
def list_certifications(
    caller: CallerOf, wanted: Annotated[Paged, Query()], edge: EdgeOf
) -> Response:
    """List all attempts, newest first, including those that proved nothing."""
    read = partial(edge.services.certification.page, caller)
    return listed(edge, wanted, "certifications", read, Certification.of)


@router.get(
    "/{certification_id}", response_model=Certification, responses=documented(CertificationNotFound)
)
def get_certification(caller: CallerOf, certification_id: str, services: ServicesOf) -> Response:
    """Read one attempt with all its evidence."""
    return answer(Certification.of(services.certification.get(caller, certification_id)))
