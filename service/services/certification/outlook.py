"""When the next attempt comes, what it needs, and what it costs people."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.certification import (
    Arrivals,
    AuditPace,
    CertificationOutlook,
    NextAttempt,
    Scorer,
)
from setwise.service.domain.certification.proofs import gather
from setwise.service.domain.effort import Effort, hours_of
from setwise.service.domain.errors import (
    FieldFault,
    InvalidRequest,
)
from setwise.service.domain.routing.segments import value_of
from setwise.service.services.analysis.proofs import (
    ALL_AT_ONCE,
    ProofProgress,
    ProofQuestion,
    answer,
)
from setwise.service.services.certification.questions import (
    Questions,
    audits_counted,
    audits_for,
    keys_of,
    last_attempt,
)
from setwise.service.stores.transaction import Transaction, Transactions

OUTLOOK_CONFIDENCES = 5_000
"""Most predictions, the newest, whose confidences say how many audits the first attempt needs."""

_LATELY = timedelta(weeks=4)  # whose documents say how many come a week


@dataclass(frozen=True)
class Outlooks:
    """How far what serves is on the way to a certificate."""

    begin: Transactions
    questions: Questions

    def of_segments(
        self, caller: Caller, rate: float | None = None, target: float | None = None
    ) -> list[CertificationOutlook]:
        """Return how many more audits each segment needs, and how long they take.

        There is none before the first prediction. Raises `InvalidRequest` if a number is out of
        range.

        ``rate``: An audit rate, in (0, 1], to compare with the policy's.
        ``target``: An accuracy to prove, in (0, 1), instead of the policy's.
        """
        caller.require(Permission.REPORT, Permission.INSPECT)
        faults = []
        if rate is not None and not 0.0 < rate <= 1.0:
            faults.append(FieldFault("/query/rate", f"is {rate}; it must be above 0 and at most 1"))
        if target is not None and not 0.0 < target < 1.0:
            faults.append(FieldFault("/query/target", f"is {target}; it must lie between 0 and 1"))
        if faults:
            raise InvalidRequest("There is no such outlook.", faults)
        with self.begin(read_only=True, snapshot=True) as transaction:
            scorer = transaction.certifications.serving()
            if scorer is None:
                return []
            drawn = audits_for(transaction, scorer)
            questions = (
                self.questions.of(transaction, scorer, key, drawn)
                for key in keys_of(transaction.policies.current())
            )
            return [self._outlook(transaction, question, rate, target) for question in questions]

    def next_attempts(self, caller: Caller) -> list[NextAttempt]:
        """Return what an attempt now would test and spend, for each segment.

        There is none before the first prediction.
        """
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            return self.questions.next_attempts(transaction)

    def progress(
        self, transaction: Transaction, scorer: Scorer, keys: Sequence[str | None]
    ) -> list[ProofProgress]:
        """Return how far each segment of what serves is on the way to its next attempt."""
        drawn = audits_counted(transaction, scorer)
        questions = (
            self.questions.of(transaction, scorer, key, drawn, draws=False) for key in keys
        )
        return [self._progress(transaction, question) for question in questions]

    def _progress(self, transaction: Transaction, question: ProofQuestion) -> ProofProgress:
        gate, audits = question.gate, question.gathered.drawn
        newest = last_attempt(transaction, gate, question.scorer)
        missing = question.missing(self.questions.schedule, newest)
        return ProofProgress(audits, missing if gate.policy.certified else None, newest)

    def _outlook(
        self,
        transaction: Transaction,
        question: ProofQuestion,
        rate: float | None,
        target: float | None,
    ) -> CertificationOutlook:
        gate, scorer = question.gate, question.scorer
        other = target is not None and target != gate.policy.target_accuracy
        progress, arrivals = (
            self._progress(transaction, question),
            self._arrivals(transaction, question),
        )
        before, missing = progress.newest, None if other else progress.missing
        if target is not None:
            gate = replace(gate, policy=replace(gate.policy, target_accuracy=target))
        if before is None or other:
            needed, reason = self._expected(transaction, replace(question, gate=gate))
            if needed is not None:
                needed = arrivals.targeted(needed, gate.certification_rate(scorer))
        else:
            needed, reason = progress.needed, before.reason
        further = None if needed is None else max(needed - progress.audits, 0)
        rates = [gate.certification_rate(scorer), *([] if rate is None else [rate])]
        state, aim = gate.state, gate.policy.target_accuracy
        holds = state.certificate_id is not None and gate.sends and state.certified_for == scorer
        # An attempt that proves nothing does not end the certificate in force.
        holds = holds and aim <= question.gate.policy.target_accuracy
        certified = holds or (before is not None and before.covers(aim, gate.risk))
        further = None if certified else further
        awaited = None if further is None else max(further, missing or 0)
        each_s = self._blind_reading(transaction)
        return CertificationOutlook(
            segment=value_of(gate.key),
            target=aim,
            certified=certified,
            reason=None if certified else reason,
            further_audits=further,
            hours=None if further is None else hours_of(further, each_s),
            next_attempt_in=missing,
            too_recent=question.gathered.excluded["too recent"],
            documents_a_week=arrivals.documents,
            paces=()
            if awaited is None
            else tuple(AuditPace.at(each, arrivals, awaited, each_s) for each in rates),
        )

    def _blind_reading(self, transaction: Transaction) -> float | None:
        """Return the mean seconds of a recent blind reading; None without any."""
        counts = transaction.reports().readings((self.questions.now() - _LATELY).date())
        return Effort.of(0, counts).blind.each_s

    def _arrivals(self, transaction: Transaction, question: ProofQuestion) -> Arrivals:
        """Return how many documents of a gate come a week, on average of the last ones."""
        gate, now = question.gate, self.questions.now()
        documents, rest, first = transaction.certifications.arrivals(
            now - _LATELY,
            gate.policy.confidence_floor or 0.0,
            gate.segment,
            below=gate.audited_from(question.scorer),
        )
        weeks = max((now - (first or now)) / timedelta(weeks=1), 1.0 / 7.0)
        return Arrivals(documents / weeks, rest / weeks, gate.audits.rest_rate or 0.0)

    def _expected(
        self, transaction: Transaction, question: ProofQuestion
    ) -> tuple[int | None, str | None]:
        """Return how many audits the first attempt needs, by the confidences, or why none would do.

        A look at the audits would be an attempt.
        """
        predicted = transaction.certifications.unaudited(
            question.scorer, limit=OUTLOOK_CONFIDENCES, segment=question.gate.segment
        )
        nothing = gather([], {}, rules=question.gate.policy.rules, read_by=self.questions.now())
        needed = answer(
            replace(question, gathered=nothing, look=ALL_AT_ONCE), predicted
        ).further_audits
        if needed is not None:
            return needed, None
        reread = question.gate.audits.gold_reread_rate
        return None, "below-target" if reread else "miss-rate-unknown"
