"""Auditors who stop contradicting: found soon, honest ones rarely."""

from itertools import product

import numpy as np
import pytest

from setwise.models.guarantees import lapses
from setwise.models.guarantees.lapses import find_lapses, usual_contradictions


def answers(seed, before, after, *, kept):
    """Return answers of five auditors, the first of whom keeps a share of the contradictions."""
    rng = np.random.default_rng(seed)
    n = 5 * (before + after)
    who = np.array(["ann", "ben", "cem", "dot", "eva"] * (before + after))
    confidence = rng.beta(2.2, 0.75, n)
    wrong = rng.random(n) > confidence
    contradicted = rng.random(n) < np.where(wrong, 0.95, 0.1)
    lapsed = (who == "ann") & (np.arange(n) >= 5 * before)
    return who, confidence, contradicted & ~(lapsed & (rng.random(n) >= kept))


def test_whoever_begins_to_agree_with_everything_is_found_within_a_hundred_answers():
    for seed in range(6):
        found = find_lapses(*answers(seed, 100, 100, kept=0.0))
        assert [one.name for one in found] == ["ann"]
        (lapse,) = found
        assert 5 * 90 <= lapse.since <= 5 * 110
        assert lapse.until < 5 * 200
        assert lapse.contradicted < 0.2 * lapse.expected


def test_a_good_past_does_not_hide_a_lapse():
    delays = [
        find_lapses(*answers(3, before, 120, kept=0.0))[0].until - 5 * before
        for before in (20, 400)
    ]
    assert abs(delays[0] - delays[1]) < 5 * 40


@pytest.mark.parametrize("kept", [1.0, 0.75])
def test_honest_auditors_are_rarely_accused(kept):
    accused = sum(bool(find_lapses(*answers(20 + seed, 0, 300, kept=kept))) for seed in range(10))
    assert accused == 0


def test_the_easy_documents_of_an_auditor_explain_few_contradictions():
    rng = np.random.default_rng(5)
    who = np.repeat(["easy", "hard"], 400)
    confidence = np.where(who == "easy", rng.uniform(0.9, 1, 800), rng.uniform(0.3, 1, 800))
    order = rng.permutation(800)
    contradicted = rng.random(800) > confidence
    assert find_lapses(who[order], confidence[order], contradicted[order]) == ()


def test_a_careful_auditor_is_not_accused_because_others_contradict_too_much():
    rng = np.random.default_rng(2)
    who, confidence = np.tile(["careful", "hasty", "hastier"], 400), rng.uniform(0.8, 1, 1200)
    wrong = rng.random(1200) > confidence
    alarms = np.array([0.05, 0.4, 0.6])[np.arange(1200) % 3]
    contradicted = rng.random(1200) < np.where(wrong, 0.95, alarms)
    assert find_lapses(who, confidence, contradicted, contradicted & wrong) == ()
    assert [one.name for one in find_lapses(who, confidence, contradicted)] == ["careful"]


def test_an_auditor_alone_is_compared_with_the_confidences():
    confidence = np.full(200, 0.8)
    (found,) = find_lapses(["ann"] * 200, confidence, np.zeros(200))
    assert found.since == 0
    assert find_lapses(["ann"] * 200, confidence, np.arange(200) % 5 == 0) == ()
    assert find_lapses([], [], []) == ()


def test_at_the_fraction_the_evidence_grows_by_one_an_answer_on_average():
    # Enumerate six answers at half the usual rate: each new bet is worth 1 on average.
    rate, expected = 0.2 * lapses.FRACTION, 0.0
    stakes = lapses._STAKES / (1 - rate)
    for outcome in product([0, 1], repeat=6):
        capital = np.zeros(len(stakes))
        for against in outcome:
            capital = (capital + 1) * (1 + stakes * (rate - against))
        expected += np.prod(np.where(outcome, rate, 1 - rate)) * capital.mean()
    assert expected == pytest.approx(6)


def test_the_usual_rate_is_that_of_others_at_like_confidence():
    others = np.repeat([0.95, 0.5], 200)
    contradicted = np.concatenate([np.arange(200) < 10, np.arange(200) < 100])
    usual = usual_contradictions(np.array([0.99, 0.4]), others, contradicted)
    assert usual == pytest.approx([0.05, 0.5], abs=0.01)
    assert usual_contradictions(np.array([0.9]), np.zeros(3), np.ones(3, bool)) == pytest.approx(
        0.1
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"confidence": [0.5, 0.5]}, "one length"),
        ({"contradicted": [2]}, "0 or 1"),
        ({"confidence": [1.5]}, "confidence lies"),
        ({"run_length": 1.0}, "run_length"),
    ],
)
def test_bad_answers_are_named(change, words):
    good = {"name": ["ann"], "confidence": [0.5], "contradicted": [1]}
    with pytest.raises(ValueError, match=words):
        find_lapses(**{**good, **change})
