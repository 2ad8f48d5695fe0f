"""The K best sets against enumeration of all sets."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.models.sets.candidates import SOURCE_MARGINALS
from setwise.models.sets.search import MAX_CANDIDATES, PROBABILITY_FLOOR, k_best_sets

# Values that tie, that are exact and that are ordinary.
PROBABILITIES = st.one_of(
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 1e-300, 1 - 2**-53]), st.floats(0.0, 1.0)
)
ROWS = st.lists(PROBABILITIES, min_size=1, max_size=8)


def log_scores(row):
    """Return the log-probability of every set, in no order."""
    low = np.maximum(np.minimum(row, 1 - np.asarray(row)), PROBABILITY_FLOOR)
    return {
        tuple(np.flatnonzero(bits)): sum(
            np.log1p(-q) if bit == (p > 0.5) else np.log(q)
            for p, q, bit in zip(row, low, bits, strict=True)
        )
        for bits in product([0, 1], repeat=len(row))
    }


def sets_of(found):
    return [tuple(found.labels_of(s).tolist()) for s in range(len(found))]


@settings(deadline=None)  # the first example compiles
@given(row=ROWS, k=st.integers(1, MAX_CANDIDATES), allow_empty=st.booleans())
def test_equals_enumeration_of_all_sets(row, k, allow_empty):
    scores = log_scores(row)
    if not allow_empty:
        del scores[()]
    best = sorted(scores.values(), reverse=True)[:k]

    found = k_best_sets([row], k, allow_empty=allow_empty)

    assert len(found) == len(best)
    assert len(set(sets_of(found))) == len(found)  # no set twice
    np.testing.assert_allclose(found.log_score, best, rtol=1e-9, atol=1e-9)
    for labels, score in zip(sets_of(found), found.log_score, strict=True):
        assert score == pytest.approx(scores[labels], rel=1e-9, abs=1e-9)


@settings(deadline=None)  # the first example compiles
@given(row=ROWS, k=st.integers(1, MAX_CANDIDATES), allow_empty=st.booleans())
def test_scores_fall_and_labels_rise(row, k, allow_empty):
    found = k_best_sets([row], k, allow_empty=allow_empty)
    assert (np.diff(found.log_score) <= 0).all()
    assert (found.log_score <= 0).all()
    assert np.isfinite(found.log_score).all()
    assert all(list(labels) == sorted(set(labels)) for labels in sets_of(found))


@pytest.mark.parametrize("seed", range(20))
def test_a_document_alone_gets_what_it_gets_in_a_batch(seed):
    P = np.random.default_rng(seed).random((7, 12))
    batch = k_best_sets(P, 9, allow_empty=False)
    for i, row in enumerate(P):
        alone = k_best_sets([row], 9, allow_empty=False)
        part = batch.take_documents(np.array([i]))
        assert sets_of(alone) == sets_of(part)
        assert (alone.log_score == part.log_score).all()


def test_only_the_empty_set_is_left_out():
    P = np.full((1, 6), 0.1)
    with_it = k_best_sets(P, 64, allow_empty=True)
    without = k_best_sets(P, 64, allow_empty=False)
    assert len(with_it) == 64
    assert len(without) == 63
    assert set(sets_of(with_it)) - set(sets_of(without)) == {()}


def test_many_labels_do_not_underflow():
    P = np.full((1, 5000), 0.5)
    found = k_best_sets(P, 3, allow_empty=True)
    np.testing.assert_allclose(found.log_score, 5000 * np.log(0.5), rtol=1e-12)


def test_a_mode_larger_than_the_first_guess_of_room_is_written_whole():
    P = np.full((40, 300), 0.9)
    found = k_best_sets(P, 5, allow_empty=True)
    assert found.sizes[::5].tolist() == [300] * 40
    assert found.sizes[1::5].tolist() == [299] * 40


def test_flags_say_that_sets_come_from_the_marginals():
    assert set(k_best_sets([[0.3, 0.6]], 3, allow_empty=True).source) == {SOURCE_MARGINALS}


def test_no_documents_give_no_sets():
    found = k_best_sets(np.empty((0, 4)), 10, allow_empty=True)
    assert found.n_documents == 0
    assert len(found) == 0


@pytest.mark.parametrize("k", [0, 65])
def test_a_number_of_sets_beyond_the_mask_is_refused(k):
    with pytest.raises(ValueError, match="between 1 and 64"):
        k_best_sets([[0.5]], k, allow_empty=True)


@pytest.mark.parametrize("value", [np.nan, -0.1, 1.1, np.inf])
def test_what_is_no_probability_is_refused_by_row(value):
    with pytest.raises(ValueError, match=r"row 1 .* outside \[0, 1\]"):
        k_best_sets([[0.5, 0.5], [0.5, value]], 2, allow_empty=True)


@pytest.mark.parametrize("P", [[0.5, 0.5], np.empty((2, 0))])
def test_what_is_no_matrix_of_labels_is_refused(P):
    with pytest.raises(ValueError, match="matrix with at least one label"):
        k_best_sets(P, 2, allow_empty=True)
