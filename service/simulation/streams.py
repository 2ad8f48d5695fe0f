"""Streams of documents with known label sets: synthetic, or from data sets."""

# ruff: noqa: PLC0415 - numpy, scikit-learn and xgboost import slowly: only where needed

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

from setwise.service.domain.predictions import Candidate, Document, Marginal, ScoredSet, TermWeight
from setwise.service.services.ports import Predictor
from setwise.service.simulation.plan import BadPlan, Drift

if TYPE_CHECKING:
    from setwise.models.data.datasets import Dataset

Labels = tuple[str, ...]

VOCABULARY = tuple(f"label-{number}" for number in range(1, 11))

# The confidences of `benchmarks/bench_trust.py`: with the law known, a target of .90 allows .49 of
# the calibrated documents to be sent and .27 of the over-confident ones.
_SHAPE = (2.2, 0.75)
_SLOPE, _SHIFT = 0.75, -0.35
_SECOND = 0.6  # the second candidate's share of the remaining probability


class Item(NamedTuple):
    """A document and its true label set, before any drift."""

    document: Document
    truth: Labels


class Stream(Protocol):
    """An endless sequence of documents, and the model that scores them."""

    @property
    def labels(self) -> Sequence[str]:
        """The vocabulary."""

    @property
    def artifact(self) -> Path | None:
        """The model to serve; None if `predictor` scores."""

    @property
    def predictor(self) -> Predictor | None:
        """The predictor, if there is no artifact."""

    def item(self, number: int) -> Item:
        """Return the document with this number, from 0; it is always the same."""


@dataclass(frozen=True)
class _Drawn:
    confidence: float
    candidates: tuple[Labels, Labels, Labels]
    truth: Labels


@dataclass(frozen=True)
class SyntheticStream:
    """Documents without content, whose confidences follow a known law.

    Confidences come from Beta(2.2, 0.75). They are calibrated, or too high if `overconfident`: a
    set with confidence c is then right with probability sigmoid(.75 logit(c) - .35).
    """

    seed: int
    overconfident: bool = False

    @property
    def labels(self) -> Sequence[str]:
        """The vocabulary."""
        return VOCABULARY

    @property
    def artifact(self) -> Path | None:
        """None: there is no trained model."""
        return None

    @property
    def predictor(self) -> Predictor:
        """The predictor that knows the law."""
        return SyntheticPredictor(self)

    def item(self, number: int) -> Item:
        """Return the document with this number."""
        name = f"document-{number}"
        return Item(Document(id=name, text=name), self.drawn(name).truth)

    def drawn(self, name: str) -> _Drawn:
        """Draw a document's confidence, candidates and truth from its name and the seed."""
        draw = Random(f"{self.seed}/{name}")  # noqa: S311 -- keeps no secret
        confidence = draw.betavariate(*_SHAPE)
        chance = self._chance(confidence)
        best = tuple(sorted(draw.sample(VOCABULARY, draw.choice((1, 1, 2, 3)))))
        other = _without(best, draw)
        third = _changed(best, draw.choice(best), VOCABULARY)
        truth = best
        if draw.random() >= chance:
            truth = other if draw.random() < _SECOND else third
        return _Drawn(confidence, (best, other, third), truth)

    def _chance(self, confidence: float) -> float:
        """Return the probability that a set of this confidence is right."""
        if not self.overconfident:
            return confidence
        inside = min(max(confidence, 1e-12), 1.0 - 1e-12)
        odds = math.log(inside / (1.0 - inside))
        return 1.0 / (1.0 + math.exp(-(_SLOPE * odds + _SHIFT)))


