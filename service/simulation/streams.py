"""Documents with known truth, and synthetic ones whose confidence follows a known law."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from setwise.service.domain.predictions import Candidate, Document, Marginal, ScoredSet, TermWeight
from setwise.service.services.ports import Predictor
from setwise.service.simulation.plan import Drift

Labels = tuple[str, ...]

VOCABULARY = tuple(f"label-{number}" for number in range(1, 11))

# The confidences of `benchmarks/bench_trust.py`: at the target .90, .49 of calibrated and .27 of
# over-confident documents may be sent by whoever knows the law.
_SHAPE = (2.2, 0.75)
_SLOPE, _SHIFT = 0.75, -0.35
_SECOND = 0.6  # share of the rest that belongs to the second candidate


class Item(NamedTuple):
    """A document, and the label set that is right before anything drifts."""

    document: Document
    truth: Labels


class Stream(Protocol):
    """An endless sequence of documents and what scores them."""

    @property
    def labels(self) -> Sequence[str]:
        """The vocabulary."""

    @property
    def artifact(self) -> Path | None:
        """The model that the service is to serve; None where `predictor` scores."""

    @property
    def predictor(self) -> Predictor | None:
        """What scores where there is no artifact."""

    def item(self, number: int) -> Item:
        """Return the document with a number, from 0; always the same one."""


@dataclass(frozen=True)
class _Drawn:
    confidence: float
    candidates: tuple[Labels, Labels, Labels]
    truth: Labels


@dataclass(frozen=True)
class SyntheticStream:
    """Documents that are nothing but a confidence and whether the label set is right.

    Confidences come from Beta(2.2, 0.75). They are true, or, over-confident, too high: a set with
    confidence c is then right with probability sigmoid(.75 logit(c) - .35).
    """

    seed: int
    overconfident: bool = False

    @property
    def labels(self) -> Sequence[str]:
        """The vocabulary."""
        return VOCABULARY

    @property
    def artifact(self) -> Path | None:
        """None: nothing was trained."""
        return None

    @property
    def predictor(self) -> Predictor:
        """The law behind the stream."""
        return SyntheticPredictor(self)

    def item(self, number: int) -> Item:
        """Return the document with a number."""
        name = f"document-{number}"
        return Item(Document(id=name, text=name), self.drawn(name).truth)

    def drawn(self, name: str) -> _Drawn:
        """Draw what is to be known of a document; its name and the seed decide all of it."""
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
    """Announces the confidences of a synthetic stream."""

    def __init__(self, stream: SyntheticStream) -> None:
        self._stream = stream
        law = "overconfident" if stream.overconfident else "calibrated"
        self._version = f"synthetic:{law}:{stream.seed}"

    @property
    def version(self) -> str:
        """The name of the law."""
        return self._version

    @property
    def calibrator_version(self) -> str:
        """Likewise."""
        return self._version

    @property
    def own_calibrator_version(self) -> str:
        """Likewise."""
        return self._version

    @property
    def labels(self) -> Sequence[str]:
        """The vocabulary."""
        return self._stream.labels

    def score(self, documents: Sequence[Document]) -> list[ScoredSet]:
        """Say of each document what the law says of its name."""
        return [self._score(self._stream.drawn(document.id or "")) for document in documents]

    def seen(self, sets: Sequence[Sequence[str]]) -> list[bool]:
        """Say of every set that a training document has it: there are none."""
        return [True for _ in sets]

    def explain(
        self,
        document: Document,  # noqa: ARG002 -- a `Predictor`
        labels: Sequence[str],
    ) -> list[tuple[TermWeight, ...]]:
        """Name no terms: the documents have none."""
        return [() for _ in labels]

    def _score(self, drawn: _Drawn) -> ScoredSet:
        rest = 1.0 - drawn.confidence
        # However unsure, the first set is the most confident one.
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
            model_version=self._version,
            calibrator_version=self._version,
        )


def drifted(
    truth: Labels, drift: Drift | None, week: int, labels: Sequence[str], draw: Random
) -> Labels:
    """Return the label set that is right in a week, in the order of the vocabulary."""
    if drift is None or week < drift.week or not truth:
        return truth
    if (drift.label is not None and drift.label not in truth) or draw.random() >= drift.share:
        return truth
    return _changed(truth, drift.label or draw.choice(truth), labels)


def _changed(labels: Labels, old: str, vocabulary: Sequence[str]) -> Labels:
    """Put the next label that the set lacks in the place of one of its own."""
    place = vocabulary.index(old)
    behind = (*vocabulary[place + 1 :], *vocabulary[:place])
    new = next((label for label in behind if label not in labels), None)
    kept = {label for label in labels if label != old} | ({new} if new is not None else set())
    return tuple(label for label in vocabulary if label in kept)


def _without(labels: Labels, draw: Random) -> Labels:
    lost = draw.choice(labels)
    return tuple(label for label in labels if label != lost)
