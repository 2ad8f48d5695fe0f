"""Labelled documents as one value."""

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from setwise.models.data.answers import ModelAnswers, concatenate_answers
from setwise.models.data.lines import DataWarning, count_of
from setwise.models.display import one_line
from setwise.spelling import spelled, spelled_labels, spelled_names

Kind = Literal["text", "vectors", "external"]

_NAMED = 3  # names that a warning lists


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Labelled documents, as texts, as feature vectors, or as another model's answers.

    Attributes
    ----------
    kind : {"text", "vectors", "external"}
        Whether ``texts``, ``X`` or ``answers`` is set; ``texts`` or ``X`` may stand beside
        ``answers``.
    ids : tuple of str, length n
        Distinct. Vector files have no ids; their rows are numbered from "1".
    label_names : tuple of str, length L
        The columns of ``Y``.
    Y : csr_array of uint8, shape (n, L)
        1 where the document carries the label.
    texts : tuple of str, or None
        The documents.
    X : csr_array of float64 or float32, shape (n, d), or None
        The feature vectors; int32 indices, ascending in each row. Float64 keeps measurements with
        a large offset exact.
    feature_names : tuple of str, length d, or None
        The columns of ``X``; numbered from "1" if not given. None for texts.
    fingerprint : str
        SHA-256 of the content (hex), the same whether the file was gzipped or not.
    annotators : tuple of (str or None), or None
        Who labelled each document; None when no document says.
    answers : ModelAnswers, or None
        What another model says of the documents, which it has not seen in training. Its columns
        are the first of ``label_names``.
    """

    kind: Kind
    ids: tuple[str, ...]
    label_names: tuple[str, ...]
    Y: csr_array
    texts: tuple[str, ...] | None
    X: csr_array | None
    feature_names: tuple[str, ...] | None
    fingerprint: str
    annotators: tuple[str | None, ...] | None = None
    answers: ModelAnswers | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "label_names", tuple(spelled_labels(self.label_names)))
        if self.annotators is not None:
            people = (None if name is None else spelled(name) for name in self.annotators)
            object.__setattr__(self, "annotators", tuple(people))
        if (self.answers is None) is (self.kind == "external"):
            raise ValueError("a data set is external if, and only if, it has answers")
        if self.answers is not None and (
            len(self.answers) != self.n or self.answers.n_labels > len(self.label_names)
        ):
            raise ValueError(
                f"answers of shape {self.answers.shape} do not suit {self.n} documents and "
                f"{len(self.label_names)} labels"
            )
        if self.X is None:
            return
        if self.feature_names is not None:
            names = tuple(spelled_names("feature", self.feature_names))
            object.__setattr__(self, "feature_names", names)
        if self.feature_names is None:
            object.__setattr__(self, "feature_names", numbered(self.X.shape[1]))
        elif len(self.feature_names) != self.X.shape[1]:
            raise ValueError(
                f"{len(self.feature_names)} feature names for {self.X.shape[1]} columns of X"
            )

    def __repr__(self) -> str:
        counts = {"documents": self.n, "labels": len(self.label_names)}
        facts = {"kind": self.kind, **{name: f"{count:,}" for name, count in counts.items()}}
        return one_line(type(self).__name__, facts)

    @property
    def n(self) -> int:
        """Number of documents."""
        return len(self.ids)

    def take(self, rows: ArrayLike) -> "Dataset":
        """Return the given rows as a data set, in that order.

        Parameters
        ----------
        rows : array-like of int
            Row numbers from 0.

        Returns
        -------
        Dataset
            Same labels and features; its fingerprint is derived from this one's and the rows.
        """
        places = np.asarray(rows, dtype=np.int64)
        digest = hashlib.sha256(self.fingerprint.encode())
        digest.update(places.astype("<i8").tobytes())
        return Dataset(
            kind=self.kind,
            ids=tuple(self.ids[row] for row in places),
            label_names=self.label_names,
            Y=self.Y[places],
            texts=None if self.texts is None else tuple(self.texts[row] for row in places),
            X=None if self.X is None else self.X[places],
            feature_names=self.feature_names,
            fingerprint=digest.hexdigest(),
            annotators=None
            if self.annotators is None
            else tuple(self.annotators[row] for row in places),
            answers=None if self.answers is None else self.answers.take(places),
        )

    def in_columns_of(
        self, label_names: Sequence[str], feature_names: Sequence[str] | None
    ) -> "Dataset":
        """Return the data set with the columns of a fitted model.

        Parameters
        ----------
        label_names : sequence of str
            The model's labels. Other labels that a document carries are appended, so that they
            count as misses.
        feature_names : sequence of str or None
            The model's features; other features are left out. None for texts.

        Warns
        -----
        DataWarning
            Lists labels and features that the model lacks.
        """
        used = np.asarray(self.Y.sum(axis=0)).ravel() > 0
        carried = [name for name, is_used in zip(self.label_names, used, strict=True) if is_used]
        if self.label_names[: len(label_names)] == tuple(label_names):
            labels, Y = self.label_names, self.Y
        else:
            labels = with_unknown("the data", carried, label_names)
            position = {name: index for index, name in enumerate(labels)}
            column = np.array([position.get(name, -1) for name in self.label_names], dtype=np.int32)
            rows = np.split(column[self.Y.indices], self.Y.indptr[1:-1])
            Y = label_matrix([row.tolist() for row in rows], len(labels))
        X, features = self.X, self.feature_names
        if X is not None and features is not None and feature_names is not None:
            X, features = named_columns("the data", X, features, tuple(feature_names))
        answers = self.answers
        if answers is not None:
            answers = answers.in_columns_of(
                self.label_names[: answers.n_labels], tuple(label_names)
            )
        return replace(self, label_names=labels, Y=Y, X=X, feature_names=features, answers=answers)


def check_dataset(documents: object) -> None:
    """Refuse what is no data set.

    Raises
    ------
    TypeError
    """
    if not isinstance(documents, Dataset):
        raise TypeError(
            f"give documents as setwise.read_dataset returns them, not {type(documents).__name__}"
        )


def concatenate_datasets(first: Dataset, second: Dataset) -> Dataset:
    """Concatenate two parts of a data set.

    Columns that only the second part has follow those of the first. Documents are renumbered if the
    parts share an id.

    Parameters
    ----------
    first, second : Dataset
        Of the same kind.

    Raises
    ------
    ValueError
        If one holds texts and the other vectors.
    """
    if first.kind != second.kind:
        raise ValueError(f"{first.kind} and {second.kind} do not make one data set")
    labels, Y = _stacked(first.Y, first.label_names, second.Y, second.label_names)
    features, X = None, None
    if first.X is not None and second.X is not None:
        features, X = _stacked(
            first.X, first.feature_names or (), second.X, second.feature_names or ()
        )
    ids = first.ids + second.ids
    if len(set(ids)) < len(ids):
        ids = tuple(map(str, range(1, len(ids) + 1)))
    texts = None
    if first.texts is not None and second.texts is not None:
        texts = first.texts + second.texts
    annotators = None
    if first.annotators is not None or second.annotators is not None:
        parts = first, second
        annotators = tuple(chain(*(dataset.annotators or (None,) * dataset.n for dataset in parts)))
    answers = None
    if first.answers is not None and second.answers is not None:
        both = (first, first.answers), (second, second.answers)
        answers = concatenate_answers(
            [
                of_part.in_columns_of(part.label_names[: of_part.n_labels], labels)
                for part, of_part in both
            ]
        )
    digest = hashlib.sha256((first.fingerprint + second.fingerprint).encode())
    return Dataset(
        kind=first.kind,
        ids=ids,
        label_names=labels,
        Y=Y,
        texts=texts,
        X=X,
        feature_names=features,
        fingerprint=digest.hexdigest(),
        annotators=annotators,
        answers=answers,
    )


def _stacked(
    upper: csr_array, upper_names: tuple[str, ...], lower: csr_array, lower_names: tuple[str, ...]
) -> tuple[tuple[str, ...], csr_array]:
    """Stack two matrices with named columns vertically."""
    in_upper = set(upper_names)
    names = (*upper_names, *(name for name in lower_names if name not in in_upper))
    position = {name: index for index, name in enumerate(names)}
    column = np.array([position[name] for name in lower_names], dtype=np.int32)
    stacked = csr_array(
        (
            np.concatenate([upper.data, lower.data]),
            np.concatenate([upper.indices, column[lower.indices]]).astype(np.int32),
            np.concatenate([upper.indptr, upper.indptr[-1] + lower.indptr[1:]]).astype(np.int32),
        ),
        shape=(upper.shape[0] + lower.shape[0], len(names)),
    )
    stacked.sort_indices()
    return names, stacked


def numbered(n_features: int) -> tuple[str, ...]:
    """Return the names of features that have none."""
    return tuple(map(str, range(1, n_features + 1)))


def with_unknown(
    file: Path | str, names: Iterable[str], label_names: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the model's labels, then labels only the file has."""
    if label_names is None:
        return tuple(names)
    columns = set(label_names)
    unknown = [name for name in names if name not in columns]
    if unknown:
        warnings.warn(
            f"{file}: {count_of(len(unknown), 'label')} unknown to the model, counted as misses: "
            f"{some_of(unknown)}",
            DataWarning,
            stacklevel=4,
        )
    return (*label_names, *unknown)


