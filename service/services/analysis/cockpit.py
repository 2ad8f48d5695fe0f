"""What the cockpit shows: figures of a period, and what another policy would do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from setwise.service.domain.certification import Certification
from setwise.service.domain.errors import FieldFault
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reports import STEPS, Cell, Share, Standing
from setwise.service.services.analysis.advice import Advice, advise
from setwise.service.services.analysis.forecast import Forecast, forecasts, in_force
from setwise.service.services.analysis.mistakes import Mistakes
from setwise.service.services.analysis.over_time import Pace, Queue, Row
from setwise.service.services.analysis.reliability import Curve

BINS = 40
"""Number of bins in the histogram of confidence."""


@dataclass(frozen=True)
class CertificateState:
    """The certificate in force, and progress towards the next one."""

    audits: int
    """Completed audits of the serving model."""
    certified: bool = False
    """Whether a certificate for that model proves the threshold in force."""
    threshold: float | None = None
    """The threshold in force."""
    since: datetime | None = None
    """When the certificate was created."""
    newest: Certification | None = None
    """The newest attempt for that model."""
    next_attempt_in: int | None = None
    """Audits until the next attempt; None if none is due, because the newest certificate covers the
    policy or the threshold is fixed.
    """
    audits_needed: int | None = None
    """Estimate, from the newest attempt, of how many audits prove a threshold; None if unknown, or
    if no number would.
    """


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
    since: datetime
    until: date
    """When the numbers were read, the start of the period, midnight in UTC, and its last day."""
    pace: Pace
    policy: RoutingPolicy
    """That of the segment, if one was asked for."""
    segments: tuple[str, ...]
    """What can be asked for; empty without segments."""
    segment: str | None
    """Key of the one that was asked for."""
    documents: int
    sent: int
    """Received documents, and those sent automatically."""
    rows: list[Row]
    weeks: list[Row]
    """Rows by ``pace``, and by week, because a day has too few audits to measure accuracy."""
    known: Standing
    """Weights of checked predictions."""
    accuracy: Share
    """Accuracy of label sets that were confident enough to be sent, from weighted audits; without
    audits, from reported outcomes.
    """
    undecided: int
    """Contradictions that a lead has yet to decide; the accuracy counts them as wrong."""
    reported: Share
    """Accuracy of sent sets with a reported outcome, which may not be a random sample."""
    seconds: float | None
    """Mean time per review; None before the first review."""
    certificate: CertificateState
    queue: Queue

    @property
    def drawn(self) -> bool:
        """Whether the accuracy comes from audits."""
        return self.known.drawn

    @property
    def hours_saved(self) -> float | None:
        """Review time saved by the sent documents."""
        return None if self.seconds is None else self.sent * self.seconds / 3600

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
    curve: list[Forecast]
    """Forecasts at increasing thresholds."""
    now: Forecast
    then: Forecast | None
    """Forecasts of the policy in force and of the other policy. Here and in ``curve``, documents
    held back by a rule stay held back.
    """
    warning: str | None
    """Set if checks contradict the target at the other policy or, without one, at present."""
    advice: Advice | None
    """The threshold for a target, or what is missing; None unless a target was given."""
    mistakes: Mistakes
    calibrator: str | None
    """The paired test of the newest calibrator in words, see `verdict`; None before the first."""


@dataclass(frozen=True)
class WhatIf:
    """Another policy: a threshold, or a target accuracy to meet."""

    threshold: float | None = None
    target_accuracy: float | None = None

    def faults(self) -> list[FieldFault]:
        """Return what is out of range, by the names of the query."""
        faults = []
        if self.threshold is not None and not 0.0 <= self.threshold <= 1.0:
            faults.append(FieldFault("/query/threshold", "must lie between 0 and 1"))
        if self.target_accuracy is not None and not 0.0 < self.target_accuracy < 1.0:
            faults.append(FieldFault("/query/target", "must lie between 0 and 1, both excluded"))
        return faults


def forecasts_of(
    cells: Sequence[Cell], policy: RoutingPolicy, what_if: WhatIf, days: int
) -> tuple[list[Forecast], Forecast, Forecast | None, Advice | None]:
    """Return forecasts of the curve, the current policy and the other, and any advice."""
    sendable = [cell.sendable for cell in cells]

    # Cells start at these steps and at the two thresholds, which may lie between steps.
    steps = [step / STEPS for step in range(STEPS + 1)]
    thresholds = [*steps, in_force(policy), what_if.threshold, None]
    made = forecasts(cells, thresholds, sendable=sendable, risk=policy.risk, days=days)
    curve, (now, then, nothing) = made[: len(steps)], made[len(steps) :]
    if what_if.target_accuracy is not None:
        advice = advise(curve, what_if.target_accuracy, policy.risk)
        at = next((one for one in curve if one.threshold == advice.threshold), nothing)
        return curve, now, at, advice
    return curve, now, None if what_if.threshold is None else then, None


def histogram(cells: Sequence[Cell]) -> list[Bin]:
    """Return how many documents of each kind have which confidence."""
    counts = [[0, 0, 0] for _ in range(BINS)]
    for cell in cells:
        audited = cell.reason is Reason.AUDIT and cell.decision is not Decision.AUTO
        kind = 0 if cell.decision is Decision.AUTO else 1 if audited else 2
        place = min((cell.step or 0) * BINS // STEPS, BINS - 1)  # confidence 1 is in the last bin
        counts[place][kind] += cell.documents
    return [Bin(place / BINS, (place + 1) / BINS, *kinds) for place, kinds in enumerate(counts)]
