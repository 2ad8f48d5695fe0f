"""Audits drawn at two rates: which of them are alike, and what they stand for.

Documents that could be sent are audited more often than the rest. The rule that tells them apart
is a confidence of one scorer, so another scorer's threshold has documents of both kinds above it:
`setwise.models.guarantees.strata` weighs them by their shares of the stream. One rule is an epoch.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple, Self

from setwise.service.domain.certification import MOST_PROVING, Scorer, StreamDocument
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.policy import Gate, Policy
from setwise.service.domain.routing.copies import Identity, without_copies
from setwise.service.domain.routing.rules import held_back_alike

MOST_STREAM = 50_000
"""Most documents, the newest, that say what share of the stream was audited at the lower rate."""

LEAST_CONFIDENCES = 100
"""Fewest confidences, of a segment or of a scorer, that thresholds are chosen from."""

Epoch = tuple[Scorer, float | None]
"""Who answered, and the confidence from which the higher rate held; None: it held for all."""


class _Alike(NamedTuple):
    """What decides on the epoch of a document."""

    policy_version: str
    segment: str | None
    scorer: Scorer


class _Kind(NamedTuple):
    epoch: Epoch
    counts: bool
    """Whether the stream shows their share."""


class Pool(NamedTuple):
    """Confidences that were not drawn to certify, and how many documents each stands for."""

    confidences: list[float]
    weights: list[float]

    @classmethod
    def of(cls, confidences: Sequence[float]) -> Self:
        """Return confidences that stand for equally many documents."""
        return cls([*confidences], [1.0] * len(confidences))

    def from_confidence(self, floor: float) -> Self:
        """Return those of at least this confidence."""
        rows = [row for row in zip(*self, strict=True) if row[0] >= floor]
        return type(self)([row[0] for row in rows], [row[1] for row in rows])


class Strata(NamedTuple):
    """What `certify_adjudicated` is told of two rates."""

    thin: list[bool]
    stream: tuple[list[float], list[bool]]
    epochs: tuple[list[int], list[int], list[float]]


class _Known(NamedTuple):
    """A document of the stream whose stratum is known."""

    document: StreamDocument
    epoch: int


class Divided(NamedTuple):
    """The stream that audits at two rates came from."""

    scorer: Scorer
    documents: Sequence[StreamDocument]
    """Newest first."""
    policies: Mapping[str, Policy]
    """Of each version that decided on an audit or on one of the documents."""
    gate: Gate

    @property
    def pool(self) -> Pool:
        """Confidences that set the thresholds; seldom audited documents count for less."""
        rest = [
            document
            for document in self.documents
            if not document.proves or (document.draw or 0.0) >= MOST_PROVING
        ]
        chances = [min(document.audit_chance, MOST_PROVING) for document in rest]
        return Pool(
            [document.confidence for document in rest],
            [1.0 / (1.0 - chance) for chance in chances],
        )

    def strata(self, audits: Sequence[CheckedDocument], *, once: bool = False) -> Strata:
        """Return the strata of audits, in their order.

        ``once``: Audits, and so the stream, have one of each document, not of each message.
        """
        numbers: dict[Epoch, int] = {}
        of_audits = [
            numbers.setdefault(self._kind(_like(each)).epoch, len(numbers)) for each in audits
        ]
        known = self._wholly_scored(
            numbers, _of_document if once else _of_message, after=audits[0].id if audits else ""
        )
        return Strata(
            [each.in_rest for each in audits],
            (
                [each.document.confidence for each in known],
                [each.document.in_rest for each in known],
            ),
            (of_audits, [each.epoch for each in known], [*map(self._whole_from, numbers)]),
        )

    def _wholly_scored(
        self,
        numbers: Mapping[Epoch, int],
        identity: Callable[[StreamDocument], Identity],
        *,
        after: str,
    ) -> list[_Known]:
        """Return one of each document or message, and its epoch, from times when all were scored.

        A scorer has scored all audits of others, and only the newest of the rest: earlier audits
        would seem to be all that came.

        ``after``: Id of the first audit that counts.
        """
        kinds = {alike: self._kind(alike) for alike in {_like(each) for each in self.documents}}
        by: dict[int, list[StreamDocument]] = {}
        for document in self.documents:
            kind = kinds[_like(document)]
            if kind.counts and kind.epoch in numbers:
                by.setdefault(numbers[kind.epoch], []).append(document)
        known = []
        for number, documents in by.items():
            others = [each.id for each in documents if not each.proves]
            since = max(min(others, default=""), after)
            kept = [each for each in documents if others and each.id > since]
            copies = without_copies([identity(each) for each in kept])
            known += [_Known(kept[places[0]], number) for places in copies]
        return known

    def _kind(self, alike: _Alike) -> _Kind:
        """Return the epoch of documents alike, and whether their share is known.

        What the rules would hold back of another model's sets shows in the audits alone, so their
        shares may then be anything.
        """
        version, segment, scorer = alike
        then, rules = self.policies[version], self.gate.policy.rules
        same = held_back_alike(then.rules) == held_back_alike(rules)
        counts = same and self.gate.counts_audits_of(then)
        counts = counts and (scorer.model_version == self.scorer.model_version or not rules)
        return _Kind((scorer, then.gate_of(segment).audited_from(scorer)), counts)

    def _whole_from(self, epoch: Epoch) -> float:
        """Return the threshold from which no document of an epoch has the lower rate."""
        answered, start = epoch
        if start is None:
            return -inf
        return start if answered == self.scorer else inf


def _of_document(of: StreamDocument) -> Identity:
    return Identity(of.client_id, of.name, of.cluster, of.bands)


def _of_message(of: StreamDocument) -> Identity:
    return Identity("", of.id, of.draw)


def _like(document: CheckedDocument | StreamDocument) -> _Alike:
    return _Alike(document.policy_version, document.segment, document.scorer)


def divided(
    scorer: Scorer,
    gate: Gate,
    audits: Sequence[CheckedDocument],
    documents: Callable[[], Sequence[StreamDocument]],
    policies: Callable[[set[str]], Mapping[str, Policy]],
) -> Divided | None:
    """Return the stream if two rates drew any of it; None if one rate drew all.

    ``documents``, ``policies``: Called only if there are two rates.
    """
    if not gate.audits.two_rates and not any(audit.in_rest for audit in audits):
        return None
    stream = documents()
    if not any(audit.in_rest for audit in audits) and not any(of.in_rest for of in stream):
        return None
    versions = {of.policy_version for of in stream} | {each.policy_version for each in audits}
    return Divided(scorer, stream, policies(versions), gate)
