"""What an attempt is asked now: which audits count for a gate, and what may be spent on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from setwise.service.domain.certification import (
    Certification,
    NextAttempt,
    Scorer,
)
from setwise.service.domain.certification.proofs import gather
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.policy import Gate, Policy
from setwise.service.domain.routing.audits import READING_TIME, Lottery
from setwise.service.domain.routing.segments import OTHER
from setwise.service.services.analysis.proofs import (
    SCHEDULE,
    ProofQuestion,
    Schedule,
    once_each,
    spent,
)
from setwise.service.services.analysis.strata import (
    LEAST_CONFIDENCES,
    MOST_STREAM,
    Divided,
    divided,
)
from setwise.service.stores.database import WallClock
from setwise.service.stores.transaction import Transaction

MOST_CONFIDENCES = 200_000
"""Most predictions, the newest, whose confidences are candidate thresholds."""


@dataclass(frozen=True)
class Questions:
    """What attempts are asked; reads, and changes nothing."""

    now: WallClock
    lottery: Lottery
    """Determines which audits were drawn for a second reading."""
    schedule: Schedule = SCHEDULE
    """When to try automatically."""
    reading_time: timedelta = READING_TIME
    """After it, an audit that is not finished counts as wrong."""

    def of(
        self,
        transaction: Transaction,
        scorer: Scorer,
        key: str | None,
        drawn: Sequence[CheckedDocument] | None = None,
        *,
        draws: bool = True,
    ) -> ProofQuestion:
        """Return what to prove for a segment.

        ``drawn``: The scorer's audits if at hand.
        ``draws``: Whether audits say what was drawn for their second reading: a proof needs it.
        """
        policy, store = transaction.policies.current(), transaction.certifications
        gate = policy.gate_of(key)
        every = of_gate(gate, audits_for(transaction, scorer) if drawn is None else drawn)
        alarm = _alarm(transaction, gate)
        audits = [audit for audit in every if alarm is None or audit.id > alarm]
        if draws:
            audits = self.reread(transaction, audits)
        policies = transaction.policies.of(audit.policy_version for audit in audits)
        history = store.since(scorer.model_version, after=alarm)
        paying = once_each(history)
        deciding = transaction.policies.of(attempt.policy_version for attempt in paying)
        elsewhere, left = spent(
            policy, [(deciding[each.policy_version], each.evidence.risk) for each in paying]
        )
        gathered = gather(
            audits,
            {
                version: then.rules
                for version, then in policies.items()
                if gate.counts_audits_of(then)
            },
            rules=policy.rules,
            read_by=self.now() - self.reading_time,
        )
        question = ProofQuestion(
            gate=gate,
            scorer=scorer,
            attempt=store.attempts(scorer.model_version) + 1,
            place=1,
            gathered=gathered,
            set_aside=len(every) - len(audits),
            elsewhere=elsewhere,
            left=left,
            unseen=any(policy.gate_of(each).unseen for each in {audit.segment for audit in audits}),
        )
        return question.after([attempt for attempt in history if attempt.segment == gate.key])

    def on_demand(
        self, question: ProofQuestion, before: Certification | None, *, at_once: bool = False
    ) -> ProofQuestion:
        """Return what an attempt on demand asks.

        That is the look by the schedule if it is due, the last look again if more is known of its
        audits, or else a test that spends from the reserve.
        """
        due = question.due(self.schedule, before, at_once=at_once)
        return due or question.again or question.on_demand

    def next_attempts(
        self, transaction: Transaction, segment: str | None = None
    ) -> list[NextAttempt]:
        """Return what an attempt now would test and spend: for this segment, or for each."""
        scorer = transaction.certifications.serving()
        keys = keys_of(transaction.policies.current(), segment) if scorer else []
        return [self.next(transaction, scorer, key) for key in keys if scorer]

    def next(self, transaction: Transaction, scorer: Scorer, key: str | None) -> NextAttempt:
        """Return what an attempt now would test and spend for a segment."""
        question = self.of(transaction, scorer, key)
        gate, gathered = question.gate, question.gathered
        before = last_attempt(transaction, gate, scorer)
        asked = self.on_demand(question, before)
        look, half = asked.look, question.on_demand.risk
        new = gathered.drawn - (0 if before is None else before.evidence.n_drawn)
        same = before is not None and (
            new == 0
            and (before.target_accuracy, before.risk) == (gate.policy.target_accuracy, gate.risk)
            and (before.evidence.unfinished, before.evidence.undecided)
            == (gathered.unfinished, gathered.undecided)
        )
        return NextAttempt(
            segment=gate.key,
            audits=gathered.drawn if look is None or look.n is None else look.n,
            new_audits=max(new, 0),
            reserve=half if look is None else 0.0,
            left=half if look is None else 2.0 * half,
            missing=question.missing(self.schedule, before),
            gains=look is not None or (gathered.drawn > 0 and not same),
        )

    def reread(
        self, transaction: Transaction, drawn: Sequence[CheckedDocument]
    ) -> list[CheckedDocument]:
        """Return audits with the chance of a second reading and what was drawn."""
        policies = transaction.policies.of(each.policy_version for each in drawn)
        return [
            each
            if each.reread_draw is not None
            else each._replace(
                reread_rate=policies[each.policy_version].audits.gold_reread_rate,
                reread_draw=self.lottery.reread(each.client_id, each.name),
            )
            for each in drawn
        ]


def keys_of(policy: Policy, segment: str | None = None) -> list[str | None]:
    """Return the keys of the segments to try: of the one with this value, or of all."""
    gates = policy.gates if segment is None else [policy.gate_named(segment)]
    return [gate.key for gate in gates]


def audits_for(transaction: Transaction, scorer: Scorer) -> list[CheckedDocument]:
    """Return a scorer's audits, and those that were held back, as they came."""
    store = transaction.evidence
    return sorted([*store.audited(scorer), *store.held_back(scorer)], key=lambda audit: audit.id)


