"""NumPy archives: ``X`` and ``Y``, dense or sparse, with optional names."""

import io
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile
from scipy.sparse import csr_array

from setwise.models.data.archives import UNREADABLE
from setwise.models.data.formats.vectors import MOST_COLUMNS, Vectors
from setwise.models.data.lines import ContentHash, DataError, decode, names_beside, read_bytes
from setwise.spelling import misnamed, spelled

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_BROKEN: tuple[type[Exception], ...] = (
    *UNREADABLE,
    KeyError,  # a part of a sparse matrix is missing
    OSError,  # damaged bzip2 data
    TypeError,  # one array alone, or a shape that is no list
)
_LAYOUT = (
    "save numpy.savez(file, X=…, Y=…, label_names=…); a sparse X as X_data, X_indices, X_indptr "
    "and X_shape"
)


def read_npz(path: Path, *, labelled: bool = True, content: ContentHash | None = None) -> Vectors:
    """Read the arrays of an archive; nothing in it is unpickled.

    ``X`` is ``(n, d)`` and ``Y`` 0/1 ``(n, L)``, each an array, or the parts ``_data``,
    ``_indices``, ``_indptr`` and ``_shape`` of a compressed sparse row matrix. ``label_names`` and
    ``feature_names`` are optional; ``labels.txt`` and ``features.txt`` beside the file do as well.

    Parameters
    ----------
    path : Path
        The file.
    labelled : bool
        Whether ``Y`` must be there.
    content : ContentHash, optional
        Updated with the bytes of the file.

    Raises
    ------
    DataError
        If arrays are missing or do not fit; the message names the first row at fault.
    """
    try:
        with np.load(io.BytesIO(read_bytes(path, content=content)), allow_pickle=False) as arrays:
            X = _matrix(path, arrays, "X")
            Y = _matrix(path, arrays, "Y") if labelled else csr_array((X.shape[0], 0))
            names = {
                key: [spelled(_text(path, name)) for name in np.asarray(arrays[key]).ravel()]
                for key in ("label_names", "feature_names")
                if key in arrays
            }
    except DataError:
        raise
    except _BROKEN as error:
        raise DataError(path, None, f"not an archive of arrays ({error})", _LAYOUT) from error
    _check(path, X, Y)
    labels = names.get("label_names")
    if labels is None and labelled:
        labels = names_beside(path, "label", content=content)
        if labels is None:
            raise DataError(
                path, None, "the labels have no names", "add label_names, or labels.txt beside it"
            )
    features = names.get("feature_names") or names_beside(path, "feature", content=content)
    for what, column_names, width in (
        ("label", labels, Y.shape[1]),
        ("feature", features, X.shape[1]),
    ):
        if column_names is not None and labelled | (what == "feature"):
            _check_names(path, what, column_names, width)
    rows = np.split(Y.indices, Y.indptr[1:-1])
    label_sets = [tuple(sorted(row.tolist())) for row in rows]
    return Vectors(
        X, label_sets, tuple(labels or ()), None if features is None else tuple(features)
    )


def _matrix(path: Path, arrays: NpzFile, name: str) -> csr_array:
    if name in arrays:
        dense = np.asarray(arrays[name])
        if dense.ndim != 2:
            raise DataError(path, None, f"{name} has the shape {dense.shape}", "give a matrix")
        result = csr_array(_real(path, name, dense))
    elif f"{name}_data" in arrays:
        parts = tuple(arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
        n, width = (int(size) for size in arrays[f"{name}_shape"])
        result = csr_array((_real(path, name, parts[0]), *parts[1:]), shape=(n, width))
        result.check_format()
    else:
        raise DataError(path, None, f"there is no array {name}", _LAYOUT)
    if result.shape[1] > MOST_COLUMNS:
        fault = f"{name} has {result.shape[1]} columns"
        raise DataError(path, None, fault, f"at most {MOST_COLUMNS} can be read")
    result.sum_duplicates()
    result.eliminate_zeros()
    result.indices = result.indices.astype(np.int32)
    return result


def _text(path: Path, name: object) -> str:
    return decode(path, None, name) if isinstance(name, bytes) else str(name)


def _real(path: Path, name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "fiub":
        raise DataError(path, None, f"{name} holds {values.dtype}", "give numbers")
    return values.astype(np.float64)


def _check(path: Path, X: csr_array, Y: csr_array) -> None:
    if X.shape[0] != Y.shape[0]:
        raise DataError(
            path,
            None,
            f"{X.shape[0]} rows of X, {Y.shape[0]} of Y",
            "give one row a document",
        )
    if X.shape[0] == 0:
        raise DataError(path, None, "the file holds no documents", "give one document a row")
    for matrix, bad, fault, cure in (
        (
            X,
            ~(np.abs(X.data) <= _FLOAT32_MAX),
            "a feature is not finite in 32 bits",
            "correct it",
        ),
        (Y, Y.data != 1, "a label is neither 0 nor 1", "give 0 or 1 for each label"),
    ):
        if bad.any():
            place = int(np.argmax(bad))
            row = int(np.searchsorted(matrix.indptr, place, side="right"))
            raise DataError(path, row, fault, cure)


def _check_names(path: Path, what: str, names: list[str], width: int) -> None:
    if len(names) != width:
        raise DataError(path, None, f"{len(names)} {what} names for {width} columns", "name each")
    if len(set(names)) < len(names) or not all(name.strip() for name in names):
        raise DataError(
            path, None, f"a {what} has no name, or a repeated one", f"name each {what} once"
        )
    for name in names if what == "label" else ():
        if why := misnamed(name):
            raise DataError(path, None, f"the label {name[:60]!a} {why.fault}", why.cure)
