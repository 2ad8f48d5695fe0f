"""Reads what classifiers are asked to predict: label sets, or one class per row."""

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from setwise.spelling import misnamed, spelled, spelled_names

if TYPE_CHECKING:
    from sklearn.utils import Tags

_COLLECTIONS = (list, tuple, set, frozenset, np.ndarray)
_NUMBERS = (int, float, np.bool_, np.number)


class SetClassifierMixin:
    """Lets classifiers of label sets take one class per row as well."""

    classes_: NDArray[Any]  # (n_labels,) what each label stands for
    exclusive_: bool = False  # whether ``y`` had one class per row

    def _adopt_targets(self, y: Any, X: Any) -> sp.csr_array:  # noqa: ANN401  # scikit-learn's array-likes
        """Set the classes and return the label sets (n_samples, n_labels)."""
        labels, self.classes_, self.exclusive_ = read_targets(y, X)
        return labels

    def _shown_probability(self, marginals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return marginals (n_samples, n_labels); of exclusive classes they sum to 1."""
        if not self.exclusive_:
            return marginals
        return np.asarray(marginals / marginals.sum(axis=1, keepdims=True))

    def _likeliest(self, marginals: NDArray[np.float64]) -> NDArray[Any]:
        """Return the most probable class of each row."""
        return np.asarray(self.classes_[np.argmax(marginals, axis=1)])

    def score(
        self,
        X: Any,  # noqa: ANN401  # scikit-learn's array-likes
        y: Any,  # noqa: ANN401  # as above
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the share of rows whose whole set, or class, is right."""
        from sklearn.metrics import accuracy_score  # noqa: PLC0415 -- as below

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: ANN401  # as above
        """Return label sets (n_samples, n_labels), or the class of each row."""
        raise NotImplementedError  # each classifier predicts in its own way; `score` calls it

    def __sklearn_tags__(self) -> "Tags":
        from sklearn.utils import ClassifierTags  # noqa: PLC0415 -- as below

        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]  # the next class has it
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_label=True)
        tags.input_tags.sparse = True
        tags.target_tags.required = tags.target_tags.multi_output = True
        return tags


class Targets(NamedTuple):
    """Label sets, and the form in which they were given."""

    labels: sp.csr_array  # (n_samples, n_labels) of 0 and 1, uint8
    classes: NDArray[Any]  # (n_labels,) what each column stands for
    exclusive: bool  # whether each row had one class instead of a set


def as_labels(y: Any, name: str = "y") -> sp.csr_array:  # noqa: ANN401  # scikit-learn's array-likes
    """Return `y` as a 0/1 uint8 csr_array with sorted indices; refusals call it by its name.

    Raises
    ------
    ValueError
        If `y` is not two-dimensional or holds values other than 0 and 1.
    """
    if not sp.issparse(y):
        y = as_array(y, name)
        if y.ndim != 2:
            raise ValueError(
                f"{name} must have shape (n_samples, n_labels), got {y.ndim} dimension(s)"
            )
    labels: sp.csr_array[Any, tuple[int, int]] = sp.csr_array(y)
    if not labels.has_canonical_format:
        labels = labels.copy()
        labels.sum_duplicates()
    odd = np.flatnonzero((labels.data != 0) & (labels.data != 1))
    if len(odd):
        row = int(np.searchsorted(labels.indptr, odd[0], side="right")) - 1
        raise ValueError(f"{name} must hold 0 and 1 only; row {row} holds {labels.data[odd[0]]}")
    labels = labels.astype(np.uint8)
    if (labels.data == 0).any():
        labels.eliminate_zeros()
    return labels


