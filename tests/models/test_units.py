"""Predictions do not depend on the units of measurements."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.scaler import FeatureScaler
from setwise.models.evaluation.evaluation import evaluate
from setwise.models.options import MIN_DOCUMENTS_BEST, TrainingOptions
from setwise.models.storage.artifacts import load, save
from tests.models.conftest import quietly
from tests.models.corpora import dataset, vectors

WAYS = {
    "br": TrainingOptions(method="br", preset="paper"),
    "fast": TrainingOptions(preset="fast"),
    "best": TrainingOptions(preset="best"),
    "f1": TrainingOptions(preset="fast", optimize="f1"),
    "cbm": TrainingOptions(method="cbm", preset="paper", n_components=3),
    "cbm-scored": TrainingOptions(method="cbm", preset="fast", n_components=3),
    "cbm-best": TrainingOptions(method="cbm-rerank", preset="best", n_components=3),
}


def measured(n=250, seed=0):
    """Return a dense table whose labels follow from the first columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 12))
    Y = rng.random((n, 4)) < 1 / (1 + np.exp(-3 * X[:, :4]))
    return dataset(X, Y)


def in_other_units(data, seed=0):
    """Multiply each column by a power of ten and add a constant."""
    rng = np.random.default_rng(seed)
    X = data.X.toarray().astype(np.float64)
    factor = 10.0 ** rng.integers(-6, 7, X.shape[1])
    shift = rng.normal(size=X.shape[1]) * 100 * factor * X.std(axis=0)
    return factor, shift


def changed(data, units):
    factor, shift = units
    X = csr_array(data.X.toarray().astype(np.float64) * factor + shift)
    return dataclasses.replace(data, X=X)


def fitted(data, options):
    return quietly(data, dataclasses.replace(options, n_jobs=1))


def assert_alike(first, second):
    """Check that confidences agree, and sets unless the first two are equally sure."""
    np.testing.assert_allclose(first.top_confidence(), second.top_confidence(), rtol=0, atol=1e-6)
    for row in np.flatnonzero((first.chosen() != second.chosen()).sum(axis=1)):
        best, other = (one.ranked(row)[0] for one in (first, second))
        assert best.confidence == pytest.approx(other.confidence, abs=1e-6)
        assert best.labels in {ranked.labels for ranked in second.ranked(row)[:2]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=pytest.mark.verify) if "best" in way else way for way in WAYS],
)
def test_other_units_change_no_set_and_no_confidence(way):
    n = MIN_DOCUMENTS_BEST if "best" in way else 150
    data, new = measured(n), measured(n=60, seed=1)
    units = in_other_units(data)
    plain = fitted(data, WAYS[way]).predict(new.X)
    other = fitted(changed(data, units), WAYS[way]).predict(changed(new, units).X)
    assert_alike(plain, other)


@pytest.mark.verify
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "way"),
    # Every base, voter, kernel and mixture.
    [("scene", "br"), *(("yeast", way) for way in ("br", "best", "cbm-best"))],
)
def test_other_units_change_nothing_on_real_measurements(data_dir, name, way):
    data = read_dataset(data_dir / name, "train")
    new = read_dataset(data_dir / name, "test", label_names=data.label_names)
    units = in_other_units(data)
    plain = fitted(data, WAYS[way]).predict(new.X)
    other = fitted(changed(data, units), WAYS[way]).predict(changed(new, units).X)
    assert_alike(plain, other)


def test_measurements_of_very_different_scales_are_learnt():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 72))
    Y = rng.random((1200, 5)) < 1 / (1 + np.exp(-2 * X[:, :5] + 1))
    scales = 10.0 ** rng.uniform(np.log10(0.03), np.log10(30), 72), rng.uniform(-73, 153, 72)
    data = changed(dataset(X, Y), scales)
    train_part, test_part = data.take(range(800)), data.take(range(800, 1200))
    found = evaluate(fitted(train_part, TrainingOptions(preset="paper")), test_part)
    plain = [
        LogisticRegression(max_iter=5000)
        .fit((X[:800]), Y[:800, label])
        .predict_proba(X[800:])[:, 1]
        for label in range(5)
    ]
    right = ((np.array(plain).T > 0.5) == Y[800:]).all(axis=1).mean()
    assert found.set_accuracy > right - 0.03 > 0.2


def test_a_scaled_model_is_stored_and_takes_named_numbers(tmp_path):
    data = changed(measured(), in_other_units(measured()))
    model = fitted(data, WAYS["fast"])
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.scaler.measured_.all()
    before, after = model.predict(data.X), loaded.predict(data.X)
    assert before.confidence.tolist() == after.confidence.tolist()
    numbers = dict(zip(data.feature_names, data.X[[0]].toarray()[0].tolist(), strict=True))
    backwards = dict(reversed(numbers.items()))
    assert loaded.predict_features([backwards]).ranked(0) == before.ranked(0)


@pytest.mark.parametrize(("name", "value"), [("scale", 3e38), ("scale", 1e12), ("centre", 1e40)])
def test_a_stored_scaler_that_no_training_leaves_is_refused(name, value):
    arrays, settings = FeatureScaler().fit(csr_array(measured().X, dtype=np.float64)).get_state()
    FeatureScaler.from_state(arrays, settings)
    arrays[name][0] = value
    with pytest.raises(ValueError, match="array 'scale'"):
        FeatureScaler.from_state(arrays, settings)


def test_absent_measurements_are_zero_and_unknown_documents_stay_out_of_domain():
    model = fitted(measured(), WAYS["br"])
    empty = model.predict_features([{}])
    assert empty.known_features.tolist() == [0]
    assert empty.ranked(0) == model.predict(np.zeros((1, 12))).ranked(0)


def test_counts_stay_sparse_and_are_not_scaled():
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.2, (300, 8))
    counts[:, 0] += 1  # a word of every document
    data = dataclasses.replace(vectors(n_features=8), X=csr_array(counts.astype(float)))
    assert fitted(data, WAYS["br"]).scaler is None


def test_measurements_among_many_indicators_are_scaled_alone():
    rng = np.random.default_rng(0)
    indicators = (rng.random((300, 40)) < 0.05).astype(float)
    X = csr_array(np.column_stack([1e4 + rng.normal(size=300), indicators]))
    scaler = FeatureScaler().fit(X)
    assert scaler.measured_.tolist() == [1] + [0] * 40
    scaled = scaler.transform(X).toarray()
    assert abs(scaled[:, 0].mean()) < 1e-4
    assert scaled[:, 1:].tolist() == indicators.tolist()


def test_a_constant_measurement_says_nothing():
    X = csr_array(np.column_stack([np.full(20, 0.1), np.arange(20.0)]))
    scaler = FeatureScaler().fit(X)
    assert scaler.scale_[0] == 0.0
    assert not scaler.transform(X).toarray()[:, 0].any()
    far = csr_array([[5.0, 1e300]])
    with pytest.raises(ValueError, match="too large beside those of training"):
        scaler.transform(far)
