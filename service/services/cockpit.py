"""The numbers from which a lead decides whether to trust the machine, all of one instant."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.certification import Certification
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.policy import RoutingPolicy, ThresholdMode
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.verdicts import STEPS, Cell, confident, standing
from setwise.service.services.certification import SCHEDULE
from setwise.service.services.forecast import (
    LEAST_CHECKED,
    Forecast,
    Share,
    forecasts,
    in_force,
    lowest_threshold,
    share,
)
from setwise.service.services.mistakes import Mistakes, mistakes
from setwise.service.services.over_time import Pace, Queue, Row, over_time, queue
from setwise.service.services.reliability import MOST_CHECKED, Curve, draw_curve
from setwise.service.stores.clock import Clock
from setwise.service.stores.transaction import Transaction, Transactions

MOST_DAYS = 400
USUAL_DAYS = 35

BINS = 40
"""Of the histogram of confidence."""


@dataclass(frozen=True)
class CertificateState:
    """What is proved, since when, and what the next attempt waits for.

    Attributes
    ----------
    certified : bool
        The threshold in force stands on a certificate for the model that serves.
    threshold : float or None
        That threshold.
    since : datetime or None
        When it came into force.
    newest : Certification or None
        The last attempt for the model that serves.
    audits : int
        Audits for it that are read by now.
    next_attempt_in : int or None
        Audits until the next attempt; None where none is due: the newest covers the policy, or its
        threshold is set by hand.
    audits_needed : int or None
        Audits that would probably prove a threshold, by the last attempt; None where it cannot
        tell, or no number would.
    """

    certified: bool
    threshold: float | None
    since: datetime | None
    newest: Certification | None
    audits: int
    next_attempt_in: int | None
    audits_needed: int | None


@dataclass(frozen=True)
class Bin:
    """Documents of about the same confidence, from ``low`` up to ``high``."""

    low: float
    high: float
    sent: int
    audited: int
    reviewed: int


@dataclass(frozen=True)
class Cockpit:
    """Everything that the cockpit shows.

    Attributes
    ----------
    at, since : datetime
        Of the numbers; and from when on predictions count, the beginning of a day in UTC.
    documents, sent : int
        That came in, and that left by themselves.
    accuracy : Share
        Of the label sets that were confident enough to be sent: of audits, each with the weight of
        the documents that it stands for. While there is no audit, of those with an outcome.
    drawn : bool
        That accuracy is from audits.
    reported : Share
        Of sent sets whose truth other programs reported, which need not be a random choice.
    seconds : float or None
        Mean time that a person takes for a document; None before the first review.
    hours_saved : float or None
        Of the documents that were sent.
    rows, weeks : list of Row
        By ``pace``, and by weeks: a day has too few audits to tell of its accuracy.
    curve : list of Forecast
        What-if, at rising thresholds.
    now, then : Forecast or None
        The policy in force, and the one that is asked for. Here and in ``curve`` a document that
        a rule held back stays held back.
    """

    at: datetime
    since: datetime
    pace: Pace
    policy: RoutingPolicy
    documents: int
    sent: int
    rows: list[Row]
    weeks: list[Row]
    accuracy: Share
    drawn: bool
    reported: Share
    seconds: float | None
    hours_saved: float | None
    certificate: CertificateState
    queue: Queue
    reliability: Curve | None
    checked: int
    histogram: list[Bin]
    curve: list[Forecast]
    now: Forecast
    then: Forecast | None
    mistakes: Mistakes


@dataclass(frozen=True)
class WhatIf:
    """Another policy to look at: a threshold, or a target that a threshold is to meet."""

    threshold: float | None = None
    target_accuracy: float | None = None


@dataclass(frozen=True)
class ReadCockpit:
    """Read all numbers of the cockpit at one instant; nothing changes."""

    begin: Transactions
    now: Clock

    def __call__(
        self,
        caller: Caller,
        *,
        days: int = USUAL_DAYS,
        pace: Pace = Pace.DAY,
        what_if: WhatIf | None = None,
    ) -> Cockpit:
        """Return them for the last ``days``, today included.

        Raises
        ------
        InvalidRequest
            If the period or what is asked for cannot be.
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
            policy = transaction.policies.current()
            looked_at = [one for one in (in_force(policy), what_if.threshold) if one is not None]
            tally = transaction.reports.tally(since, looked_at)
            reviews = transaction.reports.review_days(since)
            checked = transaction.reports.checked(since, MOST_CHECKED)
            lines = transaction.backlog.read().reviews
            certificate = _certificate(transaction, policy)
            clients = {key.id: key.name for key in transaction.keys.all()}
        cells = tally.by_day
        known = standing(cells)
        waiting = sum(line.count for line in lines.values())
        oldest = max(line.age_s(now) for line in lines.values())
        completed = sum(one.completed for one in reviews)
        seconds = sum(one.seconds for one in reviews) / completed if completed else None
        sent = [cell for cell in cells if cell.decision is Decision.AUTO]
        n_sent = sum(cell.documents for cell in sent)
        curve, at_present, then = _what_if(tally.by_step, policy, what_if, (today - first).days + 1)

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
            documents=sum(cell.documents for cell in cells),
            sent=n_sent,
            rows=rows,
            weeks=rows if pace is Pace.WEEK else over(Pace.WEEK),
            accuracy=share([cell for cell in cells if confident(cell)], policy.risk, known),
            drawn=known.drawn,
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
            mistakes=mistakes(checked, known, policy.risk, clients),
        )


