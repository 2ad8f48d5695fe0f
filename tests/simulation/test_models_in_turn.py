"""Models that come by themselves are tried on the same audits until one is certified."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.simulation.evidence import GATE, Audits, attempt

AT = (340, 476, 667, 934)
"""Audits when each of the models has come."""
TRUE_SHARE = 0.895
ALIKE = 0.5
"""Share of the documents for which a model is right or wrong as the one before."""


@pytest.mark.parametrize("runs", [10, pytest.param(400, marks=pytest.mark.verify)])
def test_models_that_come_in_turn_are_falsely_certified_with_at_most_the_risk(
    runs: int, record_property: Callable[[str, object], None]
) -> None:
    """Each just misses the target, and may be tried with its own share of the risk."""
    random, false = np.random.default_rng(48), 0
    for _ in range(runs):
        right = random.random(AT[-1]) < TRUE_SHARE
        for n in AT:
            again = random.random(len(right)) < TRUE_SHARE
            right = np.where(random.random(len(right)) < ALIKE, right, again)
            if attempt(Audits(right[:n], weeks=3.0)).certified:
                false += 1
                break
    record_property("share", false / runs)
    assert false <= runs * GATE.risk + 3.0 * (runs * GATE.risk) ** 0.5