def read_targets(y: Any, X: Any = None) -> Targets:  # noqa: ANN401  # scikit-learn's array-likes
    """Return label sets given in any of the usual forms.

    Parameters
    ----------
    y : array-like, sparse matrix, data frame or sequence of label lists
        A 0/1 matrix (n_samples, n_labels); a data frame names its labels by its columns. Or one
        collection of labels per row, see `label_lists`. Or one class per row, (n_samples,).
    X : optional
        If given, must have as many rows.

    Raises
    ------
    ValueError
        If `y` is none of these, or has another number of rows.

    Examples
    --------
    >>> read_targets([["b", "a"], [], ["a"]]).labels.toarray().tolist()
    [[1, 1], [0, 0], [1, 0]]
    >>> read_targets(["no", "yes", "no"]).classes.tolist()
    ['no', 'yes']
    """
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    lists = label_lists(y)
    if X is not None:
        from sklearn.utils.validation import check_consistent_length  # noqa: PLC0415 -- as below

        check_consistent_length(X, y if lists is None else lists)
    if lists is not None:
        classes = np.array(sorted(set(chain.from_iterable(lists))), dtype=object)
        return Targets(in_columns(lists, classes), classes, exclusive=False)
    names = column_names(y)
    _refuse_misnamed(name for name in (() if names is None else names) if isinstance(name, str))
    if not sp.issparse(y):
        y = as_array(y, "y")
        if y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1 and not _is_binary(y)):
            return _one_hot(y)
        if y.dtype.kind not in "biuf":
            raise ValueError("y must be a matrix of 0 and 1, label lists or one class per row")
    labels = as_labels(y)
    return Targets(labels, np.arange(labels.shape[1]) if names is None else names, exclusive=False)


def label_lists(y: Any) -> list[list[str]] | None:  # noqa: ANN401  # as above
    """Return the labels of each row if `y` is a sequence of label collections.

    Labels are strings, spelled as files have them; rows may be lists, tuples, sets or arrays, and
    may be empty. Rows of numbers are a matrix, unless they differ in length. A data frame of one
    column is the column.

    Raises
    ------
    ValueError
        If a row is no collection, or holds something other than strings, or a blank one.
    """
    y = only_column(y)
    if sp.issparse(y) or getattr(y, "ndim", 1) != 1 or not isinstance(y, Iterable):
        return None
    rows = list(y)
    is_list = [isinstance(row, _COLLECTIONS) for row in rows]
    if not any(is_list):
        return None
    for place, row in enumerate(rows):
        if not is_list[place]:
            cure = repr([row]) if isinstance(row, str) else "[] if no label applies"
            raise ValueError(f"row {place} of y is {row!r}, where others are lists: give {cure}")
    kinds = {type(label) for label in chain.from_iterable(rows)}
    if kinds and not any(issubclass(kind, str) for kind in kinds):
        if len(set(map(len, rows))) == 1:
            return None
        raise ValueError(
            "rows of numbers must be a matrix of 0 and 1; where they are numbers of labels, give "
            "the names: [[names[k] for k in row] for row in y]"
        )
    if not all(issubclass(kind, str) for kind in kinds):
        raise ValueError("a label list holds something other than strings")
    spelling = {label: spelled(str(label)) for label in set(chain.from_iterable(rows))}
    if "" in spelling.values():
        blank = {label for label, name in spelling.items() if not name}
        place = next(place for place, row in enumerate(rows) if not blank.isdisjoint(row))
        raise ValueError(f"row {place} of y holds a label without a name: give [] if none applies")
    _refuse_misnamed(spelling.values())
    return [[spelling[label] for label in row] for row in rows]


def _refuse_misnamed(names: Iterable[str]) -> None:
    for name in names:
        if why := misnamed(name):
            raise ValueError(f"the label {name[:60]!a} of y {why}")


def only_column(table: Any) -> Any:  # noqa: ANN401  # as above
    """Return the column of a data frame of one column; anything else as it is."""
    columns = list(getattr(table, "columns", ()))
    return table[columns[0]] if len(columns) == 1 else table


