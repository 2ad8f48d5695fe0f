"""Data that no benchmark has: a result without NaN, or a refusal in words; the same by seed."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import csr_array

from setwise.models.data.datasets import Dataset
from setwise.models.options import TrainingOptions
from setwise.models.predictions import SetPredictions
from setwise.models.training import train
from tests.models.conftest import quietly
from tests.models.corpora import dataset, texts, vectors

WAYS = {
    "br": TrainingOptions(preset="paper", method="br", n_jobs=1),
    "paper": TrainingOptions(preset="paper", n_jobs=1),
    "fast": TrainingOptions(preset="fast", n_jobs=1),
    "best": TrainingOptions(preset="best", n_jobs=1),  # with every voter and calibrator of "fast"
}


def with_labels(Y: np.ndarray, n_features: int = 8) -> Dataset:
    """Return random vectors that carry these labels."""
    rng = np.random.default_rng(7)
    X = rng.random((len(Y), n_features)) * (rng.random((len(Y), n_features)) < 0.5)
    return dataset(X, Y)


def no_positive() -> Dataset:
    Y = np.array(vectors(240).Y.toarray())
    Y[:, 2] = 0
    return with_labels(Y)


def one_positive() -> Dataset:
    """Four of five folds of the label have no positive, and the fit without its own has none."""
    Y = np.array(vectors(240).Y.toarray())
    Y[:, 2] = 0
    Y[11, 2] = 1
    return with_labels(Y)


def always_positive() -> Dataset:
    Y = np.array(vectors(240).Y.toarray())
    Y[:, 1] = 1
    return with_labels(Y)


def one_label() -> Dataset:
    return with_labels(np.array(vectors(240).Y.toarray())[:, [0]])


def mostly_without_labels() -> Dataset:
    Y = np.zeros((240, 4))
    Y[::30, 0] = 1
    return with_labels(Y)


def one_label_set() -> Dataset:
    return with_labels(np.tile([1, 0, 1], (240, 1)))


def constant_features() -> Dataset:
    data = vectors(240)
    X = data.X.toarray()
    X[:, 0], X[:, 1], X[:, 2] = 3.0, 0.0, -1e30
    return dataset(X, data.Y.toarray())


def duplicate_columns() -> Dataset:
    data = vectors(240)
    return dataset(np.hstack([data.X.toarray()] * 3), data.Y.toarray())


def more_labels_than_documents() -> Dataset:
    rng = np.random.default_rng(3)
    return with_labels(rng.random((60, 150)) < 0.02)


def equal_documents() -> Dataset:
    """With different label sets."""
    data = vectors(240)
    return dataset(np.tile([1.0, 0.0, 2.0], (data.n, 1)), data.Y.toarray())


def empty_documents() -> Dataset:
    data = vectors(240)
    return dataset(np.zeros((data.n, 4)), data.Y.toarray())


def one_feature() -> Dataset:
    data = vectors(240)
    return dataset(data.X.toarray()[:, :1], data.Y.toarray())


def huge_values() -> Dataset:
    data = vectors(240)
    return dataset(data.X.toarray() * 1e37, data.Y.toarray())


def one_huge_value() -> Dataset:
    data = vectors(240)
    X = data.X.toarray()
    X[5, 3] = 3e38
    return dataset(X, data.Y.toarray())


def tiny_values() -> Dataset:
    data = vectors(240)
    return dataset(data.X.toarray() * 1e-34, data.Y.toarray())


def few_documents() -> Dataset:
    return vectors(12)


ODD = [
    no_positive,
    one_positive,
    always_positive,
    one_label,
    mostly_without_labels,
    one_label_set,
    constant_features,
    duplicate_columns,
    more_labels_than_documents,
    equal_documents,
    empty_documents,
    one_feature,
    huge_values,
    one_huge_value,
    tiny_values,
    few_documents,
]


def assert_sound(predictions: SetPredictions) -> None:
    alone = predictions.label_probability
    for share in (predictions.confidence, predictions.marginals):
        assert ((share >= 0.0) & (share <= 1.0)).all()
    assert ((alone > 0.0) & (alone < 1.0)).all()
    assert np.isfinite(predictions.candidates.log_score).all()
    assert (np.diff(predictions.candidates.doc_indptr) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", ["fast", *(pytest.param(way, marks=pytest.mark.verify) for way in ("br", "best"))]
)
@pytest.mark.parametrize("odd", ODD)
def test_odd_data_give_probabilities(odd: Callable[[], Dataset], way: str) -> None:
    data = odd()
    predictor = quietly(data, WAYS[way])
    assert_sound(predictor.predict(data.X))
    unseen = csr_array(np.vstack([np.zeros(data.X.shape[1]), np.full(data.X.shape[1], 1e3)]))
    assert_sound(predictor.predict(unseen.astype(np.float32)))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["br", "fast"])
def test_texts_that_are_all_equal_give_probabilities(way: str) -> None:
    data = texts(n=240)
    same = Dataset(**{**vars(data), "texts": ("fever and cough",) * data.n})
    assert_sound(quietly(same, WAYS[way]).predict_texts(["fever", "cough " * 1000, ""]))


def test_documents_without_a_label_are_refused() -> None:
    with pytest.raises(ValueError, match="no document carries a label"):
        train(with_labels(np.zeros((40, 3))), WAYS["br"])


@pytest.mark.slow
@pytest.mark.parametrize("way", ["br", "paper", "best"])
def test_a_seed_gives_one_model_on_one_thread_and_on_several(way: str) -> None:
    data = vectors(230, seed=4)
    options = TrainingOptions(**{**vars(WAYS[way]), "seed": 3})
    alone = quietly(data, options)
    together = quietly(data, TrainingOptions(**{**vars(options), "n_jobs": 3}))
    assert (alone.version, alone.calibrator_version) == (
        together.version,
        together.calibrator_version,
    )
    np.testing.assert_array_equal(
        alone.predict(data.X).confidence, together.predict(data.X).confidence
    )
