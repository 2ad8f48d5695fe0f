"""The largest scores of each document stand for all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from setwise.models.labels import kept_scores
from setwise.models.labels.kept_scores import KeptScores
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.options import TrainingOptions
from setwise.models.training import train
from tests.models.corpora import vectors


def kept(scores: np.ndarray, most: int) -> KeptScores:
    found_scores = KeptScores(scores.shape, scores.dtype, room=most)
    rows = np.arange(len(scores))
    for part in (rows[1::2], rows[::2]):
        found_scores[part] = scores[part]
    return found_scores


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 12), st.integers(1, 12))
def test_the_largest_read_back_and_the_others_as_their_mean(
    seed: int, n: int, n_labels: int, most: int
) -> None:
    scores = np.random.default_rng(seed).normal(size=(n, n_labels)).round(1)
    read = kept(scores, most)[:]
    for row, found in zip(scores, read, strict=True):
        order = np.argsort(-row, kind="stable")
        assert (found[order[:most]] == row[order[:most]]).all()
        assert found[order[most:]] == pytest.approx(
            row[order[most:]].mean() if most < n_labels else []
        )


def test_a_column_holds_what_was_kept_of_some_documents() -> None:
    scores = np.random.default_rng(0).normal(size=(40, 6))
    held_scores, rows = kept(scores, 2), np.arange(40)[3::2]
    dense = held_scores[:]
    for label, column in enumerate(held_scores.columns(rows)):
        best = np.argsort(-scores[rows], axis=1)[:, :2]
        assert (column.documents == rows[(best == label).any(axis=1)]).all()
        assert (column.scores == scores[column.documents, label]).all()
        rest = np.setdiff1d(rows, column.documents)
        assert column.others == len(rest)
        assert column.rest == pytest.approx(dense[rest, label].mean())


def test_a_label_is_calibrated_by_its_kept_scores_and_the_share_among_the_others() -> None:
    rng = np.random.default_rng(1)
    scores, Y = rng.normal(size=(60, 5)), csr_array((rng.random((60, 5)) < 0.3).astype(np.uint8))
    rows = np.arange(0, 60, 2)
    whole = LabelCalibrator().fit(scores, Y, rows=rows)
    same = LabelCalibrator().fit(kept(scores, 5), Y, rows=rows)
    assert same.transform(scores) == pytest.approx(whole.transform(scores), abs=1e-12)

    few = kept(scores, 2)
    calibrator = LabelCalibrator(1.0).fit(few, Y, rows=rows)
    column = next(few.columns(rows))
    lost = np.setdiff1d(rows, column.documents)
    x = np.append(column.scores, np.full(len(lost), column.rest))
    documents = np.append(column.documents, lost)
    expected = LabelCalibrator(1.0).fit(x[:, None], Y.toarray()[documents, :1])
    tried = np.linspace(-2, 2, 9)
    ours = calibrator.transform(np.tile(tried[:, None], 5))[:, 0]
    assert ours == pytest.approx(expected.transform(tried[:, None])[:, 0])


@pytest.mark.parametrize("method", ["br", "br-rerank"])
def test_training_with_kept_scores_is_training_with_all_if_all_are_kept(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, options = (
        vectors(n=80),
        TrainingOptions(method=method, preset="fast", n_folds=3, calibrator="isotonic"),
    )
    whole = train(data, options).predict(data.X)
    monkeypatch.setattr(kept_scores, "MOST_WHOLE", 0)
    predictions = train(data, options).predict(data.X)
    assert (predictions.candidates.sets.labels == whole.candidates.sets.labels).all()
    assert predictions.confidence == pytest.approx(whole.confidence, abs=1e-9)
