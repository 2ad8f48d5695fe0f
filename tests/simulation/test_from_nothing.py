"""What a project from nothing sends is as right as its first certificate says."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.simulation.from_nothing import Result, served, texts_of

RISK, TARGET = 0.1, 0.8
DOCUMENTS, MOST_READINGS = 3_000, 1_500
SEEDS = 50


def precision(result: Result) -> float | None:
    """Return the share of right sets among those sent; None without any."""
    right = np.array(result.right)[np.array(result.sent, dtype=bool)]
    return float(right.mean()) if right.size else None


@pytest.mark.data
@pytest.mark.verify
@pytest.mark.filterwarnings("ignore::setwise.TrainingWarning")
@pytest.mark.parametrize("first", [0, SEEDS])
def test_first_certificates_fail_with_at_most_their_risk(
    first: int, data_dir: Path, record_property: Callable[[str, object], None]
) -> None:
    """Two blocks of seeds, so that two workers share them."""
    matches = []
    for seed in range(first, first + SEEDS):
        texts = texts_of(data_dir / "reuters21578", seed, DOCUMENTS)
        matches.append(precision(served(texts, TARGET, seed, most_readings=MOST_READINGS)))
    certified = [share for share in matches if share is not None]
    count = sum(share < TARGET for share in certified)
    record_property("certified, violated, least", (len(certified), count, min(certified)))
    assert len(certified) >= 0.9 * SEEDS
    assert count <= SEEDS * RISK + 3.0 * (SEEDS * RISK * (1.0 - RISK)) ** 0.5
