"""Data sets for training and evaluation: read, checked, split."""

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from setwise.models.data.answers import AnswerError, Answers, concatenate_answers
from setwise.models.data.documents import (
    WORD,
    LabelledDocuments,
    PredictionInput,
    answer_fault,
    read_documents,
)
from setwise.models.data.formats.layout import SUFFIXES, VECTOR_FORMATS, FileLayout
from setwise.models.data.formats.reading import document_lines, read_vectors
from setwise.models.data.lines import ContentHash, DataError, DataWarning, Progress, count_of
from setwise.models.data.splits import fold_ids, split_rows

__all__ = [
    "DataError",
    "DataWarning",
    "Dataset",
    "FileLayout",
    "PredictionInput",
    "check_trainable",
    "concatenate_datasets",
    "fold_ids",
    "labelled_dataset",
    "read_dataset",
    "split_rows",
]

Kind = Literal["text", "vectors", "external"]
Part = Literal["train", "test"]

MIN_TRAINING_DOCUMENTS = 10
"""With fewer documents, calibrators have no rows unseen by their base model."""

_NAMED = 3  # names that a warning lists


@dataclass(frozen=True, eq=False)
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
    answers : Answers, or None
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
    answers: Answers | None = None

    def __post_init__(self) -> None:
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
        if self.feature_names is None:
            object.__setattr__(self, "feature_names", _numbered(self.X.shape[1]))
        elif len(self.feature_names) != self.X.shape[1]:
            raise ValueError(
                f"{len(self.feature_names)} feature names for {self.X.shape[1]} columns of X"
            )

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
        chosen = np.asarray(rows, dtype=np.int64)
        digest = hashlib.sha256(self.fingerprint.encode())
        digest.update(chosen.astype("<i8").tobytes())
        return Dataset(
            kind=self.kind,
            ids=tuple(self.ids[row] for row in chosen),
            label_names=self.label_names,
            Y=self.Y[chosen],
            texts=None if self.texts is None else tuple(self.texts[row] for row in chosen),
            X=None if self.X is None else self.X[chosen],
            feature_names=self.feature_names,
            fingerprint=digest.hexdigest(),
            annotators=None
            if self.annotators is None
            else tuple(self.annotators[row] for row in chosen),
            answers=None if self.answers is None else self.answers.take(chosen),
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
        found = [name for name, is_used in zip(self.label_names, used, strict=True) if is_used]
        if self.label_names[: len(label_names)] == tuple(label_names):
            labels, Y = self.label_names, self.Y
        else:
            labels = _with_unknown("the data", found, label_names)
            position = {name: index for index, name in enumerate(labels)}
            column = np.array([position.get(name, -1) for name in self.label_names], dtype=np.int32)
            rows = np.split(column[self.Y.indices], self.Y.indptr[1:-1])
            Y = _label_matrix([row.tolist() for row in rows], len(labels))
        X, features = self.X, self.feature_names
        if X is not None and features is not None and feature_names is not None:
            X, features = _in_columns_of("the data", X, features, tuple(feature_names))
        answers = self.answers
        if answers is not None:
            answers = answers.in_columns_of(
                self.label_names[: answers.n_labels], tuple(label_names)
            )
        return replace(self, label_names=labels, Y=Y, X=X, feature_names=features, answers=answers)


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
        annotators = tuple(chain(*(one.annotators or (None,) * one.n for one in parts)))
    answers = None
    if first.answers is not None and second.answers is not None:
        both = (first, first.answers), (second, second.answers)
        answers = concatenate_answers(
            [own.in_columns_of(part.label_names[: own.n_labels], labels) for part, own in both]
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
    known = set(upper_names)
    names = (*upper_names, *(name for name in lower_names if name not in known))
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


def read_dataset(
    path: str | Path,
    part: Part | None = None,
    *,
    label_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    layout: FileLayout | None = None,
    external: bool = False,
    numbers: Sequence[str] = (),
    several: bool = False,
    progress: Progress | None = None,
) -> Dataset:
    """Read and check labelled documents.

    Parameters
    ----------
    path : str or Path
        A file of texts (``.jsonl``, ``.csv``, ``.parquet``) or of
        vectors (``.svm``, ``.xc.txt``, ``.arff``, ``.npz``), gzipped or not, or a folder that holds
        ``train`` and ``test`` files of one of these forms. Beside a ``.svm`` file ``labels.txt``
        names the labels and ``features.txt``, if there, the features; otherwise features are named
        "1", "2", …
    part : {"train", "test"}, optional
        Which file of a folder; ignored if `path` is a file.
    label_names : sequence of str, optional
        The labels of a fitted model. The columns of ``Y`` follow it; labels that it lacks are
        appended, so that they count as misses, and a warning lists them. By default the columns
        are the labels of the texts, sorted, or those of ``labels.txt``.
    feature_names : sequence of str, optional
        The features of a fitted model. The columns of ``X`` follow it; features that it lacks are
        left out with a warning.
    layout : FileLayout, optional
        The file's format and the columns of a table; by default the file's name says the format.
    external : bool, default False
        Whether texts have another model's answers, or are left out for them; see
        `setwise.models.data.documents.read_documents`. In tables they are columns.
    numbers : sequence of str, default ()
        Keys of the metadata, or columns, whose numbers an external model reads.
    several : bool, default False
        Whether texts may repeat an id with the answer of another annotator; see
        `setwise.models.calibration.several_answers.settle`.
    progress : callable, optional
        Called with the share of the file read so far.

    Raises
    ------
    DataError
        If a file is missing, cannot be read, or is not in the form stated; the message gives the
        file, the line, the fault and how to correct it.
    """
    layout = layout or FileLayout()
    file = _file_of(Path(path), part)
    content = ContentHash()
    if layout.format_of(file) in VECTOR_FORMATS:
        if external:
            raise DataError(
                file, None, "files of vectors hold no answers", "give JSON Lines or a table"
            )
        return _read_vectors(file, layout, label_names, feature_names, progress, content)
    lines = document_lines(
        file,
        layout,
        labelled=True,
        several=several,
        numbers=numbers if external else None,
        progress=progress,
        content=content,
    )
    documents = read_documents(file, lines, external=external, several=several)
    return labelled_dataset(
        documents,
        content.hexdigest(),
        file,
        label_names,
        feature_names=feature_names,
        numbers=numbers,
    )


def _file_of(path: Path, part: Part | None) -> Path:
    """Return the data file that `path` refers to."""
    if not path.exists():
        raise DataError(path, None, "no such file", "check the path")
    if not path.is_dir():
        return path
    if part is None:
        raise DataError(path, None, "this is a folder", "name a .jsonl or .svm file in it")
    names = [f"{part}{suffix}{packed}" for suffix in SUFFIXES for packed in ("", ".gz")]
    found = [path / name for name in names if (path / name).is_file()]
    if len(found) > 1:
        both = " and ".join(file.name for file in found)
        raise DataError(path, None, f"both {both} are here", "keep one")
    if not found:
        raise DataError(path, None, f"the folder has no {part} part", f"add {' or '.join(names)}")
    return found[0]


def labelled_dataset(
    documents: LabelledDocuments,
    fingerprint: str,
    file: str | Path = "the data",
    label_names: Sequence[str] | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
) -> Dataset:
    """Return labelled documents as a data set.

    Parameters
    ----------
    documents : LabelledDocuments
    fingerprint : str
    file : str or Path
        Their source, for messages.
    label_names, feature_names, numbers : sequence of str, optional
        As for `read_dataset`.

    Raises
    ------
    DataError
        If an answer names a label that is not wanted, or a number is none.
    """
    found = set(chain.from_iterable(documents.labels))
    if label_names is None:
        found = found.union(*(answer.labels() for answer in documents.answers))
    names = _with_unknown(file, sorted(found), label_names)
    answers = None
    try:
        if documents.answers:
            known = names if label_names is None else label_names
            answers = Answers.of_parsed(known, documents.answers, numbers=numbers)
    except AnswerError as error:
        line = documents.lines[error.document]
        raise DataError(file, line, answer_fault(error), error.cure) from error
    column = {name: index for index, name in enumerate(names)}
    rows = [[column[label] for label in labels] for labels in documents.labels]
    annotated = any(annotator is not None for annotator in documents.annotators)
    X, features = None, None
    if documents.features:
        X, features = _feature_matrix(documents.features)
        if feature_names is not None:
            X, features = _in_columns_of(file, X, features, tuple(feature_names))
    return Dataset(
        kind="external" if answers is not None else "text" if X is None else "vectors",
        ids=tuple(documents.ids),
        label_names=names,
        Y=_label_matrix(rows, len(names)),
        texts=tuple(documents.texts) or None,
        X=X,
        feature_names=features,
        fingerprint=fingerprint,
        annotators=tuple(documents.annotators) if annotated else None,
        answers=answers,
    )


def _feature_matrix(rows: Sequence[Mapping[str, float]]) -> tuple[csr_array, tuple[str, ...]]:
    """Return named numbers as float64 rows, and the names of the columns."""
    names = tuple(sorted(set().union(*rows)))
    column = {name: index for index, name in enumerate(names)}
    bounds = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    indices = [column[name] for row in rows for name in row]
    values = np.array([value for row in rows for value in row.values()], dtype=np.float64)
    X = csr_array(
        (values, np.array(indices, dtype=np.int32), bounds), shape=(len(rows), len(names))
    )
    X.eliminate_zeros()
    X.sort_indices()
    return X, names


def _read_vectors(  # noqa: PLR0917 -- the parameters of `read_dataset`
    file: Path,
    layout: FileLayout,
    label_names: Sequence[str] | None,
    feature_names: Sequence[str] | None,
    progress: Progress | None,
    content: ContentHash,
) -> Dataset:
    X, label_sets, own_labels, own_features = read_vectors(
        file, layout.format_of(file), progress=progress, content=content
    )
    _warn_of_oddities(file, X, label_sets)
    used = sorted({label for labels in set(label_sets) for label in labels})
    names = (
        own_labels
        if label_names is None
        else _with_unknown(file, [own_labels[label] for label in used], label_names)
    )
    position = {name: index for index, name in enumerate(names)}
    # A label of labels.txt that neither the model nor this file uses gets no column.
    column = [position.get(name, -1) for name in own_labels]
    rows = [[column[label] for label in labels] for labels in label_sets]
    features = own_features or _numbered(X.shape[1])
    if feature_names is not None:
        X, features = _in_columns_of(file, X, features, tuple(feature_names))
    return Dataset(
        kind="vectors",
        ids=tuple(map(str, range(1, len(label_sets) + 1))),
        label_names=names,
        Y=_label_matrix(rows, len(names)),
        texts=None,
        X=X,
        feature_names=features,
        fingerprint=content.hexdigest(),
    )


def _numbered(n_features: int) -> tuple[str, ...]:
    return tuple(map(str, range(1, n_features + 1)))


def _warn_of_oddities(file: Path, X: csr_array, label_sets: Sequence[tuple[int, ...]]) -> None:
    repeated = sum(len(set(labels)) < len(labels) for labels in label_sets)
    if repeated:
        warnings.warn(
            f"{file}: a label is repeated in {count_of(repeated, 'document')}; merged",
            DataWarning,
            4,
        )
    featureless = int(np.count_nonzero(np.diff(X.indptr) == 0))
    if featureless:
        warnings.warn(
            f"{file}: there are no features in {count_of(featureless, 'document')}; kept",
            DataWarning,
            4,
        )


def _with_unknown(
    file: Path | str, found: Iterable[str], label_names: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the model's labels, then labels only the file has."""
    if label_names is None:
        return tuple(found)
    known = set(label_names)
    unknown = [name for name in found if name not in known]
    if unknown:
        warnings.warn(
            f"{file}: {count_of(len(unknown), 'label')} unknown to the model, counted as misses: "
            f"{_some(unknown)}",
            DataWarning,
            stacklevel=4,
        )
    return (*label_names, *unknown)


def _in_columns_of(
    file: Path | str, X: csr_array, own: tuple[str, ...], wanted: tuple[str, ...]
) -> tuple[csr_array, tuple[str, ...]]:
    """Return `X` with the columns of a fitted model."""
    if own == wanted:
        return X, wanted
    position = {name: index for index, name in enumerate(wanted)}
    column = np.array([position.get(name, -1) for name in own], dtype=np.int32)
    unknown = [own[index] for index in np.flatnonzero(column < 0)]
    if unknown:
        warnings.warn(
            f"{file}: {count_of(len(unknown), 'feature')} unknown to the model, left out: "
            f"{_some(unknown)}",
            DataWarning,
            stacklevel=4,
        )
    moved = column[X.indices]
    kept = moved >= 0
    counts = np.concatenate([[0], np.cumsum(kept)])
    result = csr_array(
        (X.data[kept], moved[kept], counts[X.indptr].astype(X.indptr.dtype)),
        shape=(X.shape[0], len(wanted)),
    )
    result.sort_indices()
    return result, wanted


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_NAMED]))
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _label_matrix(rows: Sequence[Sequence[int]], n_labels: int) -> csr_array:
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


