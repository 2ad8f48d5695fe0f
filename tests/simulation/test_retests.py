"""A certificate over years: retests raise its threshold, and attempts on schedule lower it."""

from dataclasses import replace

import numpy as np
import pytest

from setwise.service.domain.certification import Certification
from setwise.service.domain.certification.proofs import Bet
from setwise.service.domain.routing.segments import ALL, GateState
from setwise.service.services.analysis.proofs import SCHEDULE, answer, retested
from tests.simulation.evidence import GATE, POLICY, Audits, certification, question_of

STEP = 500


def lowest_share(random: np.random.Generator, n: int) -> float | None:
    """Return the share of documents that is sent after n audits of a world that stays at .92.

    Without a certificate, None. All is above the threshold of the first one.
    """
    confidence, right = random.uniform(0.9, 0.94, n), random.random(n) < 0.92
    predicted = random.uniform(0.9, 0.94, 2_000).tolist()
    checks = list(Audits(right, weeks=3.0, confidence=confidence))
    gate, attempts, proof, since = GATE, list[Certification](), None, 0
    for now in range(STEP, n + 1, STEP):
        if proof is not None:
            new = zip(confidence[since:now], right[since:now], strict=True)
            bets = [Bet(each, bool(good), 1.0) for each, good in new]
            threshold = retested(proof.proved(None), bets, POLICY.target_accuracy)
            gate = replace(gate, state=replace(gate.state, threshold=threshold))
        before = attempts[-1] if attempts else None
        due = question_of(checks[:now], attempts, gate).due(SCHEDULE, before)
        if due is None:
            continue
        before = certification(answer(due, predicted), len(attempts) + 1)
        attempts.append(before)
        if before.threshold is not None:
            proof, since = before, now
            state = GateState(ALL, before.threshold, certificate_id=before.id)
            gate = replace(gate, state=state)
    return None if gate.threshold is None else float(np.mean(np.array(predicted) >= gate.threshold))


@pytest.mark.verify
def test_a_stable_world_is_not_left_at_its_highest_threshold(record_property) -> None:
    random = np.random.default_rng(65)
    shares = [lowest_share(random, 10_000) for _ in range(200)]
    certified = np.array([share for share in shares if share is not None])
    record_property("certified", len(certified) / len(shares))
    record_property("sent, median", float(np.median(certified)))
    assert np.mean(certified > 0.95) > 0.3, "an eighth, where nothing follows a retest"
