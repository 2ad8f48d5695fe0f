"""Ragged candidate sets: selecting, merging and comparing them."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from setwise.models.sets.candidates import CandidateSets, concatenate, merge


def candidates(documents, n_labels=6, source=1):
    """Build candidates from a list of lists of label tuples; scores are minus the position."""
    sets = [labels for document in documents for labels in document]
    return CandidateSets(
        np.cumsum([0, *map(len, documents)], dtype=np.int64),
        np.cumsum([0, *map(len, sets)], dtype=np.int64),
        np.array([label for labels in sets for label in labels], dtype=np.int32),
        -np.arange(len(sets), dtype=np.float64),
        np.full(len(sets), source, dtype=np.uint8),
        n_labels,
    )


def listed(found):
    return [
        [
            tuple(found.labels_of(s).tolist())
            for s in range(found.doc_indptr[i], found.doc_indptr[i + 1])
        ]
        for i in range(found.n_documents)
    ]


DOCUMENTS = [[(0, 2), (), (1,)], [(5,)], [(1, 2, 3), (0,)]]


def truth(*rows, n_labels=6):
    matrix = np.zeros((len(rows), n_labels), dtype=np.uint8)
    for i, labels in enumerate(rows):
        matrix[i, list(labels)] = 1
    return csr_array(matrix)


def test_first_takes_the_leading_set_of_each_document():
    expected = truth((0, 2), (5,), (1, 2, 3)).toarray()
    assert (candidates(DOCUMENTS).first().toarray() == expected).all()


def test_first_refuses_a_document_without_candidates():
    with pytest.raises(ValueError, match="without a candidate"):
        candidates([[(0,)], []]).first()


def test_to_matrix_has_a_row_a_set():
    assert (candidates(DOCUMENTS).to_matrix().sum(axis=1) == [2, 0, 1, 1, 3, 1]).all()


def test_correct_marks_exactly_the_true_sets():
    found = candidates(DOCUMENTS)
    assert found.correct(truth((), (4,), (1, 2, 3))).tolist() == [0, 1, 0, 0, 1, 0]
    assert found.contains(truth((), (4,), (1, 2, 3))).tolist() == [True, False, True]


def test_correct_refuses_labels_of_another_shape():
    with pytest.raises(ValueError, match="shape"):
        candidates(DOCUMENTS).correct(truth((), ()))


def test_take_documents_keeps_whole_documents_in_the_order_asked():
    assert listed(candidates(DOCUMENTS).take_documents(np.array([2, 0, 2]))) == [
        DOCUMENTS[2],
        DOCUMENTS[0],
        DOCUMENTS[2],
    ]


def test_top_cuts_each_document():
    assert listed(candidates(DOCUMENTS).top(1)) == [[(0, 2)], [(5,)], [(1, 2, 3)]]
    assert listed(candidates(DOCUMENTS).top(9)) == DOCUMENTS


def test_reorder_carries_scores_along():
    found = candidates(DOCUMENTS).reorder(np.array([2, 0, 1, 3, 5, 4]))
    assert listed(found) == [[(1,), (0, 2), ()], [(5,)], [(0,), (1, 2, 3)]]
    assert found.log_score.tolist() == [-2, 0, -1, -3, -5, -4]


def test_document_says_whose_each_set_is():
    assert candidates(DOCUMENTS).document.tolist() == [0, 0, 0, 1, 2, 2]


def test_concatenate_puts_batches_behind_each_other():
    both = concatenate([candidates(DOCUMENTS[:1]), candidates(DOCUMENTS[1:])])
    assert listed(both) == DOCUMENTS


@pytest.mark.parametrize(
    "parts", [[], [candidates([[(0,)]], n_labels=2), candidates([[(0,)]], n_labels=3)]]
)
def test_concatenate_refuses_what_does_not_fit(parts):
    with pytest.raises(ValueError, match="concatenate"):
        concatenate(parts)


def test_merge_drops_duplicates_and_keeps_both_origins():
    first = candidates([[(0, 2), ()], [(5,)]], source=1)
    second = candidates([[(), (3,)], [(5,), (5, 0)][:1]], source=2)
    both = merge(first, second)
    assert listed(both) == [[(0, 2), (), (3,)], [(5,)]]
    assert both.source.tolist() == [1, 3, 2, 3]
    assert both.log_score.tolist() == [0, -1, -1, -2]


def test_merge_refuses_other_documents():
    with pytest.raises(ValueError, match="do not merge"):
        merge(candidates(DOCUMENTS), candidates(DOCUMENTS[:2]))
