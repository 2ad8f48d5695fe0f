"""Routes for the breaker: read its state and trips, and reset it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Query, Response
from pydantic import Field, JsonValue

from setwise.service.api.http.bodies import StrictRoute
from setwise.service.api.http.dependencies import CallerOf, ServicesOf, answer
from setwise.service.api.http.openapi import documented
from setwise.service.api.reports import SHARE
from setwise.service.api.schemas import AnswerBody, Example, Mirror, Probability, RequestBody
from setwise.service.domain import breaker
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.breaker import BreakerState, Position, TripCause
from setwise.service.domain.errors import BreakerNotTripped, CertificateNeeded
from setwise.service.domain.reports import UNDECIDED, Share
from setwise.service.domain.routing.segments import LONGEST_VALUE, value_of
from setwise.service.services.all import Services

router = APIRouter(prefix="/v1/admin/breaker", tags=["administration"], route_class=StrictRoute)

_TRIP: Example = {
    "id": "019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77",
    "cause": "drift",
    "model_version": "sha256:3f9c0b7a1d2e",
    "calibrator_version": "sha256:77aa0b7a1d2e",
    "segment": None,
    "policy_version": "019aa4c1-8f60-7bd1-8a3e-5a1f6f0f6f10",
    "target_accuracy": 0.95,
    "evidence": {
        "audits": 212,
        "right": 190,
        "wrong": 22,
        "reread": 19,
        "overlooked": 2,
        "unfinished": 0,
        "overdue": 0,
        "copies": 0,
        "statistic": 5210.4,
    },
    "tripped_at": "2026-11-21T09:00:00Z",
    "reset": None,
}
_STATE: Example = {
    "segment": None,
    "segments": [],
    "state": "tripped",
    "policy_version": "019aa4c1-8f60-7bd1-8a3e-5a1f6f0f6f11",
    "model_version": "sha256:3f9c0b7a1d2e",
    "calibrator_version": "sha256:77aa0b7a1d2e",
    "target_accuracy": 0.95,
    "run_length": 5000.0,
    "statistic": 5210.4,
    "path": [0.9, 1.8, 4.1, 5210.4],
    "audits": 4,
    "right": 1,
    "wrong": 3,
    "reread": 1,
    "overlooked": 1,
    "accuracy": SHARE,
    "delays": [
        {"drop": 0.02, "audits": 620, "weeks": 16, "thrice": 0.12},
        {"drop": 0.05, "audits": 215, "weeks": 6, "thrice": 0.12},
    ],
    "unfinished": 0,
    "overdue": 0,
    "copies": 0,
    "false_alarm_bound": 0.0008,
    "last_finished_at": "2026-11-21T08:59:00Z",
    "overdue_since": None,
    "sent_since": 12,
    "most_documents": 20000,
    "most_days": 30.0,
    "trip": _TRIP,
    "further_audits": 37,
    "trips": [_TRIP],
}


class BreakerReset(AnswerBody):
    """A reset of the breaker, which resumed sending."""

    id: str
    certificate_id: str | None = Field(
        description="null: no certificate; the person who reset it vouches for the threshold."
    )
    reset_by: str
    reset_at: datetime

    @classmethod
    def of(cls, reset: breaker.Reset) -> Self:
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
    evidence: dict[str, JsonValue] = Field(
        description="`outcomes` has the audits by prediction: right 1, wrong 0, unfinished ?, "
        "overdue -. `stands_for` has, by place among them, how many audits a second reading of an "
        "agreement stands for."
    )
    tripped_at: datetime
    reset: BreakerReset | None

    @classmethod
    def of(cls, trip: breaker.Trip, reset: breaker.Reset | None) -> Self:
        """Return the body for a trip and its reset."""
        return cls.model_validate(
            {
                "id": trip.id,
                "cause": trip.cause,
                **trip.scorer._asdict(),
                "segment": value_of(trip.segment),
                "policy_version": trip.policy_version,
                "target_accuracy": trip.target_accuracy,
                "evidence": dict(trip.evidence),
                "tripped_at": trip.created_at,
                "reset": None if reset is None else BreakerReset.of(reset),
            }
        )


class Delay(Mirror):
    """How long the breaker takes to find a drop of the accuracy."""

    drop: Probability = Field(description="How far below the target the accuracy falls.")
    audits: int | None = Field(
        description="Audits of what is sent until it trips, in half of the cases; null: too many."
    )
    weeks: int | None = Field(
        description="The same in weeks at the present `certification_rate` and volume, while "
        "auditors find the errors; null without audits."
    )
    thrice: Probability | None = Field(
        description="The `certification_rate` at which it takes a third of that; null if none is."
    )


class BreakerBody(AnswerBody):
    """State and trips of the breaker."""

    examples = (_STATE,)

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
    delays: list[Delay] = Field(description="For drops to .02 and .05 below the target.")
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
    def of(cls, state: BreakerState, delays: Sequence[breaker.DetectionDelay]) -> Self:
        """Return the body for the breaker."""
        watch, freshness = state.watch, state.rule.freshness
        policy, longest = watch.gate.policy, freshness.longest
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
            **watch.counts(),
            accuracy=state.accuracy,
            delays=[Delay.of(delay) for delay in delays],
            false_alarm_bound=state.false_alarm_bound,
            last_finished_at=watch.last_finished_at,
            overdue_since=watch.overdue_since,
            sent_since=watch.unvouched.documents,
            most_documents=freshness.most_documents,
            most_days=None if longest is None else longest.total_seconds() / 86_400,
            trip=None if state.trip is None else BreakerTrip.of(state.trip, None),
            further_audits=state.further_audits,
            trips=[BreakerTrip.of(trip, reset) for trip, reset in state.trips],
        )


class ResetRequest(RequestBody):
    """Whether to resume sending without a certificate."""

    examples = ({}, {"uncertified": True})

    uncertified: bool = Field(
        False,
        description="You vouch for a threshold of mode `fixed`; it stays marked as not certified.",
    )
    segment: str | None = Field(None, description="By default one whose breaker has tripped.")


def _state(services: Services, caller: Caller, segment: str | None = None) -> BreakerBody:
    delays = services.breaker.delays(caller, segment)
    return BreakerBody.of(services.breaker.get(caller, segment), delays)


@router.get("", response_model=BreakerBody)
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
    "/reset", response_model=BreakerBody, responses=documented(BreakerNotTripped, CertificateNeeded)
)
def reset_breaker(caller: CallerOf, body: ResetRequest, services: ServicesOf) -> Response:
    """Reset the breaker, so confident label sets are sent again.

    The reset applies from the next prediction on. It needs a certificate from after the trip; after
    a drift, one based on predictions from after the trip. Without one, set a threshold of mode
    `fixed` and send `uncertified`.
    """
    services.breaker.reset(caller, uncertified=body.uncertified, segment=body.segment)
    return answer(_state(services, caller, body.segment))
