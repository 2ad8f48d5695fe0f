"""Routes for the breaker: read its state and trips, and reset it."""

from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, needs
from setwise.service.api.http.openapi import documented
from setwise.service.api.schemas import (
    AnswerBody,
    Probability,
)
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.breaker import (
    BreakerState,
    DetectionDelay,
    Position,
    Reset,
    Trip,
    TripCause,
    TripEvidence,
)
from setwise.service.domain.errors import BreakerNotTripped, CertificateNeeded
from setwise.service.domain.reports import UNDECIDED, Share
from setwise.service.domain.routing.segments import LONGEST_VALUE, value_of
from setwise.service.requests import RequestBody
from setwise.service.services.all import Services

router = APIRouter(prefix="/v1/admin/breaker", tags=["administration"], route_class=StrictRoute)


class BreakerReset(AnswerBody):
    """A reset of the breaker, which resumed sending."""

    id: str
    certificate_id: str | None = Field(
        description="null: no certificate; the person who reset it vouches for the threshold."
    )
    reset_by: str
    reset_at: datetime

    @classmethod
    def of(cls, reset: Reset) -> Self:
        """Return the body for a reset."""
        return cls(
            id=reset.id,
            certificate_id=reset.certificate_id,
            reset_by=reset.created_by,
            reset_at=reset.created_at,
        )


class BreakerTrip(AnswerBody):
    """A trip of the breaker, which stopped sending."""

    id: str
    cause: TripCause = Field(
        description="`drift`: audits contradict the target; `stale`: too much was sent unaudited, "
        "or too many audits are overdue."
    )
    model_version: str
    calibrator_version: str
    segment: str | None = Field(description="What stopped; null: everything.")
    policy_version: str = Field(description="The one that was in force until then.")
    target_accuracy: Probability
    evidence: TripEvidence
    tripped_at: datetime
    reset: BreakerReset | None

    @classmethod
    def of(cls, trip: Trip, reset: Reset | None) -> Self:
        """Return the body for a trip and its reset."""
        return cls(
            id=trip.id,
            cause=trip.cause,
            **trip.scorer._asdict(),
            segment=value_of(trip.segment),
            policy_version=trip.policy_version,
            target_accuracy=trip.target_accuracy,
            evidence=trip.evidence,
            tripped_at=trip.created_at,
            reset=None if reset is None else BreakerReset.of(reset),
        )


