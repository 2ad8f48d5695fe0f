"""Reports for leads: counts, backlog, cockpit, reliability and automation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.certification import Certification
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.policy import RoutingPolicy, ThresholdMode
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.recalibration import verdict
from setwise.service.domain.reports import STEPS, Backlog, Cell, Share, confident, standing
from setwise.service.domain.reviews import ReviewState
from setwise.service.domain.routing.segments import OTHER, Scope, value_of
from setwise.service.services.analysis.accuracy import share
from setwise.service.services.analysis.advice import Advice, advise, warning
from setwise.service.services.analysis.forecast import (
    MOST_DOCUMENTS,
    PREVIEWED,
    Forecast,
    forecasts,
    in_force,
    of_segment,
    over,
    part_of,
    under,
)
from setwise.service.services.analysis.mistakes import Mistakes, mistakes
from setwise.service.services.analysis.over_time import Pace, Queue, Row, over_time, queue
from setwise.service.services.analysis.proofs import SCHEDULE
from setwise.service.services.analysis.reliability import (
    MOST_CHECKED,
    Curve,
    Reliability,
    draw_curve,
    measure,
)
from setwise.service.services.certification import last_attempt
from setwise.service.stores.database import Clock
from setwise.service.stores.transaction import Transaction, Transactions

MOST_DAYS = 400
USUAL_DAYS = 35

BINS = 40
"""Number of bins in the histogram of confidence."""

AUTOMATION_STEPS = 50
"""Steps between thresholds 0 and 1 in the automation report."""


@dataclass(frozen=True)
class Counts:
    """Counts of predictions by decision and of review tasks by state."""

    auto_sent: int
    """Predictions sent without a review."""
    waiting: int
    leased: int
    completed: int
    skipped: int
    """Review tasks by state; a skipped task waits for a lead."""
    reasons: Mapping[Reason, int]
    """Predictions by the reason of their decision."""

    @property
    def predictions(self) -> int:
        """Number of all predictions."""
        return sum(self.reasons.values())


@dataclass(frozen=True)
class CertificateState:
    """The certificate in force, and progress towards the next one."""

    certified: bool
    """Whether a certificate for the serving model proves the threshold in force."""
    threshold: float | None
    """The threshold in force."""
    since: datetime | None
    """When the certificate was created."""
    newest: Certification | None
    """The newest attempt for the serving model."""
    audits: int
    """Completed audits of that model."""
    next_attempt_in: int | None
    """Audits until the next attempt; None if none is due, because the newest certificate covers the
    policy or the threshold is fixed.
    """
    audits_needed: int | None
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
class Cockpit:
    """The numbers of the cockpit."""

    at: datetime
    since: datetime
    """When the numbers were read, and the start of the period, midnight in UTC."""
    pace: Pace
    policy: RoutingPolicy
    """That of the segment, if one was asked for."""
    segments: tuple[str, ...]
    """What can be asked for; empty without segments."""
    segment: str | None
    """Key of the one that was asked for."""
    documents: int
    sent: int
    """Received documents, and those sent without a review."""
    rows: list[Row]
    weeks: list[Row]
    """Rows by ``pace``, and by week, because a day has too few audits to measure accuracy."""
    accuracy: Share
    """Accuracy of label sets that were confident enough to be sent, from weighted audits; without
    audits, from reported outcomes.
    """
    drawn: bool
    """Whether the accuracy comes from audits."""
    undecided: int
    """Contradictions that a lead has yet to decide; the accuracy counts them as wrong."""
    reported: Share
    """Accuracy of sent sets with a reported outcome, which may not be a random sample."""
    seconds: float | None
    """Mean time per review; None before the first review."""
    hours_saved: float | None
    """Review time saved by the sent documents."""
    certificate: CertificateState
    queue: Queue
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
    """Says so if checks contradict the target at the other policy or, without one, at present."""
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


@dataclass(frozen=True)
class Reports:
    """Read-only reports on predictions and reviews."""

    begin: Transactions
    now: Clock
    lease_clock: Clock
    """The clock that all servers share; it measures the age of waiting work."""

    def summary(self, caller: Caller) -> Counts:
        """Return counts of predictions and review tasks at one instant."""
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            decided = transaction.predictions.counts()
            reviews = transaction.reviews.counts()
        reasons = dict.fromkeys(Reason, 0)
        for (_, reason), count in decided.items():
            reasons[reason] += count
        return Counts(
            auto_sent=sum(n for (decision, _), n in decided.items() if decision is Decision.AUTO),
            waiting=reviews.get(ReviewState.WAITING, 0),
            leased=reviews.get(ReviewState.LEASED, 0),
            completed=reviews.get(ReviewState.COMPLETED, 0),
            skipped=reviews.get(ReviewState.SKIPPED, 0),
            reasons=reasons,
        )

    def backlog(self, caller: Caller) -> tuple[Backlog, datetime]:
        """Return the backlog and when it was read."""
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            return transaction.backlog.read(), self.lease_clock()

    def reliability(
        self, caller: Caller, documents: int, segment: str | None = None
    ) -> Reliability:
        """Return the reliability of confidence on the most recent documents, or a segment's."""
        caller.require(Permission.REPORT)
        _check_documents(documents)
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
            found = transaction.history.evidence(documents, with_labels=segment is not None)
        part = part_of(policy, segment)
        return measure(of_segment(found, policy, segment), part.risk)

    def automation(
        self, caller: Caller, documents: int, segment: str | None = None
    ) -> tuple[Forecast, list[Forecast]]:
        """Return forecasts of the current policy and of thresholds 0 to 1.

        The rules in force apply to every threshold.

        ``segment``: Only for this segment's documents.
        """
        caller.require(Permission.REPORT)
        _check_documents(documents)
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
            with_labels = bool(policy.rules) or policy.segmentation is not None
            found = transaction.history.evidence(documents, with_labels=with_labels)
        steps = [step / AUTOMATION_STEPS for step in range(AUTOMATION_STEPS + 1)]
        part, found = part_of(policy, segment), of_segment(found, policy, segment)
        return under(found, part), over(found, steps, part)

    def cockpit(
        self,
        caller: Caller,
        *,
        days: int = USUAL_DAYS,
        pace: Pace = Pace.DAY,
        what_if: WhatIf | None = None,
        segment: str | None = None,
    ) -> Cockpit:
        """Return the cockpit for the last ``days``, including today, at one instant.

        Raises `InvalidRequest` if the period or ``what_if`` is out of range, or the policy does not
        list the segment.

        ``segment``: Only for this segment's documents.
        """
        caller.require(Permission.REPORT)
        what_if = what_if or WhatIf()
        faults = _faults(days, what_if)
        if faults:
            raise InvalidRequest("The cockpit cannot show this.", faults)
        now = self.now()
        today = now.astimezone(UTC).date()
        first = pace.start(today - timedelta(days=days - 1))
        since = datetime.combine(first, time(), UTC)
        with self.begin(read_only=True, snapshot=True) as transaction:
            whole = transaction.policies.current()
            policy = part_of(whole, segment)
            scope = None if segment is None else whole.scope(whole.key_of(segment))
            reports = transaction.reports.within(scope)
            looked_at = [one for one in (in_force(policy), what_if.threshold) if one is not None]
            tally = reports.tally(since, looked_at)
            reviews = reports.review_days(since)
            checked = reports.checked(since, MOST_CHECKED)
            lines = transaction.backlog.read(scope).reviews
            undecided = reports.undecided(since)
            certificate = _certificate(transaction, policy, whole.scope(policy.unit))
            newest = transaction.calibrations.page(after=None, limit=1).items
            clients = {key.id: key.name for key in transaction.keys.all()}
            recent = (
                None
                if policy.segmentation is None
                else transaction.history.evidence(PREVIEWED, with_labels=True)
            )
        cells = tally.by_day
        known = standing(cells)
        waiting = sum(line.count for line in lines.values())
        oldest = max(line.age_s(now) for line in lines.values())
        completed = sum(one.completed for one in reviews)
        seconds = sum(one.seconds for one in reviews) / completed if completed else None
        sent = [cell for cell in cells if cell.decision is Decision.AUTO]
        n_sent = sum(cell.documents for cell in sent)
        curve, at_present, then, advice = _what_if(
            tally.by_step, policy, what_if, (today - first).days + 1
        )
        if recent is not None:
            at_present = under(recent, policy)

        def over(pace: Pace) -> list[Row]:
            return over_time(
                cells,
                reviews,
                first=first,
                last=today,
                pace=pace,
                waiting=waiting,
                known=known,
                risk=policy.risk,
            )

        rows = over(pace)
        return Cockpit(
            at=now,
            since=since,
            pace=pace,
            policy=policy,
            segments=(*whole.values, OTHER) if whole.segmentation is not None else (),
            segment=None if segment is None else whole.key_of(segment),
            documents=sum(cell.documents for cell in cells),
            sent=n_sent,
            rows=rows,
            weeks=rows if pace is Pace.WEEK else over(Pace.WEEK),
            accuracy=share([cell for cell in cells if confident(cell)], policy.risk, known),
            drawn=known.drawn,
            undecided=undecided if known.drawn else 0,
            reported=_reported(sent, policy.risk),
            seconds=seconds,
            hours_saved=None if seconds is None else n_sent * seconds / 3600,
            certificate=certificate,
            queue=queue(reviews, today=today, waiting=waiting, oldest_s=oldest),
            reliability=draw_curve(checked, known),
            checked=sum(known.of(one) > 0 for one in checked),
            histogram=_histogram(tally.by_step),
            curve=curve,
            now=at_present,
            then=then,
            warning=warning(then or at_present, policy.target_accuracy),
            advice=advice,
            calibrator=verdict(newest[0].report) if newest else None,
            mistakes=mistakes(checked, known, policy.risk, clients),
        )