def audits_counted(transaction: Transaction, scorer: Scorer) -> list[CheckedDocument]:
    """Return the same without what only a proof reads, unless it decides which of them count."""
    store = transaction.evidence
    if not store.others_answered(scorer):
        audits = store.counted(scorer)
        gate_of = transaction.policies.current().gate_of_stored
        if all(gate_of(segment, None) for segment in {audit.segment for audit in audits}):
            return audits
    return audits_for(transaction, scorer)


def of_gate(gate: Gate, audits: Sequence[CheckedDocument]) -> list[CheckedDocument]:
    """Return the audits of the documents that a gate decides on."""
    if gate.policy.whole is not None:
        return [*audits]
    return [audit for audit in audits if gate.has(audit.segment, audit.metadata)]


def _alarm(transaction: Transaction, gate: Gate) -> str | None:
    """Return the id of the last alarm after which all evidence of a gate is new."""
    newest = transaction.breakers.newest_trip
    alarms = [newest(key, sets_evidence_aside=True) for key in {None, gate.key}]
    of_rest = newest(gate.policy.gates[-1].key, sets_evidence_aside=True)
    then = of_rest and transaction.policies.get(of_rest.policy_version)
    # A segment that was not listed then was among those that it was about.
    alarms += [of_rest] if then and gate.segment.value not in then.values else []
    return max((alarm.id for alarm in alarms if alarm is not None), default=None)


def last_attempt(transaction: Transaction, gate: Gate, scorer: Scorer) -> Certification | None:
    """Return the last attempt that speaks of what a gate sends, if any."""
    newest = transaction.certifications.newest(scorer, gate.key)
    trip = transaction.breakers.newest_trip(gate.key)
    if newest is None or (trip is not None and newest.id < trip.id):
        return None
    then = transaction.policies.get(newest.policy_version).gate_of(gate.key)
    return newest if gate.is_covered_by(then) else None


def values_of(transaction: Transaction, question: ProofQuestion) -> tuple[str, ...] | None:
    """Return the values that a proof for `OTHER` speaks of; None for other segments."""
    segment = question.gate.segment
    return tuple(transaction.certifications.values(segment)) if segment.value == OTHER else None


def confidences_of(transaction: Transaction, question: ProofQuestion) -> list[float]:
    """Return confidences of unaudited predictions; there are many, so read them last.

    While a segment has few, those of all documents set its thresholds: the proof allows any.
    """
    unaudited = transaction.certifications.unaudited
    segment = question.gate.segment
    confidences = unaudited(question.scorer, limit=MOST_CONFIDENCES, segment=segment)
    if len(confidences) >= LEAST_CONFIDENCES:
        return confidences
    return unaudited(question.scorer, limit=MOST_CONFIDENCES)


def strata_of(transaction: Transaction, question: ProofQuestion) -> Divided | None:
    """Return the stream that audits at two rates came from; None with one rate."""
    store, scorer, gate = transaction.certifications, question.scorer, question.gate
    return divided(
        scorer,
        gate,
        question.gathered.audits,
        lambda: store.stream(scorer, limit=MOST_STREAM, segment=gate.segment),
        transaction.policies.of,
    )
