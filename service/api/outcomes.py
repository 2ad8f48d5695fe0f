"""Routes for outcomes: report and list them."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, listed_wholly, needs
from setwise.service.api.http.openapi import documented
from setwise.service.api.schemas import (
    WhollyListed,
)
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.errors import (
    BlindReviewHeld,
    ModelUnavailable,
    PredictionNotFound,
    SimilarLabels,
)
from setwise.service.domain.outcomes import ReportedOutcome, Sampling, ShownOutcome
from setwise.service.requests.reviews import BeyondModel, Labels

router = APIRouter(prefix="/v1/predictions", tags=["predictions"], route_class=StrictRoute)


class OutcomeRequest(BeyondModel):
    """A label set that turned out to be right."""

    labels: Labels = Field(
        description="Every label that applies, known to the model or not; [] when none does."
    )
    source: str = Field(description="Who reports it, such as `billing`.")
    sampling: Annotated[Sampling, Field(strict=False)] | None = Field(
        default=None,
        description="The documents on which the source reports: `all`, a `random_share`, "
        "`only_failures` or `only_on_request`. Outcomes of the first two calibrate confidences and "
        "judge them; the others are shown, and correct what was sent. null: as you last stated for "
        "this source, at first `all`.",
    )
    strict: bool = Field(
        default=False,
        description="Refuse labels that neither the active model has nor a lead has accepted in "
        "the catalogue, unless `new_labels` names them.",
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
    dependencies=[needs(Permission.PREDICT)],
)
def report_outcome(
    caller: CallerOf, prediction_id: str, body: OutcomeRequest, services: ServicesOf
) -> Response:
    """Report which label set turned out to be right for a document.

    Repeating a report changes nothing. A later, different report from the same source is added and
    counts from then on. If another label set was sent, webhooks receive `document.corrected`. State
    in `sampling` on which documents the source reports. A source that thirty times in a row repeats
    the answer within ten seconds is an `echo`, and counts no more until it reports otherwise. The
    response names labels that neither the model nor the catalogue has; `"strict": true` refuses
    them.
    """
    report = services.outcomes.report(
        caller,
        prediction_id,
        body.labels,
        body.source,
        sampling=body.sampling,
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
    dependencies=[needs(Permission.PREDICT, Permission.READ_ALL_PREDICTIONS)],
)
def list_outcomes(caller: CallerOf, prediction_id: str, services: ServicesOf) -> Response:
    """List all outcomes of one prediction in one page."""
    return listed_wholly(map(ShownOutcome.of, services.outcomes.page(caller, prediction_id)))
