"""Routes for the breaker: read its state and trips, and reset it."""

from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Query, Response
from pydantic import Field

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer, needs
from setwise.service.api.http.openapi import documented
from setwise.service.api.schemas import Probability
from setwise.service.api.views import View
from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.breaker import (
    BreakerState,
    DetectionDelay,
    Position,
    Reset,
    Trip,
    TripEvidence,
)
from setwise.service.domain.errors import BreakerNotTripped, CertificateNeeded
from setwise.service.domain.reports import UNDECIDED, Share
from setwise.service.domain.routing.segments import LONGEST_VALUE, value_of
from setwise.service.requests import RequestBody
from setwise.service.services.all import Services

router = APIRouter(prefix="/v1/admin/breaker", tags=["administration"], route_class=StrictRoute)


class BreakerReset(View, of=Reset, shows="id certificate_id"):
    """A reset of the breaker, which resumed sending."""

    reset_by: str
    reset_at: datetime

    @classmethod
    def of(cls, reset: Reset) -> Self:
        """Return the body for a reset."""
        return cls.show(reset, reset_by=reset.created_by, reset_at=reset.created_at)


class BreakerTrip(View, of=Trip, shows="id cause policy_version target_accuracy evidence"):
    """A trip of the breaker, which stopped sending."""

    model_version: str
    calibrator_version: str
    segment: str | None = Field(description="What stopped; null: everything.")
    tripped_at: datetime
    reset: BreakerReset | None

    @classmethod
    def of(cls, trip: Trip, reset: Reset | None) -> Self:
        """Return the body for a trip and its reset."""
        return cls.show(
            trip,
            **trip.scorer._asdict(),
            segment=value_of(trip.segment),
            tripped_at=trip.created_at,
            reset=None if reset is None else BreakerReset.of(reset),
        )


class BreakerBody(
    View,
    of=TripEvidence,
    shows="audits right wrong reread overlooked unfinished overdue copies target_accuracy "
    "run_length last_finished_at overdue_since sent_since most_documents",
):
    """State and trips of the breaker."""

    state: Position = Field(description="`idle`: the policy sends nothing, so nothing is watched.")
    segment: str | None = Field(description="What the rest is about; null: all documents.")
    segments: list[str] = Field(description="What can be asked for; empty without segments.")
    policy_version: str
    model_version: str | None
    calibrator_version: str | None
    statistic: float = Field(description="After the last audit.")
    path: list[float] = Field(description="The statistic after each audit, by prediction.")
    accuracy: Share = Field(description=f"Of the watched sets. {UNDECIDED}")
    delays: tuple[DetectionDelay, ...] = Field(
        description="For drops to .02 and .05 below the target."
    )
    false_alarm_bound: Probability = Field(
        description="Largest probability of a false alarm among so many audits."
    )
    sent_since: int = Field(
        ge=0,
        description="Documents sent since `overdue_since`, or else `last_finished_at`, by the "
        "model, calibrator and policies in force, counted up to one more than `most_documents`.",
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
        watch, scorer = state.watch, state.watch.scorer
        evidence = watch.evidence(state.rule.freshness)
        return cls.show(
            evidence,
            state=watch.position,
            segment=value_of(watch.gate.key),
            segments=state.segments,
            policy_version=watch.gate.policy.version,
            model_version=scorer and scorer.model_version,
            calibrator_version=scorer and scorer.calibrator_version,
            statistic=watch.path[-1] if watch.path else 0.0,
            path=watch.path,
            accuracy=state.accuracy,
            delays=delays,
            false_alarm_bound=state.false_alarm_bound,
            most_days=evidence.longest_days,
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
