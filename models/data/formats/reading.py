"""Reads any file, as lines of documents or as feature vectors."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from setwise.models.data.formats.arff import read_arff
from setwise.models.data.formats.label_studio import task_lines
from setwise.models.data.formats.layout import TABLE_FORMATS, FileLayout, Format
from setwise.models.data.formats.npz import read_npz
from setwise.models.data.formats.reviews import is_export, reviewed_lines
from setwise.models.data.formats.tables import table_lines
from setwise.models.data.formats.vectors import Vectors
from setwise.models.data.lines import ContentHash, DataError, Progress, names_beside, read_lines
from setwise.models.data.svmlight import read_extreme, read_svmlight

_ANY_LABEL = 2**62


def document_lines(
    path: str | Path,
    layout: FileLayout | None = None,
    *,
    labelled: bool = False,
    several: bool = False,
    numbers: Sequence[str] | None = None,
    progress: Progress | None = None,
    content: ContentHash | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Yield the documents of any file as numbered JSON Lines.

    Parameters
    ----------
    path : str or Path
        The file, or ``-`` for standard input.
    layout : FileLayout, optional
        Its format and columns; by default its name says the format.
    labelled : bool
        Whether the labels of texts are read, and must be there.
    several : bool
        Whether each answer about a document is a line, or one for all of them.
    numbers : sequence of str, optional
        Numbers beside another model's answers. None: answers are not read.
    progress : callable, optional
        Called with the share of the file read so far.
    content : ContentHash, optional
        Updated with every line.

    Raises
    ------
    DataError
        At the first fault.
    """
    layout = layout or FileLayout()
    format_ = layout.format_of(path, None if labelled else "jsonl")
    if format_ == "jsonl":
        numbered = read_lines(path, progress=progress, content=content)
        first = next(numbered, None) if labelled else None
        lines = numbered if first is None else chain([first], numbered)
        if first is not None and is_export(first[1]):
            answered = numbers is not None
            lines = reviewed_lines(path, lines, answered=answered, several=several)
        yield from lines
        return
    if format_ in TABLE_FORMATS:
        lines = table_lines(
            path, format_, layout, labelled=labelled, numbers=numbers, progress=progress
        )
    elif format_ == "label-studio":
        external = numbers is not None
        lines = task_lines(path, layout, labelled=labelled, several=several, external=external)
    else:
        lines = _vector_lines(read_vectors(Path(path), format_, labelled=False, progress=progress))
    for number, line in lines:
        if content is not None:
            content.update(line)
        yield number, line


def _vector_lines(vectors: Vectors) -> Iterator[tuple[int, bytes]]:
    X = vectors.X
    names = vectors.feature_names or tuple(map(str, range(1, X.shape[1] + 1)))
    for row in range(X.shape[0]):
        entries = slice(X.indptr[row], X.indptr[row + 1])
        features = {
            names[column]: value
            for column, value in zip(
                X.indices[entries].tolist(), X.data[entries].tolist(), strict=True
            )
        }
        yield row + 1, json.dumps({"id": str(row + 1), "features": features}).encode()


def read_vectors(
    file: Path,
    format_: Format,
    *,
    labelled: bool = True,
    progress: Progress | None = None,
    content: ContentHash | None = None,
) -> Vectors:
    """Read a file of feature vectors.

    Parameters
    ----------
    file : Path
        The file, plain or gzipped.
    format_ : {"svm", "xc", "arff", "npz"}
        Its format.
    labelled : bool
        Whether labels must be there, with their names.
    progress, content : optional
        See :func:`setwise.models.data.lines.read_lines`.

    Raises
    ------
    DataError
        At the first fault of the file or of those beside it.
    """
    if format_ == "arff":
        return read_arff(file, labelled=labelled, progress=progress, content=content)
    if format_ == "npz":
        return read_npz(file, labelled=labelled, content=content)
    labels = names_beside(file, "label", content=content) if labelled else None
    if format_ == "svm" and labels is None and labelled:
        raise DataError(
            file, None, "there is no labels.txt beside it", "name one label a line, label 0 first"
        )
    features = names_beside(file, "feature", content=content)
    if format_ == "xc":
        X, label_sets, n_labels = read_extreme(file, progress=progress, content=content)
        labels = _fitting(file, "label", labels, n_labels)
        features = _fitting(file, "feature", features, X.shape[1])
    else:
        X, label_sets = read_svmlight(
            file,
            n_labels=_ANY_LABEL if labels is None else len(labels),
            n_features=None if features is None else len(features),
            progress=progress,
            content=content,
        )
    return Vectors(
        X, label_sets, tuple(labels or ()), None if features is None else tuple(features)
    )


def _fitting(file: Path, what: str, names: list[str] | None, n: int) -> list[str]:
    """Return the names, or numbers from 0 without any."""
    if names is None:
        return list(map(str, range(n)))
    if len(names) != n:
        raise DataError(
            file, 1, f"{what}s.txt names {len(names)} of {n} {what}s", f"name each {what} once"
        )
    return names
