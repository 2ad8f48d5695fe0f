"""No document helps to describe itself: proved by watching every fit, and by changing labels."""

from typing import ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from setwise.models.calibration import crossfit
from setwise.models.calibration.crossfit import cross_fit, out_of_fold_logits
from setwise.models.data.splits import fold_ids
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.mixtures.proposals import propose_voted
from setwise.models.sets.features import SetFeatures
from setwise.models.sets.sources import MarginalCandidates
from setwise.models.voters import regression_votes
from tests.models.corpora import vectors

DATA = vectors(n=60)
FOLDS = fold_ids(DATA.Y, 5, 0)


def numbered(X):
    """Return X with the number of its row as last column."""
    rows = np.arange(X.shape[0])[:, None]
    return csr_array(np.hstack([X.toarray(), rows]).astype(np.float32))


class Watching(BaseEstimator):
    """Wraps a part of the pipeline and notes which rows it is fitted on and asked about."""

    log: list

    def __init__(self, part, log):
        self.part = part
        self.log = log

    def __sklearn_clone__(self):
        return Watching(self.part, self.log)

    def fit(self, X, Y, sample_weight=None):
        assert sample_weight is None
        self.fitted_on = set(X.toarray()[:, -1].astype(int))
        self.part_ = type(self.part)(**self.part.get_params()).fit(X, Y)
        return self

    def _note(self, X):
        self.log.append((self.fitted_on, set(X.toarray()[:, -1].astype(int))))

    def decision_function(self, X):
        self._note(X)
        return self.part_.decision_function(X)

    def propose(self, evidence):
        self._note(evidence.X)
        return self.part_.propose(evidence)

    def transform(self, evidence, candidates):
        self._note(evidence.X)
        return self.part_.transform(evidence, candidates)


def whole_folds(log):
    """Check that each part was fitted on all folds but the one it was asked about."""
    everything = set(range(DATA.n))
    asked = []
    for fitted_on, asked_about in log:
        assert not fitted_on & asked_about
        assert fitted_on | asked_about == everything
        asked += sorted(asked_about)
    assert sorted(asked) == sorted(everything)


def test_scores_of_a_fold_come_from_a_model_of_the_others():
    log = []
    out_of_fold_logits(Watching(BinaryRelevance(alpha=1e-3), log), numbered(DATA.X), DATA.Y, FOLDS)
    whole_folds(log)


def test_candidates_and_features_of_a_fold_come_from_the_others():
    sources, features = [], []
    cross_fit(
        numbered(DATA.X),
        DATA.Y,
        FOLDS,
        np.zeros(DATA.Y.shape),
        label_calibrator=LabelCalibrator(),
        source=Watching(MarginalCandidates(4), sources),
        features=Watching(SetFeatures(), features),
    )
    whole_folds(sources)
    whole_folds(features)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(crossfit, "rows_at_once", lambda n_labels, wanted: 7)
    monkeypatch.setattr(regression_votes, "MAX_EXACT", 10)
    proposal = propose_voted(4, DATA.X, DATA.Y, ("neighbours", "smooth"), margins=True)
    logits = out_of_fold_logits(BinaryRelevance(alpha=1e-3), DATA.X, DATA.Y, FOLDS)
    alone, together = (
        cross_fit(
            DATA.X,
            DATA.Y,
            FOLDS,
            logits,
            label_calibrator=LabelCalibrator(),
            source=proposal.for_folds,
            features=proposal.features,
            voters=proposal.voters,
            n_jobs=n_jobs,
        )
        for n_jobs in (1, 3)
    )
    assert len(alone.held_out) == 10
    np.testing.assert_array_equal(alone.table.dense, together.table.dense)
    np.testing.assert_array_equal(alone.candidates.log_score, together.candidates.log_score)
    np.testing.assert_array_equal(alone.correct, together.correct)


class NumberedCalibrator(BaseEstimator):
    """Notes the rows, whose numbers stand in place of their logits."""

    log: ClassVar[list] = []

    def fit(self, logits, Y, *, rows):
        self.fitted_on = set(logits[rows, 0].astype(int))
        return self

    def transform(self, logits):
        self.log.append((self.fitted_on, set(logits[:, 0].astype(int))))
        return np.full(logits.shape, 0.4)


def test_label_calibrator_of_a_fold_is_fitted_on_the_others():
    NumberedCalibrator.log.clear()
    numbers = np.tile(np.arange(DATA.n, dtype=float)[:, None], DATA.Y.shape[1])
    parts = {"source": MarginalCandidates(4), "features": SetFeatures()}
    cross_fit(DATA.X, DATA.Y, FOLDS, numbers, label_calibrator=NumberedCalibrator(), **parts)
    whole_folds(NumberedCalibrator.log)


def fitted(Y):
    parts = {
        "label_calibrator": LabelCalibrator(),
        "source": MarginalCandidates(4),
        "features": SetFeatures(),
    }
    logits = out_of_fold_logits(BinaryRelevance(alpha=1e-3), DATA.X, Y, FOLDS)
    return logits, parts


@pytest.mark.parametrize("fold", range(5))
def test_new_labels_of_a_fold_leave_its_own_scores_and_features_alone(fold):
    inside = np.flatnonzero(fold == FOLDS)
    changed = DATA.Y.toarray()
    changed[inside] = 1 - changed[inside]
    changed = csr_array(changed)
    logits, parts = fitted(DATA.Y)
    again, _ = fitted(changed)
    assert (logits[inside] == again[inside]).all()

    # With the same scores of the other folds everything that follows is the same as well.
    before = cross_fit(DATA.X, DATA.Y, FOLDS, logits, **parts)
    after = cross_fit(DATA.X, changed, FOLDS, logits, **parts)
    assert (before.marginals[inside] == after.marginals[inside]).all()
    sets = np.flatnonzero(before.set_folds == fold)
    ours, theirs = (
        before.table.take(sets),
        after.table.take(np.flatnonzero(after.set_folds == fold)),
    )
    assert (ours.dense == theirs.dense).all()
    assert (ours.labels == theirs.labels).all()
    # The test can fail: the other folds do see the new labels.
    assert not (before.marginals == after.marginals).all()


def test_rows_come_back_in_document_order():
    logits, parts = fitted(DATA.Y)
    rows = cross_fit(DATA.X, DATA.Y, FOLDS, logits, **parts)
    assert rows.candidates.n_documents == DATA.n
    np.testing.assert_allclose(rows.table.column("log_score"), rows.candidates.log_score, rtol=1e-6)
    assert (rows.correct == rows.candidates.correct(DATA.Y)).all()
    for row in range(DATA.n):
        best = np.flatnonzero(rows.marginals[row] > 0.5)
        if len(best):
            assert rows.candidates.labels_of(rows.candidates.doc_indptr[row]).tolist() == [*best]
