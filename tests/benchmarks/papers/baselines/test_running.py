"""Every method of the papers on a small split, by itself and below the set calibrator."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks.papers.baselines.label_subsets import LabelSubsets
from benchmarks.papers.baselines.method import Predicted, as_sets, joint
from benchmarks.papers.baselines.neighbours import NeighbourCounts
from benchmarks.papers.baselines.registry import PAPER_METHODS
from benchmarks.papers.baselines.running import as_answers, decide, run_paper_method
from benchmarks.papers.baselines.smooth_link import best_f1_by_label
from setwise.models.data.answers import ModelAnswers
from setwise.models.data.datasets import Dataset
from setwise.models.options import TrainingOptions, TrainingWarning

pytestmark = pytest.mark.verify

OPTIONS = TrainingOptions(preset="paper", calibrator="isotonic", n_folds=2, n_jobs=1)


def part(seed, n):
    """Documents of three labels that shift the mean of four measurements."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n, 3)) < [0.5, 0.4, 0.3]
    Y[~Y.any(axis=1), 0] = True
    X = Y @ np.array([[2, 0, 0, 1], [0, 2, 0, 0], [0, 0, 2, 1]]) + 0.6 * rng.normal(size=(n, 4))
    return Dataset(
        kind="vectors",
        ids=tuple(map(str, range(n))),
        label_names=("a", "b", "c"),
        Y=as_sets(Y),
        texts=None,
        X=csr_array(X),
        feature_names=tuple("wxyz"),
        fingerprint=str(seed),
    )


TRAIN, TEST = part(0, 120), part(1, 80)


def run(name, train_part=TRAIN, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        chosen = replace(OPTIONS, **options)
        (found,) = run_paper_method(name, train_part, TEST, chosen, lambda *_: None, bootstrap=20)
    return found


QUICK = {
    "pd-sparse": {"n_passes": 5},
    "spen": {"n_label_batches": 200, "n_batches": 20},
    "dvn": {"n_batches": 300},
    "pc": {"n_label_batches": 200, "n_batches": 20},
}  # such data need no more


@pytest.mark.parametrize("name", PAPER_METHODS)
def test_a_method_finds_most_sets_and_says_what_it_yields(name, monkeypatch):
    if name in QUICK:
        entry = PAPER_METHODS[name]
        quick = replace(entry, make=partial(entry.make, **QUICK[name]), grid={})
        monkeypatch.setitem(PAPER_METHODS, name, quick)
    metrics = run(name).metrics
    assert metrics.set_accuracy > 0.6  # the commonest set has a share of .25
    assert metrics.precision_at_1 > 0.9
    assert (metrics.oracle_accuracy is not None) == (PAPER_METHODS[name].yields == "joint")
    assert metrics.intervals["set_accuracy"][0] <= metrics.set_accuracy
    assert metrics.train_cpu_seconds > 0
    assert metrics.brier < 0.25


@pytest.mark.parametrize("name", ["ml-knn", "pcc"])
def test_the_set_calibrator_goes_on_top_of_scores_and_of_joints(name):
    plain, on_top = run(name), run(f"{name}-rerank")
    assert on_top.method == f"{name}-rerank --preset paper"
    assert on_top.metrics.oracle_accuracy > plain.metrics.set_accuracy
    assert on_top.metrics.set_accuracy > plain.metrics.set_accuracy - 0.05


def test_objectives_decide_which_sets_are_announced():
    rng = np.random.default_rng(0)
    scores = rng.random((30, 3))
    predicted = Predicted(as_sets(np.eye(3)[rng.integers(3, size=30)]), scores)
    prior = TRAIN.Y.toarray().mean(axis=0)
    for objective, expected in (
        ("set-accuracy", predicted.sets.toarray()),
        ("hamming", scores > 0.5),
        ("macro-f1", best_f1_by_label(scores, prior)),
    ):
        found = decide("2br", predicted, objective, TRAIN.Y).toarray()
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(
            decide("lsf", predicted, objective, TRAIN.Y).toarray(), predicted.sets.toarray()
        )
    # The toy example of Wang et al., KDD 2017, section 3.2.
    toy = joint(np.zeros(3, dtype=int), as_sets(np.eye(3)), np.log([0.5, 0.4, 0.1]), 1)
    assert decide("crf", toy, "f1", TRAIN.Y).toarray().tolist() == [[1, 1, 0]]
    hedged = Predicted(as_sets([[1, 0, 0]]), np.array([[0.55, 0.45, 0.01]]))
    assert decide("2br", hedged, "f1", TRAIN.Y).toarray().tolist() == [[1, 1, 0]]


@pytest.mark.parametrize("name", ["ml-knn", "ml-knn-rerank"])
def test_a_prediction_takes_the_time_of_the_method_too(name, monkeypatch):
    now, predict = [0.0], NeighbourCounts.predict
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def slow(self, X):
        now[0] += 5.0
        return predict(self, X)

    monkeypatch.setattr(NeighbourCounts, "predict", slow)
    assert run(name).metrics.predict_seconds == 5.0


@pytest.mark.parametrize("name", ["cc", "cc-rerank"])
def test_answers_of_another_model_alone_are_refused(name):
    given = ModelAnswers.of_scores(np.full((120, 3), 0.5))
    with pytest.raises(ValueError, match="need texts or features"):
        run(name, replace(TRAIN, kind="external", X=None, answers=given))


def test_few_documents_are_enough_to_choose_parameters():
    assert run("power-set", TRAIN.take(np.arange(4))).metrics.n == 80


def test_a_joint_is_given_as_ten_scored_sets_and_label_scores():
    sets = as_sets([[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 1]])
    given = as_answers(joint(np.array([0, 0, 1]), sets, np.log([0.3, 0.6, 0.9]), 2))
    assert given.doc_indptr.tolist() == [0, 2, 3]
    assert given.set_scores.round(6).tolist() == [0.6, 0.3, 0.9]
    assert given.scores.toarray().round(3).tolist() == [[0.667, 0, 0, 0], [1, 1, 0, 1]]


@pytest.mark.parametrize(("n_labels", "n_groups"), [(2, 1), (4, 4), (5, 10), (6, 12)])
def test_rakel_draws_as_many_different_groups_as_there_are(n_labels, n_groups):
    Y = as_sets(np.random.default_rng(0).random((40, n_labels)) < 0.4)
    groups = LabelSubsets().fit(csr_array(np.ones((40, 1), np.float32)), Y).groups_
    assert len({tuple(labels) for labels, _ in groups}) == len(groups) == n_groups


def test_neighbour_counts_are_bayes_rule_on_counts():
    X = csr_array(np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]))
    Y = as_sets([[1], [1], [0], [0], [0], [1]])
    model = NeighbourCounts(k=2, smoothing=1.0).fit(X, Y)
    # Neighbours with the label: 1, 1 and 0 of those that have it, 2, 1 and 1 of the others.
    posterior = {0: 2 / (2 + 1), 1: 3 / (3 + 3), 2: 1 / (1 + 2)}
    for place, count in ((0.05, 2), (5.16, 1), (5.0, 0)):
        scores = model.predict(csr_array([[place]])).scores
        np.testing.assert_allclose(scores, posterior[count])
