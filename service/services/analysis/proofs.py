"""When to try to prove a threshold, what from, and what an attempt finds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from setwise.models.guarantees.certificates import Certificate, risk_of_attempt
from setwise.service.domain.certification import Bet, Certification, Gathered, Scorer
from setwise.service.domain.policy import RoutingPolicy


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

    def first(self, policy: RoutingPolicy, attempt: int = 1) -> int:
        """Return the number of audits for the first attempt with a calibrator."""
        share = risk_of_attempt(policy.risk, attempt)
        fewest = math.log(share) / math.log(policy.target_accuracy)
        return math.ceil(self.room * math.ceil(fewest))

    def missing(
        self,
        policy: RoutingPolicy,
        before: Certification | None,
        n_audits: int,
        *,
        attempt: int = 1,
    ) -> int | None:
        """Return how many more audits the next attempt needs; None if none will follow.

        ``before``: The last attempt.
        ``n_audits``: Audits so far.
        ``attempt``: Place of the next attempt among those for the model since the last drift alarm.
        """
        if before is None:
            return max(0, self.first(policy, attempt) - n_audits)
        if before.covers(policy.target_accuracy, policy.risk):
            return None
        return max(0, math.ceil(self.growth * (before.n_drawn or 1)) - n_audits)


SCHEDULE = Schedule()


@dataclass(frozen=True)
class ProofQuestion:
    """The target to prove, and the audits to prove it from.

    ``gate``: The policy of the segment that it is about, with the segment's share of the risk.
    ``place``: Among the segment's attempts since the last drift alarm, which share its risk. All
    evidence since then is new.
    """

    gate: RoutingPolicy
    scorer: Scorer
    attempt: int
    place: int
    gathered: Gathered
    set_aside: int


@dataclass(frozen=True)
class ProofAttempt:
    """An attempt that is not stored yet."""

    id: str
    question: ProofQuestion
    evidence: Mapping[str, object]


def answer(question: ProofQuestion, predicted: Sequence[float]) -> Mapping[str, object]:
    """Return the evidence of `guarantees.certificates` and its inputs."""
    from setwise.models.guarantees.thresholds import certify_adjudicated  # noqa: PLC0415 -- loads slowly

    policy, gathered = question.gate, question.gathered
    risk = risk_of_attempt(policy.risk, question.place)
    # The proof covers only sets above the policy's floor.
    floor = policy.confidence_floor or 0.0
    audits = [audit for audit in gathered.audits if audit.confidence >= floor]
    rates = [audit.reread_rate for audit in audits]
    counts = [audit.counts() for audit in audits]
    proof = certify_adjudicated(
        [confidence for confidence in predicted if confidence >= floor],
        [audit.confidence for audit in audits],
        [found_wrong for found_wrong, _ in counts],
        [missed for _, missed in counts],
        rates if audits else policy.audits.gold_reread_rate,
        [audit.reread_draw for audit in audits],
        target=policy.target_accuracy,
        risk=risk,
        excluded={
            **gathered.excluded,
            **({"before the alarm": question.set_aside} if question.set_aside else {}),
            "below the floor": len(gathered.audits) - len(audits),
        },
    )
    return {
        **proof.to_json(),
        "certified": isinstance(proof, Certificate),
        "proved": [*proof.proved] if isinstance(proof, Certificate) else [],
        "reread_rate": min(rates, default=policy.audits.gold_reread_rate),
        "n_drawn": gathered.drawn,
        "unfinished": gathered.unfinished,
        "undecided": gathered.undecided,
        "other_models": gathered.other,
        "held_back": gathered.held_back,
        "errors_missed": gathered.missed,
        "errors_known": gathered.known_wrong,
    }


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
