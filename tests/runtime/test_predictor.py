"""What a model reads of documents, above all of other models' answers."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from setwise.limits import LARGEST_SCORE, MOST_SETS
from setwise.models.options import TrainingOptions
from setwise.models.predictor import SetPredictor
from setwise.models.training import train
from setwise.models.training_external import start_external
from setwise.service.domain import errors
from setwise.service.domain.predictions import Document, Refused
from setwise.service.domain.text import nearest
from setwise.service.runtime import predictor as loaded
from setwise.service.runtime.predictor import MOST_NAMED, LoadedPredictor
from tests.models import corpora

STARTED = LoadedPredictor(start_external(["grain", "corn/maize", "trade"]))
QUICK = TrainingOptions(preset="paper", calibrator="isotonic", n_folds=2, n_jobs=1)


@pytest.fixture(scope="module")
def reads_text() -> SetPredictor:
    """Return a model that reads scores, the text and the metadata number ``length``."""
    return train(corpora.answered(corpora.texts(60), "scores"), replace(QUICK, preset="fast"))


@pytest.fixture(scope="module")
def reads_features() -> SetPredictor:
    return train(corpora.answered(corpora.vectors(60), "labels"), QUICK)


def refused(
    predictor: LoadedPredictor, document: Document
) -> tuple[errors.InvalidRequest, list[str]]:
    (result,) = predictor.score([document])
    assert isinstance(result, Refused)
    error = result.error
    assert isinstance(error, errors.InvalidRequest)
    return error, [fault.pointer for fault in error.faults]


def test_serving_imports_nothing_that_learns() -> None:
    program = "import sys, setwise.service.runtime.predictor; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    learning = {"joblib", "pandas", "scipy.optimize", "scipy.stats", "sklearn", "xgboost"}
    assert not learning & set(process.stdout.decode().split())


def test_the_answer_that_came_most_often_is_predicted_and_nothing_is_sure_yet() -> None:
    answers = [["grain"], ["grain", "trade"], ["trade", "grain"]]
    (refusal,) = STARTED.score([Document(answer={"candidates": [{"labels": x} for x in answers]})])
    assert refusal.labels == ("grain", "trade")
    assert refusal.confidence == pytest.approx(1 / 3)
    assert (refusal.out_of_domain, refusal.uncalibrated, STARTED.external) == (False, True, True)


def test_a_label_that_a_whole_file_misspells_is_looked_up_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = Mock(wraps=nearest)
    monkeypatch.setattr(loaded, "nearest", looked_up)
    for _ in range(3):
        request, _ = refused(STARTED, Document(answer={"labels": ["graiin"]}))
        assert "is `grain` meant?" in request.faults[0].detail
    assert looked_up.call_count == 1


@pytest.mark.parametrize("answer", [{"labels": []}, {"scores": {"grain": 0.0}}])
def test_an_answer_of_nothing_is_no_unknown_document(answer: Mapping[str, Any]) -> None:
    (refusal,) = STARTED.score([Document(answer=answer)])
    assert (refusal.labels, refusal.out_of_domain) == ((), False)


@pytest.mark.parametrize(
    ("answer", "pointers"),
    [
        ({"scores": {"grain": 1, "a/b": 0.5, "no": 0}}, ["scores/a~1b", "scores/no"]),
        ({"labels": ["grain", "no"]}, ["labels/1"]),
        ({"candidates": [{"labels": []}, {"labels": ["no"]}]}, ["candidates/1/labels/0"]),
    ],
)
def test_unknown_labels_are_named_with_their_places(
    answer: Mapping[str, Any], pointers: list[str]
) -> None:
    error, matches = refused(STARTED, Document(answer=answer))
    assert matches == [f"/document/{pointer}" for pointer in pointers]
    assert "unknown label" in error.detail


def test_a_document_that_cannot_be_read_does_not_affect_the_others() -> None:
    read, unread = Document(answer={"labels": ["grain"]}), Document(answer={"labels": ["no"]})
    (alone,) = STARTED.score([read])
    first, second, third = STARTED.score([read, unread, read])
    assert (first, third) == (alone, alone)
    assert isinstance(second, Refused)
    assert STARTED.score([]) == []


def test_of_thousands_of_unknown_labels_some_are_named() -> None:
    scores = {f"label {number}": 0.5 for number in range(5_000)}
    error, matches = refused(STARTED, Document(answer={"scores": scores}))
    assert len(matches) == MOST_NAMED + 1
    assert (matches[-1], "4980 more" in error.faults[-1].detail) == ("/document/scores", True)
    assert len(error.detail) < 300


def test_a_document_without_an_answer_is_told_what_to_send() -> None:
    error, matches = refused(STARTED, Document(text="wheat"))
    assert (matches, "give scores, candidates or labels" in error.detail) == (["/document"], True)


def test_limits_of_a_document_suit_the_model() -> None:
    sets = [{"labels": [], "score": LARGEST_SCORE}] * MOST_SETS
    assert Document(answer={"candidates": sets}).faults() == []
    assert STARTED.score([Document(answer={"candidates": sets})])[0].labels == ()


def test_a_model_of_texts_and_answers_reads_both(reads_text: SetPredictor) -> None:
    predictor = LoadedPredictor(reads_text)
    predictor.warm_up()
    data = corpora.answered(corpora.texts(5, seed=1), "scores", seed=1)
    assert data.texts is not None
    documents = [
        Document(text=text, answer={"scores": dict(zip(data.label_names, row, strict=True))},
                 metadata={"length": length})
        for text, row, length in zip(
            data.texts,
            data.answers.scores.toarray().tolist(),
            data.answers.numbers[:, 0].tolist(),
            strict=True,
        )
    ]  # fmt: skip
    expected = reads_text.predict_answers(data.answers, data.texts)
    refusals = predictor.score(documents)
    assert [one.confidence for one in refusals] == expected.top_confidence().tolist()
    assert not refusals[0].uncalibrated
    _, pointers = refused(predictor, documents[0]._replace(text=None))
    assert pointers == ["/document"]
    _, pointers = refused(predictor, documents[0]._replace(metadata={"length": "long"}))
    assert pointers == ["/metadata/length"]


def test_a_model_of_vectors_and_answers_reads_both(reads_features: SetPredictor) -> None:
    predictor = LoadedPredictor(reads_features)
    predictor.warm_up()
    document = Document(features={"f0": 1.5}, answer={"labels": ["label 1"]})
    answers = corpora.answers_of(
        reads_features.label_names, [{"labels": ["label 1"]}], numbers=("length",)
    )
    X = np.array([[1.5] + [0.0] * (len(reads_features.feature_names) - 1)])
    (refusal,) = predictor.score([document])
    expected = reads_features.predict_answers(answers, X=X)
    assert refusal.confidence == expected.top_confidence()[0]
    _, pointers = refused(predictor, document._replace(features={"f0": 1.0, "nothing": 1.0}))
    assert pointers == ["/document/features/nothing"]


def test_what_speaks_for_a_label_adds_up_to_its_probability(reads_text: SetPredictor) -> None:
    predictor = LoadedPredictor(reads_text)
    labels = reads_text.label_names[:3]
    document = Document(
        text="note rash", answer={"scores": {labels[0]: 0.9, labels[1]: 0.2}}, metadata={}
    )
    weightses = predictor.explain(document, labels)
    assert "the other model: probability 0.9" in [term.term for term in weightses[0]]
    assert "the other model: no probability" in [term.term for term in weightses[2]]
    (refusal,) = predictor.score([document])
    by_label = {one.label: one.probability for one in refusal.marginals}
    total = sum(term.weight for term in weightses[0])
    assert 1 / (1 + np.exp(-total)) == pytest.approx(by_label[labels[0]], abs=0.05)


def test_without_training_the_answers_alone_are_the_evidence() -> None:
    answers = [{"labels": ["grain"]}, {"labels": ["grain", "trade"]}]
    (terms, others) = STARTED.explain(Document(answer={"candidates": answers}), ["trade", "grain"])
    assert [term.term for term in terms] == ["the other model: in 1 of 2 answers"]
    assert [term.weight > 1 for term in others] == [True]
    with pytest.raises(errors.InvalidRequest, match="labels"):
        STARTED.explain(Document(answer={"labels": []}), ["no"])
