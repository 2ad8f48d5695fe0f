"""Streams of known truth: their laws, their order, and what drift does to them."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.models.storage.artifacts import load
from setwise.service.simulation.plan import BadPlan, Drift
from setwise.service.simulation.streams import VOCABULARY, HeldOutStream, SyntheticStream, drifted
from tests.trained import FEATURES, Artifacts, write_documents

N = 4_000


def scored(stream, n=N):
    items = [stream.item(number) for number in range(n)]
    sets = stream.predictor.score([item.document for item in items])
    return [
        (one.confidence, set(one.labels) == set(item.truth))
        for one, item in zip(sets, items, strict=True)
    ]


def sent_above(pairs, threshold):
    kept = [right for confidence, right in pairs if confidence >= threshold]
    return len(kept) / len(pairs), sum(kept) / len(kept)


def test_calibrated_confidences_are_true():
    pairs = scored(SyntheticStream(3))
    for low in (0.2, 0.4, 0.6, 0.8):
        bucket = [(c, right) for c, right in pairs if low <= c < low + 0.2]
        confidence = sum(c for c, _ in bucket) / len(bucket)
        accuracy = sum(right for _, right in bucket) / len(bucket)
        assert accuracy == pytest.approx(confidence, abs=4 * (0.25 / len(bucket)) ** 0.5)


def test_over_confident_ones_are_too_high():
    _, honest = sent_above(scored(SyntheticStream(3)), 0.8)
    _, boasting = sent_above(scored(SyntheticStream(3, overconfident=True)), 0.8)
    assert honest > 0.9
    assert boasting < 0.85


def test_a_document_is_the_same_in_every_company():
    stream = SyntheticStream(1)
    alone = stream.predictor.score([stream.item(7).document])
    crowd = stream.predictor.score([stream.item(n).document for n in range(10)])
    assert alone == [crowd[7]]
    assert SyntheticStream(1).item(7) == stream.item(7)
    other = [SyntheticStream(2).item(n).truth for n in range(20)]
    assert other != [stream.item(n).truth for n in range(20)]


def test_candidates_are_distinct_and_ranked():
    stream = SyntheticStream(5)
    for answer in stream.predictor.score([stream.item(n).document for n in range(300)]):
        confidences = [one.confidence for one in answer.candidates]
        assert confidences == sorted(confidences, reverse=True)
        assert len({one.labels for one in answer.candidates}) == 3
        assert {one.label for one in answer.marginals} <= set(VOCABULARY)


TRUTHS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=10, unique=True)


@given(truth=TRUTHS, place=st.integers(0, 9), seed=st.integers(0, 99))
def test_drift_puts_one_label_in_the_place_of_another(truth, place, seed):
    truth = tuple(sorted(truth, key=VOCABULARY.index))
    label = truth[place % len(truth)]
    after = drifted(truth, Drift(3, 1.0, label), 3, VOCABULARY, Random(seed))
    assert label not in after
    assert len(set(truth) ^ set(after)) == (2 if len(truth) < len(VOCABULARY) else 1)
    assert drifted(truth, Drift(3, 1.0, label), 2, VOCABULARY, Random(seed)) == truth
    spared = [other for other in VOCABULARY if other not in truth]
    if spared:
        assert drifted(truth, Drift(3, 1.0, spared[0]), 3, VOCABULARY, Random(seed)) == truth


def test_drift_spares_the_share_that_it_should():
    changed = Counter(
        drifted(("label-1",), Drift(1, 0.25), 1, VOCABULARY, Random(n)) for n in range(2_000)
    )
    assert set(changed) == {("label-1",), ("label-2",)}
    assert changed["label-2",] / 2_000 == pytest.approx(0.25, abs=0.04)


def test_slow_drift_grows_evenly():
    drift = Drift(3, 0.4, over=4)

    def changed(week):
        drawn = [drifted(("label-1",), drift, week, VOCABULARY, Random(n)) for n in range(2_000)]
        return drawn.count(("label-2",)) / 2_000

    shares = [changed(week) for week in (2, 3, 4, 5, 6, 7)]
    assert shares == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.4], abs=0.04)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_documents(tmp_path_factory.mktemp("stream") / "held-out.jsonl", 40, seed=8)


def test_a_data_set_comes_round_in_another_order_under_other_names(artifacts: Artifacts, data):
    stream = HeldOutStream(artifacts.text, data, 0)
    n = stream.n_documents
    assert n + stream.n_left_out == 40
    rounds = [[stream.item(turn * n + place) for place in range(n)] for turn in range(2)]
    first, second = ([item.document.text for item in each] for each in rounds)
    assert sorted(first) == sorted(second)
    assert first != second
    names = [item.document.id for each in rounds for item in each]
    assert len(set(names)) == 2 * n
    assert [item.document.text for item in rounds[0]] == first
    assert stream.item(3) == HeldOutStream(artifacts.text, data, 0).item(3)


def test_a_data_set_of_the_wrong_kind_or_of_strange_labels_is_refused(
    artifacts: Artifacts, data, tmp_path
):
    with pytest.raises(BadPlan, match="holds text, but the model takes vectors"):
        HeldOutStream(artifacts.vectors, data, 0)
    strange = tmp_path / "strange.jsonl"
    strange.write_text('{"id": "1", "text": "judge", "labels": ["nobody knows this one"]}\n')
    with pytest.raises(BadPlan, match="no document has only labels that the model knows"):
        HeldOutStream(artifacts.text, strange, 0)


def test_documents_of_vectors_are_named_features(artifacts: Artifacts, tmp_path):
    labels = load(artifacts.vectors).label_names
    (tmp_path / "labels.txt").write_text("".join(f"{label}\n" for label in labels))
    (tmp_path / "features.txt").write_text("".join(f"{name}\n" for name in FEATURES))
    data = tmp_path / "held-out.svm"
    data.write_text("0 1:0.5 3:1\n1 2:2\n")
    stream = HeldOutStream(artifacts.vectors, data, 0)
    features = [stream.item(number).document.features for number in range(2)]
    first = {FEATURES[0]: 0.5, FEATURES[2]: 1.0}
    assert sorted(features, key=len) == [{FEATURES[1]: 2.0}, first]
    assert {stream.item(number).truth for number in range(2)} == {(labels[0],), (labels[1],)}
