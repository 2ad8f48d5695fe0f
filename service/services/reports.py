"""Reports for leads: counts, backlog, cockpit, reliability and automation."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.evidence import Cell, confident
from setwise.service.domain.policy import Gate, Policy
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reports import Backlog, promised, standing
from setwise.service.domain.reviews import ReviewState
from setwise.service.services.analysis.accuracy import share
from setwise.service.services.analysis.cockpit import (
    CertificateState,
    Cockpit,
    Glance,
    histogram,
)
from setwise.service.services.analysis.forecast import (
    MOST_DOCUMENTS,
    AutomationCurve,
    of_segment,
    over,
    under,
)
from setwise.service.services.analysis.labels import LabelBasis, LabelTrust, label_trust
from setwise.service.services.analysis.mistakes import mistakes
from setwise.service.services.analysis.over_time import (
    LAST_DAYS,
    Granularity,
    Period,
    PeriodCounts,
    effort,
    over_time,
    queue,
)
from setwise.service.services.analysis.proofs import ProofProgress
from setwise.service.services.analysis.reliability import (
    MOST_CHECKED,
    Reliability,
    draw_curve,
    measure,
)
from setwise.service.services.certification.outlook import Outlooks
from setwise.service.stores.database import LeaseClock, WallClock
from setwise.service.stores.transaction import Transaction, Transactions

AUTOMATION_STEPS = 50
"""Steps between thresholds 0 and 1 in the automation report."""


@dataclass(frozen=True)
class Counts:
    """Counts of predictions by decision and of review tasks by state."""

    auto_sent: int
    """Documents that were sent automatically."""
    waiting: int
    leased: int
    completed: int
    skipped: int
    """Review tasks by state; a skipped task waits for a lead."""
    reasons: Mapping[Reason, int]
    """Predictions by the reason of their decision."""

    @property
    def predictions(self) -> int:
        """Documents that were predicted."""
        return sum(self.reasons.values())


@dataclass(frozen=True)
class Reports:
    """Read-only reports on predictions and reviews."""

    begin: Transactions
    now: WallClock
    lease_clock: LeaseClock
    """The clock that all servers share; it measures the age of waiting work."""
    outlooks: Outlooks
    """They know how many audits count, and when the next attempt comes."""

    def summary(self, caller: Caller) -> Counts:
        """Return counts of predictions and review tasks at one instant."""
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            reports = transaction.reports()
            decided, tasks = reports.decisions(), reports.reviews()
            reviews = transaction.reviews.open_counts()
        reasons = dict.fromkeys(Reason, 0)
        for (_, reason), count in decided.items():
            reasons[reason] += count
        return Counts(
            auto_sent=sum(n for (decision, _), n in decided.items() if decision is Decision.AUTO),
            waiting=reviews.get(ReviewState.WAITING, 0),
            leased=reviews.get(ReviewState.LEASED, 0),
            completed=tasks - sum(reviews.values()),
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
            checks = transaction.evidence.recent(documents, with_content=segment is not None)
        asked = policy.gate_for(segment) or policy
        return measure(of_segment(checks, policy, segment), asked.risk)

    def automation(
        self, caller: Caller, documents: int, segment: str | None = None
    ) -> AutomationCurve:
        """Return forecasts of the current policy, and of thresholds 0 to 1 under its rules."""
        caller.require(Permission.REPORT)
        _check_documents(documents)
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
            with_content = bool(policy.rules) or policy.whole is None
            checks = transaction.evidence.recent(documents, with_content=with_content)
        steps = [step / AUTOMATION_STEPS for step in range(AUTOMATION_STEPS + 1)]
        checks = of_segment(checks, policy, segment)
        return AutomationCurve(under(checks, policy, segment), over(checks, steps, policy, segment))

    def glance(
        self, caller: Caller, period: Period | None = None, *, segment: str | None = None
    ) -> Glance:
        """Return how right sending was, how much is automatic, and what waits.

        Raises `InvalidRequest` if the period is out of range, or the policy does not list the
        segment.
        """
        caller.require(Permission.REPORT)
        period = period or Period()
        days = self._days(period)
        with self.begin(read_only=True, snapshot=True) as transaction:
            policy = transaction.policies.current()
            gate = policy.gate_for(segment)
            cells = transaction.reports((gate or policy).segment).tally(*days)
            return self._glance(transaction, policy, gate, period, cells)

    def cockpit(
        self, caller: Caller, period: Period | None = None, *, segment: str | None = None
    ) -> Cockpit:
        """Return all numbers of the cockpit at one instant.

        Raises `InvalidRequest` if the period is out of range, or the policy does not list the
        segment.
        """
        caller.require(Permission.REPORT)
        period = period or Period()
        days = self._days(period)
        with self.begin(read_only=True, snapshot=True) as transaction:
            policy = transaction.policies.current()
            gate = policy.gate_for(segment)
            asked, evidence = (gate or policy).segment, transaction.evidence
            reports = transaction.reports(asked)
            cells, steps = reports.tally(*days), reports.steps(*days)
            seen = self._glance(transaction, policy, gate, period, cells)
            checked = evidence.checked(
                seen.since, MOST_CHECKED, before=period.before(), segment=asked
            )
            newest = transaction.calibrations.page(after=None, limit=1).items
            clients = {key.id: key.name for key in transaction.keys.all()}
        return Cockpit(
            **vars(seen),
            reliability=draw_curve(checked, seen.known),
            checked=sum(seen.known.of(each) > 0 for each in checked),
            histogram=histogram(steps),
            calibrator=newest[0].judgement if newest else None,
            mistakes=mistakes(checked, seen.known, seen.asked.risk, clients),
        )

    def labels(
        self,
        caller: Caller,
        vocabulary: Collection[str],
        period: Period | None = None,
        *,
        segment: str | None = None,
        basis: LabelBasis = LabelBasis.SENT,
    ) -> LabelTrust:
        """Return which labels of the documents of a period can be trusted.

        Raises `InvalidRequest` as `cockpit` does.

        ``vocabulary``: The labels that the active model knows.
        """
        caller.require(Permission.REPORT)
        period = period or Period()
        days = self._days(period)
        since, before = datetime.combine(days[0], time(), UTC), period.before()
        with self.begin(read_only=True, snapshot=True) as transaction:
            policy = transaction.policies.current()
            asked = (policy.gate_for(segment) or policy).segment
            known = standing(transaction.reports(asked).tally(*days))
            checks = transaction.evidence.checked(since, MOST_CHECKED, before=before, segment=asked)
            marginals = transaction.predictions.marginals_of([each.id for each in checks])
            parents = transaction.labels.parents()
        return label_trust(checks, known, marginals, vocabulary, basis, parents=parents)

    def _days(self, period: Period) -> tuple[date, date | None]:
        """Return the first day of a period, and the day after it if it ends.

        Raises `InvalidRequest` if the period is out of range.
        """
        today = self.now().astimezone(UTC).date()
        if faults := [*period.faults(today)]:
            raise InvalidRequest("The cockpit cannot show this.", faults)
        before = period.before()
        return period.since(today), before and before.date()

    def _glance(
        self,
        transaction: Transaction,
        policy: Policy,
        gate: Gate | None,
        period: Period,
        cells: Sequence[Cell],
    ) -> Glance:
        segment, risk = (gate or policy).segment, (gate or policy).risk
        reports = transaction.reports(segment)
        now = self.now()
        today = now.astimezone(UTC).date()
        first, last = period.since(today), period.until(today)
        since = datetime.combine(first, time(), UTC)
        known = standing(cells)
        # To the present, from which the backlog of earlier days follows, with the last full days,
        # from which the pace does.
        reviews = reports.review_days(min(first, today - timedelta(days=LAST_DAYS)))
        lines = transaction.backlog.read(segment).reviews
        waiting = sum(line.count for line in lines.values())
        readings = reports.readings(first)
        sent = [cell for cell in cells if cell.decision is Decision.AUTO]

        def over(pace: Granularity) -> list[PeriodCounts]:
            rows = over_time(
                cells,
                reviews,
                readings,
                first=first,
                last=today,
                pace=pace,
                waiting=waiting,
                known=known,
                risk=risk,
            )
            return [row for row in rows if row.start <= last]

        rows = over(period.pace)
        undecided = transaction.evidence.undecided(since, before=period.before(), segment=segment)
        return Glance(
            at=now,
            since=since,
            until=last,
            pace=period.pace,
            policy=policy,
            gate=gate,
            documents=sum(cell.documents for cell in cells),
            sent=sum(cell.documents for cell in sent),
            rows=rows,
            weeks=rows if period.pace is Granularity.WEEK else over(Granularity.WEEK),
            known=known,
            accuracy=share([cell for cell in cells if confident(cell)], risk, known),
            promised=promised(cells),
            undecided=undecided if known.drawn else 0,
            # Outcomes only, without reviews.
            reported=share([cell._replace(reviewer_agreed=None) for cell in sent], risk),
            effort=effort(cells, [each for each in readings if first <= each.day <= last]),
            certificate=self._certificate(transaction, policy, gate),
            queue=queue(
                reviews,
                today=today,
                waiting=waiting,
                oldest_s=max(line.age_s(now) for line in lines.values()),
                overdue=transaction.backlog.overdue(now, segment),
            ),
        )

    def _certificate(
        self, transaction: Transaction, policy: Policy, gate: Gate | None
    ) -> CertificateState:
        serving = transaction.certifications.serving()
        if serving is None:
            return CertificateState()
        keys = [each.key for each in ([gate] if gate else policy.gates)]
        progress = self.outlooks.progress(transaction, serving, keys)
        if gate is None:
            # The page of the policy has the state of each segment.
            audits = sum(each.audits for each in progress)
            return CertificateState(progress=ProofProgress(audits))
        proof = transaction.certifications.get(gate.state.certificate_id or "")
        certified = (
            policy.certified and gate.threshold is not None and serving == gate.state.certified_for
        )
        return CertificateState(
            certified=certified,
            threshold=gate.least_confidence,
            since=proof.created_at if certified and proof else None,
            newest=transaction.certifications.newest(serving, gate.key),
            progress=progress[0],
        )


def _check_documents(documents: int) -> None:
    """Raise `InvalidRequest` if a report cannot cover that many documents."""
    if not 1 <= documents <= MOST_DOCUMENTS:
        fault = FieldFault("/query/documents", f"must lie between 1 and {MOST_DOCUMENTS}")
        raise InvalidRequest("The report cannot cover that many documents.", [fault])
