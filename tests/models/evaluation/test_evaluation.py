"""Judging a predictor block by block."""

from dataclasses import replace

import pytest
from scipy.sparse import csr_array

from setwise.models.data.lines import DataWarning
from setwise.models.evaluation import evaluation
from setwise.models.evaluation.evaluation import evaluate
from setwise.models.evaluation.metrics import RunningMetrics
from setwise.models.options import TrainingOptions
from tests.models import corpora

PLAIN = TrainingOptions(preset="paper", calibrator="uncalibrated", alpha=1e-3)


@pytest.fixture
def predictor(model_of):
    return model_of(corpora.texts(), PLAIN)


def test_blocks_give_the_metrics_of_one_batch(predictor, monkeypatch):
    documents = corpora.texts(n=50, seed=1)
    monkeypatch.setattr(evaluation, "DOCUMENTS_AT_ONCE", 7)
    shares = []
    ours = evaluate(predictor, documents, shares.append)
    whole = predictor.predict_texts(documents.texts)
    wanted = (
        RunningMetrics()
        .add(
            documents.Y,
            whole.chosen(),
            whole.top_confidence(),
            marginals=whole.marginals,
            candidates=whole.candidates,
        )
        .result()
    )
    assert replace(ours, train_seconds=None, predict_seconds=None, documents_per_second=None) == (
        wanted
    )
    assert shares == sorted(shares)
    assert (len(shares), shares[-1]) == (8, 1.0)
    assert ours.predict_seconds > 0


def test_documents_of_another_kind_are_refused(predictor):
    with pytest.raises(ValueError, match="holds vectors, but the model takes text"):
        evaluate(predictor, corpora.vectors(20))


def test_labels_in_another_order_are_matched_by_name(predictor):
    documents = corpora.texts(n=50, seed=1)
    order = [3, 0, 5, 1, 4, 2]
    moved = replace(
        documents,
        label_names=tuple(documents.label_names[i] for i in order),
        Y=csr_array(documents.Y.toarray()[:, order]),
    )
    assert evaluate(predictor, moved).set_accuracy == evaluate(predictor, documents).set_accuracy


def test_features_in_another_order_are_matched_by_name(model_of):
    documents = corpora.vectors()
    predictor = model_of(documents, PLAIN)
    order = list(range(len(documents.feature_names)))[::-1]
    moved = replace(
        documents,
        feature_names=tuple(documents.feature_names[i] for i in order),
        X=csr_array(documents.X.toarray()[:, order]),
    )
    assert evaluate(predictor, moved).set_accuracy == evaluate(predictor, documents).set_accuracy


def test_labels_that_the_model_lacks_count_as_misses(predictor):
    documents = corpora.texts(n=50, seed=1)
    other = replace(documents, label_names=("new", *documents.label_names[1:]))
    n_new = int(documents.Y.toarray()[:, 0].sum())
    with pytest.warns(DataWarning, match="1 label unknown to the model"):
        judged = evaluate(predictor, other)
    assert judged.n_labels == 7
    assert judged.set_accuracy <= 1 - n_new / 50
