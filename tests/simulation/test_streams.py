"""Streams of known truth: their laws, their order, and what drift does to them."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.streams import VOCABULARY, Drift, HeldOutStream, SyntheticStream
from tests.trained import Artifacts, write_documents

N = 2_000


def scored(stream):
    items = [stream.item(number) for number in range(N)]
    sets = stream.predictor.score([item.document for item in items])
    return [
        (scored.confidence, set(scored.labels) == set(item.truth))
        for scored, item in zip(sets, items, strict=True)
    ]


def test_calibrated_confidences_are_true():
    pairs = scored(SyntheticStream(3))
    for low in (0.2, 0.4, 0.6, 0.8):
        bucket = [(c, right) for c, right in pairs if low <= c < low + 0.2]
        confidence = sum(c for c, _ in bucket) / len(bucket)
        accuracy = sum(right for _, right in bucket) / len(bucket)
        assert accuracy == pytest.approx(confidence, abs=4 * (0.25 / len(bucket)) ** 0.5)


def test_over_confident_ones_are_too_high():
    def accuracy(stream):
        surest = [right for confidence, right in scored(stream) if confidence >= 0.8]
        return sum(surest) / len(surest)

    assert accuracy(SyntheticStream(3)) > 0.9
    assert accuracy(SyntheticStream(3, overconfident=True)) < 0.85


def test_a_document_is_the_same_in_every_company():
    stream = SyntheticStream(1)
    alone = stream.predictor.score([stream.item(7).document])
    crowd = stream.predictor.score([stream.item(n).document for n in range(10)])
    assert alone == [crowd[7]]
    assert SyntheticStream(1).item(7) == stream.item(7)
    assert SyntheticStream(2).item(7) != stream.item(7)


TRUTHS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=10, unique=True)


@given(truth=TRUTHS, place=st.integers(0, 9), seed=st.integers(0, 99))
def test_drift_puts_one_label_in_the_place_of_another(truth, place, seed):
    truth = tuple(sorted(truth, key=VOCABULARY.index))
    label = truth[place % len(truth)]
    drift = Drift(3, 1.0, label)
    after = drift.truth(truth, 3, VOCABULARY, Random(seed))
    if len(truth) < len(VOCABULARY):
        assert len(set(truth) - set(after)) == len(set(after) - set(truth)) == 1
        assert label not in after
    else:
        assert after == truth
    assert drift.truth(truth, 2, VOCABULARY, Random(seed)) == truth
    spared = tuple(other for other in truth if other != label)
    assert drift.truth(spared, 3, VOCABULARY, Random(seed)) == spared


def test_drift_spares_the_share_that_it_should():
    drift = Drift(1, 0.25)
    counts = Counter(drift.truth(("label-1",), 1, VOCABULARY, Random(n)) for n in range(2_000))
    assert set(counts) == {("label-1",), ("label-2",)}
    assert counts["label-2",] / 2_000 == pytest.approx(0.25, abs=0.04)


def test_a_data_set_comes_round_in_another_order_under_other_names(artifacts: Artifacts, tmp_path):
    data = write_documents(tmp_path / "held-out.jsonl", 40, seed=8)
    stream = HeldOutStream(artifacts.text, data, 0)
    n = stream.n_documents
    assert n + stream.n_left_out == 40
    rounds = [[stream.item(turn * n + place) for place in range(n)] for turn in range(2)]
    first, second = ([item.document.text for item in each] for each in rounds)
    assert sorted(first) == sorted(second)
    assert first != second
    names = [item.document.id for each in rounds for item in each]
    assert len(set(names)) == 2 * n
    assert stream.item(3) == HeldOutStream(artifacts.text, data, 0).item(3)