def _check_documents(documents: int) -> None:
    """Raise `InvalidRequest` if a report cannot cover that many documents."""
    if not 1 <= documents <= MOST_DOCUMENTS:
        fault = FieldFault("/query/documents", f"must lie between 1 and {MOST_DOCUMENTS}")
        raise InvalidRequest("The report cannot cover that many documents.", [fault])


def _faults(days: int, what_if: WhatIf) -> list[FieldFault]:
    faults = []
    if not 1 <= days <= MOST_DAYS:
        faults.append(FieldFault("/query/days", f"must lie between 1 and {MOST_DAYS}"))
    if what_if.threshold is not None and not 0.0 <= what_if.threshold <= 1.0:
        faults.append(FieldFault("/query/threshold", "must lie between 0 and 1"))
    if what_if.target_accuracy is not None and not 0.0 < what_if.target_accuracy < 1.0:
        faults.append(FieldFault("/query/target", "must lie between 0 and 1, both excluded"))
    return faults


def _certificate(
    transaction: Transaction, policy: RoutingPolicy, scope: Scope | None
) -> CertificateState:
    serving = transaction.certifications.serving()
    newest = transaction.certifications.newest(serving, policy.unit) if serving else None
    audits = transaction.reports.within(scope).certification_audits(serving) if serving else 0
    if policy.segmentation is not None:
        # The page of the policy has the state of each segment.
        return CertificateState(
            certified=False,
            threshold=None,
            since=None,
            newest=None,
            audits=audits,
            next_attempt_in=None,
            audits_needed=None,
        )
    proof = policy.certificate_id and transaction.certifications.get(policy.certificate_id)
    certified = (
        policy.threshold_mode is ThresholdMode.CERTIFIED
        and policy.threshold is not None
        and serving == policy.certified_for
    )
    return CertificateState(
        certified=certified,
        threshold=policy.least_confidence,
        since=proof.created_at if certified and proof else None,
        newest=newest,
        audits=audits,
        # With a fixed threshold, nothing is certified automatically.
        next_attempt_in=None
        if policy.threshold_mode is ThresholdMode.FIXED or value_of(policy.unit) == OTHER
        else SCHEDULE.missing(
            policy, last_attempt(transaction, policy, serving) if serving else None, audits
        ),
        audits_needed=_needed(newest),
    )


def _needed(newest: Certification | None) -> int | None:
    if newest is None or newest.further_audits is None:
        return None
    return newest.n_drawn + newest.further_audits


def _reported(sent: Sequence[Cell], risk: float) -> Share:
    # Outcomes only, without reviews.
    return share([cell._replace(said=None) for cell in sent], risk)


def _what_if(
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


def _histogram(cells: Sequence[Cell]) -> list[Bin]:
    counts = [[0, 0, 0] for _ in range(BINS)]
    for cell in cells:
        audited = cell.reason is Reason.AUDIT and cell.decision is not Decision.AUTO
        kind = 0 if cell.decision is Decision.AUTO else 1 if audited else 2
        place = min((cell.step or 0) * BINS // STEPS, BINS - 1)  # confidence 1 is in the last bin
        counts[place][kind] += cell.documents
    return [Bin(place / BINS, (place + 1) / BINS, *kinds) for place, kinds in enumerate(counts)]
