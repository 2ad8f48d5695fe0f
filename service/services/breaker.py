"""Watch the audits of what is sent, and stop sending when they speak against it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from setwise.models.guarantees.drift import drift_statistic
from setwise.service.domain.audits import AuditRole
from setwise.service.domain.breaker import (
    Freshness,
    Position,
    Reset,
    Trip,
    TripCause,
    Unvouched,
    WatchedAudit,
    ends_audit,
    would_be_sent,
)
from setwise.service.domain.callers import SYSTEM, Caller, Permission
from setwise.service.domain.certification import Scorer
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reviews import Annotation
from setwise.service.domain.webhooks import policy_tripped
from setwise.service.services.recording import Recorded
from setwise.service.stores.transaction import Transaction, Transactions

RUN_LENGTH = 5_000.0
"""Audits until a false alarm, on average at least."""

MOST_AUDITS = 2_000
"""Audits that are looked at: the newest. To leave out older ones only lowers the statistic."""

MOST_TRIPS = 20
"""Trips that the state lists: the newest."""


@dataclass(frozen=True)
class BreakerRule:
    """When the breaker trips.

    Attributes
    ----------
    run_length : float
        Audits until a false alarm, on average at least; one comes within n audits with a
        probability of at most ``n / run_length``.
    freshness : Freshness
        How much may be sent while no audit is finished.
    """

    run_length: float = RUN_LENGTH
    freshness: Freshness = field(default_factory=Freshness)


@dataclass(frozen=True)
class Watch:
    """What the breaker sees at one instant.

    Attributes
    ----------
    scorer : Scorer or None
        What serves; None while nothing was predicted.
    audits : tuple of WatchedAudit
        By prediction: those since the last reset that were promised the present target.
    path : tuple of float
        The detector's statistic after each of them; the alarm is at ``run_length``.
    last_finished_at : datetime or None
        When an audit was last read to the end, or the breaker closed.
    unvouched : Unvouched
        What was sent since.
    """

    policy: RoutingPolicy
    scorer: Scorer | None
    run_length: float
    audits: tuple[WatchedAudit, ...]
    path: tuple[float, ...]
    last_finished_at: datetime | None
    unvouched: Unvouched

    @property
    def position(self) -> Position:
        """Whether it has tripped, watches, or has nothing to watch."""
        if self.policy.trip_id is not None:
            return Position.TRIPPED
        sends = self.policy.sends and self.scorer is not None
        return Position.WATCHING if sends else Position.IDLE

    @property
    def alarm(self) -> int | None:
        """Place of the audit with which the statistic first reaches the alarm."""
        reached = (place for place, value in enumerate(self.path) if value >= self.run_length)
        return next(reached, None)

    def counts(self) -> Mapping[str, int]:
        """Return how many audits were found right and wrong, and how many are not finished."""
        said = [audit.right for audit in self.audits]
        return {
            "audits": len(said),
            "right": said.count(True),
            "wrong": said.count(False),
            "unfinished": said.count(None),
        }


def look(transaction: Transaction, rule: BreakerRule) -> Watch:
    """Return what the breaker sees now.

    It follows from what is stored, and from nothing else: no audit can be lost or counted twice.
    """
    policy = transaction.policies.current()
    scorer = transaction.certifications.serving()
    reset = transaction.breakers.newest_reset()
    if scorer is None:
        return Watch(policy, None, rule.run_length, (), (), None, Unvouched(0, None))
    found = transaction.breakers.audits(
        scorer, after=None if reset is None else reset.id, limit=MOST_AUDITS
    )
    ends = [audit.finished_at for audit in found if audit.finished_at is not None]
    since = max([*ends, *([] if reset is None else [reset.created_at])], default=None)
    audits = [one for one in found if one.target_accuracy == policy.target_accuracy]
    return Watch(
        policy=policy,
        scorer=scorer,
        run_length=rule.run_length,
        audits=tuple(audits),
        path=tuple(
            drift_statistic([one.not_wrong for one in audits], policy.target_accuracy).tolist()
        ),
        last_finished_at=since,
        unvouched=_unvouched(transaction, rule, scorer, since)
        if policy.rests_on_audits
        else Unvouched(0, None),
    )


def _unvouched(
    transaction: Transaction, rule: BreakerRule, scorer: Scorer, since: datetime | None
) -> Unvouched:
    in_force = transaction.breakers.in_force_since()
    return transaction.breakers.unvouched(
        scorer,
        since=max((one for one in (since, in_force) if one is not None), default=None),
        most=rule.freshness.most_documents + 1 if rule.freshness.most_documents else 1,
    )


@dataclass(frozen=True)
class WatchAudits(Recorded):
    """Trip the breaker where the audits, or the want of them, call for it.

    Attributes
    ----------
    rule : BreakerRule
    """

    rule: BreakerRule = field(default_factory=BreakerRule)

    def __call__(self) -> Trip | None:
        """Look at everything, as the schedule does; returns the trip if there is one."""
        with self.begin() as transaction:
            transaction.policies.lock()
            trip = self._judged(transaction)
            if trip is not None:
                transaction.commit()
        return trip

    def answered(
        self, transaction: Transaction, prediction: Prediction, annotation: Annotation
    ) -> None:
        """Look at the audits if this answer, stored in the same transaction, ends one of them.

        So nothing is sent on after the answer that raises the alarm, and a crash loses neither or
        both.
        """
        if not (
            prediction.selection.role is AuditRole.CERTIFICATION
            and would_be_sent(prediction)
            and ends_audit(annotation)
        ):
            return
        transaction.policies.lock()
        self._judged(transaction)

    def _judged(self, transaction: Transaction) -> Trip | None:
        seen = look(transaction, self.rule)
        if seen.position is not Position.WATCHING or seen.scorer is None:
            return None
        now, place = self.now(), seen.alarm
        if place is not None:
            cause, evidence = TripCause.DRIFT, _drift(seen, place)
        elif self.rule.freshness.lost(seen.unvouched, now):
            cause, evidence = TripCause.STALE, self._staleness(seen)
        else:
            return None
        trip = Trip(
            id=self.new_id(),
            cause=cause,
            scorer=seen.scorer,
            policy_version=seen.policy.version,
            target_accuracy=seen.policy.target_accuracy,
            evidence=evidence,
            created_at=now,
        )
        self._stop(transaction, seen.policy, trip)
        return trip

    def _stop(self, transaction: Transaction, policy: RoutingPolicy, trip: Trip) -> None:
        stopped = replace(
            policy,
            version=self.new_id(),
            trip_id=trip.id,
            created_at=trip.created_at,
            created_by=SYSTEM.id,
        )
        transaction.breakers.add(trip)
        transaction.policies.add(stopped, replacing=policy.version)
        transaction.outbox.add(policy_tripped(trip, stopped.version, self.new_id()))
        self._note(
            transaction,
            SYSTEM,
            "policy.tripped",
            stopped.version,
            None,
            trip_id=trip.id,
            cause=trip.cause.value,
            replaced=policy.version,
            **trip.scorer._asdict(),
            evidence=dict(trip.evidence),
        )

    def _staleness(self, seen: Watch) -> Mapping[str, object]:
        freshness, since = self.rule.freshness, seen.unvouched
        return {
            "last_finished_at": _instant(seen.last_finished_at),
            "sent_since": since.documents,
            "oldest_sent_at": _instant(since.oldest_at),
            "most_documents": freshness.most_documents,
            "longest_days": freshness.longest.total_seconds() / 86_400
            if freshness.longest is not None
            else None,
        }


def _drift(seen: Watch, place: int) -> Mapping[str, object]:
    symbols = {True: "1", False: "0", None: "?"}
    return {
        **seen.counts(),
        "target_accuracy": seen.policy.target_accuracy,
        "run_length": seen.run_length,
        "statistic": seen.path[place],
        "alarm_at": seen.audits[place].prediction_id,
        "first": seen.audits[0].prediction_id,
        "last": seen.audits[-1].prediction_id,
        # Right, wrong and not finished, by prediction: the detector's whole input.
        "outcomes": "".join(symbols[audit.right] for audit in seen.audits),
    }


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


@dataclass(frozen=True)
class BreakerState:
    """What leads see of the breaker.

    Attributes
    ----------
    trip : Trip or None
        Why nothing is sent at present.
    trips : tuple of (Trip, Reset or None)
        The newest trips, newest first, each with what ended it.
    further_audits : int or None
        How many the last attempt to certify since the trip found lacking.
    """

    watch: Watch
    rule: BreakerRule
    trip: Trip | None
    trips: tuple[tuple[Trip, Reset | None], ...]
    further_audits: int | None

    @property
    def false_alarm_bound(self) -> float:
        """Largest probability of a false alarm among the audits that are watched."""
        return min(1.0, len(self.watch.audits) / self.watch.run_length)


@dataclass(frozen=True)
class GetBreaker:
    """Read what the breaker watches and what it did."""

    begin: Transactions
    rule: BreakerRule = field(default_factory=BreakerRule)

    def __call__(self, caller: Caller) -> BreakerState:
        """Return it."""
        caller.require(Permission.REPORT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            seen = look(transaction, self.rule)
            trips = transaction.breakers.history(MOST_TRIPS)
            trip_id = seen.policy.trip_id
            trip = None if trip_id is None else transaction.breakers.trip(trip_id)
            tried = None if seen.scorer is None else transaction.certifications.newest(seen.scorer)
        since_trip = trip is not None and tried is not None and tried.id > trip.id
        return BreakerState(
            watch=seen,
            rule=self.rule,
            trip=trip,
            trips=tuple(trips),
            further_audits=tried.further_audits if since_trip and tried is not None else None,
        )
