"""What the cockpit shows: the numbers of a period."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial

from setwise.service.domain.certification import Certification
from setwise.service.domain.effort import Effort
from setwise.service.domain.policy import Gate, Policy
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reports import STEPS, Share, Standing, StepCount
from setwise.service.domain.routing.segments import value_of
from setwise.service.services.analysis.mistakes import Mistakes
from setwise.service.services.analysis.over_time import Granularity, PeriodCounts, Queue
from setwise.service.services.analysis.proofs import ProofProgress
from setwise.service.services.analysis.reliability import Curve
from setwise.shown import Probability


@dataclass(frozen=True)
class CertificateState:
    """The certificate in force, and progress towards the next one."""

    certified: bool = False
    """Whether a certificate for that model proves the threshold in force."""
    threshold: float | None = None
    """The threshold in force."""
    since: datetime | None = None
    """When the certificate was created."""
    newest: Certification | None = None
    """The newest attempt for that model."""
    progress: ProofProgress = field(default_factory=partial(ProofProgress, 0))


@dataclass(frozen=True)
class Bin:
    """Documents with a confidence from ``low`` up to ``high``."""

    low: float
    high: float
    sent: int
    audited: int
    reviewed: int


@dataclass(frozen=True)
class Glance:
    """How right and how automatic sending was in a period, and what waits."""

    at: datetime
    """When the numbers were read."""
    since: datetime
    """Start of the period, midnight in UTC."""
    until: date
    """Its last day."""
    pace: Granularity
    policy: Policy
    gate: Gate | None
    """That of the segment that was asked for, or of all; None for several segments together."""
    documents: int
    """Documents that came."""
    sent: int
    """Those of them that were sent automatically."""
    rows: list[PeriodCounts]
    weeks: list[PeriodCounts]
    """Rows by ``pace``, and by week, because a day has too few audits to measure accuracy."""
    known: Standing
    """Weights of checked predictions."""
    accuracy: Share
    """Accuracy of label sets that were confident enough to be sent, from weighted audits; without
    audits, from reported outcomes.
    """
    promised: Probability | None
    """Mean confidence of the sets of `accuracy`, to compare with it; None without any."""
    undecided: int
    """Contradictions that a lead has yet to decide, counted as wrong."""
    reported: Share
    """Of sent sets with an outcome: not a random choice."""
    effort: Effort
    """What people read, and what sending spared them."""
    certificate: CertificateState
    queue: Queue

    @property
    def threshold(self) -> float | None:
        """The least confidence that is sent; None if nothing is, or segments have their own."""
        return self.gate.least_confidence if self.gate and self.gate.sends else None

    @property
    def segment(self) -> str | None:
        """Value of the segment that was asked for."""
        return value_of(self.gate.key) if self.gate else None

    @property
    def asked(self) -> Policy | Gate:
        """What holds for the documents: the gate, or the policy for several segments."""
        return self.gate or self.policy

    @property
    def drawn(self) -> bool:
        """Whether `accuracy` is from audits; otherwise it is from reported outcomes."""
        return self.known.drawn

    @property
    def promise_holds(self) -> bool | None:
        """Whether the promise of the confidences lies between the bounds; None if unknown."""
        low, high = self.accuracy.low, self.accuracy.high
        if self.promised is None or low is None or high is None:
            return None
        return low <= self.promised <= high

    @property
    def met(self) -> bool | None:
        """Whether checks show the target met or missed; None for neither."""
        low, high, target = self.accuracy.low, self.accuracy.high, self.policy.target_accuracy
        if low is None or high is None or low < target <= high:
            return None
        return low >= target


@dataclass(frozen=True)
class Cockpit(Glance):
    """All numbers of the cockpit."""

    reliability: Curve | None
    checked: int
    histogram: list[Bin]
    mistakes: Mistakes
    calibrator: str | None
    """The paired test of the newest calibrator in words, see `verdict`; None before the first."""


def histogram(counts: Sequence[StepCount]) -> list[Bin]:
    """Return how many documents of each kind have which confidence."""
    bins = [[0, 0, 0] for _ in range(STEPS)]
    for count in counts:
        audited = count.reason is Reason.AUDIT and count.decision is not Decision.AUTO
        kind = 0 if count.decision is Decision.AUTO else 1 if audited else 2
        place = min(count.step, STEPS - 1)  # confidence 1 is in the last bin
        bins[place][kind] += count.documents
    return [Bin(place / STEPS, (place + 1) / STEPS, *kinds) for place, kinds in enumerate(bins)]
