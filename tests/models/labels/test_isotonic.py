"""Isotonic curves against scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from setwise.models.labels.isotonic import IsotonicCurve, isotonic_levels

POINTS = st.lists(
    st.tuples(
        st.integers(-5, 5),  # inputs that tie
        st.floats(0, 1),
        st.sampled_from([0.5, 1.0, 3.0]),
    ),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)  # the first example compiles
@given(POINTS)
def test_equals_scikit_learn(points):
    x, y, weight = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    curve = IsotonicCurve.fit(x, y, weight)
    reference = IsotonicRegression(out_of_bounds="clip").fit(x, y, sample_weight=weight)
    grid = np.linspace(-7, 7, 57)
    np.testing.assert_allclose(curve(grid), reference.predict(grid), atol=1e-10)
    assert (np.diff(curve.x) > 0).all()
    assert (np.diff(curve.y) >= 0).all()


@settings(deadline=None)
@given(POINTS)
def test_levels_are_the_curve_at_its_own_points(points):
    x, y, weight = np.array(sorted(points), dtype=float).T.copy()
    levels = isotonic_levels(x, y, weight)
    np.testing.assert_array_equal(levels, IsotonicCurve.fit(x, y, weight)(x))


@pytest.mark.parametrize("seed", range(5))
def test_integer_weights_equal_repeated_points_in_any_order(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 6, 30).astype(float), rng.random(30)
    weight = rng.integers(0, 4, 30)
    repeated = rng.permutation(np.repeat(np.arange(30), weight))
    grid = np.linspace(-1, 7, 33)
    np.testing.assert_allclose(
        IsotonicCurve.fit(x, y, weight)(grid),
        IsotonicCurve.fit(x[repeated], y[repeated])(grid),
        atol=1e-12,
    )


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=1, max_size=40))
def test_doubt_adds_half_a_one_and_half_a_zero_to_each_block(points):
    x, y = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    order = np.argsort(x, kind="stable")
    levels = IsotonicRegression().fit_transform(x[order], y[order]).round(12)
    _, block, sizes = np.unique(levels, return_inverse=True, return_counts=True)
    doubtful = (sizes[block] * levels + 0.5) / (sizes[block] + 1)
    expected = IsotonicRegression().fit_transform(x[order], doubtful)
    np.testing.assert_allclose(IsotonicCurve.fit(x, y, doubt=1.0)(x[order]), expected, atol=1e-9)


def test_knots_rebuild_the_curve():
    curve = IsotonicCurve.fit([1, 2, 3, 4], [0, 0.4, 0.2, 1])
    assert (IsotonicCurve.from_knots(curve.x, curve.y)([0, 2.5, 9]) == curve([0, 2.5, 9])).all()


@pytest.mark.parametrize(("x", "y"), [([], []), ([1, 1], [0, 1]), ([0, 1], [1, 0]), ([0], [0, 1])])
def test_knots_of_no_rising_curve_are_refused(x, y):
    with pytest.raises(ValueError, match="non-decreasing"):
        IsotonicCurve.from_knots(np.array(x, float), np.array(y, float))


@pytest.mark.parametrize(
    ("x", "y", "weight", "fault"),
    [
        ([0, 1], [0], None, "one length"),
        ([np.nan], [0], None, "finite"),
        ([0], [np.inf], None, "finite"),
        ([0], [0], [-1.0], "negative"),
        ([0, 1], [0, 1], [0.0, 0.0], "positive"),
        ([], [], None, "positive"),
    ],
)
def test_points_that_give_no_curve_are_refused(x, y, weight, fault):
    with pytest.raises(ValueError, match=fault):
        IsotonicCurve.fit(x, y, weight)
