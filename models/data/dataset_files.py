"""Reads data sets from files, and checks that they can train."""

import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from setwise.characters import has_word
from setwise.models.data.answers import ModelAnswers
from setwise.models.data.datasets import (
    Dataset,
    label_matrix,
    named_columns,
    numbered,
    some_of,
    with_unknown,
)
from setwise.models.data.document_error import DocumentError
from setwise.models.data.documents import (
    LabelledDocuments,
    fault_in_line,
    read_documents,
)
from setwise.models.data.formats.layout import SUFFIXES, VECTOR_FORMATS, FileLayout
from setwise.models.data.formats.reading import document_lines, read_vectors
from setwise.models.data.formats.vectors import matrix_of
from setwise.models.data.lines import (
    ContentHash,
    DataError,
    DataWarning,
    Progress,
    count_of,
    is_address,
)
from setwise.spelling import spelled

Part = Literal["train", "test"]

MIN_TRAINING_DOCUMENTS = 10
"""With fewer documents, calibrators have no rows unseen by their base model."""


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
    if isinstance(numbers, str):
        raise TypeError(f"numbers is a text; give a list of names: [{numbers!r}]")
    if label_names is not None:
        label_names = tuple(map(spelled, label_names))
    if feature_names is not None:
        feature_names = tuple(map(spelled, feature_names))
    file = data_file(path, part)
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


def data_file(path: str | Path, part: Part | None) -> Path:
    """Return the file that a path refers to: itself, or in a folder the one of the part."""
    path = Path(path)
    if not path.exists():
        raise DataError(path, None, "no such file", "check the path")
    if not path.is_dir():
        return path
    if part is None:
        raise DataError(path, None, "this is a folder", "name a .jsonl or .svm file in it")
    names = [f"{part}{suffix}{packed}" for suffix in SUFFIXES for packed in ("", ".gz")]
    files = [path / name for name in names if (path / name).is_file()]
    if len(files) > 1:
        both = " and ".join(file.name for file in files)
        raise DataError(path, None, f"both {both} are here", "keep one")
    if not files:
        raise DataError(path, None, f"the folder has no {part} part", f"add {' or '.join(names)}")
    return files[0]


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
    used = set(chain.from_iterable(documents.labels))
    if label_names is None:
        used = used.union(*(answer.labels() for answer in documents.answers))
    names = with_unknown(file, sorted(used), label_names)
    answers = None
    try:
        if documents.answers:
            answerable = names if label_names is None else label_names
            answers = ModelAnswers.of(answerable, documents.answers, numbers=numbers)
    except DocumentError as error:
        line = documents.lines[error.document]
        raise DataError(file, line, fault_in_line(error), error.cure) from error
    column = {name: index for index, name in enumerate(names)}
    rows = [[column[label] for label in labels] for labels in documents.labels]
    annotated = any(annotator is not None for annotator in documents.annotators)
    X, features = None, None
    if documents.features:
        X, features = _feature_matrix(documents.features)
        if feature_names is not None:
            X, features = named_columns(file, X, features, tuple(feature_names))
    return Dataset(
        kind="external" if answers is not None else "text" if X is None else "vectors",
        ids=tuple(documents.ids),
        label_names=names,
        Y=label_matrix(rows, len(names)),
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
    numbered_rows = [{column[name]: value for name, value in row.items()} for row in rows]
    return matrix_of(numbered_rows, len(names)), names


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
        else with_unknown(file, [own_labels[label] for label in used], label_names)
    )
    position = {name: index for index, name in enumerate(names)}
    # A label of labels.txt that neither the model nor this file uses gets no column.
    column = [position.get(name, -1) for name in own_labels]
    rows = [[column[label] for label in labels] for labels in label_sets]
    features = own_features or numbered(X.shape[1])
    if feature_names is not None:
        X, features = named_columns(file, X, features, tuple(feature_names))
    return Dataset(
        kind="vectors",
        ids=tuple(map(str, range(1, len(label_sets) + 1))),
        label_names=names,
        Y=label_matrix(rows, len(names)),
        texts=None,
        X=X,
        feature_names=features,
        fingerprint=content.hexdigest(),
    )


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
    if dataset.texts is not None and not any(map(has_word, dataset.texts)):
        raise DataError(path, None, "no document holds a word", "give texts of letters or digits")
    if dataset.texts and all(map(is_address, dataset.texts)):
        warnings.warn(
            f"{path}: every text is an address, and is read as it stands; if texts are meant, put "
            "them in the place of their addresses",
            DataWarning,
            stacklevel=2,
        )
    counts = np.asarray(dataset.Y.sum(axis=0, dtype=np.int64)).ravel()
    unused = [dataset.label_names[label] for label in np.flatnonzero(counts == 0)]
    if unused:
        warnings.warn(
            f"{path}: {count_of(len(unused), 'label')} on no document, never to be predicted: "
            f"{some_of(unused)}",
            DataWarning,
            stacklevel=2,
        )
    if set(counts[counts > 0].tolist()) == {dataset.n}:
        warnings.warn(
            f"{path}: every document carries the same label set; nothing else will be predicted",
            DataWarning,
            stacklevel=2,
        )
