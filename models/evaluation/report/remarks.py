"""What is odd about the documents of a report, as sentences."""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array

from setwise.models.data.datasets import Dataset
from setwise.models.evaluation.metrics import Metrics, have_one_set
from setwise.models.figures.numerals import percent, plural
from setwise.models.predictor import SetPredictor

_FEW_DOCUMENTS = 50
"""Documents below which figures say little."""

_FEW_TIMES = 5
"""Documents with a label below which figures of the label say little."""

_NAMED = 5


def remarks_on(
    dataset: Dataset,
    predictor: SetPredictor,
    metrics: Metrics,
    trained_on: Dataset | None,
    predicted: csr_array,
) -> tuple[str, ...]:
    """Return what makes figures on these documents, or the model, worth less than they look.

    Parameters
    ----------
    dataset : Dataset
        In the predictor's columns; labels that it lacks come last.
    predictor : SetPredictor
    metrics : Metrics
        On these documents.
    trained_on : Dataset, optional
        What it learnt from: documents of it are found again.
    predicted : csr_array, shape (n, n_labels)
        The predicted label sets.
    """
    constant = _constant(predicted, dataset)
    return (*_few(metrics), *constant, *_remarks(dataset, predictor, trained_on))


def _constant(predicted: csr_array, dataset: Dataset) -> Iterator[str]:
    """Say that the model answers alike whatever it reads, unless all documents are alike."""
    if have_one_set(predicted) and len(set(_contents(dataset))) > 1:
        names = _named([dataset.label_names[label] for label in predicted[[0]].indices])
        yield (
            f"The model gives the same set to every document ({names or 'no labels'}): it has not "
            "learnt to tell them apart; train on more documents, or look at what it reads."
        )


def _few(metrics: Metrics) -> Iterator[str]:
    if metrics.n < _FEW_DOCUMENTS:
        low, high = (
            percent(end, 0) for end in (metrics.set_accuracy_low, metrics.set_accuracy_high)
        )
        yield (
            f"{plural(metrics.n, 'document')} say little: with 90 % certainty, {low} to {high} of "
            f"the label sets are right; evaluate on {_FEW_DOCUMENTS} or more."
        )


def _remarks(
    dataset: Dataset, predictor: SetPredictor, trained_on: Dataset | None
) -> Iterator[str]:
    if dataset.fingerprint == predictor.manifest.get("data", {}).get("fingerprint"):
        yield "The model learnt from these very documents: every figure here is too good."
    contents = _contents(dataset)
    if trained_on is not None:
        known = set(_contents(trained_on))
        again = sum(content in known for content in contents)
        if again:
            yield (
                f"{plural(again, 'document stands', 'documents stand')} in the training data too: "
                "leave them out, they make the figures too good."
            )
    copies = len(contents) - len(set(contents))
    if copies:
        yield (
            f"{plural(copies, 'document is a copy', 'documents are copies')} of another one here: "
            "a proof takes them as different."
        )
    empty = sum(not content.strip() for content in contents)
    if empty:
        yield f"{plural(empty, 'document is', 'documents are')} empty."
    yield from _on_labels(dataset, len(predictor.label_names))


def _contents(dataset: Dataset) -> list[bytes]:
    """Return the content of each document, the same for copies; none of mere answers."""
    if dataset.texts is not None:
        return [" ".join(text.split()).encode() for text in dataset.texts]
    if dataset.X is None:
        return []
    X = dataset.X
    rows = (slice(*X.indptr[row : row + 2]) for row in range(dataset.n))
    return [X.indices[row].tobytes() + X.data[row].tobytes() for row in rows]


def _on_labels(dataset: Dataset, n_known: int) -> Iterator[str]:
    times = np.bincount(dataset.Y.indices, minlength=len(dataset.label_names))
    unknown = [dataset.label_names[k] for k in np.flatnonzero(times).tolist() if k >= n_known]
    if unknown:
        wrong = len(np.unique(dataset.Y[:, n_known:].tocoo().row))
        yield (
            f"The model does not know {plural(len(unknown), 'label')} of "
            f"{plural(wrong, 'document')}, which count as wrong: {_named(unknown)}."
        )
    rare = int(((times > 0) & (times < _FEW_TIMES)).sum())
    if rare:
        yield (
            f"{plural(rare, 'label occurs', 'labels occur')} in fewer than {_FEW_TIMES} documents: "
            "their figures say little."
        )


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return f"{', '.join(map(repr, names[:_NAMED]))}{f' and {more:,} more' if more > 0 else ''}"
