"""Set features: values, state, and which rows they come from."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array

from setwise.models.data.rows import SparseRows
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.features import GROUPS, PriorFeatures, SetFeatures, concatenate_tables
from setwise.models.sets.search import k_best_sets
from setwise.models.voters.voters import VOTERS
from setwise.models.voters.votes import SetVotes, find_seen_sets
from tests.models.corpora import answers_of

Y = csr_array(np.array([[1, 0, 0], [1, 0, 0], [0, 1, 1], [0, 0, 0]], dtype=np.uint8))
X = csr_array(np.eye(4, dtype=np.float32))


def described(P, k=4, features=None):
    P = np.asarray(P)
    candidates = k_best_sets(P, k, allow_empty=True)
    evidence = DocumentEvidence(
        SparseRows.of(csr_array((len(P), 4), dtype=np.float32)), np.zeros_like(P), P
    )
    return candidates, (features or SetFeatures().fit(X, Y)).transform(evidence, candidates)


def test_the_papers_features_of_a_hand_made_case():
    candidates, table = described([[0.8, 0.3, 0.1]])
    assert table.names == ("score", "log_score", "cardinality", "log_prior")
    assert table.monotone == (1, 1, 0, 1)
    assert [tuple(candidates.labels_of(s)) for s in range(4)] == [(0,), (0, 1), (), (0, 2)]
    np.testing.assert_allclose(table.column("score"), [0.504, 0.216, 0.126, 0.056], rtol=1e-6)
    np.testing.assert_allclose(
        table.column("log_score"), np.log([0.504, 0.216, 0.126, 0.056]), rtol=1e-6
    )
    assert table.column("cardinality").tolist() == [1, 2, 0, 2]
    np.testing.assert_allclose(
        table.column("log_prior"), np.log1p([5000.0, 0.0, 2500.0, 0.0]), rtol=1e-6
    )


def test_explicit_columns_hold_dense_zeros_and_label_indicators():
    _, table = described([[0.8, 0.3, 0.1]])
    matrix = table.to_csr()
    assert matrix.shape == (4, 7)
    assert np.diff(matrix.indptr).tolist() == [5, 6, 4, 6]  # four dense ones, zeros included
    assert matrix.toarray()[:, 4:].tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 0, 1]]
    assert (matrix.toarray()[:, :4] == table.dense).all()


def test_prior_of_a_set_does_not_depend_on_how_often_the_data_are_repeated():
    candidates, _ = described([[0.8, 0.3, 0.1]])
    evidence = DocumentEvidence(SparseRows.of(X), np.zeros((1, 3)), np.zeros((1, 3)))
    once = PriorFeatures().fit(X, Y).transform(evidence, candidates)
    thrice = PriorFeatures().fit(X, csr_array(np.tile(Y.toarray(), (3, 1))))
    assert (once == thrice.transform(evidence, candidates)).all()


def test_scores_too_small_for_a_float_leave_every_column_finite():
    _, table = described(np.full((1, 3000), 0.5), features=SetFeatures().fit(X, wide(3000)))
    assert np.isfinite(table.dense).all()
    assert table.column("score").max() == 0.0


def wide(n_labels):
    return csr_array((4, n_labels), dtype=np.uint8)


def test_take_and_concatenate_undo_each_other():
    _, table = described([[0.8, 0.3, 0.1], [0.4, 0.4, 0.4]])
    rows = np.arange(len(table))
    again = concatenate_tables([table.take(rows[:3]), table.take(rows[3:])])
    assert (again.to_csr().toarray() == table.to_csr().toarray()).all()
    assert again.sizes.tolist() == table.sizes.tolist()


def test_rows_know_which_of_them_belong_to_one_document():
    candidates, table = described([[0.8, 0.3, 0.1], [0.4, 0.4, 0.4]])
    assert table.doc_indptr.tolist() == candidates.doc_indptr.tolist()
    first = table.take(np.arange(table.doc_indptr[1]))
    # Two batches number their documents alike; together they are three documents.
    both = concatenate_tables([first, table])
    sizes = np.diff(table.doc_indptr)
    assert np.diff(both.doc_indptr).tolist() == [sizes[0], *sizes]
    assert table.take(np.arange(0)).doc_indptr.tolist() == [0]


def test_tables_with_other_columns_do_not_concatenate():
    _, table = described([[0.8, 0.3, 0.1]])
    other = dataclasses.replace(table, names=("a",), monotone=(0,), dense=table.dense[:, :1])
    with pytest.raises(ValueError, match="columns agree"):
        concatenate_tables([table, other])


def test_an_unknown_column_is_named():
    _, table = described([[0.8, 0.3, 0.1]])
    with pytest.raises(ValueError, match="no set feature is named 'rank'"):
        table.column("rank")


def test_an_unknown_group_is_named():
    with pytest.raises(ValueError, match="unknown feature group 'rank'"):
        SetFeatures(("score", "rank")).fit(X, Y)


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_every_group_gives_the_columns_it_names(name):
    group = GROUPS[name]().fit(X, Y)
    candidates, _ = described([[0.8, 0.3, 0.1]])
    seen, _ = find_seen_sets(Y, 10)
    weights = np.array([[[0.5, 0.25, 0.0]]], dtype=np.float32)
    votes = SetVotes(seen, tuple(VOTERS), np.repeat(weights, len(VOTERS), axis=0))
    answers = answers_of(("a", "b", "c"), [{"labels": ["a"]}])
    evidence = DocumentEvidence(
        SparseRows.of(X[:1]), np.zeros((1, 3)), np.full((1, 3), 0.5), votes, answers
    )
    columns = group.transform(evidence, candidates)
    assert columns.shape == (len(candidates), len(group.names))
    assert columns.dtype == np.float32
    assert len(group.monotone) == len(group.names)


def test_agreement_with_answers_of_a_hand_made_case():
    names = ("a", "b", "c")
    answers = answers_of(
        names,
        [
            {
                "candidates": [
                    {"labels": ["a", "b"], "score": -1},
                    {"labels": ["a"], "score": -3},
                    {"labels": ["b", "a"]},
                    {"labels": []},
                ]
            }
        ],
    )
    candidates, _ = described([[0.8, 0.3, 0.1]])  # a, ab, nothing, ac
    evidence = DocumentEvidence(
        SparseRows.of(X[:1]), np.zeros((1, 3)), np.full((1, 3), 0.5), None, answers
    )
    table = SetFeatures(("answers",)).fit(X, Y).transform(evidence, candidates)
    expected = {
        "answer_share": [1 / 4, 2 / 4, 1 / 4, 0],
        "answer_gap": [-1 / 4, 0, -1 / 4, -2 / 4],
        "answer_jaccard": [
            (2 * 1 / 2 + 1 + 0) / 4,
            (2 * 1 + 1 / 2 + 0) / 4,
            (0 + 0 + 1) / 4,
            (2 * 1 / 3 + 1 / 2 + 0) / 4,
        ],
        "log_answers": [np.log(5)] * 4,
        "answer_scored": [1, 1, 1, 1],
        "answer_score": [-3, -1, -3, -3],
        "answer_score_gap": [-2, 0, -2, -2],
    }
    assert table.names == tuple(expected)
    for name, column in expected.items():
        np.testing.assert_allclose(table.column(name), column, rtol=1e-6, err_msg=name)


def test_numbers_of_the_metadata_are_columns_and_missing_ones_the_lowest():
    documents = [{"labels": [], "metadata": {"age": 7}}, {"labels": []}]
    answers = answers_of(("a", "b", "c"), documents, numbers=("age",))
    candidates = k_best_sets([[0.5, 0.1, 0.1]] * 2, 2, allow_empty=True)
    evidence = DocumentEvidence(
        SparseRows.of(X[:2]), np.zeros((2, 3)), np.full((2, 3), 0.5), None, answers
    )
    table = SetFeatures(("score",), ("age",)).fit(X, Y).transform(evidence, candidates)
    assert table.names[-1] == "metadata.age"
    assert table.monotone[-1] == 0
    np.testing.assert_allclose(table.column("metadata.age"), [7, 7, -1e16, -1e16], rtol=1e-6)
    with pytest.raises(ValueError, match="need the numbers age"):
        SetFeatures(("score",), ("age",)).fit(X, Y).transform(
            dataclasses.replace(evidence, answers=None), candidates
        )
