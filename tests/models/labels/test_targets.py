"""What classifiers are asked to predict, in the forms in which people hold it."""

import unicodedata
from typing import Any

import numpy as np
import pytest

from setwise.models.labels.targets import as_array, in_order_of, label_lists, read_targets

pd = pytest.importorskip("pandas")

Y = np.array([[1, 0], [0, 1], [1, 1]])
FRAME = pd.DataFrame(Y, columns=["crop", "storm"])


@pytest.mark.parametrize(
    "dtype", ["int64", "float64", "bool", "Int64", "Float64", "boolean", "object", "category"]
)
def test_a_frame_of_any_type_of_numbers_is_a_matrix(dtype: str) -> None:
    targets = read_targets(FRAME.astype(dtype))
    assert targets.labels.toarray().tolist() == Y.tolist()
    assert targets.classes.tolist() == ["crop", "storm"]


@pytest.mark.parametrize("dtype", ["Int64", "int64", "category", "object"])
def test_a_column_of_any_type_of_classes_is_one_class_a_row(dtype: str) -> None:
    targets = read_targets(pd.Series([3, 4, 3], dtype=dtype))
    assert targets.exclusive
    assert targets.classes.tolist() == [3, 4]


@pytest.mark.parametrize(
    "rows", [[["a", "b"], []], [("a", "b"), {"a"}], [np.array(["a", "b"]), []]]
)
def test_a_frame_of_one_column_of_lists_is_the_column(rows: Any) -> None:
    assert label_lists(pd.DataFrame({"labels": rows})) == [list(map(str, row)) for row in rows]


def test_rows_that_are_all_empty_are_label_lists() -> None:
    assert label_lists([[], []]) == [[], []]


@pytest.mark.parametrize(
    ("y", "fault"),
    [
        ([["a"], "fever"], r"row 1 of y is 'fever', where others are lists: give \['fever'\]"),
        ([["a"], None], r"row 1 of y is None.*give \[\] if no label applies"),
        (pd.Series([["a"], np.nan]), r"row 1 of y is nan.*give \[\]"),
        ([[0, 2], [1]], "numbers of labels, give the names"),
        (FRAME.astype("Int64").mask(FRAME.index.to_series() == 2), "y has no value in row 2"),
        (pd.Series(["a", None, "b"]), "y has no value in row 1"),
        (np.array([[0.0, 1.0], [np.nan, 1.0]]), "0 and 1 only; row 1 holds nan"),
        (FRAME.astype(str).replace("1", "yes"), "matrix of 0 and 1"),
    ],
)
def test_what_is_no_label_set_is_named_with_its_row_and_cure(y: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_targets(y)


def test_columns_follow_their_names() -> None:
    classes = np.array(["storm", "crop"])
    assert as_array(in_order_of(FRAME, classes, "y"), "y").tolist() == Y[:, ::-1].tolist()
    assert in_order_of(Y, classes, "y") is Y
    unnamed = pd.DataFrame(Y)
    assert in_order_of(unnamed, classes, "y") is unnamed
    with pytest.raises(ValueError, match=r"columns of scores.*it has no column 'fog'"):
        in_order_of(FRAME, np.array(["crop", "fog"]), "scores")
    with pytest.raises(ValueError, match="it has the column 'storm'"):
        in_order_of(FRAME, np.array(["crop"]), "scores")


def nfd(name: str) -> str:
    return unicodedata.normalize("NFD", name)


@pytest.mark.parametrize(
    "y",
    [
        [["fièvre", "toux"], [nfd("fièvre")], ["toux ", "toux"], []],
        pd.DataFrame([[1, 1], [1, 0], [0, 1], [0, 0]], columns=[nfd("fièvre"), "toux\u200b"]),
    ],
    ids=["lists", "frame"],
)
def test_names_that_look_alike_are_one_label(y: Any) -> None:
    targets = read_targets(y)
    assert targets.classes.tolist() == ["fièvre", "toux"]
    assert targets.labels.toarray().tolist() == [[1, 1], [1, 0], [0, 1], [0, 0]]


def test_classes_that_look_alike_are_one_class() -> None:
    for y in (np.array(["fièvre", nfd("fièvre"), "fièvre "]), pd.Series(["fièvre", nfd("fièvre")])):
        assert read_targets(y).classes.tolist() == ["fièvre"]


def test_columns_are_found_in_any_spelling() -> None:
    frame = pd.DataFrame([[1, 0]], columns=["toux ", nfd("fièvre")])
    ordered = in_order_of(frame, np.array(["fièvre", "toux"]), "y")
    assert ordered.to_numpy().tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("y", "fault"),
    [
        (pd.DataFrame([[1, 0]], columns=["toux", "toux "]), "'toux' is named twice"),
        ([["toux"], [" "]], "row 1 of y holds a label without a name"),
    ],
)
def test_names_that_name_nothing_or_two_things_are_refused(y: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_targets(y)
