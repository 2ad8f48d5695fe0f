"""Products with a matrix in two bytes an entry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.models.voters.rounded import RoundedMatrix, multiply


@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(0, 9), st.integers(-30, 30))
def test_entries_are_off_by_half_a_factor_at_most(seed, n_rows, n_columns, power):
    draw = np.random.default_rng(seed).normal(size=(n_rows, n_columns))
    matrix = (draw * 10.0**power).astype(np.float32)
    rounded = RoundedMatrix.of(matrix)
    back = rounded.values * rounded.factors[:, None].astype(np.float64)
    assert (np.abs(back - matrix) <= 0.501 * rounded.factors[:, None]).all()


def test_a_row_of_zeros_stays_zero():
    rounded = RoundedMatrix.of(np.zeros((2, 3), dtype=np.float32))
    assert not multiply(np.ones((1, 2), dtype=np.float32), rounded).any()


@pytest.mark.parametrize("n", [1, 7, 8, 9, 20])
def test_products_are_those_of_the_matrix_whatever_the_batch(n):
    rng = np.random.default_rng(n)
    left = rng.random((n, 30), dtype=np.float32)
    matrix = rng.normal(size=(30, 12)).astype(np.float32)
    rounded = RoundedMatrix.of(matrix)
    product = multiply(left, rounded)
    np.testing.assert_allclose(product, left @ matrix, atol=2e-3)
    np.testing.assert_array_equal(multiply(left[-1:], rounded)[0], product[-1])
