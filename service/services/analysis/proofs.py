"""When to try to prove a threshold, what from, and what an attempt finds."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self

from setwise.models.guarantees.certificates import WHY_REFUSED, RefusalReason
from setwise.models.guarantees.paths.spending import (
    FIRST_FAMILY,
    risk_of_family,
    risk_on_demand,
    risk_spent,
)
from setwise.service.domain.certification import Certification, CertificationEvidence, Scorer
from setwise.service.domain.certification.proofs import Bet, Gathered
from setwise.service.domain.evidence import CheckedDocument, one_of_each
from setwise.service.domain.policy import Gate, Policy
from setwise.service.services.analysis.strata import LEAST_CONFIDENCES, Divided, Pool


class Look(NamedTuple):
    """A scheduled look at growing audits; all looks of a family share a risk."""

    n: int | None = None
    """How many of the audits it has, the first ones; None for all."""
    earlier: tuple[int, ...] = ()
    """Audits that each earlier look of the family tested."""
    order: tuple[float, ...] = ()
    """Falling thresholds to test; empty for the first look, which sets them."""
    risk: float | None = None
    """That of the family; None for a new one."""

    @classmethod
    def again(cls, last: CertificationEvidence) -> Self:
        """Return a look at the same audits, after more of them have been read.

        What was not known counted as wrong, so nothing is rejected then that is not rejected now:
        this spends nothing.
        """
        return cls(last.n_drawn, last.looks or (), last.order, last.risk)


ALL_AT_ONCE = Look()
"""The first look of a family, at all audits that there are."""


@dataclass(frozen=True)
class Schedule:
    """When certification looks at the audits by itself.

    The looks of a family share its risk by the law of their path (`models.guarantees.paths`). It
    holds for numbers of audits that do not depend on what was found. So the first look sets all of
    them, whether a look is made there or not, and each has exactly so many audits, the oldest ones.
    """

    room: float = 10.0
    """Audits for the first look, as a multiple of the fewest that could prove anything. Many lie
    below the threshold, and some find a wrong set.
    """
    growth: float = 1.5
    """Audits for the next look, as a multiple of those of the one before."""

    def first(self, gate: Gate, risk: float | None = None) -> int:
        """Return the number of audits for the first look of a family with this risk."""
        share = risk_spent(risk_of_family(gate.risk, 1) if risk is None else risk, 1)
        fewest = math.log(share) / math.log(gate.policy.target_accuracy)
        return max(1, math.ceil(self.room * math.ceil(fewest)))

    def after(self, n: int) -> int:
        """Return the number of audits for the look after one with so many."""
        return max(n + 1, math.ceil(self.growth * n))

    def missing(
        self,
        gate: Gate,
        before: Certification | None,
        n_audits: int,
        *,
        last: CertificationEvidence | None = None,
        risk: float | None = None,
        again: bool = False,
    ) -> int | None:
        """Return how many more audits the next look needs; None if none will follow.

        ``before``: The last attempt.
        ``n_audits``: Audits so far.
        ``last``: What the last look found; by default that is the last attempt.
        ``risk``: That of the family; by default as if it were the first.
        ``again``: Whether a look follows although all that is asked for is proved.
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
        if last is None and before.evidence.looks is not None:
            last = before.evidence
        n = self.first(gate, risk) if last is None else self.after(last.n_drawn)
        return max(0, n - n_audits)


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

_SPARE = 1e-6
"""Share of the risk that is kept for attempts when the others have spent nearly all of it."""