def _faults(days: int, what_if: WhatIf) -> list[FieldFault]:
    faults = []
    if not 1 <= days <= MOST_DAYS:
        faults.append(FieldFault("/query/days", f"must lie between 1 and {MOST_DAYS}"))
    if what_if.threshold is not None and not 0.0 <= what_if.threshold <= 1.0:
        faults.append(FieldFault("/query/threshold", "must lie between 0 and 1"))
    if what_if.target_accuracy is not None and not 0.0 < what_if.target_accuracy < 1.0:
        faults.append(FieldFault("/query/target", "must lie between 0 and 1, both excluded"))
    return faults


def _certificate(transaction: Transaction, policy: RoutingPolicy) -> CertificateState:
    serving = transaction.certifications.serving()
    newest = transaction.certifications.newest(serving) if serving else None
    audits = transaction.reports.certification_audits(serving) if serving else 0
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
        # Nothing is tried by itself while the owner sets the threshold.
        next_attempt_in=None
        if policy.threshold_mode is ThresholdMode.FIXED
        else SCHEDULE.missing(policy, newest, audits),
        audits_needed=_needed(newest),
    )


def _needed(newest: Certification | None) -> int | None:
    if newest is None or newest.further_audits is None:
        return None
    return newest.n_audits + newest.further_audits


def _reported(sent: Sequence[Cell], risk: float) -> Share:
    # Seen as if nobody but other programs had looked.
    return share([cell._replace(said=None) for cell in sent], risk)


def _what_if(
    cells: Sequence[Cell], policy: RoutingPolicy, what_if: WhatIf, days: int
) -> tuple[list[Forecast], Forecast, Forecast | None]:
    """Return the curve, the policy in force, and the one that is asked for if there is one."""
    sendable = [cell.sendable for cell in cells]

    # Cells begin at these steps, and at the two thresholds that may lie between them.
    steps = [step / STEPS for step in range(STEPS + 1)]
    thresholds = [*steps, in_force(policy), what_if.threshold, None]
    made = forecasts(cells, thresholds, sendable=sendable, risk=policy.risk, days=days)
    curve, (now, then, nothing) = made[: len(steps)], made[len(steps) :]
    if what_if.target_accuracy is not None:
        wanted = lowest_threshold(curve, what_if.target_accuracy, LEAST_CHECKED)
        return curve, now, next((one for one in curve if one.threshold == wanted), nothing)
    return curve, now, None if what_if.threshold is None else then


def _histogram(cells: Sequence[Cell]) -> list[Bin]:
    counts = [[0, 0, 0] for _ in range(BINS)]
    for cell in cells:
        audited = cell.reason is Reason.AUDIT and cell.decision is not Decision.AUTO
        kind = 0 if cell.decision is Decision.AUTO else 1 if audited else 2
        place = min((cell.step or 0) * BINS // STEPS, BINS - 1)  # certainty is in the last bin
        counts[place][kind] += cell.documents
    return [Bin(place / BINS, (place + 1) / BINS, *kinds) for place, kinds in enumerate(counts)]