def named_columns(
    file: Path | str, X: csr_array, names: tuple[str, ...], columns: tuple[str, ...]
) -> tuple[csr_array, tuple[str, ...]]:
    """Return `X` with the columns of a fitted model."""
    if names == columns:
        return X, columns
    position = {name: index for index, name in enumerate(columns)}
    column = np.array([position.get(name, -1) for name in names], dtype=np.int32)
    unknown = [names[index] for index in np.flatnonzero(column < 0)]
    if unknown:
        warnings.warn(
            f"{file}: {count_of(len(unknown), 'feature')} unknown to the model, left out: "
            f"{some_of(unknown)}",
            DataWarning,
            stacklevel=4,
        )
    moved = column[X.indices]
    has_column = moved >= 0
    counts = np.concatenate([[0], np.cumsum(has_column)])
    result = csr_array(
        (X.data[has_column], moved[has_column], counts[X.indptr].astype(X.indptr.dtype)),
        shape=(X.shape[0], len(columns)),
    )
    result.sort_indices()
    return result, columns


def some_of(names: Sequence[str]) -> str:
    """Return the first names for a message."""
    shown = ", ".join(map(repr, names[:_NAMED]))
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def label_matrix(rows: Sequence[Sequence[int]], n_labels: int) -> csr_array:
    """Return the 0/1 matrix of label sets given as column numbers."""
    distinct = [sorted(set(row)) for row in rows]
    indptr = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum([len(row) for row in distinct], out=indptr[1:])
    indices: NDArray[np.int32] = np.fromiter(
        chain.from_iterable(distinct), dtype=np.int32, count=int(indptr[-1])
    )
    Y = csr_array(
        (np.ones(len(indices), dtype=np.uint8), indices, indptr), shape=(len(rows), n_labels)
    )
    Y.has_sorted_indices = True
    return Y
