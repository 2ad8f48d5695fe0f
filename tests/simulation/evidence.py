"""Audits of a world whose truth is known, and what the service's own code proves from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
from numpy.typing import ArrayLike

from setwise.service.domain.certification import (
    Certification,
    CertificationEvidence,
    Scorer,
)
from setwise.service.domain.certification.proofs import Gathered, gather
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.policy import Gate, first_policy
from setwise.service.domain.routing.audits import READING_TIME, AuditPlan
from setwise.service.domain.routing.rules import Rule
from setwise.service.services.analysis.proofs import SCHEDULE, ProofQuestion, answer
from tests.fakes import START
from tests.samples import checked

NOW = START + timedelta(weeks=60)
CONFIDENCE = 0.95
POLICY = replace(first_policy(START), target_accuracy=0.9, audits=AuditPlan(gold_reread_rate=1.0))
GATE = POLICY.gates[0]


@dataclass(frozen=True)
class Audits:
    """Audits of documents, in the order in which they came; each set has one label.

    A column is an array, or one value for all documents.
    """

    right: ArrayLike
    """Whether each set is right."""
    weeks: ArrayLike = 0.0
    """How many weeks ago each document came."""
    clusters: ArrayLike | None = None
    """Copies have the same. By default there are none."""
    bands: Sequence[bytes | None] | None = None
    """As of `Selection`."""
    overlooked: ArrayLike = False
    """Whether the auditor agrees although the set is wrong."""
    reread_draws: ArrayLike = 0.0
    confidence: ArrayLike = CONFIDENCE
    labels: ArrayLike = "a"
    reread_rate: float = 1.0
    led: bool = True
    """Whether leads have done all that waits for them."""
    policy_version: str = "now"

    def __iter__(self) -> Iterator[CheckedDocument]:
        n = len(np.asarray(self.right))
        draws = np.arange(n) / (2 * n)
        clusters = draws if self.clusters is None else self.clusters
        columns = (self.right, self.weeks, draws, clusters, self.overlooked)
        columns += (self.reread_draws, self.confidence, self.labels)
        rows = zip(
            *(np.broadcast_to(np.asarray(each), n).tolist() for each in columns), strict=True
        )
        bands = self.bands or [None] * n
        for place, row in enumerate(rows):
            right, weeks, draw, cluster, overlooked, again, confidence, label = row
            agrees, waits = (
                right or overlooked,
                again < self.reread_rate or not (right or overlooked),
            )
            yield checked(
                f"{self.policy_version}-{place}",
                (label if agrees else "?",),
                (label if right else "?",) if waits and self.led else None,
                labels=(label,),
                id=f"{place:06}",
                confidence=confidence,
                draw=draw,
                cluster=cluster,
                bands=bands[place],
                policy_version=self.policy_version,
                created_at=NOW - timedelta(weeks=weeks),
                reread_rate=self.reread_rate,
                reread_draw=again,
            )


def attempt(
    *parts: Audits,
    rules: Mapping[str, Sequence[Rule]] | None = None,
    predicted: Sequence[float] = (CONFIDENCE,) * 100,
    **question: float,
) -> CertificationEvidence:
    """Return the evidence of an attempt, as `Certifications` makes it.

    ``rules``: Those of each policy, "now" among them.
    ``question``: What else the question says.
    """
    rules = rules or {"now": ()}
    drawn = [audit for part in parts for audit in part]
    gathered = gather(drawn, rules, rules=rules["now"], read_by=NOW - READING_TIME)
    asked = ProofQuestion(GATE, Scorer("m", "c"), 1, 1, gathered, 0)
    return answer(replace(asked, **question), predicted)


def certified(*parts: Audits, **rest: object) -> bool:
    """Return whether an attempt proves a threshold."""
    return attempt(*parts, **rest).certified


def certification(evidence: CertificationEvidence, attempt: int) -> Certification:
    """Return the attempt of that number, as it is stored."""
    return Certification(
        id=f"{attempt}",
        scorer=Scorer("m", "c"),
        policy_version="now",
        target_accuracy=evidence.target,
        risk=GATE.risk,
        attempt=attempt,
        threshold=evidence.threshold,
        reason=evidence.reason,
        further_audits=evidence.further_audits,
        evidence=evidence,
        requested_by="system",
        created_at=NOW,
    )


def question_of(
    audits: Sequence[CheckedDocument],
    attempts: Sequence[Certification] = (),
    gate: Gate = GATE,
) -> ProofQuestion:
    """Return what to prove from audits that all count, after these attempts."""
    gathered = Gathered(tuple(audits), {})
    asked = ProofQuestion(gate, Scorer("m", "c"), len(attempts) + 1, 1, gathered, 0)
    return asked.after(attempts)


def looks_by_schedule(
    audits: Audits, predicted: Sequence[float], step: int = 100
) -> list[Certification]:
    """Return the looks at growing audits until one proves a threshold.

    ``step``: Audits that come between two runs of the schedule.
    """
    drawn, attempts = list(audits), list[Certification]()
    for n in range(step, len(drawn) + 1, step):
        before = attempts[-1] if attempts else None
        due = question_of(drawn[:n], attempts).due(SCHEDULE, before)
        if due is not None:
            attempts.append(certification(answer(due, predicted), len(attempts) + 1))
    return attempts
