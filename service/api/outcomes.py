"""Routes for outcomes: report and list them."""

from datetime import datetime
from typing import Self

from fastapi import APIRouter, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, listed_wholly
from setwise.service.api.http.openapi import documented
from setwise.service.api.schemas import AnswerBody, Mirror, WhollyListed
from setwise.service.domain.errors import (
    BlindReviewHeld,
    ModelUnavailable,
    PredictionNotFound,
    SimilarLabels,
)
from setwise.service.domain.labels import shown_set
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.text import MOST_HINTED
from setwise.service.requests import Example
from setwise.service.requests.reviews import BeyondModel, Labels

router = APIRouter(prefix="/v1/predictions", tags=["predictions"], route_class=StrictRoute)

_OUTCOME: Example = {
    "id": "019aa4c1-8f60-7bd1-8a3e-5a1f6f0f6f10",
    "prediction_id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77",
    "number": 1,
    "labels": ["J18.9"],
    "label_missing": False,
    "source": "billing",
    "agreed": False,
    "created_at": "2026-12-01T09:00:00Z",
}


class OutcomeRequest(BeyondModel):
    """A label set that turned out to be right."""

    examples = ({"labels": ["J18.9"], "source": "billing"},)

    labels: Labels = Field(
        description="Every label that applies, known to the model or not; [] when none does."
    )
    source: str = Field(description="Who reports it, such as `billing`.")
    strict: bool = Field(
        default=False,
        description="Refuse labels that neither the active model nor the catalogue has, unless "
        "`new_labels` names them.",
    )


class OutcomeBody(AnswerBody):
    """A label set that turned out to be right."""

    examples = (_OUTCOME,)

    id: str
    prediction_id: str
    number: int = Field(ge=1, description="The outcome with the highest number counts.")
    labels: list[str]
    label_missing: bool = Field(description="A label applies besides that has no name.")
    source: str
    agreed: bool = Field(description="The labels are those that were predicted.")
    created_at: datetime

    @classmethod
    def of(cls, outcome: Outcome, **more: object) -> Self:
        """Return the body for an outcome."""
        values = {name: getattr(outcome, name, None) for name in OutcomeBody.model_fields}
        shown = vars(shown_set(outcome.labels))
        return cls.model_validate({**values, **shown, **more}, from_attributes=True)


class UnknownLabelBody(Mirror):
    """A label that neither the active model, the prediction nor the catalogue has."""

    label: str
    nearest: list[str] = Field(
        description="Labels that may be meant, likeliest first; looked up for the first "
        f"{MOST_HINTED} unknown labels."
    )


class ReportedOutcome(OutcomeBody):
    """An outcome as it was stored, and its labels that may be misspelt."""

    examples = (_OUTCOME | {"unknown_labels": [{"label": "J18,9", "nearest": ["J18.9"]}]},)

    unknown_labels: list[UnknownLabelBody] | None = Field(
        description="Labels that neither the active model, the prediction nor the catalogue has: "
        "new ones, or misspelt. They are proposed for the catalogue, where a lead can merge them "
        "into others. null without an active model."
    )


class OutcomePage(WhollyListed[OutcomeBody]):
    """Every outcome of one prediction, oldest first."""

    examples = ({"items": [_OUTCOME], "next_cursor": None, "limit": 1},)


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
    return listed_wholly(map(OutcomeBody.of, services.outcomes.page(caller, prediction_id)))