class SyntheticPredictor:
    """Scores documents of a synthetic stream with their drawn confidences."""

    external = False

    def __init__(self, stream: SyntheticStream) -> None:
        self._stream = stream
        law = "overconfident" if stream.overconfident else "calibrated"
        self.version = f"synthetic:{law}:{stream.seed}"
        self.calibrator_version = self.own_calibrator_version = self.version
        self.labels = stream.labels

    def score(self, documents: Sequence[Document]) -> list[ScoredSet]:
        """Return the drawn label set of each document."""
        return [self._score(self._stream.drawn(document.id or "")) for document in documents]

    def seen(self, sets: Sequence[Sequence[str]]) -> list[bool]:
        """Return True for each set, because there are no training documents."""
        return [True for _ in sets]

    def explain(
        self,
        document: Document,  # noqa: ARG002 -- a `Predictor`
        labels: Sequence[str],
    ) -> list[tuple[TermWeight, ...]]:
        """Return no terms, because the documents have none."""
        return [() for _ in labels]

    def _score(self, drawn: _Drawn) -> ScoredSet:
        rest = 1.0 - drawn.confidence
        # The first candidate must remain the most confident one.
        others = (min(part * rest, drawn.confidence) for part in (_SECOND, 1.0 - _SECOND))
        shares = (drawn.confidence, *others)
        marginals: dict[str, float] = {}
        for labels, share in zip(drawn.candidates, shares, strict=True):
            for label in labels:
                marginals[label] = marginals.get(label, 0.0) + share
        return ScoredSet(
            candidates=tuple(
                Candidate(labels, share, share)
                for labels, share in zip(drawn.candidates, shares, strict=True)
            ),
            marginals=tuple(
                Marginal(label, min(share, 1.0))
                for label, share in sorted(marginals.items(), key=lambda one: -one[1])
            ),
            out_of_domain=False,
            model_version=self.version,
            calibrator_version=self.calibrator_version,
        )


class HeldOutStream:
    """The documents of a data set in random order, repeated in rounds.

    Raises `BadPlan` if the model needs another kind of data, or knows all labels of no document.

    ``artifact``: A folder written by ``setwise train``.
    ``data``: A data file, or a dataset folder, whose test part is used.
    ``seed``: Determines the order, which differs between rounds.
    """

    def __init__(self, artifact: Path, data: Path, seed: int) -> None:
        from setwise.models.data.dataset_files import read_dataset
        from setwise.models.data.lines import DataWarning
        from setwise.models.storage.artifacts import load

        predictor = load(artifact)
        self.artifact: Path | None = artifact
        self.predictor: Predictor | None = None
        self.labels: Sequence[str] = tuple(predictor.label_names)
        self._seed = seed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # about documents that are left out anyway
            dataset = read_dataset(
                data,
                "test",
                label_names=predictor.label_names,
                feature_names=predictor.feature_names if predictor.kind == "vectors" else None,
            )
        if dataset.kind != predictor.kind:
            raise BadPlan(f"{data}: holds {dataset.kind}, but the model takes {predictor.kind}")
        self._documents, self._truths = _known(dataset, len(self.labels))
        self.n_documents = len(self._documents)
        """Number of documents in a round."""
        self.n_left_out = dataset.n - self.n_documents
        """Documents that are empty or have labels unknown to the model."""
        if not self._documents:
            raise BadPlan(f"{data}: no document has only labels that the model knows")
        self._orders: dict[int, list[int]] = {}

    def item(self, number: int) -> Item:
        """Return the document with this number; its name differs between rounds."""
        turn, place = divmod(number, self.n_documents)
        if turn not in self._orders:
            order = list(range(self.n_documents))
            Random(f"{self._seed}/order/{turn}").shuffle(order)  # noqa: S311 -- no secret
            self._orders = {turn: order}
        row = self._orders[turn][place]
        return Item(self._document(row, f"document-{number}"), self._truths[row])

    def _document(self, row: int, name: str) -> Document:
        content = self._documents[row]
        if isinstance(content, str):
            return Document(id=name, text=content)
        return Document(id=name, features=content)


def _known(dataset: "Dataset", n_labels: int) -> tuple[list[str | dict[str, float]], list[Labels]]:
    """Return documents whose labels the model knows, and those labels."""
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


def drifted(
    truth: Labels, drift: Drift | None, week: int, labels: Sequence[str], draw: Random
) -> Labels:
    """Return the true label set in a week, ordered by the vocabulary."""
    if drift is None or week < drift.week or not truth:
        return truth
    spared = draw.random() >= drift.share_in(week)
    if spared or (drift.label is not None and drift.label not in truth):
        return truth
    return _changed(truth, drift.label or draw.choice(truth), labels)


def _changed(labels: Labels, old: str, vocabulary: Sequence[str]) -> Labels:
    """Replace a label with the next one not in the set."""
    place = vocabulary.index(old)
    behind = (*vocabulary[place + 1 :], *vocabulary[:place])
    new = next((label for label in behind if label not in labels), None)
    kept = {label for label in labels if label != old} | ({new} if new is not None else set())
    return tuple(label for label in vocabulary if label in kept)


def _without(labels: Labels, draw: Random) -> Labels:
    lost = draw.choice(labels)
    return tuple(label for label in labels if label != lost)
