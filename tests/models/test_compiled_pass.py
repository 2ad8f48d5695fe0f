"""The compiled pass against the parts it stands for, one after another."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array

from setwise.models import training
from setwise.models.calibration.calibrators import BoostedSets, TreeSets
from setwise.models.sets.features import SetFeatures
from setwise.models.sets.sources import MarginalCandidates
from setwise.models.training import TrainingOptions, train
from tests.models.corpora import dataset, texts, vectors


@pytest.fixture(scope="module", autouse=True)
def few_documents():
    """Let labels be refined, as with more documents than are needed here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "MIN_DOCUMENTS_REFINED", 200)
        yield


CALIBRATORS = [
    "uncalibrated",
    "isotonic",
    "cardinality-isotonic",
    "boosted-squared",
    "boosted-logistic",
    "group-softmax",
    "tree",
]


def compiled(predictor):
    return dataclasses.replace(predictor).compiled


def assert_same(fast, plain):
    np.testing.assert_array_equal(fast.candidates.doc_indptr, plain.candidates.doc_indptr)
    np.testing.assert_array_equal(fast.candidates.set_indptr, plain.candidates.set_indptr)
    np.testing.assert_array_equal(fast.candidates.labels, plain.candidates.labels)
    np.testing.assert_array_equal(fast.candidates.source, plain.candidates.source)
    np.testing.assert_array_equal(fast.known_features, plain.known_features)
    np.testing.assert_allclose(fast.candidates.log_score, plain.candidates.log_score, rtol=1e-12)
    np.testing.assert_allclose(fast.marginals, plain.marginals, rtol=1e-12)
    # Exponentials of NumPy and of compiled code may differ in the last place.
    np.testing.assert_allclose(fast.confidence, plain.confidence, atol=1e-6)


@pytest.mark.parametrize("calibrator", CALIBRATORS)
@pytest.mark.parametrize("method", ["br", "br-rerank"])
def test_vectors_get_what_the_parts_give_them(calibrator, method):
    predictor = train(
        vectors(), TrainingOptions(preset="paper", alpha=1e-3, calibrator=calibrator, method=method)
    )
    assert compiled(predictor) is not None
    new = vectors(seed=1, n=200).X
    assert_same(predictor.predict(new), predictor.predict_by_parts(new))
    for row in range(3):
        assert_same(predictor.predict(new[[row]]), predictor.predict_by_parts(new[[row]]))


def test_texts_get_what_the_parts_give_them():
    predictor = train(
        texts(n=400), TrainingOptions(preset="paper", alpha=1e-3, calibrator="boosted-squared")
    )
    assert compiled(predictor) is not None
    new = [*texts(n=50, seed=1).texts, "", "nothing known here", "Größe fever"]
    plain = predictor.predict_by_parts(predictor.vectorizer.transform(new))
    assert_same(predictor.predict_texts(new), plain)


@pytest.fixture(
    scope="module",
    params=[("fast", "boosted-logistic"), ("best", "group-softmax")],
    ids=["fast", "best"],
)
def voted(request):
    return train(
        vectors(n=400),
        TrainingOptions(preset=request.param[0], alpha=1e-3, calibrator=request.param[1]),
    )


def test_presets_get_what_the_parts_give_them(voted):
    assert compiled(voted) is not None
    assert (voted.stack is None) == (voted.manifest["training"]["preset"] == "fast")
    new = vectors(seed=1, n=600).X
    assert_same(voted.predict(new), voted.predict_by_parts(new))
    for row in range(3):
        assert_same(voted.predict(new[[row]]), voted.predict_by_parts(new[[row]]))
    empty = csr_array((2, new.shape[1]), dtype=np.float32)
    assert_same(voted.predict(empty), voted.predict_by_parts(empty))


def test_dense_measurements_are_centred_as_by_the_parts():
    rng = np.random.default_rng(2)
    X = rng.random((300, 6)) + 1.0
    data = dataset(X, X[:, :3] > 1.4)
    predictor = train(
        data, TrainingOptions(preset="best", alpha=1e-3, calibrator="boosted-squared")
    )
    assert predictor.voters.voters_[0].space_.centre_.any()
    assert compiled(predictor) is not None
    assert_same(predictor.predict(data.X), predictor.predict_by_parts(data.X))


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_texts_of_presets_get_what_the_parts_give_them(preset):
    predictor = train(
        texts(n=400), TrainingOptions(preset=preset, alpha=1e-3, calibrator="boosted-squared")
    )
    assert compiled(predictor) is not None
    new = [*texts(n=50, seed=1).texts, "", "nothing known here"]
    plain = predictor.predict_by_parts(predictor.vectorizer.transform(new))
    assert_same(predictor.predict_texts(new), plain)


def test_voters_that_weight_features_in_their_own_way_are_left_to_themselves(voted):
    loaded = train(
        vectors(n=250), TrainingOptions(preset="fast", alpha=1e-3, calibrator="boosted-squared")
    )
    loaded.voters.voters_[1].space_.weighting_.scale_[0] *= 2
    assert compiled(loaded) is None
    assert compiled(dataclasses.replace(voted, source=MarginalCandidates(10))) is None


def test_fewer_sets_than_asked_for_and_empty_sets_are_the_same():
    data = vectors(n_labels=2)
    Y = data.Y.toarray()
    Y[:40] = 0
    data = dataclasses.replace(data, Y=csr_array(Y))
    predictor = train(
        data, TrainingOptions(preset="paper", alpha=1e-3, calibrator="boosted-squared")
    )
    predictions = predictor.predict(data.X)
    assert np.diff(predictions.candidates.doc_indptr).tolist() == [4] * data.n
    assert_same(predictions, predictor.predict_by_parts(data.X))


def test_read_only_arrays_are_taken_too(tmp_path):
    predictor = train(
        vectors(), TrainingOptions(preset="paper", alpha=1e-3, calibrator="boosted-squared")
    )
    predictor.seen.flags.writeable = False
    new = vectors(seed=1, n=20).X
    assert_same(predictor.predict(new), predictor.predict_by_parts(new))


def test_parts_of_other_kinds_are_left_to_themselves():
    predictor = train(
        vectors(), TrainingOptions(preset="paper", alpha=1e-3, calibrator="boosted-squared")
    )

    class Doubtful(BoostedSets):
        def predict(self, table):
            return super().predict(table) / 2

    other = Doubtful.from_state(*predictor.calibrator.get_state())
    new = vectors(seed=1, n=20).X
    halved = predictor.with_calibrator(other).predict(new)
    assert (halved.confidence <= 0.5).all()
    assert compiled(predictor.with_calibrator(other)) is None
    reranker = dataclasses.replace(
        predictor.reranker, features=SetFeatures(("score",)).fit(new, vectors(n=20).Y)
    )
    assert compiled(dataclasses.replace(predictor, reranker=reranker)) is None


def test_trees_too_broad_for_masks_are_left_to_themselves():
    wide = BoostedSets(n_trees=1, max_leaves=100, min_child_weight=0.0, monotone=False)
    predictor = train(
        vectors(n=600), TrainingOptions(preset="paper", alpha=1e-3, calibrator="boosted-squared")
    )
    evidence = predictor.evidence(vectors(n=600).X)
    sets = predictor.source.propose(evidence)
    table = predictor.features.transform(evidence, sets)
    wide.fit(table, np.random.default_rng(0).random(len(table)) < 0.5)
    assert wide.trees_.masks is None
    assert compiled(predictor.with_calibrator(wide)) is None
    assert compiled(predictor.with_calibrator(TreeSets().fit(table, sets.sizes > 1))) is not None
