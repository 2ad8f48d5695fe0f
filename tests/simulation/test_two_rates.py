"""Audits at two rates, read by another calibrator: how often a certificate is false.

One scorer's confidence decided how often documents were audited. Another one's thresholds have
documents of both kinds above them, and the share of right ones there is just too low. The
certificates are those of the service's own code, at a target of .90.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from setwise.models.guarantees import sequence
from setwise.service.domain.certification import (
    CertificationEvidence,
    Scorer,
    StreamDocument,
)
from setwise.service.domain.certification.proofs import Gathered
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.routing.segments import ALL, GateState
from setwise.service.services.analysis.proofs import ProofQuestion, answer
from setwise.service.services.analysis.strata import Divided
from tests.samples import checked
from tests.simulation.evidence import NOW, POLICY

Floats = NDArray[np.float64]
Record = Callable[[str, object], None]

OLD, NEW = Scorer("m", "old"), Scorer("m", "new")
AIMED = replace(
    POLICY,
    audits=AuditPlan(certification_rate=0.2, rest_rate=0.06, gold_reread_rate=1.0),
    states=(GateState(ALL, audited_from=0.75, audited_for=OLD),),
)
DOCUMENTS = 4_000
TRUE_SHARE = 0.895

RUNS = pytest.mark.parametrize(
    "runs", [pytest.param(5, id="small"), pytest.param(1_000, id="full", marks=pytest.mark.verify)]
)


@pytest.fixture(autouse=True)
def quick_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what a refusal says of further audits: it takes most of the time."""
    monkeypatch.setattr(sequence, "_spread", lambda _: np.array([], dtype=np.int64))


def even(random: np.random.Generator) -> Floats:
    return 0.5 + 0.5 * random.random(DOCUMENTS)


def tied(random: np.random.Generator) -> Floats:
    return random.choice([0.97, 0.85, 0.7], DOCUMENTS)


def as_promised(confidence: Floats) -> Floats:
    return confidence


def too_high(confidence: Floats) -> Floats:
    return confidence - 0.08


def constant(confidence: Floats) -> Floats:
    return np.full(len(confidence), TRUE_SHARE)


def reversed_order(confidence: Floats) -> Floats:
    return 0.97 - 0.15 * (confidence - 0.5)


def fallen(confidence: Floats) -> Floats:
    """Fall from .945 to .845 while the documents come."""
    return np.linspace(0.945, 0.845, len(confidence))


def proof(
    random: np.random.Generator,
    confidence: Floats,
    accuracy: Floats,
    *,
    missed: float = 0.0,
    reread_rate: float = 1.0,
    copies: int = 1,
) -> tuple[CertificationEvidence, Floats]:
    """Return what audits of the old calibrator prove for a new one, and the new confidences.

    ``missed``: Share of the wrong sets with which auditors agree.
    ``copies``: Messages about each document, which are right or wrong together.
    """
    odds = np.log(confidence / (1.0 - confidence + 1e-9)) + random.normal(0, 0.35, len(confidence))
    new = 1.0 / (1.0 + np.exp(-odds))
    rest = confidence < 0.75
    chance = np.where(rest, 0.06, 0.2)
    draws, again = random.random((2, len(confidence)))
    clusters = np.arange(len(confidence)) // copies
    right = random.random(len(confidence))[clusters] < accuracy
    agrees = right | (random.random(len(confidence)) < missed)
    rates = np.where(rest, 1.0, reread_rate)
    audits, stream = [], list[StreamDocument]()
    for place in range(len(confidence)):
        name, drawn = f"{place:06}", bool(draws[place] < chance[place])
        of = {
            "draw": float(draws[place]),
            "audit_chance": float(chance[place]),
            "in_rest": bool(rest[place]),
            "policy_version": "now",
            "scorer": OLD,
            "confidence": float(new[place]),
            "cluster": float(clusters[place]),
            "id": name,
        }
        stream.append(StreamDocument(client_id="c", name=name, proves=drawn, segment=None, **of))
        if drawn:
            led = again[place] < rates[place] or not agrees[place]
            audits.append(
                checked(
                    name,
                    ("a",) if agrees[place] else ("?",),
                    (("a",) if right[place] else ("?",)) if led else None,
                    created_at=NOW - timedelta(hours=len(confidence) - place),
                    reread_rate=float(rates[place]),
                    reread_draw=float(again[place]),
                    **of,
                )
            )
    gate = AIMED.gates[0]
    question = ProofQuestion(gate, NEW, 1, 1, Gathered(tuple(audits), {}), 0)
    return answer(question, [], Divided(NEW, stream[::-1], {"now": AIMED}, gate)), new


@RUNS
@pytest.mark.parametrize(
    ("confidences", "accuracy", "auditors"),
    [
        (even, as_promised, {}),
        (even, too_high, {}),
        (even, constant, {}),
        (even, reversed_order, {}),
        (tied, constant, {}),
        (even, fallen, {}),
        (even, constant, {"missed": 0.3}),
        (even, constant, {"missed": 0.3, "reread_rate": 0.5}),
        (even, constant, {"copies": 10}),
    ],
    ids=[
        "true",
        "high",
        "constant",
        "reversed",
        "tied",
        "fallen",
        "erring",
        "erring-seldom-reread",
        "copied",
    ],
)
def test_a_new_calibrator_is_falsely_certified_with_at_most_the_risk(
    confidences: Callable[[np.random.Generator], Floats],
    accuracy: Callable[[Floats], Floats],
    auditors: dict[str, float],
    runs: int,
    record_property: Record,
) -> None:
    random, false, count, risk, mixed_count = np.random.default_rng(46), 0, 0, 0.0, 0
    for _ in range(runs):
        confidence = confidences(random)
        right = accuracy(confidence)
        evidence, new = proof(random, confidence, right, **auditors)
        risk = evidence.test_risk
        mixed_count += evidence.steps[0].documents > 0
        if evidence.threshold is not None:
            count += 1
            false += right[new >= evidence.threshold].mean() < POLICY.target_accuracy
    record_property("false", float(false / runs))
    record_property("certified", float(count / runs))
    assert mixed_count == runs, "every test has both strata"
    assert false <= runs * risk + 3.0 * (runs * risk) ** 0.5


def test_both_rates_together_prove_what_is_right() -> None:
    random = np.random.default_rng(47)
    confidence = even(random)
    evidence, _ = proof(random, confidence, np.ones(len(confidence)))
    assert evidence.certified
    assert evidence.steps[-1].thin_documents > 0
