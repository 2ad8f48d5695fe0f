"""Watch audits of sent label sets; stop sending below the target."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil

from setwise.models.guarantees.drift import drift_statistic
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission
from setwise.service.domain.breaker import (
    DROPS,
    NOTHING_SENT,
    BreakerRule,
    BreakerState,
    DetectionDelay,
    Position,
    Reset,
    Trip,
    TripCause,
    Unvouched,
    Watch,
    ends_audit,
    would_be_sent,
)
from setwise.service.domain.certification import Certification, Scorer
from setwise.service.domain.errors import (
    BreakerNotTripped,
    CertificateNeeded,
    FieldFault,
    InvalidRequest,
)
from setwise.service.domain.evidence import CheckedDocument, one_of_each
from setwise.service.domain.policy import Gate, Policy
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reviews import Annotation
from setwise.service.domain.routing.audits import AuditRole
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, Segment
from setwise.service.domain.webhooks import policy_tripped
from setwise.service.services.analysis.accuracy import share
from setwise.service.services.audit_trail import Recorded
from setwise.service.stores.database import WallClock
from setwise.service.stores.transaction import Transaction

MOST_AUDITS = 2_000
"""Most audits to watch, the newest. Leaving out older ones only lowers the statistic."""

MOST_TRIPS = 20
"""Most trips that the state lists, the newest."""


USUAL_TIME = timedelta(weeks=4)
"""Time that shows how many documents are sent in a week."""


@dataclass(frozen=True)
class Breaker(Recorded):
    """Stops automatic sending until a person resets it."""

    now: WallClock
    rule: BreakerRule = field(default_factory=BreakerRule)

    def get(self, caller: Caller, segment: str | None = None) -> BreakerState:
        """Return the breaker's state with its newest trips.

        ``segment``: Its value; by default a tripped one, else the first.
        """
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            policy = transaction.policies.current()
            watch = _look(transaction, self.rule, self.now(), _chosen(policy, segment))
            trips = transaction.breakers.history(MOST_TRIPS)
            trip = transaction.breakers.trip(watch.gate.state.trip_id or "")
            tried = None if trip is None else _tried_since(transaction, trip)
        return BreakerState(
            watch=watch,
            accuracy=share([_by_people(audit) for audit in watch.audits], watch.gate.risk),
            rule=self.rule,
            trip=trip,
            trips=tuple(trips),
            further_audits=None if tried is None else tried.further_audits,
            segments=policy.values,
        )

    def delays(self, caller: Caller, segment: str | None = None) -> tuple[DetectionDelay, ...]:
        """Return how long it takes to find drops of the accuracy.

        ``segment``: The one whose volume counts, by default as in `get`.
        """
        from setwise.models.guarantees.delay import audits_to_alarm  # noqa: PLC0415 -- loads slowly

        caller.require(Permission.REPORT, Permission.INSPECT)
        now = self.now()
        with self.begin(read_only=True, snapshot=True) as transaction:
            gate = _chosen(transaction.policies.current(), segment)
            n, first = transaction.breakers.confident(now - USUAL_TIME, gate.segment)
        rate, target = gate.audits.certification_rate, gate.policy.target_accuracy
        a_week = n * rate / max((now - (first or now)) / timedelta(weeks=1), 1.0 / 7.0)
        thrice = 3.0 * rate if 0.0 < rate <= 1.0 / 3.0 else None
        delays = []
        for drop in DROPS:
            if drop >= target:
                continue
            accuracy = target - drop
            audits = audits_to_alarm(accuracy, target=target, run_length=self.rule.run_length)
            weeks = ceil(audits / a_week) if audits is not None and a_week else None
            delays.append(DetectionDelay(drop, audits, weeks, thrice))
        return tuple(delays)

    def watch(self) -> Trip | None:
        """Trip the breaker where audits or their absence require it; return the last trip."""
        with self.begin() as transaction:
            transaction.policies.lock()
            keys = [gate.key for gate in transaction.policies.current().gates]
            trips = [self._judge(transaction, key) for key in keys]
        return next((trip for trip in reversed(trips) if trip is not None), None)

    def annotated(
        self, transaction: Transaction, prediction: Prediction, annotation: Annotation
    ) -> None:
        """Check the audits if this annotation completes one.

        This runs in the transaction that stores the annotation, so nothing is sent after the one
        that raises the alarm, and a crash loses both or neither.
        """
        if not (
            prediction.selection.role is AuditRole.CERTIFICATION
            and would_be_sent(prediction)
            and ends_audit(annotation)
        ):
            return
        transaction.policies.lock()
        self._judge(transaction, prediction.segment)

    def reset(
        self, caller: Caller, *, uncertified: bool = False, segment: str | None = None
    ) -> Reset:
        """Resume automatic sending, for predictions made from now on.

        Raises `BreakerNotTripped` if sending is not stopped; `CertificateNeeded` if no certificate
        since the trip proves the threshold; the detail says what is missing; `InvalidRequest` if
        ``uncertified`` is given for a threshold of mode certified.

        ``uncertified``: Required if the threshold was set by hand, because only the caller vouches
        for it.
        ``segment``: Value of the one to reset; by default a tripped one.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            transaction.policies.lock()
            gate = _chosen(transaction.policies.current(), segment)
            trip = transaction.breakers.trip(gate.state.trip_id or "")
            if trip is None:
                raise BreakerNotTripped("The breaker has not tripped; there is nothing to reset.")
            proof = _proof(gate, trip, uncertified=uncertified)
            if proof is not None or not gate.policy.certified:
                reset = Reset(self.new_id(), trip.id, proof, caller.id, self.now())
                self._close(transaction, caller, gate, reset)
                return reset
            raise CertificateNeeded(_what_is_missing(_tried_since(transaction, trip)))

    def _judge(self, transaction: Transaction, key: str | None) -> Trip | None:
        now = self.now()
        # Another segment's trip has made a new version.
        watch = _look(transaction, self.rule, now, transaction.policies.current().gate_of(key))
        if watch.position is not Position.WATCHING or watch.scorer is None:
            return None
        if watch.alarm is not None and _found_wrong_often(watch):
            cause = TripCause.DRIFT
        elif watch.alarm is not None or self.rule.freshness.lost(watch.unvouched, now):
            # Unread audits say nothing against earlier ones.
            cause = TripCause.STALE
        else:
            return None
        trip = Trip(
            id=self.new_id(),
            cause=cause,
            scorer=watch.scorer,
            policy_version=watch.gate.policy.version,
            target_accuracy=watch.gate.policy.target_accuracy,
            evidence=watch.evidence(self.rule.freshness),
            created_at=now,
            segment=watch.gate.key,
        )
        self._stop(transaction, watch.gate, trip)
        return trip

    def _stop(self, transaction: Transaction, gate: Gate, trip: Trip) -> None:
        transaction.breakers.add(trip)
        stopped = self._replaced(transaction, gate, trip.id, trip.created_at, SYSTEM)
        transaction.outbox.add(policy_tripped(trip, stopped.version, self.new_id()))
        self._note(
            transaction,
            SYSTEM,
            "policy.tripped",
            stopped.version,
            trip_id=trip.id,
            cause=trip.cause.value,
            replaced=gate.policy.version,
            **trip.scorer._asdict(),
            evidence=trip.evidence,
            segment=gate.key,
        )

    def _close(self, transaction: Transaction, caller: Caller, gate: Gate, reset: Reset) -> None:
        transaction.breakers.close(reset)
        resumed = self._replaced(transaction, gate, None, reset.created_at, caller)
        self._note(
            transaction,
            caller,
            "breaker.reset",
            resumed.version,
            trip_id=reset.trip_id,
            replaced=gate.policy.version,
            certificate_id=reset.certificate_id,
            threshold=gate.threshold,
            segment=gate.key,
        )

    def _replaced(
        self,
        transaction: Transaction,
        gate: Gate,
        trip_id: str | None,
        now: datetime,
        caller: Caller,
    ) -> Policy:
        """Return the stored next version, in which only the trip of a gate differs."""
        stopped = gate.policy.with_gate(replace(gate.state, trip_id=trip_id))
        changed = replace(stopped, version=self.new_id(), created_at=now, created_by=caller.id)
        transaction.policies.add(changed, replacing=gate.policy.version)
        return changed


