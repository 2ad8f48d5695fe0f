"""Judging a predictor block by block."""

from dataclasses import replace

import pytest

from setwise.models.evaluation import evaluation
from setwise.models.evaluation.evaluation import evaluate_predictor
from setwise.models.evaluation.metrics import evaluate_predictions
from setwise.models.training import TrainingOptions, train
from tests.models import corpora


@pytest.fixture(scope="module")
def predictor():
    return train(corpora.texts(), TrainingOptions(preset="paper", calibrator="uncalibrated"))


def test_blocks_give_the_metrics_of_one_batch(predictor, monkeypatch):
    documents = corpora.texts(n=50, seed=1)
    monkeypatch.setattr(evaluation, "DOCUMENTS_AT_ONCE", 7)
    shares = []
    ours = evaluate_predictor(predictor, documents, shares.append)
    whole = predictor.predict_texts(documents.texts)
    wanted = evaluate_predictions(
        documents.Y,
        whole.chosen(),
        whole.top_confidence(),
        marginals=whole.marginals,
        candidates=whole.candidates,
    )
    assert replace(ours, train_seconds=None, predict_seconds=None, documents_per_second=None) == (
        wanted
    )
    assert shares == sorted(shares)
    assert (len(shares), shares[-1]) == (8, 1.0)
    assert ours.predict_seconds > 0


def test_documents_of_another_kind_are_refused(predictor):
    with pytest.raises(ValueError, match="holds vectors, but the model takes text"):
        evaluate_predictor(predictor, corpora.vectors(20))
