"""The F1 rule on a mixture's support: choice, state, and what it earns."""

import dataclasses
import json

import numpy as np
import pytest

from setwise.models.calibration.choice import choose_calibrator, refit_calibrator
from setwise.models.evaluation.metrics import count_agreement
from setwise.models.mixtures.support.sized_calibration import SizedMarginalCalibrator
from setwise.models.mixtures.support.support_decider import (
    SupportDecider,
    sized_marginals,
    support_pairs,
)
from setwise.models.options import TrainingOptions
from setwise.models.sets.candidates import SOURCE_RULE
from setwise.models.sets.decider import SetDecider
from setwise.models.sets.deciding import _fit_support, fit_decider
from setwise.models.sets.decisions import LabelMajority
from setwise.models.sets.f_measure import maximise_from_sized_marginals
from setwise.models.sets.sources import MarginalCandidates
from setwise.models.storage.artifacts import load, save
from setwise.models.storage.sealed_folder import ArtifactError
from setwise.models.training import assemble, fit_base
from tests.models.corpora import vectors

DATA, NEW = vectors(n=300, seed=3), vectors(n=60, seed=1)


@pytest.fixture(scope="module")
def fitted():
    options = TrainingOptions(
        method="cbm", alpha=1e-3, n_components=3, calibrator="isotonic", optimize="f1"
    )
    return fit_base(DATA, options), options


@pytest.fixture(scope="module")
def model(fitted):
    """A model whose decider is that of the support, and what the folds chose."""
    base, options = fitted
    decider, chosen = _fit_support(base.rows, DATA.Y, base.proposal.final)
    calibrator = choose_calibrator(base.rows, options)
    return assemble(DATA, base, calibrator, options, decider), chosen


def mean_f1(Y, predicted):
    return count_agreement(Y, predicted).f1().mean()


def test_folds_choose_better_than_the_mode_and_worse_than_on_known_documents(fitted, model):
    base, _ = fitted
    predictor, chosen = model
    assert mean_f1(DATA.Y, chosen) > mean_f1(DATA.Y, base.rows.candidates.first())
    assert mean_f1(DATA.Y, predictor.predict(DATA.X).chosen()) > mean_f1(DATA.Y, chosen)


def test_the_better_of_both_rules_is_taken(fitted, model):
    base, options = fitted
    calibrator = choose_calibrator(base.rows, options)
    _, chosen = model
    given = (base.rows, DATA.Y, calibrator.confidence, "f1")
    decider, rows = fit_decider(*given, base.proposal.final)
    alone = fit_decider(*given)
    announced = [
        both.candidates.take(np.flatnonzero(both.candidates.source & SOURCE_RULE), np.arange(301))
        for both in (rows, alone.rows)
    ]
    earned = [mean_f1(DATA.Y, sets.first()) for sets in announced]
    assert earned[0] == max(earned[1], mean_f1(DATA.Y, chosen))
    assert isinstance(decider, SupportDecider) == (mean_f1(DATA.Y, chosen) > earned[1])
    assert isinstance(alone.decider, SetDecider)
    again = refit_calibrator(calibrator, rows, options)
    assert ((again.confidence >= 0) & (again.confidence <= 1)).all()


def test_the_chosen_set_stands_first_alone_and_in_company(model):
    predictor, _ = model
    together = predictor.predict(NEW.X)
    chosen = predictor.decider.choose(predictor.evidence(NEW.X), predictor.source, None, None)
    assert (together.chosen() != chosen).nnz == 0
    alone = predictor.predict(NEW.X[[7]])
    np.testing.assert_array_equal(alone.chosen().toarray(), chosen[[7]].toarray())


def test_artifacts_keep_it(model, tmp_path):
    predictor, _ = model
    save(predictor, tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again.decider, SupportDecider)
    first, second = predictor.predict(NEW.X), again.predict(NEW.X)
    assert (first.chosen() != second.chosen()).nnz == 0
    assert (first.confidence == second.confidence).all()


def test_curves_of_another_support_are_refused(model, tmp_path):
    predictor, _ = model
    source, curves = predictor.source, predictor.decider.calibrator
    arrays, settings = predictor.decider.get_state()
    json.dumps(settings)
    arrays["curve_of"] = arrays["curve_of"][:-1]
    with pytest.raises(ValueError, match="'curve_of'"):
        SupportDecider.from_state(arrays, settings, pairs=len(support_pairs(source)))
    with pytest.raises(ValueError, match="needs candidates of a mixture"):
        support_pairs(MarginalCandidates())
    short = SizedMarginalCalibrator.from_state(arrays, {})
    assert len(short.curve_of_) == len(curves.curve_of_) - 1
    save(dataclasses.replace(predictor, decider=SupportDecider(short)), tmp_path / "model")
    with pytest.raises(ArtifactError, match="part 'decider' does not fit"):
        load(tmp_path / "model")


def test_candidates_of_another_source_are_refused(model):
    predictor, _ = model
    with pytest.raises(ValueError, match="needs candidates of a mixture"):
        predictor.decider.choose(predictor.evidence(NEW.X), MarginalCandidates(), None, None)


def test_a_document_that_all_curves_call_impossible_is_decided_by_the_mixture(model):
    predictor, _ = model
    nothing = SizedMarginalCalibrator()
    nothing.curve_indptr_ = np.array([0, 1])
    nothing.knots_, nothing.values_ = np.zeros(1), np.zeros(1)
    nothing.curve_of_ = np.zeros(len(support_pairs(predictor.source)), dtype=np.int64)
    evidence = predictor.evidence(NEW.X)
    marginals = sized_marginals(predictor.source, evidence)
    decided = SupportDecider(nothing).decide(marginals, allow_empty=False)
    left = np.maximum(1.0 - marginals.P @ (1.0 / marginals.sizes), 0.0)
    expected = maximise_from_sized_marginals(
        marginals.P, 0.0 * left, marginals.labels, marginals.sizes, marginals.n_labels
    )
    assert (decided != expected.sets).nnz == 0


def test_an_unknown_kind_of_decider_is_refused(model, tmp_path, monkeypatch):
    predictor, _ = model
    other = dataclasses.replace(predictor, decider=SetDecider(LabelMajority()))
    plain = SetDecider.get_state
    monkeypatch.setattr(
        SetDecider, "get_state", lambda self: (plain(self)[0], {**plain(self)[1], "kind": "odd"})
    )
    save(other, tmp_path / "model")
    with pytest.raises(ArtifactError, match="setting 'kind' is 'odd'"):
        load(tmp_path / "model")
