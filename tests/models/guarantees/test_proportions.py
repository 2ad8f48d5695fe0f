"""Shares of many weighted samples at once are those of each sample alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.models.guarantees.proportions import Sums, bound_shares, weighted_proportion

ROWS = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0.5, 1.0, 3.0, 16.0])), min_size=1, max_size=40
)


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_sums_of_weights_tell_what_the_rows_do(samples: list[list[tuple[bool, float]]]) -> None:
    hits = [np.array([hit for hit, _ in rows], dtype=float) for rows in samples]
    weights = [np.array([weight for _, weight in rows]) for rows in samples]
    share, low, high = bound_shares(
        Sums(
            [w.sum() for w in weights],
            [w @ w for w in weights],
            [w @ x for w, x in zip(weights, hits, strict=True)],
            [w**2 @ x for w, x in zip(weights, hits, strict=True)],
        ),
        risk=0.1,
    )
    for place, (x, w) in enumerate(zip(hits, weights, strict=True)):
        alone = weighted_proportion(x, w, level=0.8)
        assert share[place] == pytest.approx(alone.estimate)
        assert low[place] == pytest.approx(alone.low, abs=1e-9)
        assert high[place] == pytest.approx(alone.high, abs=1e-9)


def test_without_rows_nothing_is_known() -> None:
    share, low, high = bound_shares(Sums([0.0], [0.0], [0.0], [0.0]), 0.1)
    assert np.isnan(share[0])
    assert (low[0], high[0]) == (0.0, 1.0)