def _chosen(policy: Policy, segment: str | None) -> Gate:
    """Return the gate of the named segment, else a tripped one, else the first."""
    if segment is not None:
        return policy.gate_named(segment)
    return min(policy.gates, key=lambda gate: not gate.tripped)


def _what_is_missing(tried: Certification | None) -> str:
    """Return why there is no proof, from the last attempt since the trip only.

    It never tells what the audits would prove now: asking until they suffice would be a test for
    each question, and no risk is set aside for it.
    """
    needed = "No certificate from after the trip proves a threshold. "
    ask = "POST /v1/admin/certifications tries, and spends a part of the risk."
    if tried is None:
        return (
            needed + "None has been tried since; one is tried hourly once there are enough "
            f"audits. {ask}"
        )
    if tried.threshold is not None:
        return needed + f"The one proved since does not fit the policy in force. {ask}"
    if tried.further_audits is None:
        return (
            needed + f"The last attempt says: {tried.reason}. More audits would not change that; "
            "lower the target, or train or recalibrate the model."
        )
    return (
        needed + f"The last attempt says: {tried.reason}; about {tried.further_audits} more audits "
        "were needed then."
    )


def _tried_since(transaction: Transaction, trip: Trip) -> Certification | None:
    """Return the last certification since a trip, for what serves now."""
    scorer = transaction.certifications.serving()
    newest = transaction.certifications.newest
    tried = None if scorer is None else newest(scorer, trip.segment)
    return tried if tried is not None and tried.id > trip.id else None