class BreakerBody(AnswerBody):
    """State and trips of the breaker."""

    state: Position = Field(description="`idle`: the policy sends nothing, so nothing is watched.")
    segment: str | None = Field(description="What the rest is about; null: all documents.")
    segments: list[str] = Field(description="What can be asked for; empty without segments.")
    policy_version: str
    model_version: str | None
    calibrator_version: str | None
    target_accuracy: Probability
    run_length: float = Field(description="The statistic that raises the alarm.")
    statistic: float = Field(description="After the last audit.")
    path: list[float] = Field(description="The statistic after each audit, by prediction.")
    audits: int = Field(ge=0, description="Of what was sent, or would have been; since the reset.")
    right: int = Field(ge=0)
    wrong: int = Field(ge=0)
    reread: int = Field(
        ge=0,
        description="Read by a lead although the auditor agreed. One that is found wrong also "
        "counts for those that were not read again.",
    )
    overlooked: int = Field(ge=0, description="Those of them that the lead found wrong.")
    accuracy: Share = Field(description=f"Of the watched sets. {UNDECIDED}")
    delays: tuple[DetectionDelay, ...] = Field(
        description="For drops to .02 and .05 below the target."
    )
    unfinished: int = Field(ge=0, description="They count as right until they are read or overdue.")
    overdue: int = Field(
        ge=0, description="Unfinished for more than `SETWISE_AUDIT_READING_DAYS`: counted as wrong."
    )
    copies: int = Field(
        ge=0,
        description="Further audits of documents with the same id or the same content. They do not "
        "count: if there are many, clients send documents repeatedly or reuse ids.",
    )
    false_alarm_bound: Probability = Field(
        description="Largest probability of a false alarm among so many audits."
    )
    last_finished_at: datetime | None
    overdue_since: datetime | None = Field(
        description="When the set of the oldest overdue audit was predicted."
    )
    sent_since: int = Field(
        ge=0,
        description="Documents sent since `overdue_since`, or else `last_finished_at`, by the "
        "model, calibrator and policies in force, counted up to one more than `most_documents`.",
    )
    most_documents: int = Field(
        description="How many may be sent without a finished audit; 0 for no limit."
    )
    most_days: float | None = Field(description="The same in days; null for no limit.")
    trip: BreakerTrip | None = Field(description="Why nothing is sent at present.")
    further_audits: int | None = Field(
        description="How many more audits the last attempt since the trip asked for."
    )
    trips: list[BreakerTrip] = Field(description="The newest ones, newest first.")

    @classmethod
    def of(cls, state: BreakerState, delays: tuple[DetectionDelay, ...]) -> Self:
        """Return the body for the breaker."""
        watch, freshness = state.watch, state.rule.freshness
        policy = watch.gate.policy
        return cls(
            state=watch.position,
            segment=value_of(watch.gate.key),
            segments=[*state.segments],
            policy_version=policy.version,
            model_version=watch.scorer.model_version if watch.scorer else None,
            calibrator_version=watch.scorer.calibrator_version if watch.scorer else None,
            target_accuracy=policy.target_accuracy,
            run_length=watch.run_length,
            statistic=watch.path[-1] if watch.path else 0.0,
            path=[*watch.path],
            **vars(watch.counts()),
            accuracy=state.accuracy,
            delays=delays,
            false_alarm_bound=state.false_alarm_bound,
            last_finished_at=watch.last_finished_at,
            overdue_since=watch.overdue_since,
            sent_since=watch.unvouched.documents,
            most_documents=freshness.most_documents,
            most_days=freshness.longest_days,
            trip=None if state.trip is None else BreakerTrip.of(state.trip, None),
            further_audits=state.further_audits,
            trips=[BreakerTrip.of(trip, reset) for trip, reset in state.trips],
        )


class ResetRequest(RequestBody):
    """Whether to resume sending without a certificate."""

    uncertified: bool = Field(
        False,
        description="You vouch for a threshold of mode `fixed`; it stays marked as not certified.",
    )
    segment: str | None = Field(None, description="By default one whose breaker has tripped.")


def _state(services: Services, caller: Caller, segment: str | None = None) -> BreakerBody:
    delays = services.breaker.delays(caller, segment)
    return BreakerBody.of(services.breaker.get(caller, segment), delays)


@router.get(
    "", response_model=BreakerBody, dependencies=[needs(Permission.REPORT, Permission.INSPECT)]
)
def get_breaker(
    caller: CallerOf,
    services: ServicesOf,
    segment: Annotated[
        str | None,
        Query(
            max_length=LONGEST_VALUE,
            description="Value of a segment; by default one that has tripped.",
        ),
    ] = None,
) -> Response:
    """Read the detector's statistic over audits of sent sets, and the trips.

    While the share of right sets, given everything before, is at least the target, the statistic
    reaches `run_length` within n audits with a probability of at most n / `run_length`.
    """
    return answer(_state(services, caller, segment))


@router.post(
    "/reset",
    response_model=BreakerBody,
    responses=documented(BreakerNotTripped, CertificateNeeded),
    dependencies=[needs(Permission.ADMINISTER)],
)
def reset_breaker(caller: CallerOf, body: ResetRequest, services: ServicesOf) -> Response:
    """Reset the breaker, so confident label sets are sent again.

    The reset applies from the next prediction on. It needs a certificate from after the trip; after
    a drift, one based on predictions from after the trip. Without one, set a threshold of mode
    `fixed` and send `uncertified`.
    """
    services.breaker.reset(caller, uncertified=body.uncertified, segment=body.segment)
    return answer(_state(services, caller, body.segment))
