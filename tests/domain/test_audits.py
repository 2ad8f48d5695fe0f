"""Draws of documents that are checked."""

import hmac
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from setwise.service.domain.routing.audits import (
    AuditPlan,
    Draws,
    Lottery,
    plausible_threshold,
    reread_rate,
)
from setwise.service.domain.routing.copies import Identity, without_copies


def drawn(lottery: Lottery, n: int = 4000) -> np.ndarray:
    texts = [f"text {i}".encode() for i in range(n)]
    return np.array([lottery("billing", f"note-{i}", text, text) for i, text in enumerate(texts)])


def test_draws_are_uniform_and_independent_of_each_other() -> None:
    found = drawn(Lottery(b"key"))
    assert found.min() >= 0.0
    assert found.max() < 1.0
    for column in found.T:
        assert stats.kstest(column, "uniform").pvalue > 0.001
    correlation = np.corrcoef(found.T) - np.eye(5)
    assert np.abs(correlation).max() < 4 / np.sqrt(len(found))


@given(
    st.binary(max_size=200),
    st.text(),
    st.text(),
    st.binary(max_size=50),
    st.binary(max_size=50),
    st.lists(st.binary(max_size=30), max_size=3),
)
def test_a_draw_can_be_repeated_by_whoever_has_the_key(
    key: bytes, client: str, name: str, content: bytes, likeness: bytes, bands: list[bytes]
) -> None:
    message = f"\0message\0{client}\0{name}\0".encode() + content
    by_message = hmac.digest(key, message, "sha256")
    by_content = hmac.digest(key, b"\0content\0" + likeness, "sha256")
    by_name = hmac.digest(key, f"{client}\0{name}".encode(), "sha256")
    expected = [
        int.from_bytes(digest[at : at + 8]) // 2**11 / 2**53
        for digest, at in (
            (by_message, 0),
            (by_name, 8),
            (by_name, 16),
            (by_content, 8),
            (by_content, 0),
        )
    ]
    hashes = [hmac.digest(key, b"\0band\0" + band, "sha256")[:4] for band in bands]
    lottery = Lottery(key)
    assert list(lottery(client, name, content, likeness)) == expected
    assert lottery.hashed(bands) == (b"".join(hashes) or None)


def test_another_key_client_or_name_draws_audits_and_readings_again() -> None:
    one, two = drawn(Lottery(b"key")), drawn(Lottery(b"other"))
    assert not np.any(one == two)
    first = Lottery(b"key")("a", "note", b"X", b"x")
    for client, name in (("b", "note"), ("a", "other")):
        again = Lottery(b"key")(client, name, b"X", b"x")
        assert again[3:] == first[3:]
        assert not {*again[:3]} & {*first[:3]}
    same_letters = Lottery(b"key")("ab", "c", b"X", b"x")[:3]
    assert not {*Lottery(b"key")("a", "bc", b"X", b"x")[:3]} & {*same_letters}


def test_near_copies_are_audited_each_by_its_own_draw() -> None:
    """A form that comes every day with other numbers is neither always nor never audited."""
    found = [Lottery(b"key")("a", f"{i}", f"Na {i}".encode(), b"na") for i in range(4000)]
    assert len({each.cluster for each in found}) == len({each.mark for each in found}) == 1
    assert stats.kstest([each.audit for each in found], "uniform").pvalue > 0.001


@given(st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True), st.floats(0, 1))
def test_what_may_be_read_blind_is_always_marked(audit: float, mark: float, rate: float) -> None:
    plan = AuditPlan(certification_rate=rate / 2, ramp_up_rate=rate)
    assert plan.marks(Draws(audit, 0.0, 0.0, mark)) == (mark < 0.5 or audit < rate)


def test_a_name_says_nothing_about_which_of_its_contents_are_audited() -> None:
    # With eight names, a draw by name audits none of them or an eighth of all documents.
    lottery = Lottery(b"key")
    audited = [lottery.audit("a", f"{i % 8}", f"{i}".encode()) < 0.04 for i in range(8000)]
    for name in range(8):
        assert 0.02 < np.mean(audited[name::8]) < 0.06


def test_copies_have_the_same_name_or_are_of_one_cluster() -> None:
    found = [
        Identity("a", "1", 0.5),
        Identity("b", "1", 0.6),  # another client's name
        Identity("a", "1", 0.7),
        Identity("a", "2", 0.5),
        Identity("a", "3", None),  # from before there were draws
        Identity("a", "4", None),
        Identity("a", "5", 0.7),
    ]
    assert without_copies(found) == [[0, 2, 3, 6], [1], [4], [5]]


def test_near_copies_have_a_band_in_common_at_the_same_place() -> None:
    found = [
        Identity("a", "1", 0.1, b"AAAABBBB"),
        Identity("a", "2", 0.2, b"BBBBAAAA"),
        Identity("a", "3", 0.3, b"CCCCBBBB"),  # of the first
        Identity("a", "4", 0.4, b"CCCCDDDD"),  # of the third
        Identity("a", "5", 0.5, None),
    ]
    assert without_copies(found) == [[0, 2, 3], [1], [4]]


def test_the_key_is_never_shown() -> None:
    assert "secret" not in repr(Lottery(b"secret"))


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_rate_of_nothing_draws_nothing_and_of_one_everything(rate: float) -> None:
    plan = AuditPlan(overlap_rate=rate)
    for draw in (0.0, 0.5, math.nextafter(1.0, 0.0)):
        draws = Draws(draw, draw, draw)
        assert plan.overlaps(draws) is (rate == 1.0)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.95])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6, 0.9, 1.0, None])
def test_second_readings_go_above_the_threshold_and_their_share_stays(
    share: float, threshold: float | None
) -> None:
    usual = [place / 200 for place in range(201)]
    rates = [reread_rate(share, one, threshold, usual) for one in usual]
    assert all(0.0 <= rate <= 1.0 for rate in rates)
    again = sum(one * rate for one, rate in zip(usual, rates, strict=True))
    assert again == pytest.approx(share * sum(usual))
    assert rates == sorted(rates)


def test_without_other_documents_every_agreement_has_the_same_chance() -> None:
    assert reread_rate(0.3, 0.9, 0.8, []) == reread_rate(0.3, 0.1, None, [0.5]) == 0.3
    assert plausible_threshold([0.5, 0.6], 0.9) is None


def test_the_choice_of_a_claim_cannot_be_predicted_without_the_key() -> None:
    times = [datetime(2026, 11, 29, tzinfo=UTC) + timedelta(seconds=n) for n in range(4000)]
    tosses = np.array([Lottery(b"key").toss("ann", at) for at in times])
    assert stats.kstest(tosses, "uniform").pvalue > 0.001
    assert abs(np.corrcoef(tosses[1:], tosses[:-1])[0, 1]) < 4 / np.sqrt(len(tosses))
    assert Lottery(b"other").toss("ann", times[0]) != tosses[0]
    assert Lottery(b"key").toss("ben", times[0]) != tosses[0]