@dataclass(frozen=True)
class ProofQuestion:
    """The target to prove, and the audits to prove it from.

    ``gate``: That of the segment that it is about.
    ``place``: That of the family among the segment's families or, on demand, that of the attempt
    among the segment's others, since the last drift alarm. All evidence since then is new.
    ``elsewhere``: Share of the policy's risk that attempts since then have spent while something
    else divided documents.
    ``left``: What all attempts for the model since then have left of the risk.
    ``unseen``: Whether documents wait whose values came after the certificate in force.
    ``look``: None for an attempt on demand: its time may depend on what was found.
    ``last``: What the family's last look found; None if a new one begins.
    ``demands``: Attempts on demand so far.
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
    look: Look | None = ALL_AT_ONCE
    last: CertificationEvidence | None = None
    demands: int = 0

    @property
    def risk(self) -> float:
        """The risk of the family, or of an attempt on demand; all add up to the policy's at most.

        New segments have what the earlier ones have left. A part of what is left is a bound for
        segments that return and for those whose number grows.
        """
        if self.look is not None and self.look.risk is not None:
            return self.look.risk
        share = self.gate.risk * max(1.0 - self.elsewhere, _SPARE)
        part = risk_on_demand if self.look is None else risk_of_family
        return min(part(share, self.place), FIRST_FAMILY * self.left)

    def after(self, attempts: Sequence[Certification]) -> Self:
        """Return the question after these attempts for the segment since the last alarm.

        A family goes on while its claim is the same and its audits are the first ones. Rules and
        segments decide which audits count, so they show in the audits.
        """
        claim = self.scorer, self.gate.policy.target_accuracy, self.gate.risk
        looks = [attempt for attempt in attempts if attempt.evidence.family is not None]
        families = {attempt.evidence.family: attempt.evidence for attempt in looks}
        alike = {
            attempt.evidence.family
            for attempt in looks
            if (attempt.scorer, attempt.target_accuracy, attempt.risk) == claim
        }
        last = next(
            (
                evidence
                for place, evidence in families.items()
                if place in alike and self._has_audits_of(evidence)
            ),
            None,
        )
        return replace(
            self,
            place=len(families) + 1 if last is None else last.family or 1,
            last=last,
            demands=len(attempts) - len(looks),
        )

    def _has_audits_of(self, look: CertificationEvidence) -> bool:
        audits = self.audits_of(look.n_drawn)
        return fingerprint(audits) == look.audits_sha256

    @property
    def on_demand(self) -> Self:
        """The same at a time that somebody chose: it spends from the reserve."""
        return replace(self, look=None, place=self.demands + 1)

    @property
    def again(self) -> Self | None:
        """The last look once more, if any of its audits has been read since."""
        if self.last is None:
            return None
        then, now = self.last, self.gathered.first(self.last.n_drawn)
        same = (then.unfinished, then.undecided) == (now.unfinished, now.undecided)
        return None if same else replace(self, look=Look.again(then))

    def audits_of(self, n: int | None) -> list[CheckedDocument]:
        """Return the first so many audits that a proof may count, or all."""
        gathered = self.gathered if n is None else self.gathered.first(n)
        return gathered.from_confidence(self.gate.policy.confidence_floor or 0.0)

    def missing(self, schedule: Schedule, before: Certification | None) -> int | None:
        """Return how many more audits the next look needs; None if none will follow.

        ``before``: The last attempt that speaks of what is sent now. If there is none though the
        family has looked, a policy change ended its certificate: the look is made again, for free.
        """
        if before is None and self.last is not None:
            return 0
        return schedule.missing(
            self.gate,
            before,
            self.gathered.drawn,
            last=self.last,
            risk=self.risk,
            again=self.unseen,
        )

    def due(
        self, schedule: Schedule, before: Certification | None, *, at_once: bool = False
    ) -> Self | None:
        """Return the question at the look that the schedule makes now; None if it makes none.

        ``at_once``: Begin a new family though it has few audits.
        """
        drawn, last = self.gathered.drawn, self.last
        begins = at_once and drawn > 0 and last is None
        if not begins and self.missing(schedule, before) != 0:
            return None
        if last is None:
            first = schedule.first(self.gate, self.risk)
            # Many audits at once are no choice of the moment, such as after a change of the target.
            n = first if first <= drawn < schedule.after(first) else drawn
            return replace(self, look=Look(n))
        times, n = [last.n_drawn], schedule.after(last.n_drawn)
        while n <= drawn:
            times.append(n)
            n = schedule.after(n)
        if len(times) == 1:
            return replace(self, look=Look.again(last))
        if not last.order:
            return replace(self, look=Look(times[-1], risk=last.risk))
        # A look that was not made counts as one: whether it was made may depend on what was found.
        passed = {
            *(last.looks or ()),
            last.n_audits,
            *(len(self.audits_of(n)) for n in times[1:-1]),
        }
        now = len(self.audits_of(times[-1]))
        earlier = tuple(sorted(size for size in passed if size < now))
        return replace(self, look=Look(times[-1], earlier, last.order, last.risk))


def fingerprint(audits: Sequence[CheckedDocument]) -> str:
    """Return what names these audits, in their order."""
    return hashlib.sha256("\n".join(audit.id for audit in audits).encode()).hexdigest()


def once_each(attempts: Sequence[Certification]) -> list[Certification]:
    """Return an attempt of each family, whose looks share a risk, and each attempt on demand."""
    by = {
        attempt.id
        if attempt.evidence.family is None
        else (attempt.segment, attempt.evidence.family): attempt
        for attempt in attempts
    }
    return list(by.values())


def spent(policy: Policy, attempts: Sequence[tuple[Policy, float]]) -> tuple[float, float]:
    """Return the share of the risk spent on other segments, and the risk left in all.

    ``attempts``: The policy of each attempt for the model, once each, and the risk that it has.
    """
    by = policy.segment_by
    shares = [(then.segment_by.is_like(by), risk / then.risk) for then, risk in attempts]
    elsewhere = sum(share for alike, share in shares if not alike)
    before = len(shares)
    least = _SPARE / ((before + 1) * (before + 2))  # all of them add up to what is spare
    left = 1.0 - _SPARE * before / (before + 1) - sum(share for _, share in shares)
    return elsewhere, policy.risk * max(left, least)


@dataclass(frozen=True)
class ProofAttempt:
    """An attempt that is not stored yet."""

    id: str
    question: ProofQuestion
    evidence: CertificationEvidence


def answer(
    question: ProofQuestion,
    predicted: Sequence[float],
    divided: Divided | None = None,
) -> CertificationEvidence:
    """Return the evidence of `guarantees.certificates` and its inputs.

    ``predicted``: Confidences that were not drawn to certify.
    ``divided``: The stream of the audits if they were drawn at two rates.
    """
    from setwise.models.guarantees.thresholds import (  # noqa: PLC0415 -- loads slowly
        CountedOnce,
        certify_adjudicated,
    )

    gate, look = question.gate, question.look
    policy = gate.policy
    gathered = question.gathered
    if look is not None and look.n is not None:
        gathered = gathered.first(look.n)
    # The proof covers only sets above the policy's floor.
    floor = policy.confidence_floor or 0.0
    audits = gathered.from_confidence(floor)
    rates = [audit.reread_rate or 0.0 for audit in audits]
    strata = None if divided is None else divided.strata(audits)
    earlier = None if look is None else look.earlier
    once, different = one_of_each(audits), None
    if len(once) < len(audits):
        of_once = None if divided is None else divided.strata(once, once=True)
        different = CountedOnce(
            *_columns(once),
            looks=earlier and [len(one_of_each(audits[:n])) for n in earlier],
            thin=None if of_once is None else of_once.thin,
            stream=None if of_once is None else of_once.stream,
            epochs=None if of_once is None else of_once.epochs,
        )
    pool = Pool.of(predicted)
    if divided is not None and len(divided.documents) >= LEAST_CONFIDENCES:
        pool = divided.pool
    pool = pool.from_confidence(floor)
    proof = certify_adjudicated(
        pool.confidences,
        *(_columns(audits) if audits else ([], [], [], gate.audits.gold_reread_rate, [])),
        target=policy.target_accuracy,
        risk=question.risk,
        weeks=[(audit.created_at - _EPOCH) / _WEEK for audit in audits],
        excluded={
            **gathered.excluded,
            **({"before the alarm": question.set_aside} if question.set_aside else {}),
            "below the floor": len(gathered.audits) - len(audits),
        },
        looks=earlier,
        order=(look.order if look else ()) or None,
        thin=None if strata is None else strata.thin,
        stream=None if strata is None else strata.stream,
        epochs=None if strata is None else strata.epochs,
        weights=pool.weights,
        different=different,
    )
    return CertificationEvidence(
        **vars(proof),
        family=None if look is None else question.place,
        audits_sha256=None if look is None else fingerprint(audits),
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
        in_clusters=gathered.in_clusters,
        common_forms=gathered.common_forms,
    )


_Columns = tuple[list[float], list[bool], list[bool], list[float], list[float]]


def _columns(audits: Sequence[CheckedDocument]) -> _Columns:
    """Return confidences, errors found and missed, and rates and draws of second readings."""
    errors = [audit.errors for audit in audits]
    return (
        [audit.confidence for audit in audits],
        [found_wrong for found_wrong, _ in errors],
        [missed for _, missed in errors],
        [audit.reread_rate or 0.0 for audit in audits],
        [audit.reread_draw or 0.0 for audit in audits],
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
