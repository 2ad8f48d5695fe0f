"""The state of each segment: its threshold, its forecast and its audits."""

from collections import Counter
from dataclasses import dataclass

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.certification import MOST_PROVING, Certification
from setwise.service.domain.policy import RoutingPolicy, ThresholdMode
from setwise.service.services.analysis.forecast import Forecast, of_segment, under
from setwise.service.services.analysis.proofs import SCHEDULE, Schedule
from setwise.service.services.analysis.what_if import RECENT
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.certification import last_attempt

MOST_UNLISTED = 20
"""Most values without a place in the policy that are named, the most frequent ones."""


@dataclass(frozen=True)
class SegmentReport:
    """One segment."""

    value: str
    gate: RoutingPolicy
    """What is in force for its documents."""
    forecast: Forecast
    """Of what is in force, on its recent documents."""
    audits: int
    """Audits drawn to prove a threshold."""
    missing: int | None
    """Further ones until its next attempt; None if none will follow."""
    newest: Certification | None
    """Its last attempt."""


@dataclass(frozen=True)
class Segments(Recorded):
    """The state of each segment of the policy."""

    schedule: Schedule = SCHEDULE

    def states(self, caller: Caller) -> tuple[list[SegmentReport], dict[str, int]]:
        """Return each segment's state, that of what is not listed last.

        The second value counts recent documents by value for those that are not listed.
        """
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            policy = transaction.policies.current()
            segmentation = policy.segmentation
            if segmentation is None:
                return [], {}
            recent = transaction.history.evidence(RECENT, with_labels=True)
            scorer = transaction.certifications.serving()
            audits = Counter(
                policy.value_of(audit.segment, audit.metadata)
                for audit in (transaction.certifications.audited(scorer) if scorer else [])
                if audit.draw < MOST_PROVING
            )
            states = []
            for value in policy.values:
                gate, n = policy.gate_named(value), audits[value]
                newest = scorer and last_attempt(transaction, gate, scorer)
                states.append(
                    SegmentReport(
                        value=value,
                        gate=gate,
                        forecast=under(of_segment(recent, policy, value), policy),
                        audits=n,
                        missing=self.schedule.missing(gate, newest, n)
                        if policy.threshold_mode is ThresholdMode.CERTIFIED
                        else None,
                        newest=newest,
                    )
                )
        unlisted = Counter(
            segment.value
            for document in recent
            if (segment := segmentation.of_stored(document.segment, document.metadata))
        )
        for value in policy.values:
            del unlisted[value]
        return states, dict(unlisted.most_common(MOST_UNLISTED))
