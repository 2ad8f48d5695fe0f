"""Audits of a world whose truth is known, and what the service's own code proves from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
from numpy.typing import ArrayLike

from setwise.service.domain.certification import (
    AuditedPrediction,
    CertificationEvidence,
    Scorer,
    gather,
)
from setwise.service.domain.policy import first_policy
from setwise.service.domain.routing.audits import READING_TIME, AuditPlan, RereadDraw
from setwise.service.domain.routing.rules import Rule
from setwise.service.domain.truth import AuditReading
from setwise.service.services.analysis.proofs import ProofQuestion, answer
from tests.fakes import START

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
    draws: ArrayLike | None = None
    """What was drawn for each audit; copies draw alike. By default all differ."""
    overlooked: ArrayLike = False
    """Whether the auditor agrees although the set is wrong."""
    reread_draws: ArrayLike = 0.0
    confidence: ArrayLike = CONFIDENCE
    labels: ArrayLike = "a"
    reread_rate: float = 1.0
    led: bool = True
    """Whether leads have done all that waits for them."""
    policy_version: str = "now"

    def __iter__(self) -> Iterator[AuditedPrediction]:
        n = len(np.asarray(self.right))
        draws = np.arange(n) / (2 * n) if self.draws is None else self.draws
        columns = (self.right, self.weeks, draws, self.overlooked)
        columns += (self.reread_draws, self.confidence, self.labels)
        rows = zip(
            *(np.broadcast_to(np.asarray(each), n).tolist() for each in columns), strict=True
        )
        for place, (right, weeks, draw, overlooked, again, confidence, label) in enumerate(rows):
            agrees, waits = (
                right or overlooked,
                again < self.reread_rate or not (right or overlooked),
            )
            lead = (label if right else "?",) if waits and self.led else None
            reading = AuditReading((label if agrees else "?",), lead, waits and lead is None)
            yield AuditedPrediction(
                id=f"{place:06}",
                client_id="billing",
                name=f"{self.policy_version}-{place}",
                confidence=confidence,
                draw=draw,
                policy_version=self.policy_version,
                created_at=NOW - timedelta(weeks=weeks),
                labels=(label,),
                reading=reading,
                reread=RereadDraw(self.reread_rate, again),
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
