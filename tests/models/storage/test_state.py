"""Arrays from disk are refused before compiled code could index beyond them."""

import numpy as np
import pytest

from setwise.models.storage.checks import check_labels, check_ragged, checked_array
from setwise.models.storage.fields import StoredArray, StoredSetting
from setwise.models.storage.state import StoredPart


@pytest.mark.parametrize(
    ("array", "fault"),
    [
        (np.zeros(3, dtype=np.float32), "float32 of shape"),
        (np.zeros((3, 1)), "shape"),
        (np.zeros(2), "shape"),
        (np.array([0.0, np.inf, 0.0]), "not finite"),
    ],
)
def test_arrays_of_another_type_shape_or_value_are_refused(array, fault):
    with pytest.raises(ValueError, match=fault):
        checked_array({"a": array}, "a", np.float64, (3,))


def test_a_missing_array_is_named():
    with pytest.raises(ValueError, match="'b' is missing"):
        checked_array({}, "b", np.float64, (3,))


@pytest.mark.parametrize("indptr", [[], [1, 3], [0, 2], [0, 4, 3], [0, 3, 3, 4]])
def test_bounds_that_do_not_cut_are_refused(indptr):
    with pytest.raises(ValueError, match="does not divide 3 items"):
        check_ragged("a", np.array(indptr, dtype=np.int64), 3)


def test_empty_rows_are_refused_only_where_rows_must_hold_something():
    check_ragged("a", np.array([0, 0, 3]), 3)
    with pytest.raises(ValueError, match="does not divide"):
        check_ragged("a", np.array([0, 0, 3]), 3, least=1)


@pytest.mark.parametrize(
    ("indptr", "labels"),
    [([0, 2], [1, 1]), ([0, 2], [2, 1]), ([0, 1], [3]), ([0, 1], [-1]), ([0, 2, 3], [0, 0, 1])],
)
def test_labels_out_of_order_or_range_are_refused(indptr, labels):
    with pytest.raises(ValueError, match=r"out of order|out of range"):
        check_labels("a", np.array(indptr), np.array(labels, dtype=np.int32), 3)


@pytest.mark.parametrize(
    ("indptr", "labels"), [([0], []), ([0, 0], []), ([0, 2, 2, 3], [0, 2, 0]), ([0, 1, 2], [1, 1])]
)
def test_sound_labels_pass(indptr, labels):
    check_labels("a", np.array(indptr), np.array(labels, dtype=np.int32), 3)


class Curves(StoredPart):
    stored = (
        StoredArray("bounds", "bounds_", np.int64, ("curves+1",), cuts="knots", least=1),
        StoredArray("x", "x_", np.float64, ("knots",)),
        StoredArray("y", "y_", np.float64, ("knots",)),
        StoredArray("curve_of", "curve_of_", np.int32, ("pairs",), picks="curves"),
        StoredSetting("share", "share", float),
    )


def state():
    arrays = {
        "bounds": np.array([0, 2, 3]),
        "x": np.zeros(3),
        "y": np.ones(3),
        "curve_of": np.array([1, 0, 1, 1], dtype=np.int32),
    }
    return arrays, {"share": 0.5}


def test_a_declared_part_comes_back_from_its_own_state():
    arrays, settings = Curves.from_state(*state()).get_state()
    assert settings == {"share": 0.5}
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "bounds": [0, 2, 3],
        "x": [0.0] * 3,
        "y": [1.0] * 3,
        "curve_of": [1, 0, 1, 1],
    }


@pytest.mark.parametrize(
    ("name", "array", "fault"),
    [
        ("y", np.ones(4), "'y' is float64 of shape"),
        ("x", np.zeros(3, dtype=np.float32), "'x' is float32"),
        ("x", np.array([0.0, 1.0, np.nan]), "'x' holds a value that is not finite"),
        ("bounds", np.array([0, 2, 4]), "'bounds' does not divide 3 items"),
        ("bounds", np.array([0, 3, 3]), "'bounds' does not divide 3 items"),
        ("curve_of", np.array([0, 2], dtype=np.int32), "'curve_of' names curves"),
        ("curve_of", np.array([-1], dtype=np.int32), "'curve_of' names curves"),
    ],
)
def test_arrays_that_do_not_fit_their_declaration_are_refused(name, array, fault):
    arrays, settings = state()
    with pytest.raises(ValueError, match=fault):
        Curves.from_state({**arrays, name: array}, settings)
