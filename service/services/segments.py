"""The state of each segment: its threshold, its forecast and its audits."""

from collections import Counter
from dataclasses import dataclass

from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.policy import Gate
from setwise.service.services.analysis.forecast import Forecast, of_segment, under
from setwise.service.services.analysis.proofs import ProofProgress
from setwise.service.services.analysis.what_if import RECENT
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.certification.outlook import Outlooks
from setwise.service.stores.database import WallClock

MOST_UNLISTED = 20
"""Most values without a place in the policy that are named, the most frequent ones."""


@dataclass(frozen=True)
class SegmentReport:
    """One segment."""

    gate: Gate
    forecast: Forecast
    """Of what is in force, on its recent documents."""
    progress: ProofProgress
    """On the way to its next attempt."""


@dataclass(frozen=True)
class Segments(Recorded):
    """The state of each segment of the policy."""

    now: WallClock
    outlooks: Outlooks
    """They know how many audits count, and when the next attempt comes."""

    def states(self, caller: Caller) -> tuple[list[SegmentReport], dict[str, int]]:
        """Return each segment's state, that of what is not listed last.

        The second value counts recent documents by value for those that are not listed.
        """
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            policy = transaction.policies.current()
            if policy.whole is not None:
                return [], {}
            recent = transaction.evidence.recent(RECENT, with_content=True)
            scorer = transaction.certifications.serving()
            keys = [gate.key for gate in policy.gates]
            progress = (
                [ProofProgress(0)] * len(keys)
                if scorer is None
                else self.outlooks.progress(transaction, scorer, keys)
            )
            states = [
                SegmentReport(
                    gate, under(of_segment(recent, policy, gate.segment.value), policy), way
                )
                for gate, way in zip(policy.gates, progress, strict=True)
            ]
        unlisted = Counter(
            segment.value
            for document in recent
            if (segment := policy.segment_by.of_stored(document.segment, document.metadata))
        )
        for value in policy.values:
            del unlisted[value]
        return states, dict(unlisted.most_common(MOST_UNLISTED))
