"""Another model's answers: read from what clients send, and what is wrong with them."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from setwise.limits import MOST_SETS
from setwise.models.data.answer_parsing import parse_answer
from setwise.models.data.answers import ModelAnswers, concatenate_answers
from setwise.models.data.document_error import DocumentError, UnknownNames
from tests.models.corpora import answers_of

LABELS = ("ash", "birch", "cedar")


def sets_of(answers):
    """Return each document's sets by name with counts and scores."""
    indptr, labels = answers.sets
    return [
        [
            (
                tuple(LABELS[label] for label in labels[indptr[s] : indptr[s + 1]]),
                answers.counts[s],
                answers.set_scores[s],
            )
            for s in range(*answers.doc_indptr[i : i + 2])
        ]
        for i in range(len(answers))
    ]


def test_equal_sets_are_counted_whatever_their_order():
    answers = answers_of(
        LABELS,
        [
            {
                "candidates": [
                    {"labels": ["birch", "ash"], "score": -2},
                    {"labels": ["cedar"]},
                    {"labels": ["ash", "birch"], "score": -1.5},
                ]
            },
            {"labels": []},
        ],
    )
    first, second = sets_of(answers)
    assert first[0] == (("ash", "birch"), 2.0, -1.5)
    assert first[1][:2] == (("cedar",), 1.0)
    assert math.isnan(first[1][2])
    assert second[0][:2] == ((), 1.0)
    assert answers.n_answers.tolist() == [3.0, 1.0]
    assert answers.statements().tolist() == [3, 1]


def test_a_label_is_compared_with_few_others_however_long_the_set():
    compared = []

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            compared.append(other)
            return str.__eq__(self, other)

    labels = [Name(f"label {number}") for number in range(500)]
    parse_answer({"candidates": [{"labels": labels}, {"labels": labels}]})
    assert len(compared) <= len(labels)


def test_scores_of_zero_are_given_and_others_are_not():
    answers = answers_of(LABELS, [{"scores": {"cedar": 0, "ash": 0.25}}, {"labels": ["ash"]}])
    assert answers.scores.indptr.tolist() == [0, 2, 2]
    assert answers.scores.indices.tolist() == [0, 2]
    assert answers.scores.data.tolist() == [0.25, 0.0]


def test_matrices_of_scores_are_answers_too():
    by_name = answers_of(LABELS, [{"scores": {"ash": 0.5, "birch": 0, "cedar": 1}}])
    by_matrix = ModelAnswers.of_scores([[0.5, 0, 1]])
    np.testing.assert_array_equal(by_name.scores.toarray(), by_matrix.scores.toarray())
    assert by_matrix.scores.nnz == 3


def test_scores_that_exceed_1_by_rounding_are_1():
    scores = np.array([[0.5, 1.0]], dtype=np.float32) + np.float32(1.2e-7)
    assert scores.max() > 1.0
    assert ModelAnswers.of_scores(scores).scores.max() == 1.0


@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan, math.inf])
def test_a_matrix_of_scores_that_are_no_probabilities_is_refused(wrong):
    with pytest.raises(ValueError, match="score of document 2 for label 1"):
        ModelAnswers.of_scores([[0.5, 0.5], [wrong, 0.5]])


@pytest.mark.parametrize(
    ("document", "path", "message"),
    [
        ({"text": "oak"}, "", 'no answer; give "scores", "candidates" or "labels"'),
        ({"labels": [], "candidates": []}, "/labels", "candidates too"),
        ({"scores": [0.5]}, "/scores", "no object"),
        ({"scores": {}}, "/scores", "there are none"),
        ({"scores": {"ash": 1.5}}, "/scores/ash", "1.5 is no probability"),
        ({"scores": {"ash": -0.5}}, "/scores/ash", "give a number from 0 to 1"),
        ({"scores": {"ash": math.nan}}, "/scores/ash", "nan is no probability"),
        ({"scores": {"ash": math.inf}}, "/scores/ash", "inf is no probability"),
        ({"scores": {"ash": True}}, "/scores/ash", "True is no probability"),
        ({"scores": {"a/b": "0.5"}}, "/scores/a~1b", "'0.5' is no probability"),
        ({"labels": "ash"}, "/labels", "no list"),
        ({"labels": [1]}, "/labels/0", "1 is no label"),
        ({"labels": ["ash", "birch", "ash"]}, "/labels/2", "'ash' is given twice"),
        ({"candidates": {}}, "/candidates", "no list"),
        ({"candidates": []}, "/candidates", "the list is empty"),
        ({"labels": list(map(str, range(1_001)))}, "/labels", "1,001 labels; give at most 1,000"),
        (
            {"candidates": [{"labels": list(map(str, range(1_001)))}]},
            "/candidates/0/labels",
            "1,001 labels; give at most 1,000",
        ),
        ({"candidates": [{"labels": []}] * (MOST_SETS + 1)}, "/candidates", "there are 65"),
        ({"candidates": [["ash"]]}, "/candidates/0", "no labels"),
        ({"candidates": [{"labels": [], "probability": 1}]}, "/candidates/0", "unknown key"),
        (
            {"candidates": [{"labels": []}, {"labels": ["ash", "ash"]}]},
            "/candidates/1/labels/1",
            "twice",
        ),
        ({"candidates": [{"labels": [], "score": "1"}]}, "/candidates/0/score", "no number"),
        ({"candidates": [{"labels": [], "score": math.nan}]}, "/candidates/0/score", "no number"),
        ({"labels": [], "metadata": 3}, "/metadata", "no object"),
        ({"labels": [], "metadata": {"age": "old"}}, "/metadata/age", "'old' is no number"),
    ],
)
def test_a_wrong_answer_is_refused_with_its_place(document, path, message):
    with pytest.raises(DocumentError, match="document 2") as caught:
        answers_of(LABELS, [{"labels": []}, document], numbers=("age",))
    assert (caught.value.document, caught.value.path) == (1, path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"scores": {"oak": 0.1, "ash": 0.2, "elm": 0.3}}, "/scores"),
        ({"candidates": [{"labels": ["ash"]}, {"labels": ["oak", "elm"]}]}, "/candidates/1/labels"),
        ({"labels": ["oak", "elm"]}, "/labels"),
    ],
)
def test_unknown_labels_are_named(document, path):
    with pytest.raises(UnknownNames, match="unknown labels 'oak', 'elm'") as caught:
        answers_of(LABELS, [document])
    assert caught.value.names == ("oak", "elm")
    assert (caught.value.document, caught.value.path) == (0, path)


