"""What a confidence is worth: its measures against brute force, and the verdicts."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from setwise.models.evaluation.judging import (
    LEAST_AUROC,
    LEVEL,
    N_BINS,
    TOLERATED_ECE,
    judge_scores,
)
from setwise.models.results import ScoreVerdict


def world(n=400, *, levels=None, seed=0):
    draw = np.random.default_rng(seed)
    confidence = draw.beta(4, 1, n)
    if levels:
        confidence = np.ceil(confidence * levels) / levels
    return confidence, draw.random(n) < confidence


@pytest.mark.parametrize("levels", [None, 5])
def test_ranking_is_measured_as_by_pairs_and_by_every_order_of_ties(levels):
    confidence, right = world(levels=levels)
    judged = judge_scores(confidence, right)
    assert judged.auroc.value == pytest.approx(roc_auc_score(right, confidence))
    assert judged.auroc.low < judged.auroc.value < judged.auroc.high
    draw = np.random.default_rng(1)
    shares = []
    for _ in range(200 if levels else 1):
        order = np.lexsort((draw.random(len(right)), -confidence))
        wrong = np.cumsum(~right[order])
        shares.append(np.mean(wrong / np.arange(1, len(right) + 1)))
    error = np.std(shares) / np.sqrt(len(shares))
    assert judged.aurc.value == pytest.approx(np.mean(shares), abs=4 * error + 1e-12)


def test_the_ece_is_the_mean_gap_of_fifteen_bins():
    confidence, right = world(N_BINS * 20)
    order = np.argsort(confidence)
    gaps = [abs(right[rows].mean() - confidence[rows].mean()) for rows in np.split(order, N_BINS)]
    assert judge_scores(confidence, right).ece.value == pytest.approx(np.mean(gaps))


def test_the_order_of_answers_plays_no_part():
    confidence, right = world(levels=7)
    turned = np.random.default_rng(2).permutation(len(right))
    one, other = (
        judge_scores(confidence[rows], right[rows]) for rows in (np.arange(len(right)), turned)
    )
    for name in ("aurc", "auroc", "ece"):
        assert getattr(one, name).value == pytest.approx(getattr(other, name).value)


def test_a_weight_counts_an_answer_several_times():
    confidence, right = world(levels=20)
    weight = np.random.default_rng(4).integers(1, 4, len(right))
    weighted = judge_scores(confidence, right, sample_weight=weight)
    repeated = judge_scores(np.repeat(confidence, weight), np.repeat(right, weight))
    for name in ("auroc", "ece"):
        assert getattr(weighted, name).value == pytest.approx(getattr(repeated, name).value)
    assert weighted.alignment_error == pytest.approx(repeated.alignment_error)
    assert weighted.aurc.value == pytest.approx(repeated.aurc.value, abs=0.005)
    assert weighted.auroc.high - weighted.auroc.low > repeated.auroc.high - repeated.auroc.low


def test_errors_of_the_people_who_say_what_is_right_are_corrected_for():
    confidence, right = world(4_000)
    lies = np.random.default_rng(5).random(len(right)) < np.where(right, 0.2, 0.1)
    exact = judge_scores(confidence, right)
    noisy = judge_scores(confidence, right ^ lies, alpha=0.2, beta=0.1)
    naive = judge_scores(confidence, right ^ lies)
    assert naive.auroc.value < exact.auroc.value - 0.03
    assert noisy.auroc.low <= exact.auroc.value <= noisy.auroc.high
    assert noisy.aurc.value == pytest.approx(exact.aurc.value, abs=0.01)
    assert (noisy.verdict, naive.verdict) == (ScoreVerdict.ROUTES, ScoreVerdict.MISCALIBRATED)


def covered(n, runs, wrong=None):
    """Return how often the intervals hold the AUROC and the ECE of true confidences."""
    confidence, right = sure(np.random.default_rng(0), 200_000)
    truth = roc_auc_score(right, confidence)
    found = []
    for seed in range(1, runs + 1):
        draw = np.random.default_rng(seed)
        confidence, right = sure(draw, n)
        if wrong is not None:
            some, more = (sure(draw, 3_000) for _ in range(2))
            bad = some[0][~some[1]][:wrong]
            confidence = np.append(more[0][more[1]][: n - wrong], bad)
            right = np.arange(n) < n - wrong
        judged = judge_scores(confidence, right)
        if judged.verdict is not ScoreVerdict.TOO_FEW:
            found.append((judged.auroc.low <= truth <= judged.auroc.high, judged.ece.low == 0.0))
    return np.mean(found, axis=0)


def sure(draw, n):
    confidence = draw.beta(19, 1, n)
    return confidence, draw.random(n) < confidence


def test_intervals_cover_what_is_true_where_few_answers_are_wrong():
    assert covered(60, 60, wrong=5)[0] >= 0.87
    assert covered(60, 60)[1] >= 0.9


@pytest.mark.verify
@pytest.mark.parametrize("n", [60, 200, 1_000])
def test_intervals_cover_what_is_true_in_many_runs(n):
    assert covered(n, 1_000, wrong=5)[0] >= 0.93
    assert covered(n, 1_000)[1] >= 0.93


CONFIDENCE, RIGHT = world(2_000)
CHANCE = np.random.default_rng(3).random(2_000)


LEVELS = np.array([0.8, 0.9, 0.95, 1.0])
SAID = LEVELS[np.random.default_rng(4).choice(4, 2_000, p=[0.1, 0.3, 0.4, 0.2])]
SUMMED = np.exp(-np.random.default_rng(5).exponential(0.2, 2_000))


@pytest.mark.parametrize(
    ("confidence", "right", "verdict", "sentence"),
    [
        (CONFIDENCE, RIGHT, ScoreVerdict.ROUTES, "Routes: it ranks (AUROC 0."),
        (CONFIDENCE**3, RIGHT, ScoreVerdict.MISCALIBRATED, "but its numbers are off (ECE 0."),
        (
            0.93 + CHANCE / 50,
            CHANCE[::-1] < 0.94,
            ScoreVerdict.DOES_NOT_RANK,
            "between 0.931 and 0.949",
        ),
        (
            0.5 + CHANCE / 50,
            CHANCE[::-1] < 0.94,
            ScoreVerdict.DOES_NOT_RANK,
            "Its numbers are off, and",
        ),
        (
            [0.9] * 50,
            [1] * 45 + [0] * 5,
            ScoreVerdict.CONSTANT,
            "Constant (0.9, where 78.2 % to 96.7 % are right). Ask a model",
        ),
        # What a language model says of itself: few round numbers, the same for right and wrong.
        (SAID, CHANCE < 0.7, ScoreVerdict.DOES_NOT_RANK, "Its numbers are off, and it cannot"),
        # The log-probability of its answer ranks, and promises too much.
        (SUMMED, CHANCE < SUMMED**3, ScoreVerdict.MISCALIBRATED, "its numbers are off (ECE 0."),
        # Narrow, and yet right and wrong answers differ.
        (
            0.93 + CHANCE / 50,
            CHANCE > 0.3,
            ScoreVerdict.MISCALIBRATED,
            "Ranks well (AUROC 1.000",
        ),
        # 30 answers, with an AUROC that may be useless or good.
        (
            np.linspace(0.6, 0.9, 30),
            np.arange(30) % 5 != 1,
            ScoreVerdict.NOT_ENOUGH,
            "Not enough to tell yet",
        ),
        (CHANCE, CHANCE < 0.7, ScoreVerdict.RANKS_WRONG_WAY, "Ranks the wrong way"),
        # Significant, and of no use.
        (
            np.tile(CHANCE, 3) / 50 + 0.7,
            np.tile(np.roll(CHANCE, 1) < 0.68 + 0.08 * CHANCE, 3),
            ScoreVerdict.RANKS_LITTLE,
            "Ranks too little",
        ),
        # The same, where the numbers promise too much: both are said, of every verdict.
        (
            np.tile(CHANCE, 3) / 50 + 0.9,
            np.tile(np.roll(CHANCE, 1) < 0.68 + 0.08 * CHANCE, 3),
            ScoreVerdict.RANKS_LITTLE,
            "), and its numbers are off (ECE 0.",
        ),
        (CHANCE, CHANCE < 0.7, ScoreVerdict.RANKS_WRONG_WAY, ", and its numbers are off (ECE 0."),
        ([0.8, 0.9], [0, 1], ScoreVerdict.TOO_FEW, "Too few to judge: 1 right and 1 wrong"),
        (CONFIDENCE, [1] * 2_000, ScoreVerdict.TOO_FEW, "2,000 right and 0 wrong answers"),
    ],
)
def test_the_verdict_says_what_is_missing(confidence, right, verdict, sentence):
    judged = judge_scores(confidence, right)
    assert judged.verdict is verdict
    assert sentence in str(judged)
    assert judged.to_dict()["verdict"] == verdict
    if verdict is not ScoreVerdict.TOO_FEW:
        low, high = map(float, re.search(r"([\d.]+)(?: %)? to ([\d.]+)", str(judged)).groups())
        assert low <= high


ANSWERS = st.lists(
    st.tuples(st.integers(0, 20).map(lambda level: level / 20), st.booleans()),
    min_size=1,
    max_size=25,
)


@given(ANSWERS)
@settings(max_examples=150, deadline=None)
def test_measures_are_those_of_the_definitions(answers):
    confidence, right = map(np.array, zip(*answers, strict=True))
    judged = judge_scores(confidence, right)
    good, bad = confidence[right], confidence[~right]
    if len(good) and len(bad):
        above = (good[:, None] > bad) + (good[:, None] == bad) / 2
        assert judged.auroc.value == pytest.approx(above.mean())
        turned = judge_scores(confidence, ~right)
        assert turned.auroc.value == pytest.approx(1 - judged.auroc.value)
    else:
        assert judged.auroc is None
    stretched = judge_scores(confidence**2 / 2, right)
    assert stretched.aurc.value == pytest.approx(judged.aurc.value)
    assert stretched.auroc == pytest.approx(judged.auroc)
    for measure in (judged.aurc, judged.ece):
        assert 0 <= measure.low <= measure.high <= 1
        assert -1e-12 <= measure.value <= 1 + 1e-12
    assert judged.n_distinct == len(set(confidence.tolist()))


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 1.0, 3.0]), st.sampled_from([40, 200]))
@settings(max_examples=25, deadline=None)
def test_a_verdict_follows_from_the_interval_and_the_fit(seed, power, n):
    confidence, right = world(n, seed=seed)
    judged = judge_scores(confidence**power, right)
    assert judged.verdict is not ScoreVerdict.CONSTANT
    if judged.verdict is not ScoreVerdict.TOO_FEW:
        ranks = judged.auroc.low > 0.5 and judged.auroc.value >= LEAST_AUROC
        assert judged.auroc.low <= judged.auroc.value <= judged.auroc.high
        assert ranks == (judged.verdict in {ScoreVerdict.ROUTES, ScoreVerdict.MISCALIBRATED})
        fits = judged.calibrated_p >= 1.0 - LEVEL or judged.ece.value <= TOLERATED_ECE
        assert (judged.verdict is ScoreVerdict.ROUTES) == (ranks and fits)
