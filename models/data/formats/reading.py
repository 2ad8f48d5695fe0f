"""Reads any file, as lines of documents or as feature vectors."""

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from setwise.models.data.formats.arff import read_arff
from setwise.models.data.formats.label_studio import task_lines
from setwise.models.data.formats.layout import TABLE_FORMATS, FileLayout, Format
from setwise.models.data.formats.npz import read_npz
from setwise.models.data.formats.reviews import (
    ANNOTATION_COLUMNS,
    columns_of_export,
    exported_documents,
    reviewed_lines,
)
from setwise.models.data.formats.tables import table_lines, table_rows
from setwise.models.data.formats.vectors import Vectors
from setwise.models.data.lines import (
    STDIN,
    ContentHash,
    DataError,
    DataWarning,
    Progress,
    names_beside,
    read_lines,
    read_text,
)
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
        The file, or ``-`` for standard input. If no labels are read, also a folder of ``.txt``
        files, each of which is a document under its name.
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
    is_folder = not labelled and str(path) != STDIN and Path(path).is_dir()
    format_ = "text" if is_folder else layout.format_of(path, None if labelled else "jsonl")
    if format_ == "jsonl":
        numbered = read_lines(path, progress=progress, content=content)
        first = next(numbered, None)
        lines = numbered if first is None else chain([first], numbered)
        answered = numbers is not None
        columns = None if first is None else columns_of_export(first[1])
        if columns is None:
            yield from lines
        elif not labelled:
            yield from exported_documents(path, lines, answered=answered)
        elif columns is ANNOTATION_COLUMNS:
            yield from reviewed_lines(
                path, lines, answered=answered, several=several, least=layout.least_documents
            )
        else:
            cure = "learn from GET /v1/exports/annotations, with content=true"
            raise DataError(path, None, "an export of predictions or outcomes", cure)
        return
    if format_ in TABLE_FORMATS:
        lines = table_lines(
            path, format_, layout, labelled=labelled, numbers=numbers, progress=progress
        )
    elif format_ == "label-studio":
        external = numbers is not None
        lines = task_lines(path, layout, labelled=labelled, several=several, external=external)
    elif format_ == "text":
        lines = _text_lines(Path(path), labelled=labelled)
    else:
        lines = _vector_lines(read_vectors(Path(path), format_, labelled=False, progress=progress))
    for number, line in lines:
        if content is not None:
            content.update(line)
        yield number, line


def _text_lines(path: Path, *, labelled: bool) -> Iterator[tuple[int, bytes]]:
    """Yield each file of plain text as a line."""
    if labelled:
        cure = "name its --format if it holds documents with labels"
        raise DataError(path, None, "a text alone has no labels", cure)
    files = sorted(path.glob("*.txt")) if path.is_dir() else [path]
    if not files:
        raise DataError(path, None, "there are no .txt files in the folder", "name a file")
    for number, file in enumerate(files, 1):
        yield number, json.dumps({"id": file.name, "text": read_text(file)}).encode()


def fitting_layout(
    path: str | Path, layout: FileLayout, learnt: FileLayout, *, text_is_named: bool = False
) -> FileLayout:
    """Return a layout with what another one says beyond it, as far as a file has these columns.

    Parameters
    ----------
    path : str or Path
        The file.
    layout : FileLayout
        What the user says of it.
    learnt : FileLayout
        What was said of another file, from which a model learnt.
    text_is_named : bool
        Whether the user named the column of the texts.
    """
    if str(path) == STDIN or Path(path).is_dir():
        return layout
    own = None if layout.format else _format_by_name(path)
    format_ = layout.format or (learnt.format if own in {None, "text"} else None)
    if own == "jsonl" and learnt.format == "huggingface":
        format_ = learnt.format
    merged = replace(learnt, format=format_)
    if text_is_named:
        merged = replace(merged, text_column=layout.text_column)
    if layout.labels_column is not None or layout.label_columns:
        merged = replace(
            merged, labels_column=layout.labels_column, label_columns=layout.label_columns
        )
    if layout.label_separator is not None:
        merged = replace(merged, label_separator=layout.label_separator)
    kind = merged.format_of(path, "jsonl")
    if kind not in {*TABLE_FORMATS, "jsonl"}:
        return merged
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        _, columns = next(table_rows(path, merged), (0, {}))
    named = (merged.labels_column, *merged.label_columns)
    if merged.text_column not in columns:
        merged = replace(merged, text_column=layout.text_column)
    if not all(name in columns for name in named if name is not None):
        merged = replace(
            merged,
            labels_column=layout.labels_column,
            label_columns=layout.label_columns,
            label_separator=layout.label_separator,
        )
    return merged


def _format_by_name(path: str | Path) -> Format | None:
    try:
        return FileLayout().format_of(path)
    except DataError:
        return None


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