def check_trainable(dataset: Dataset, path: str | Path) -> None:
    """Raise an error for untrainable data; warn about poor data.

    Parameters
    ----------
    dataset : Dataset
        Training data.
    path : str or Path
        Its source, for messages.

    Raises
    ------
    DataError
        If there are fewer than ``MIN_TRAINING_DOCUMENTS`` documents, none carries a label, or no
        text holds a word.

    Warns
    -----
    DataWarning
        If every document carries the same label set, or some labels are on no document.
    """
    if dataset.n < MIN_TRAINING_DOCUMENTS:
        raise DataError(
            path,
            None,
            f"only {count_of(dataset.n, 'document')}",
            f"training needs at least {MIN_TRAINING_DOCUMENTS}, so that the confidence is fitted "
            "on documents the model has not seen",
        )
    if dataset.Y.nnz == 0:
        raise DataError(path, None, "no document carries a label", "give labelled documents")
    if dataset.texts is not None and not any(WORD.search(text) for text in dataset.texts):
        raise DataError(path, None, "no document holds a word", "give texts of letters or digits")
    counts = np.asarray(dataset.Y.sum(axis=0, dtype=np.int64)).ravel()
    unused = [dataset.label_names[label] for label in np.flatnonzero(counts == 0)]
    if unused:
        warnings.warn(
            f"{path}: {count_of(len(unused), 'label')} on no document, never to be predicted: "
            f"{_some(unused)}",
            DataWarning,
            stacklevel=2,
        )
    if set(counts[counts > 0].tolist()) == {dataset.n}:
        warnings.warn(
            f"{path}: every document carries the same label set; nothing else will be predicted",
            DataWarning,
            stacklevel=2,
        )
