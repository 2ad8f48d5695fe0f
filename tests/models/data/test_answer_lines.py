"""Lines with another model's answers: read into a data set, or refused with their number."""

import json

import numpy as np
import pytest

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.documents import parse_document
from setwise.models.data.lines import DataError

LINES = [
    {"id": "a", "text": "Wheat rose.", "labels": ["grain"], "scores": {"grain": 0.9, "oil": 0}},
    {"id": "b", "text": "Oil fell.", "labels": ["oil"], "answer": ["oil", "ship"]},
    {
        "id": "c",
        "text": "Ships",
        "labels": [],
        "candidates": [{"labels": ["ship"], "score": 0.5}, {"labels": []}, {"labels": ["ship"]}],
        "metadata": {"length": 4, "site": "north"},
    },
]


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def without_text(line):
    return {key: value for key, value in line.items() if key != "text"}


def test_the_labels_are_those_of_truth_and_answers(tmp_path):
    file = write(tmp_path / "a.jsonl", LINES)
    data = read_dataset(file, external=True, numbers=("length",))
    assert (data.kind, data.label_names) == ("external", ("grain", "oil", "ship"))
    assert data.Y.toarray().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert data.texts[0] == "Wheat rose."
    assert data.answers.scores.toarray().tolist() == [[0.9, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert data.answers.statements().tolist() == [2, 1, 3]
    assert data.answers.counts.tolist() == [1, 1, 2]
    np.testing.assert_array_equal(data.answers.numbers, [[np.nan], [np.nan], [4]])


def test_answers_alone_are_enough(tmp_path):
    file = write(tmp_path / "a.jsonl", map(without_text, LINES))
    data = read_dataset(file, external=True, label_names=("ship", "oil", "grain", "gold"))
    assert data.texts is None
    assert data.answers.shape == (3, 4)
    assert data.answers.scores.toarray()[0].tolist() == [0, 0, 0.9, 0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"id": "b", "text": "Oil", "labels": []}, "it has no answer; give scores, candidates"),
        ({"id": "b", "text": "Oil", "labels": [], "answer": 1}, "answer: they are no list"),
        ({"id": "b", "text": "Oil", "labels": [], "answer": ["x", "x"]}, "answer/1: the label 'x'"),
        ({"id": "b", "labels": [], "answer": []}, "'text' is missing; give every document its"),
        (
            {"id": "b", "text": "Oil", "labels": [], "scores": {"oil": 2}},
            "scores/oil: 2 is no prob",
        ),
        ({"id": "b", "text": "Oil", "labels": [], "answer": [], "score": 1}, "unknown key 'score'"),
        (
            {"id": "b", "text": "Oil", "labels": [], "answer": ["gold", "lead"]},
            "answer: unknown lab",
        ),
        (
            {"id": "b", "text": "Oil", "labels": [], "answer": [], "metadata": {"length": "4"}},
            "metadata/length: '4' is no number",
        ),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    file = write(tmp_path / "a.jsonl", [LINES[0], line])
    with pytest.raises(DataError) as caught:
        read_dataset(file, external=True, label_names=("grain", "oil"), numbers=("length",))
    assert f"a.jsonl, line 2: {message}" in str(caught.value)


def test_a_label_scored_twice_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "a", "labels": [], "scores": {"x": 0.1, "x": 0.2}}')
    with pytest.raises(DataError, match="line 1: 'x' is given twice"):
        read_dataset(tmp_path / "a.jsonl", external=True)


def test_a_file_with_answers_says_how_to_train_on_it(tmp_path):
    with pytest.raises(DataError, match=r"'scores'; learn from .* with `setwise train --external`"):
        read_dataset(write(tmp_path / "a.jsonl", LINES))


def test_files_of_vectors_hold_no_answers(tmp_path):
    (tmp_path / "a.svm").write_text("id,text,labels\n")
    with pytest.raises(DataError, match="files of vectors hold no answers"):
        read_dataset(tmp_path / "a.svm", external=True)


def test_labels_are_the_answer_of_a_line_that_has_no_other():
    def answer(line):
        return parse_document("a", 1, json.dumps(line).encode(), external=True).answer

    assert answer({"labels": ["oil"]}).sets[0][0] == ("oil",)
    assert answer({"labels": ["oil"], "answer": ["ship"]}).sets[0][0] == ("ship",)
    assert answer({"labels": ["oil"], "scores": {"oil": 1}}).sets == ()
