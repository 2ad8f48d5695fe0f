"""Documents worded anew until they are sent, in a stream whose truth is known."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from setwise.service.domain.policy import Policy, ThresholdMode, first_policy
from setwise.service.domain.predictions import Candidate, Decision, ScoredSet
from setwise.service.domain.routing.audits import Draws
from setwise.service.domain.routing.rules import EARLIER_VERSIONS, read_rules
from setwise.service.domain.routing.versions import Version, Versions
from tests.fakes import START

BY_HAND = replace(first_policy(START), threshold_mode=ThresholdMode.FIXED, fixed_threshold=0.85)
HELD = replace(BY_HAND, rules=read_rules([{"kind": "versions", "n": 0}])[0])
DRAWS = Draws(0.9, 0.9, 0.9)


def accuracy_of_sent(policy: Policy, versions: int, documents: int, seed: int) -> float:
    """Return how much of what is sent is right if each document is worded ``versions`` times."""
    random = np.random.default_rng(seed)
    chance = random.beta(4, 1.5, documents)
    right = random.random(documents) < chance
    worded = expit(logit(chance)[:, None] + random.normal(0.0, 0.4, (versions, documents)).T)
    sent = []
    for place in range(documents):
        known = Versions([])
        for confidence in worded[place].tolist():
            version = Version("client", str(place), None, confidence)
            earlier = known.before(version)
            score = ScoredSet((Candidate(("a",), confidence, 0.5),), (), False, "m", "c")
            route = policy.gates[0].route(score, DRAWS, {EARLIER_VERSIONS: earlier})
            if route.decision is Decision.AUTO:
                sent.append(right[place])
                break
            known.add(version)
    return float(np.mean(sent))


@pytest.mark.parametrize("runs", [1, pytest.param(20, marks=pytest.mark.verify)])
def test_ten_wordings_of_a_document_send_what_a_rule_holds_back(
    runs: int, record_property: Callable[[str, object], None]
) -> None:
    once, ten, held = (
        float(np.mean([accuracy_of_sent(*world, 4_000, seed) for seed in range(runs)]))
        for world in ((BY_HAND, 1), (BY_HAND, 10), (HELD, 10))
    )
    record_property("once, ten wordings, ten with the rule", (once, ten, held))
    assert ten < once - 0.03
    assert held == pytest.approx(once, abs=1e-12)
