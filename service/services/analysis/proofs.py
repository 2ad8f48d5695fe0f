"""When to try to prove a threshold, what from, and what an attempt finds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from setwise.models.guarantees.certificates import (
    WHY_REFUSED,
    RefusalReason,
    risk_of_attempt,
)
from setwise.service.domain.certification import (
    Bet,
    Certification,
    CertificationEvidence,
    Gathered,
    Scorer,
    SequenceStep,
)
from setwise.service.domain.policy import Gate, Policy


@dataclass(frozen=True)
class Schedule:
    """When certification runs automatically.

    Each attempt spends risk, and the first one spends half of it. The number of audits at which it
    runs must not depend on their results: choosing the best moment would invalidate the test.
    """

    room: float = 12.0
    """Audits for the first attempt, as a multiple of the fewest that could prove anything. Many lie
    below the threshold, and some find a wrong set.
    """
    growth: float = 1.5
    """Audits for the next attempt, as a multiple of those in an unsuccessful attempt."""

    def first(self, gate: Gate, risk: float | None = None) -> int:
        """Return the number of audits for the first attempt with a calibrator."""
        share = risk_of_attempt(gate.risk, 1) if risk is None else risk
        fewest = math.log(share) / math.log(gate.policy.target_accuracy)
        return math.ceil(self.room * math.ceil(fewest))

    def missing(
        self,
        gate: Gate,
        before: Certification | None,
        n_audits: int,
        *,
        risk: float | None = None,
        again: bool = False,
    ) -> int | None:
        """Return how many more audits the next attempt needs; None if none will follow.

        ``before``: The last attempt.
        ``n_audits``: Audits so far.
        ``risk``: What the next attempt spends; by default as if it were the first.
        ``again``: Whether an attempt follows although all that is asked for is proved.
        """
        if before is None:
            return max(0, self.first(gate, risk) - n_audits)
        proves = before.covers(gate.policy.target_accuracy, gate.risk)
        # A retest may have raised the threshold by chance, and nothing else lowers it.
        raised = gate.state.certificate_id == before.id and gate.threshold != before.at_least(
            gate.policy.confidence_floor
        )
        if proves and not raised and not again:
            return None
        return max(0, math.ceil(self.growth * (before.evidence.n_drawn or 1)) - n_audits)


SCHEDULE = Schedule()


@dataclass(frozen=True)
class ProofProgress:
    """How far audits are on the way to the next attempt to certify."""

    audits: int
    """Those that count for it, drawn under rules like those in force, since the last alarm."""
    missing: int | None = None
    """Further ones until it comes by itself; None if none will follow, because what is asked for
    is proved or the threshold is fixed.
    """
    newest: Certification | None = None
    """The last attempt that speaks of what is sent now."""

    @property
    def needed(self) -> int | None:
        """How many audits prove a threshold, by the last attempt; None if none does."""
        if self.newest is None or self.newest.further_audits is None:
            return None
        return self.newest.evidence.n_drawn + self.newest.further_audits


_EPOCH, _WEEK = datetime(2000, 1, 1, tzinfo=UTC), timedelta(days=7)

_LEAST_LEFT = 1e-6
"""Share of the risk that is left at least: release 0.1.0 could spend more than all of it."""


@dataclass(frozen=True)
class ProofQuestion:
    """The target to prove, and the audits to prove it from.

    ``gate``: That of the segment that it is about.
    ``place``: Among the segment's attempts since the last drift alarm, which share its risk. All
    evidence since then is new.
    ``elsewhere``: Share of the policy's risk that attempts since then have spent while something
    else divided documents.
    ``left``: What all attempts for the model since then have left of the risk.
    ``unseen``: Whether documents wait whose values came after the certificate in force.
    """

    gate: Gate
    scorer: Scorer
    attempt: int
    place: int
    gathered: Gathered
    set_aside: int
    elsewhere: float = 0.0
    left: float = 1.0
    unseen: bool = False

    @property
    def risk(self) -> float:
        """The risk that the attempt spends; all attempts together spend at most the policy's.

        New segments have what the earlier ones have left. Half of what is left is a bound for
        segments that return and for those whose number grows.
        """
        share = self.gate.risk * max(1.0 - self.elsewhere, _LEAST_LEFT)
        return min(risk_of_attempt(share, self.place), self.left / 2.0)


def spent(policy: Policy, attempts: Sequence[tuple[Policy, float]]) -> tuple[float, float]:
    """Return the share of the risk spent on other segments, and the risk left in all.

    ``attempts``: The policy of each attempt for the model, and the risk that it spent.
    """
    by = policy.segment_by
    shares = [(then.segment_by.is_like(by), risk / then.risk) for then, risk in attempts]
    elsewhere = sum(share for alike, share in shares if not alike)
    left = 1.0 - sum(share for _, share in shares)
    return elsewhere, policy.risk * max(left, _LEAST_LEFT)


@dataclass(frozen=True)
class ProofAttempt:
    """An attempt that is not stored yet."""

    id: str
    question: ProofQuestion
    evidence: CertificationEvidence


def answer(question: ProofQuestion, predicted: Sequence[float]) -> CertificationEvidence:
    """Return the evidence of `guarantees.certificates` and its inputs."""
    from setwise.models.guarantees.thresholds import certify_adjudicated  # noqa: PLC0415 -- loads slowly

    gate, gathered = question.gate, question.gathered
    policy = gate.policy
    # The proof covers only sets above the policy's floor.
    floor = policy.confidence_floor or 0.0
    audits = [audit for audit in gathered.audits if audit.confidence >= floor]
    rates = [audit.reread.rate for audit in audits]
    counts = [audit.counts() for audit in audits]
    proof = certify_adjudicated(
        [confidence for confidence in predicted if confidence >= floor],
        [audit.confidence for audit in audits],
        [found_wrong for found_wrong, _ in counts],
        [missed for _, missed in counts],
        rates if audits else gate.audits.gold_reread_rate,
        [audit.reread.draw for audit in audits],
        target=policy.target_accuracy,
        risk=question.risk,
        weeks=[(audit.created_at - _EPOCH) / _WEEK for audit in audits],
        excluded={
            **gathered.excluded,
            **({"before the alarm": question.set_aside} if question.set_aside else {}),
            "below the floor": len(gathered.audits) - len(audits),
        },
    )
    return CertificationEvidence(
        **{**vars(proof), "steps": tuple(SequenceStep(**vars(step)) for step in proof.steps)},
        certified=proof.certified,
        proved=proof.proved if proof.certified else (),
        reread_rate=min(rates, default=gate.audits.gold_reread_rate),
        n_drawn=gathered.drawn,
        unfinished=gathered.unfinished,
        undecided=gathered.undecided,
        other_models=gathered.other,
        held_back=gathered.held_back,
        errors_missed=gathered.missed,
        errors_known=gathered.known_wrong,
    )


def retested(proved: Sequence[float], bets: Sequence[Bet], target: float) -> float | None:
    """Return the lowest proved threshold that audits do not contradict, or the highest."""
    if not proved:
        return None
    if all(bet.right for bet in bets):
        return min(proved)
    from setwise.models.guarantees.retest import retested_threshold  # noqa: PLC0415 -- scipy loads slowly

    threshold = retested_threshold(
        proved,
        [bet.confidence for bet in bets],
        [bet.right for bet in bets],
        target,
        stands_for=[bet.stands_for for bet in bets],
    )
    return max(proved) if threshold is None else threshold


def why_refused(reason: str | None) -> str:
    """Return why an attempt certified nothing, as the end of a sentence.

    >>> why_refused("no-audits")
    'nothing has been checked yet'
    """
    return "" if reason is None else WHY_REFUSED[RefusalReason(reason)]
