"""Draws of documents that are checked."""

import hmac
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from setwise.service.domain.audits import AuditPlan, Draws, Lottery


def drawn(lottery: Lottery, n: int = 4000) -> np.ndarray:
    return np.array([lottery("billing", f"note-{i}") for i in range(n)])


def test_draws_are_uniform_and_independent_of_each_other() -> None:
    found = drawn(Lottery(b"key"))
    assert found.min() >= 0.0
    assert found.max() < 1.0
    for column in found.T:
        assert stats.kstest(column, "uniform").pvalue > 0.001
    correlation = np.corrcoef(found.T) - np.eye(3)
    assert np.abs(correlation).max() < 4 / np.sqrt(len(found))


@given(st.binary(max_size=200), st.text(), st.text())
def test_a_draw_can_be_repeated_by_whoever_has_the_key(key: bytes, client: str, name: str) -> None:
    digest = hmac.digest(key, f"{client}\0{name}".encode(), "sha256")
    expected = [int.from_bytes(digest[at : at + 8]) // 2**11 / 2**53 for at in (0, 8, 16)]
    assert list(Lottery(key)(client, name)) == expected


def test_another_key_or_client_draws_anew() -> None:
    one, two = drawn(Lottery(b"key")), drawn(Lottery(b"other"))
    assert not np.any(one == two)
    assert Lottery(b"key")("a", "note") != Lottery(b"key")("b", "note")
    assert Lottery(b"key")("a", "bc") != Lottery(b"key")("ab", "c")


def test_the_key_is_never_shown() -> None:
    assert "secret" not in repr(Lottery(b"secret"))


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_rate_of_nothing_draws_nothing_and_of_one_everything(rate: float) -> None:
    plan = AuditPlan(overlap_rate=rate, gold_reread_rate=rate)
    for draw in (0.0, 0.5, math.nextafter(1.0, 0.0)):
        draws = Draws(draw, draw, draw)
        assert plan.overlaps(draws) is plan.rereads(draws) is (rate == 1.0)