def column_names(table: Any) -> NDArray[Any] | None:  # noqa: ANN401  # as above
    """Return the names of a data frame's columns, spelled as files have them.

    None if it is no data frame, or its columns are numbered from 0, as those of an array are.

    Raises
    ------
    ValueError
        If two columns have one name.
    """
    columns = getattr(table, "columns", None)
    if columns is None or list(columns) == list(range(len(columns))):
        return None
    return np.asarray(spelled_names("column", columns))


def in_order_of(
    table: Any,  # noqa: ANN401  # as above
    classes: NDArray[Any],
    what: str,
    whose: str = "the model's labels",
) -> Any:  # noqa: ANN401  # as above
    """Return a data frame with a column for each class, in that order.

    What has no names of columns is returned as it is.

    Raises
    ------
    ValueError
        If the names of the columns are not the classes.
    """
    names = column_names(table)
    if names is None:
        return table
    labels, column = classes.tolist(), dict(zip(names.tolist(), table.columns, strict=True))
    known_labels = set(labels)
    for fault, odd in (
        ("it has no column", [label for label in labels if label not in column]),
        ("it has the column", [name for name in column if name not in known_labels]),
    ):
        if odd:
            shown = ", ".join(map(repr, odd[:5]))
            raise ValueError(f"the columns of {what} must be {whose}: {fault} {shown}")
    return table[[column[label] for label in labels]]


def spelled_classes(y: NDArray[Any]) -> NDArray[Any]:
    """Return an array of classes with its strings spelled."""
    if y.dtype.kind not in "OU":
        return y
    names = [spelled(name) if isinstance(name, str) else name for name in y.tolist()]
    _refuse_misnamed({name for name in names if isinstance(name, str)})
    return np.array(names, dtype=object if y.dtype.kind == "O" else None)


def as_array(table: Any, what: str) -> NDArray[Any]:  # noqa: ANN401  # as above
    """Return a table or column as an array; numbers as such, whatever held them.

    Nullable, categorical and other columns of a data frame may hold numbers as Python objects.

    Raises
    ------
    ValueError
        If a value is missing.
    """
    array = np.asarray(table)
    if array.dtype.kind != "O":
        return array
    missing = np.array([_is_missing(value) for value in array.ravel()], dtype=bool)
    if missing.any():
        row = np.unravel_index(np.flatnonzero(missing)[0], array.shape)[0]
        raise ValueError(f"{what} has no value in row {row}: fill it in, or leave the row out")
    if all(isinstance(value, _NUMBERS) for value in array.ravel()):
        return array.astype(np.float64)
    return array


def _is_missing(value: object) -> bool:
    """Tell whether a value is None, NaN, or what pandas has in their place."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def in_columns(rows: list[list[str]], classes: NDArray[Any]) -> sp.csr_array:
    """Return label lists as a 0/1 matrix whose columns are `classes`."""
    column = {name: place for place, name in enumerate(classes)}
    numbers = [sorted({column[label] for label in row}) for row in rows]
    indptr = np.cumsum([0, *map(len, numbers)], dtype=np.int32)
    indices = np.fromiter(chain.from_iterable(numbers), np.int32, int(indptr[-1]))
    shape = (len(rows), len(classes))
    return sp.csr_array((np.ones(len(indices), np.uint8), indices, indptr), shape=shape)


def _is_binary(column: NDArray[Any]) -> bool:
    return column.dtype.kind in "biuf" and bool(np.isin(column, (0, 1)).all())


def _one_hot(y: NDArray[Any]) -> Targets:
    # The service reads label sets too, and needs no scikit-learn.
    from sklearn.utils import assert_all_finite  # noqa: PLC0415
    from sklearn.utils.multiclass import check_classification_targets  # noqa: PLC0415
    from sklearn.utils.validation import column_or_1d  # noqa: PLC0415

    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    classes, number = np.unique(spelled_classes(y), return_inverse=True)
    n = len(y)
    rows = (np.ones(n, np.uint8), number.astype(np.int32), np.arange(n + 1, dtype=np.int32))
    return Targets(sp.csr_array(rows, shape=(n, len(classes))), classes, exclusive=True)