def _look(transaction: Transaction, rule: BreakerRule, now: datetime, gate: Gate) -> Watch:
    """Return what the breaker sees of a gate's documents now.

    It depends only on stored data and the time, so no audit is lost or counted twice.
    """
    read_by, segment = now - rule.reading_time, gate.segment
    scorer = transaction.certifications.serving()
    reset = transaction.breakers.newest_reset(gate.key)
    if scorer is None:
        return Watch(gate, None, rule.run_length, read_by)
    starts = [] if reset is None else [(reset.id, reset.created_at)]
    proof = transaction.certifications.get(gate.state.certificate_id or "")
    if proof is not None and segment != ALL_DOCUMENTS:
        # Before its certificate a segment was sent among others, which promises it nothing.
        starts.append((proof.id, proof.created_at))
    after, since = max(starts, default=(None, None))
    watched = transaction.evidence.watched(scorer, after=after, limit=MOST_AUDITS, segment=segment)
    ends = [audit.ended_at for audit in watched if audit.ended_at is not None]
    finished = max([*ends, *([] if since is None else [since])], default=None)
    overdue = transaction.breakers.overdue_since(
        scorer, after=after, read_by=read_by, segment=segment
    )
    target = gate.policy.target_accuracy
    policies = transaction.policies.of(audit.policy_version for audit in watched)
    same_target = [
        audit for audit in watched if policies[audit.policy_version].target_accuracy == target
    ]
    audits = one_of_each(same_target)
    return Watch(
        gate=gate,
        scorer=scorer,
        run_length=rule.run_length,
        read_by=read_by,
        audits=tuple(audits),
        copies=len(same_target) - len(audits),
        path=_path(audits, [audit.counts_as_right(read_by) for audit in audits], target),
        last_finished_at=finished,
        overdue_since=overdue,
        unvouched=_unvouched(
            transaction, rule, scorer, finished if overdue is None else overdue, segment
        )
        if gate.rests_on_audits
        else NOTHING_SENT,
    )


def _by_people(audit: CheckedDocument) -> CheckedDocument:
    """Return an audit without outcomes, which need not be a random sample."""
    if audit.check is None or audit.check.outcome_agreed is None:
        return audit
    return audit._replace(check=replace(audit.check, outcome_agreed=None))


def _found_wrong_often(watch: Watch) -> bool:
    """Return whether the audits raise the alarm without the overdue ones."""
    right = [audit.found_right is not False for audit in watch.audits]
    path = _path(watch.audits, right, watch.gate.policy.target_accuracy)
    return max(path, default=0.0) >= watch.run_length


def _path(
    audits: Sequence[CheckedDocument], right: Sequence[bool], target: float
) -> tuple[float, ...]:
    """Return the detector's statistic after each audit."""
    path = drift_statistic(right, target, stands_for=[audit.stands_for for audit in audits])
    return tuple(path.tolist())


def _unvouched(
    transaction: Transaction,
    rule: BreakerRule,
    scorer: Scorer,
    since: datetime | None,
    segment: Segment,
) -> Unvouched:
    in_force = transaction.breakers.in_force_since()
    return transaction.breakers.unvouched(
        scorer,
        since=max((instant for instant in (since, in_force) if instant is not None), default=None),
        most=rule.freshness.most_documents + 1 if rule.freshness.most_documents else 1,
        segment=segment,
    )


def _proof(gate: Gate, trip: Trip, *, uncertified: bool) -> str | None:
    """Return the id of a gate's certificate if it is newer than the trip."""
    if not gate.policy.certified:
        if not uncertified:
            raise CertificateNeeded(
                "The threshold was set by hand and no audits prove it. Send uncertified: true to "
                "go on at your own risk, or change the policy's threshold to mode certified."
            )
        return None
    if uncertified:
        fault = FieldFault(
            "/uncertified", "goes with a threshold of mode fixed; the policy's mode is certified"
        )
        raise InvalidRequest("The breaker cannot be reset like this.", [fault])
    certificate = gate.state.certificate_id
    return certificate if certificate is not None and certificate > trip.id else None
