"""Routes for reports: counts, accuracy, and forecasts of other policies."""

from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, needs
from setwise.service.api.schemas import AnswerBody, Mirror, Probability
from setwise.service.api.schemas import Query as Parameters
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.effort import Effort
from setwise.service.domain.predictions import Reason
from setwise.service.domain.reports import UNDECIDED, Share
from setwise.service.domain.retraining import Learning
from setwise.service.domain.routing.segments import LONGEST_VALUE
from setwise.service.requests import FewFaults, RequestBody
from setwise.service.requests.policy import RuleBody, Threshold
from setwise.service.services.analysis.advice import Advice
from setwise.service.services.analysis.cockpit import Glance
from setwise.service.services.analysis.forecast import MOST_DOCUMENTS, AutomationCurve, Forecast
from setwise.service.services.analysis.reliability import Reliability
from setwise.service.services.reports import Counts

router = APIRouter(prefix="/v1", tags=["reports"], route_class=StrictRoute)


class Recent(AnswerBody):
    """The last five weeks, as the cockpit shows them."""

    since: datetime
    documents: int = Field(ge=0)
    sent: int = Field(ge=0)
    accuracy: Share = Field(
        description=f"Of the sets that were confident enough to be sent. {UNDECIDED}"
    )
    promised: Probability | None = Field(
        description="Mean confidence of the sets of `accuracy`, to compare with it."
    )
    undecided: int = Field(
        ge=0, description="Contradictions that a lead has yet to decide, counted as wrong."
    )
    drawn: bool = Field(
        description="Whether `accuracy` is from audits; otherwise it is from reported outcomes."
    )
    reported: Share = Field(description="Of sent sets with an outcome: not a random choice.")
    effort: Effort = Field(description="What people read, and what sending spared them.")
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
        return cls(
            since=seen.since,
            documents=seen.documents,
            sent=seen.sent,
            accuracy=seen.accuracy,
            drawn=seen.drawn,
            promised=seen.promised,
            undecided=seen.undecided,
            reported=seen.reported,
            effort=seen.effort,
            certified=seen.certificate.certified,
            certified_since=seen.certificate.since,
            audits=seen.certificate.progress.audits,
            next_attempt_in=seen.certificate.progress.missing,
            arriving_a_day=seen.queue.arriving,
            completing_a_day=seen.queue.completing,
            empty_in_days=seen.queue.empty_in_days,
        )


class Summary(AnswerBody):
    """Counts of predictions and reviews."""

    predictions: int = Field(ge=0)
    auto_sent: int = Field(ge=0)
    coverage: Probability = Field(description="Share that was sent automatically.")
    reasons: dict[Reason, int]
    reviews: dict[str, int]
    recent: Recent

    @classmethod
    def of(cls, counts: Counts, seen: Glance) -> Self:
        """Return the body for the counts and the last weeks."""
        return cls(
            predictions=counts.predictions,
            auto_sent=counts.auto_sent,
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


class Preview(Mirror):
    """Forecasts of the current and the other policy, for the same documents."""

    now: Forecast
    then: Forecast
    certificate_ends: str | None = Field(
        description="Why the change would end the certificate in force, so that nothing would be "
        "sent until audits certify a threshold again; null if it would not."
    )
    warning: str | None = Field(
        description="Says so if even the upper bound of `then` misses the policy's target, or if a "
        "threshold set by hand sends nothing of a model that no review has taught how sure to be."
    )
    advice: Advice | None = Field(description="Null unless a target was given.")


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
    return answer(Preview.of(what_if))
