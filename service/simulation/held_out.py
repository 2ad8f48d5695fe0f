"""A stream of documents from a data set that the model has not seen."""

# ruff: noqa: PLC0415 - numpy, scikit-learn and xgboost take seconds to import: only where needed

import warnings
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from setwise.service.domain.predictions import Document
from setwise.service.services.ports import Predictor
from setwise.service.simulation.plan import BadPlan
from setwise.service.simulation.streams import Item, Labels

if TYPE_CHECKING:
    from setwise.models.data.datasets import Dataset

_PURPOSE = "order"


class HeldOutStream:
    """The documents of a data set in random order, in another one each time round.

    Parameters
    ----------
    artifact : Path
        A folder written by ``setwise train``.
    data : Path
        A data file, or a dataset folder: its test part.
    seed : int
        Decides on the order.

    Raises
    ------
    BadPlan
        If the data set is of another kind than the model, or has no document with labels that the
        model knows.
    """

    def __init__(self, artifact: Path, data: Path, seed: int) -> None:
        from setwise.models.data.datasets import DataWarning, read_dataset
        from setwise.models.predictor import SetPredictor

        predictor = SetPredictor.load(artifact)
        self._artifact = artifact
        self._labels = tuple(predictor.label_names)
        self._seed = seed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # those documents are left out, see below
            dataset = read_dataset(
                data,
                "test",
                label_names=predictor.label_names,
                feature_names=predictor.feature_names if predictor.kind == "vectors" else None,
            )
        if dataset.kind != predictor.kind:
            raise BadPlan(f"{data}: holds {dataset.kind}, but the model takes {predictor.kind}")
        self._documents, self._truths = _known(dataset, len(self._labels))
        self.n_left_out = dataset.n - len(self._documents)
        """Documents that are empty or have labels unknown to the model, which nobody could give."""
        if not self._documents:
            raise BadPlan(f"{data}: no document has labels that all are known to the model")
        self._orders: dict[int, list[int]] = {}

    @property
    def labels(self) -> Sequence[str]:
        """The vocabulary of the model."""
        return self._labels

    @property
    def artifact(self) -> Path | None:
        """The model's folder."""
        return self._artifact

    @property
    def predictor(self) -> Predictor | None:
        """None: the service serves the artifact."""
        return None

    @property
    def n_documents(self) -> int:
        """How many documents there are until they come again."""
        return len(self._documents)

    def item(self, number: int) -> Item:
        """Return the document with a number; each time round it has another name."""
        turn, place = divmod(number, len(self._documents))
        if turn not in self._orders:
            order = list(range(len(self._documents)))
            Random(f"{self._seed}/{_PURPOSE}/{turn}").shuffle(order)  # noqa: S311 -- no secret
            self._orders = {turn: order}
        row = self._orders[turn][place]
        return Item(self._document(row, f"document-{number}"), self._truths[row])

    def _document(self, row: int, name: str) -> Document:
        content = self._documents[row]
        if isinstance(content, str):
            return Document(id=name, text=content)
        return Document(id=name, features=content)


def _known(dataset: "Dataset", n_labels: int) -> tuple[list[str | dict[str, float]], list[Labels]]:
    """Return the documents whose labels the model knows all, and these labels."""
    contents: list[str | dict[str, float]] = []
    truths: list[Labels] = []
    bounds = dataset.Y.indptr
    for row in range(dataset.n):
        columns = dataset.Y.indices[bounds[row] : bounds[row + 1]]
        content = _content(dataset, row)
        if content and all(column < n_labels for column in columns):
            contents.append(content)
            truths.append(tuple(dataset.label_names[column] for column in sorted(columns)))
    return contents, truths


def _content(dataset: "Dataset", row: int) -> str | dict[str, float]:
    if dataset.texts is not None:
        return dataset.texts[row]
    if dataset.X is None or dataset.feature_names is None:
        raise ValueError("a data set holds texts, or vectors of named features")
    first, last = dataset.X.indptr[row], dataset.X.indptr[row + 1]
    return {
        dataset.feature_names[column]: float(value)
        for column, value in zip(
            dataset.X.indices[first:last], dataset.X.data[first:last], strict=True
        )
    }
