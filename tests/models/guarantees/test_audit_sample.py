"""Which answers are drawn to be checked, and with what probability."""

import numpy as np
import pytest

from setwise.models.guarantees.audit_sample import REST_SHARE, draw_audits

CONFIDENCE = np.random.default_rng(0).beta(2, 1, size=600)


def test_each_answer_is_drawn_with_the_probability_that_is_stated() -> None:
    drawn, stated = np.zeros(600), np.zeros(600)
    for seed in range(400):
        sample = draw_audits(CONFIDENCE, 60, target=0.9, random_state=seed)
        assert len(set(sample.rows.tolist())) == 60
        drawn[sample.rows] += 1
        stated[sample.rows] = sample.probability
    upper = sample.start <= CONFIDENCE
    for stratum in (upper, ~upper):
        (chance,) = set(stated[stratum & (stated > 0)].tolist())
        expected = np.count_nonzero(stratum) * chance
        assert drawn[stratum].sum() == pytest.approx(400 * expected)  # fixed in each draw
        spread = np.sqrt(400 * chance * (1 - chance))
        assert np.abs(drawn[stratum] - 400 * chance).max() < 5 * spread


def test_most_draws_lie_where_the_target_is_plausible() -> None:
    sample = draw_audits(CONFIDENCE, 60, target=0.9)
    upper = sample.start <= CONFIDENCE
    assert CONFIDENCE[upper].mean() == pytest.approx(0.8, abs=0.01)  # with a margin
    chances = sorted(set(sample.probability.tolist()))
    assert chances[0] / chances[1] == pytest.approx(REST_SHARE, abs=0.02)


def test_equal_seeds_draw_alike_and_the_order_is_random() -> None:
    first, again, other = (draw_audits(CONFIDENCE, 60, random_state=seed) for seed in (1, 1, 2))
    assert first.rows.tolist() == again.rows.tolist() != other.rows.tolist()
    assert first.rows.tolist() != sorted(first.rows.tolist())


@pytest.mark.parametrize("confidence", [[0.2] * 5, [1.0] * 5, [1.0, 0.0], [0.5]])
def test_all_are_drawn_for_certain_where_there_are_no_more(confidence: list[float]) -> None:
    sample = draw_audits(confidence, 5)
    assert sorted(sample.rows.tolist()) == list(range(len(confidence)))
    assert set(sample.probability.tolist()) == {1.0}


def test_something_is_drawn_below_so_that_its_share_is_known() -> None:
    sample = draw_audits([1.0] * 1000 + [0.0] * 300, 10)
    assert np.count_nonzero(sample.rows >= 1000) == 1


@pytest.mark.parametrize(
    ("confidence", "n", "target", "fault"),
    [([], 5, 0.9, "no answers"), ([0.5], 0, 0.9, "n is 0"), ([0.5], 1, 95, "target is 95")],
)
def test_what_cannot_be_drawn_is_refused(
    confidence: list[float], n: int, target: float, fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        draw_audits(confidence, n, target=target)
