"""Streams of documents with known label sets: synthetic, or held out from a data set."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from setwise.models.data.dataset_files import read_dataset
from setwise.models.storage.artifacts import load
from setwise.service.domain.predictions import Candidate, Document, Marginal, ScoredSet, TermWeight
from setwise.service.services.ports import Predictor

Labels = tuple[str, ...]

VOCABULARY = tuple(f"label-{number}" for number in range(1, 11))

LETTERS = "abcdefghij"
"""Letters for digits: texts that differ in their numbers alone are near copies."""

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

    labels: Sequence[str]
    artifact: Path | None
    """The model to serve; None if `predictor` scores."""
    predictor: Predictor | None

    def item(self, number: int) -> Item:
        """Return the document with this number, from 0; it is always the same."""


class Drift(NamedTuple):
    """A change of the labels' meaning, such as a new coding rule.

    From a week on, the true set of some documents has one of its labels replaced by the next label
    of the vocabulary. The model does not change: it is as confident as before, and wrong.
    """

    week: int
    """First week of the change, from 1."""
    share: float
    """Probability, in (0, 1], that a document is affected."""
    label: str | None = None
    """The label to replace; None replaces a random label of each document."""

    def truth(self, truth: Labels, week: int, labels: Sequence[str], draw: Random) -> Labels:
        """Return the true label set in a week, in the vocabulary's order."""
        if week < self.week or not truth or draw.random() >= self.share:
            return truth
        if self.label is not None and self.label not in truth:
            return truth
        return _replace(truth, self.label or draw.choice(truth), labels)


def _replace(labels: Labels, old: str, vocabulary: Sequence[str]) -> Labels:
    """Replace a label with the next one not in the set."""
    place = vocabulary.index(old)
    behind = (*vocabulary[place + 1 :], *vocabulary[:place])
    new = next((label for label in behind if label not in labels), old)
    return tuple(label for label in vocabulary if label == new or label in {*labels} - {old})


class _Draw(NamedTuple):
    confidence: float
    candidates: tuple[Labels, Labels, Labels]
    truth: Labels


@dataclass
class SyntheticStream:
    """Documents without content, whose confidences follow a known law.

    Confidences come from Beta(2.2, 0.75). They are calibrated, or too high if `overconfident`: a
    set with confidence c is then right with probability sigmoid(.75 logit(c) - .35).
    """

    seed: int
    overconfident: bool = False
    labels: Sequence[str] = VOCABULARY
    artifact: None = None

    def __post_init__(self) -> None:
        self.predictor = SyntheticPredictor(self)

    def item(self, number: int) -> Item:
        name = f"document-{number}"
        text = "".join(LETTERS[int(digit)] for digit in f"{number}")
        return Item(Document(id=name, text=text), self.draw(name).truth)

    def draw(self, name: str) -> _Draw:
        """Draw a document's confidence, candidates and truth from its name and the seed."""
        draw = Random(f"{self.seed}/{name}")
        confidence = draw.betavariate(*_SHAPE)
        best = tuple(sorted(draw.sample(VOCABULARY, draw.choice((1, 1, 2, 3)))))
        dropped = draw.choice(best)
        second = tuple(label for label in best if label != dropped)
        third = _replace(best, draw.choice(best), VOCABULARY)
        truth = best
        if draw.random() >= self._chance(confidence):
            truth = second if draw.random() < _SECOND else third
        return _Draw(confidence, (best, second, third), truth)

    def _chance(self, confidence: float) -> float:
        """Return the probability that a set of this confidence is right."""
        if not self.overconfident:
            return confidence
        inside = min(max(confidence, 1e-12), 1.0 - 1e-12)
        odds = math.log(inside / (1.0 - inside))
        return 1.0 / (1.0 + math.exp(-(_SLOPE * odds + _SHIFT)))


class SyntheticPredictor:
    """Scores documents of a synthetic stream with their confidences."""

    external = False

    def __init__(self, stream: SyntheticStream) -> None:
        self._stream = stream
        law = "overconfident" if stream.overconfident else "calibrated"
        self.version = f"synthetic:{law}:{stream.seed}"
        self.calibrator_version = self.own_calibrator_version = self.version
        self.labels = stream.labels

    def score(self, documents: Sequence[Document]) -> list[ScoredSet]:
        return [self._score(self._stream.draw(document.id or "")) for document in documents]

    def explain(self, document: Document, labels: Sequence[str]) -> list[tuple[TermWeight, ...]]:
        return [() for _ in labels]

    def _score(self, drawn: _Draw) -> ScoredSet:
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
                for label, share in sorted(marginals.items(), key=lambda each: -each[1])
            ),
            out_of_domain=False,
            model_version=self.version,
            calibrator_version=self.calibrator_version,
        )


class HeldOutStream:
    """The texts of a data file in random order, repeated in rounds.

    Texts that are empty, or that have labels unknown to the model, are left out.

    ``artifact``: A folder written by ``setwise train``.
    ``seed``: Determines the order, which differs between rounds.
    """

    def __init__(self, artifact: Path, data: Path, seed: int) -> None:
        self.artifact = artifact
        self.predictor = None
        self.labels: Sequence[str] = tuple(load(artifact).label_names)
        self._seed = seed
        dataset = read_dataset(data, label_names=self.labels)
        assert dataset.texts is not None
        bounds, n_labels = dataset.Y.indptr, len(self.labels)
        rows = (dataset.Y.indices[bounds[row] : bounds[row + 1]] for row in range(dataset.n))
        self._items = [
            (text, tuple(self.labels[column] for column in sorted(columns)))
            for text, columns in zip(dataset.texts, rows, strict=True)
            if text and (columns < n_labels).all()
        ]
        self.n_documents = len(self._items)
        """Number of documents in a round."""
        self.n_left_out = dataset.n - self.n_documents
        self._orders: dict[int, list[int]] = {}

    def item(self, number: int) -> Item:
        """Return the document with this number; its name differs between rounds."""
        turn, place = divmod(number, self.n_documents)
        if turn not in self._orders:
            order = list(range(self.n_documents))
            Random(f"{self._seed}/order/{turn}").shuffle(order)
            self._orders = {turn: order}
        text, truth = self._items[self._orders[turn][place]]
        return Item(Document(id=f"document-{number}", text=text), truth)