def test_of_many_unknown_labels_a_few_are_named():
    document = {"scores": {f"label {i}": 0.5 for i in range(3000)}}
    with pytest.raises(UnknownNames, match="and 2995 more; give labels of the model") as caught:
        answers_of(LABELS, [document])
    assert len(caught.value.names) == 3000


def test_a_vocabulary_that_names_a_label_twice_is_refused():
    with pytest.raises(ValueError, match="named twice"):
        answers_of(("ash", "ash"), [{"labels": []}])


def test_numbers_come_from_the_metadata_and_may_be_missing():
    answers = answers_of(
        LABELS,
        [{"labels": [], "metadata": {"age": 3, "site": "north"}}, {"labels": []}],
        numbers=("age",),
    )
    np.testing.assert_array_equal(answers.numbers, [[3.0], [np.nan]])


def drawn(n, seed):
    draw = random.Random(seed)
    documents = []
    for _ in range(n):
        document = {"metadata": {"age": draw.random()}}
        if draw.random() < 0.6:
            chosen = draw.sample(LABELS, draw.randint(1, 3))
            document["scores"] = {label: draw.random() for label in chosen}
        if draw.random() < 0.7 or "scores" not in document:
            document["candidates"] = [
                {"labels": draw.sample(LABELS, draw.randint(0, 3)), "score": draw.choice([None, 2])}
                for _ in range(draw.randint(1, 5))
            ]
        documents.append(document)
    return documents


def assert_same(first, second):
    assert (first.scores is None) is (second.scores is None)
    if first.scores is not None:
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(first.scores, name), getattr(second.scores, name))
    for name in ("doc_indptr", "counts", "set_scores", "numbers", "shape"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(first.sets.indptr, second.sets.indptr)
    np.testing.assert_array_equal(first.sets.labels, second.sets.labels)


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_labels_and_of_answers_changes_nothing(seed):
    documents, draw = drawn(20, seed), random.Random(seed)
    shuffled = []
    for document in documents:
        other = dict(document)
        if "scores" in other:
            other["scores"] = dict(draw.sample([*other["scores"].items()], len(other["scores"])))
        if "candidates" in other:
            other["candidates"] = [
                {**one, "labels": draw.sample(one["labels"], len(one["labels"]))}
                for one in draw.sample(other["candidates"], len(other["candidates"]))
            ]
        shuffled.append(other)
    assert_same(answers_of(LABELS, documents), answers_of(LABELS, shuffled))


def test_parts_that_are_taken_and_joined_are_those_read_alone():
    documents = drawn(12, seed=7)
    whole = answers_of(LABELS, documents, numbers=("age",))
    rows = [5, 2, 2, 11]
    taken = answers_of(LABELS, [documents[row] for row in rows], numbers=("age",))
    assert_same(whole.take(rows), replace(taken, scores=whole.take(rows).scores))
    assert_same(concatenate_answers([whole[:5], whole[5:]]), whole)


def test_answers_move_to_other_columns_unless_a_label_is_missing():
    documents = drawn(12, seed=8)
    other = ("cedar", "oak", "ash", "birch")
    moved = answers_of(LABELS, documents).in_columns_of(LABELS, other)
    assert_same(moved, replace(answers_of(other, documents), **order_of(moved)))
    with pytest.raises(UnknownNames, match="cedar"):
        answers_of(LABELS, [{"labels": ["ash", "cedar"]}]).in_columns_of(LABELS, ("ash", "birch"))


def order_of(answers):
    """Return what depends on the order of a document's sets, which follows the first columns."""
    return {name: getattr(answers, name) for name in ("sets", "counts", "set_scores")}


def test_a_sum_of_32_bits_may_exceed_1_by_rounding():
    above = float(np.float32(1) + np.finfo(np.float32).eps)
    assert parse_answer({"scores": {"ash": above}}).scores == {"ash": 1.0}
    with pytest.raises(DocumentError, match="is no probability"):
        parse_answer({"scores": {"ash": 1.001}})
