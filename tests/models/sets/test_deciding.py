"""Objectives end to end: each rule is best at its own metric, and its confidence stays honest."""

import dataclasses
from itertools import chain

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack
from scipy.special import expit

from setwise.models.calibration.choice import choose_calibrator, refit_calibrator
from setwise.models.data.dataset_files import read_dataset
from setwise.models.evaluation.evaluation import evaluate
from setwise.models.evaluation.scoring import score_calibration
from setwise.models.options import TrainingOptions
from setwise.models.sets.candidates import SOURCE_RULE
from setwise.models.sets.deciding import fit_decider
from setwise.models.sets.decisions import OBJECTIVES
from setwise.models.storage.artifacts import load, save
from setwise.models.training import assemble, fit_base
from tests.made_once import made_once
from tests.models.bounds import gain_of, worst_alignment
from tests.models.conftest import quietly
from tests.models.corpora import dataset, vectors

pytestmark = pytest.mark.slow


def uncertain(n, seed):
    """Return documents with one of three labels, maybe a frequent one, and rare ones.

    No feature settles anything, so that objectives disagree: the three exclude each other, which
    separates the mode from the majority of labels; the rare ones have low thresholds of their own.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    exclusive = (1.1 * X[:, :3] + rng.gumbel(size=(n, 3))).argmax(axis=1)
    frequent = rng.random(n) < expit(2.0 * X[:, 3])
    rare = rng.random((n, 6)) < expit(1.5 * X[:, 4:] - [2.0, 2.5, 3.0, 3.5, 3.5, 4.0])
    return dataset(X, np.column_stack([np.eye(3)[exclusive], frequent, rare]))


def trained_for_all(data, options):
    """Return a predictor for each objective, all on one cross-fitting."""
    fitted = fit_base(data, options)
    chosen = choose_calibrator(fitted.rows, options)
    predictors = {"set-accuracy": assemble(data, fitted, chosen, options)}
    for objective in OBJECTIVES[1:]:
        own = dataclasses.replace(options, optimize=objective)
        decider, rows = fit_decider(
            fitted.rows, data.Y, chosen.confidence, objective, fitted.proposal.final
        )
        predictors[objective] = assemble(
            data, fitted._replace(rows=rows), refit_calibrator(chosen, rows, own), own, decider
        )
    return predictors


def assert_each_best_at_its_own(Y, sets):
    """Check that no rule is beaten at its objective by more than chance, and most are clearly.

    Two rules may do equally well: the mode is often the majority of labels too.
    """
    for objective in OBJECTIVES:
        others = [name for name in OBJECTIVES if name != objective]
        found = {name: gain_of(objective, Y, sets[objective], sets[name]) for name in others}
        assert all(gain > -2.0 * error for gain, error in found.values()), (objective, found)
        assert sum(gain > 2.0 * error for gain, error in found.values()) >= 3, (objective, found)


N, NEW = 2000, uncertain(8000, 1)


@pytest.fixture(scope="module")
def predictors(tmp_path_factory):
    def make(folder):
        options = TrainingOptions(preset="paper", alpha=1e-3, calibrator="boosted-logistic")
        for name, predictor in trained_for_all(uncertain(N, 0), options).items():
            save(predictor, folder / name)

    folder = made_once(tmp_path_factory, "objectives", make)
    return {name: load(folder / name) for name in OBJECTIVES}


@pytest.fixture(scope="module")
def found(predictors):
    return {name: evaluate(predictor, NEW) for name, predictor in predictors.items()}


def test_each_rule_is_best_at_its_own_metric(predictors):
    sets = {name: one.predict(NEW.X).chosen() for name, one in predictors.items()}
    assert_each_best_at_its_own(NEW.Y, sets)


def test_announced_sets_of_no_source_are_among_those_the_calibrator_learnt_from(predictors):
    new = uncertain(2000, 1)
    found = predictors["f1"].predict(new.X).candidates
    first = found.source[found.doc_indptr[:-1]]
    assert (first & SOURCE_RULE > 0).all()
    assert 0.02 < (first == SOURCE_RULE).mean() < 0.9
    assert ((found.source & SOURCE_RULE) > 0).sum() == len(new.ids)


def test_set_accuracy_needs_no_rule(predictors):
    assert predictors["set-accuracy"].decider is None


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_confidence_is_the_chance_that_the_announced_set_is_right(predictors, found, objective):
    metrics = found[objective]
    confidence = predictors[objective].predict(NEW.X).top_confidence()
    assert metrics.alignment_error < worst_alignment(confidence, off=0.04)
    assert metrics.brier < metrics.uncertainty


@pytest.mark.parametrize("objective", OBJECTIVES[1:])
def test_cross_fitted_metrics_foretell_those_on_new_documents(predictors, found, objective):
    foretold = predictors[objective].manifest["metrics"]
    metrics = found[objective]
    for name in ("set_accuracy", "instance_f1", "micro_f1"):
        # Four standard errors of a share among the training documents.
        assert foretold[name] == pytest.approx(getattr(metrics, name), abs=4 * 0.5 / N**0.5)
    assert foretold["brier"] == pytest.approx(metrics.brier, abs=2 * 0.5 / N**0.5)


@pytest.mark.parametrize(
    ("method", "objective"),
    [
        *(("br-rerank", objective) for objective in OBJECTIVES),
        *((method, "f1") for method in ("br", "cbm", "cbm-rerank")),
        ("cbm", "macro-f1"),
    ],
)
def test_every_method_takes_every_objective_and_comes_back_from_disk(method, objective, tmp_path):
    options = TrainingOptions(
        preset="fast" if method == "br-rerank" else "paper",
        method=method,
        optimize=objective,
        alpha=1e-3,
        n_components=3,
    )
    predictor = quietly(vectors(n=150), options)
    assert predictor.manifest["training"]["optimize"] == objective
    save(predictor, tmp_path / "model")
    again = load(tmp_path / "model")
    new = vectors(n=50, seed=1).X
    before, after = predictor.predict(new), again.predict(new)
    assert (before.chosen() != after.chosen()).nnz == 0
    assert (before.confidence == after.confidence).all()
    assert again.version == predictor.version
    assert ((after.confidence >= 0) & (after.confidence <= 1)).all()


@pytest.mark.parametrize("objective", OBJECTIVES[1:])
def test_odd_data_give_finite_confidences(objective):
    odd = {
        "a label on no document": dataset(np.eye(40)[:, :12], np.tile([1, 0], (40, 1))),
        "more labels than documents": dataset(np.eye(20), np.eye(20, 50) + np.eye(20, 50, 1)),
    }
    for name, data in odd.items():
        found = quietly(data, TrainingOptions(preset="fast", alpha=1e-3, optimize=objective))
        predictions = found.predict(data.X)
        assert ((predictions.confidence >= 0) & (predictions.confidence <= 1)).all(), name
        assert len(predictions) == data.n


@pytest.mark.data
@pytest.mark.verify
def test_each_rule_is_best_at_its_own_metric_on_bibtex(data_dir):
    """Judged on each third of the training part by models of the other two, all thirds together."""
    data = read_dataset(data_dir / "bibtex", "train")
    rows = np.random.default_rng(0).permutation(data.n)
    thirds = [np.sort(rows[third::3]) for third in range(3)]
    made = []
    for held_out in thirds:
        rest = data.take(np.setdiff1d(rows, held_out))
        models = trained_for_all(rest, TrainingOptions(preset="fast"))
        X = data.take(held_out).X
        made.append({name: model.predict(X) for name, model in models.items()})
    Y = data.take(list(chain(*thirds))).Y
    sets = {name: csr_array(vstack([part[name].chosen() for part in made])) for name in OBJECTIVES}
    assert_each_best_at_its_own(Y, sets)
    for name in OBJECTIVES:
        confidence = np.concatenate([part[name].top_confidence() for part in made])
        right = (sets[name] != Y).sum(axis=1) == 0
        error = score_calibration(confidence, right).alignment_error
        assert error < worst_alignment(confidence, off=0.05), name


def test_documents_without_any_confidence_get_a_set_nonetheless():
    data = vectors()
    options = TrainingOptions(preset="paper", alpha=1e-3, calibrator="isotonic", n_jobs=1)
    rows = fit_base(data, options).rows
    confidence = np.full(len(rows.correct), 0.5)
    confidence[rows.candidates.document == 3] = 0.0
    decided = fit_decider(rows, data.Y, confidence, "f1")
    assert decided.rows.candidates.n_documents == data.n
