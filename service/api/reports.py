"""Routes for reports: counts, accuracy, and forecasts of other policies."""

from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, needs
from setwise.service.api.schemas import Probability
from setwise.service.api.schemas import Query as Parameters
from setwise.service.api.views import View
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.predictions import Reason
from setwise.service.domain.reports import UNDECIDED, Share
from setwise.service.domain.retraining import Learning
from setwise.service.domain.routing.segments import LONGEST_VALUE
from setwise.service.requests import FewFaults, RequestBody
from setwise.service.requests.policy import RuleBody, Threshold
from setwise.service.services.analysis.cockpit import Glance
from setwise.service.services.analysis.forecast import MOST_DOCUMENTS, AutomationCurve
from setwise.service.services.analysis.reliability import Reliability
from setwise.service.services.analysis.what_if import WhatIf
from setwise.service.services.reports import Counts

router = APIRouter(prefix="/v1", tags=["reports"], route_class=StrictRoute)


class Recent(
    View,
    of=Glance,
    shows="since documents sent accuracy promised undecided drawn reported effort",
):
    """The last five weeks, as the cockpit shows them."""

    accuracy: Share = Field(
        description=f"Of the sets that were confident enough to be sent. {UNDECIDED}"
    )
    certified: bool = Field(description="A certificate holds for the threshold in force.")
    certified_since: datetime | None
    audits: int = Field(ge=0, description="Audits that a certificate can stand on by now.")
    next_attempt_in: int | None = Field(description="Audits until the next attempt to certify.")
    arriving_a_day: float = Field(ge=0, description="Review tasks, over the last seven full days.")
    completing_a_day: float = Field(ge=0)
    empty_in_days: float | None = Field(description="null: the queue does not shrink.")

    @classmethod
    def of(cls, seen: Glance) -> Self:
        """Return the body for the numbers of a period."""
        return cls.show(
            seen,
            certified=seen.certificate.certified,
            certified_since=seen.certificate.since,
            audits=seen.certificate.progress.audits,
            next_attempt_in=seen.certificate.progress.missing,
            arriving_a_day=seen.queue.arriving,
            completing_a_day=seen.queue.completing,
            empty_in_days=seen.queue.empty_in_days,
        )


class Summary(View, of=Counts, shows="predictions auto_sent"):
    """Counts of predictions and reviews."""

    coverage: Probability = Field(description="Share that was sent automatically.")
    reasons: dict[Reason, int]
    reviews: dict[str, int]
    recent: Recent

    @classmethod
    def of(cls, counts: Counts, seen: Glance) -> Self:
        """Return the body for the counts and the last weeks."""
        return cls.show(
            counts,
            coverage=counts.auto_sent / counts.predictions if counts.predictions else 0.0,
            reasons={reason: n for reason, n in counts.reasons.items() if n},
            reviews={
                name: getattr(counts, name)
                for name in ("waiting", "leased", "completed", "skipped")
            },
            recent=Recent.of(seen),
        )


class PreviewRequest(RequestBody):
    """A threshold or a target, and rules if they change."""

    threshold: Threshold | Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        None, description="As in the policy, or its value alone."
    )
    target_accuracy: float | None = Field(None, allow_inf_nan=False)
    rules: Annotated[list[RuleBody], FewFaults] | None = None
    segment: str | None = Field(
        None,
        max_length=LONGEST_VALUE,
        description="Only its documents; required with a threshold or target if the policy has "
        "segments.",
    )


class Preview(View, of=WhatIf, shows="now then certificate_ends warning advice"):
    """Forecasts of the current and the other policy, for the same documents."""


class ReportQuery(Parameters):
    """How much to report on."""

    documents: int = Field(10_000, ge=1, le=MOST_DOCUMENTS, description="The most recent ones.")
    segment: str | None = Field(
        None, max_length=LONGEST_VALUE, description="Only those of a segment that the policy lists."
    )


@router.get(
    "/reports/summary",
    response_model=Summary,
    dependencies=[needs(Permission.REPORT)],
)
def summary(caller: CallerOf, services: ServicesOf) -> Response:
    """Count decisions by reason and reviews by state, with recent weeks."""
    return answer(Summary.of(services.reports.summary(caller), services.reports.glance(caller)))


@router.get("/reports/learning", response_model=Learning, dependencies=[needs(Permission.REPORT)])
def learning(caller: CallerOf, services: ServicesOf) -> Response:
    """Return how far people and the models of their answers have come.

    Half of the documents are marked at random on arrival and read as they come. They alone say how
    good a model is, each judged by a fit that learnt from all other answers.
    """
    return answer(services.retraining.learning(caller))


@router.get(
    "/reports/reliability", response_model=Reliability, dependencies=[needs(Permission.REPORT)]
)
def reliability(
    caller: CallerOf, query: Annotated[ReportQuery, Query()], services: ServicesOf
) -> Response:
    """Compare confidence with correctness, as known from reviews and outcomes."""
    return answer(services.reports.reliability(caller, query.documents, query.segment))


@router.get(
    "/reports/automation", response_model=AutomationCurve, dependencies=[needs(Permission.REPORT)]
)
def automation(
    caller: CallerOf, query: Annotated[ReportQuery, Query()], services: ServicesOf
) -> Response:
    """Return the share sent automatically (`coverage`) and its accuracy at thresholds.

    People mostly read documents that were not sent, so the accuracy above a threshold rests on few
    documents: on audits, each of which stands for all documents that could have been drawn. If
    nothing is known about the documents that would be sent, the accuracy is null.
    """
    return answer(services.reports.automation(caller, query.documents, query.segment))


@router.post(
    "/admin/policy/preview", response_model=Preview, dependencies=[needs(Permission.REPORT)]
)
def preview_policy(caller: CallerOf, body: PreviewRequest, services: ServicesOf) -> Response:
    """Preview what a threshold or target, and rules, would have done.

    The preview covers recent documents and changes nothing. For a target, it uses the lowest
    threshold at which the checked sets bound the accuracy from below by the target. If there is
    none, nothing would be sent, and `advice` says about how many checks are missing.
    """
    rules, threshold = body.rules, body.threshold
    what_if = services.policy.preview(
        caller,
        threshold=threshold.value if isinstance(threshold, Threshold) else threshold,
        target_accuracy=body.target_accuracy,
        rules=None if rules is None else [rule.model_dump(exclude_none=True) for rule in rules],
        segment=body.segment,
    )
    return answer(Preview.show(what_if))
