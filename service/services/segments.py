"""The state of each segment: its threshold, its forecast and its audits."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from setwise.models.guarantees.segments import most_wrong_in_pool
from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.certification import MOST_PROVING, Certification, Scorer
from setwise.service.domain.policy import RoutingPolicy, ThresholdMode
from setwise.service.domain.reports import Evidence
from setwise.service.domain.routing.segments import OTHER, POOL
from setwise.service.services.analysis.forecast import PREVIEWED, Forecast, under
from setwise.service.services.analysis.proofs import SCHEDULE, Schedule
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.certification import last_attempt
from setwise.service.services.policy import pooled
from setwise.service.stores.transaction import Transaction

MOST_UNLISTED = 20
"""Most values without a place in the policy that are named, the most frequent ones."""


@dataclass(frozen=True)
class SegmentState:
    """One segment, `OTHER`, or the pool."""

    value: str
    part: RoutingPolicy
    """What is in force for its documents."""
    basis: Literal["own", "pool", "none"]
    """``own``, ``pool`` or ``none``: whose threshold sends its documents."""
    forecast: Forecast
    """Of what is in force, on its recent documents; the pool's are those of its segments."""
    audits: int
    """Audits drawn to prove a threshold."""
    missing: int | None
    """Further ones until its next attempt; None if none will follow."""
    newest: Certification | None
    """Its last attempt."""
    most_wrong: float | None
    """Share of what the pool sends of it that may be wrong although the pool keeps its promise;
    None unless the pool sends it.
    """


@dataclass(frozen=True)
class Segments(Recorded):
    """The state of each segment of the policy."""

    schedule: Schedule = SCHEDULE

    def states(self, caller: Caller) -> tuple[list[SegmentState], dict[str, int]]:
        """Return each segment's state, then of what is not listed and of the pool.

        The second value counts recent documents by value for those that are not listed.
        """
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            policy = transaction.policies.current()
            division = policy.segmentation
            if division is None:
                return [], {}
            recent = transaction.history.evidence(PREVIEWED, with_labels=True)
            scorer = transaction.certifications.serving()
            audits = Counter(
                policy.known(one.segment, one.metadata)
                for one in (transaction.certifications.audited(scorer) if scorer else [])
                if one.draw < MOST_PROVING
            )
            values = [*policy.values, OTHER, *([POOL] if policy.pool is not None else [])]
            states = [
                self._state(transaction, policy, value, recent, audits, scorer) for value in values
            ]
        keys = [division.known(one.segment, one.metadata) for one in recent]
        listed = {policy.key_of(value) for value in (*policy.values, OTHER)}
        unlisted = Counter(key.split("=", 1)[1] for key in keys if key and key not in listed)
        return states, dict(unlisted.most_common(MOST_UNLISTED))

    def _state(  # noqa: PLR0917 -- what is read once for all segments
        self,
        transaction: Transaction,
        policy: RoutingPolicy,
        value: str,
        recent: Sequence[Evidence],
        audits: Counter[str | None],
        scorer: Scorer | None,
    ) -> SegmentState:
        pool = value == POOL
        mine = set(pooled(transaction, policy, scorer)) if pool and scorer else {value}
        here = [one for one in recent if policy.known(one.segment, one.metadata) in mine]
        part = policy.pool if pool else policy.within_value(value)
        if part is None:
            raise ValueError("the policy has no pool")
        unit = policy.of_unit(policy.key_of(value))
        by_pool = not pool and policy.pool is not None and part.unit == policy.pool.unit
        n = sum(audits[one] for one in mine)
        newest = None if scorer is None else last_attempt(transaction, unit, scorer)
        tries = policy.threshold_mode is ThresholdMode.CERTIFIED and value != OTHER
        sent = under(here, policy)
        among = under(
            [one for one in recent if policy.known(one.segment, one.metadata) in policy.pooled],
            policy,
        )
        share = sent.sent / among.sent if by_pool and among.sent else None
        return SegmentState(
            value=value,
            part=part,
            basis="none" if not part.sends else "pool" if by_pool or pool else "own",
            forecast=sent,
            audits=n,
            missing=self.schedule.missing(unit, newest, n) if tries else None,
            newest=newest,
            most_wrong=None if share is None else most_wrong_in_pool(policy.target_accuracy, share),
        )
