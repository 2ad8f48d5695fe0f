"""A label that the model lacks makes a set wrong, and certificates keep their risk nevertheless."""

from collections.abc import Callable

import pytest

from benchmarks.bench_open_world import violations
from benchmarks.bench_trust import RISK

RUNS = pytest.mark.parametrize(
    "runs", [pytest.param(12, id="small"), pytest.param(1_000, id="full", marks=pytest.mark.verify)]
)


@RUNS
@pytest.mark.parametrize("share", [0.01, 0.03, 0.05])
def test_open_answers_keep_the_risk_that_closed_answers_exceed(
    share: float, runs: int, record_property: Callable[[str, object], None]
) -> None:
    shares = {way: false for way, (false, _) in violations(share, 1_000, runs, seed=34).items()}
    record_property("shares", {way: float(false) for way, false in shares.items()})
    most = RISK + 4.0 * (RISK / runs) ** 0.5
    assert shares["open"] <= most
    assert shares["bare"] <= most
    if share >= 0.03:
        assert shares["closed"] > 0.4
