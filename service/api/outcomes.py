"""Routes for outcomes: report and list them."""

from fastapi import APIRouter, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, listed_wholly
from setwise.service.api.http.openapi import documented
from setwise.service.api.schemas import (
    WhollyListed,
)
from setwise.service.domain.errors import (
    BlindReviewHeld,
    ModelUnavailable,
    PredictionNotFound,
    SimilarLabels,
)
from setwise.service.domain.outcomes import ReportedOutcome, ShownOutcome
from setwise.service.requests.reviews import BeyondModel, Labels

router = APIRouter(prefix="/v1/predictions", tags=["predictions"], route_class=StrictRoute)


class OutcomeRequest(BeyondModel):
    """A label set that turned out to be right."""

    labels: Labels = Field(
        description="Every label that applies, known to the model or not; [] when none does."
    )
    source: str = Field(description="Who reports it, such as `billing`.")
    strict: bool = Field(
        default=False,
        description="Refuse labels that neither the active model nor the catalogue has, unless "
        "`new_labels` names them.",
    )


class OutcomePage(WhollyListed[ShownOutcome]):
    """Every outcome of one prediction, oldest first."""


@router.post(
    "/{prediction_id}/outcome",
    status_code=201,
    response_model=ReportedOutcome,
    response_description="The outcome, stored.",
    responses={
        200: {
            "model": ReportedOutcome,
            "description": "The source reported the same; nothing changed.",
        },
        **documented(PredictionNotFound, SimilarLabels, ModelUnavailable),
    },
)
def report_outcome(
    caller: CallerOf, prediction_id: str, body: OutcomeRequest, services: ServicesOf
) -> Response:
    """Report which label set turned out to be right for a document.

    Repeating a report changes nothing. A later, different report from the same source is added and
    counts from then on. If another label set was sent, webhooks receive `document.corrected`. The
    response names labels that neither the model nor the catalogue has; `"strict": true` refuses
    them.
    """
    report = services.outcomes.report(
        caller,
        prediction_id,
        body.labels,
        body.source,
        strict=body.strict,
        additions=body.additions(),
    )
    return answer(
        ReportedOutcome.of(report.outcome, unknown_labels=report.unknown),
        status=201 if report.new else 200,
    )


@router.get(
    "/{prediction_id}/outcomes",
    response_model=OutcomePage,
    responses=documented(PredictionNotFound, BlindReviewHeld),
)
def list_outcomes(caller: CallerOf, prediction_id: str, services: ServicesOf) -> Response:
    """List all outcomes of one prediction in one page."""
    return listed_wholly(map(ShownOutcome.of, services.outcomes.page(caller, prediction_id)))
