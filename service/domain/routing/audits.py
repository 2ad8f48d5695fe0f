"""Audits: which documents a person checks, drawn before they are scored.

A draw is a keyed hash of the document's content. It does not depend on the score, it cannot be
predicted without the key, and copies of a document draw alike.
"""

import hmac
import re
import struct
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from setwise.service.domain.errors import FieldFault

READING_TIME = timedelta(days=7)
"""Time in which an audit is read; one that is unfinished for longer counts as wrong."""


class AuditRole(StrEnum):
    """Purpose of an audit; no audit serves both purposes.

    Certification audits prove the threshold: each is a simple random draw from all documents, at
    any threshold. Training audits teach the calibrator with documents that no person would
    otherwise read.
    """

    NONE = "none"
    CERTIFICATION = "certification"
    TRAINING = "training"


class AuditMode(StrEnum):
    """Whether an audited confident document waits for the audit or is sent."""

    HOLD = "hold"
    SEND = "send"


class Draws(NamedTuple):
    """Independent numbers in [0, 1) that belong to one document."""

    audit: float
    overlap: float
    reread: float


@dataclass(frozen=True)
class Lottery:
    """Draws for documents; only the server knows `key`."""

    key: bytes

    def __call__(self, client_id: str, name: str, content: bytes) -> Draws:
        """Return the draws of the document that ``client_id`` calls ``name``.

        The content decides on the audit. Names recur, so that by name a few documents would be
        audited always and the others never, and a client would learn which.

        >>> draw = Lottery(b"key")
        >>> draw("billing", "note-17", b"fever") == draw("billing", "note-17", b"fever")
        True
        """
        _, overlap, reread = self._by_name(client_id, name)
        return Draws(self.audit(content), overlap, reread)

    def audit(self, content: bytes) -> float:
        """Return the draw for the audit of a content; copies and near copies draw alike."""
        return _numbers(hmac.digest(self.key, _CONTENT + content, "sha256"))[0]

    def reread(self, client_id: str, name: str) -> float:
        """Return the draw for a lead's second reading of an audit."""
        return self._by_name(client_id, name)[2]

    def _by_name(self, client_id: str, name: str) -> tuple[float, float, float]:
        # Names contain no NUL, so no two documents share a message.
        return _numbers(hmac.digest(self.key, f"{client_id}\0{name}".encode(), "sha256"))

    def __repr__(self) -> str:
        return "Lottery()"


_CONTENT = b"\0content\0"  # no client's id starts with NUL
_THREE_NUMBERS = struct.Struct(">3Q8x")


def _numbers(drawn: bytes) -> tuple[float, float, float]:
    # A float has 53 bits; all 64 would round up to 1.
    audit, overlap, reread = (number >> 11 for number in _THREE_NUMBERS.unpack(drawn))
    unit = 2.0**-53
    return audit * unit, overlap * unit, reread * unit


_NO_LETTERS = re.compile(r"[\W\d_]+")


def normal_form(text: str) -> str:
    """Return what a text has in common with its near copies.

    Near copies are right or wrong together, such as a note that is sent again with another date.
    So only the letters are left, in lower case; where most of a text is no letters, all but spaces.

    >>> normal_form("Fever since 3.5.,  cough!"), normal_form("fever since 4.5., cough")
    ('fever since cough', 'fever since cough')
    >>> normal_form("Na 140  CRP 12.5")
    'na 140 crp 12.5'
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    letters, everything = _NO_LETTERS.sub(" ", plain).split(), plain.split()
    mostly_letters = 2 * sum(map(len, letters)) >= sum(map(len, everything))
    return " ".join(letters if mostly_letters else everything)


class RereadDraw(NamedTuple):
    """What decided whether a lead reads an audit again, whatever the auditor answered."""

    rate: float
    """Probability of a second reading."""
    draw: float
    """What was drawn: a lead reads the document if it is below the rate."""

    @property
    def drawn(self) -> bool:
        """Whether it was drawn for a second reading."""
        return self.draw < self.rate


class Identity(NamedTuple):
    """The identity of a document: its name, and the draw of its content."""

    client_id: str
    name: str
    draw: float | None


def without_copies(identities: Sequence[Identity]) -> list[list[int]]:
    """Return the places of each document's copies, oldest documents first.

    Copies have the same name or the same content. They are right or wrong together, so that only
    one of them is evidence.

    >>> without_copies([Identity("b", "1", 0.1), Identity("b", "2", 0.2), Identity("b", "3", 0.1)])
    [[0, 2], [1]]
    """
    documents: list[list[int]] = []
    known: dict[object, list[int]] = {}
    for place, identity in enumerate(identities):
        name, content = (identity.client_id, identity.name), identity.draw
        copies = known.get(name) or (known.get(content) if content is not None else None)
        if copies is None:
            copies = []
            documents.append(copies)
        copies.append(place)
        known.setdefault(name, copies)
        if content is not None:
            known.setdefault(content, copies)
    return documents


class Selection(NamedTuple):
    """The draw that decided whether a person reads a document."""

    role: AuditRole = AuditRole.NONE
    draw: float | None = None
    """The number that decided the role; None for predictions from before audits existed."""
    inclusion_probability: float | None = None
    """Probability, before the draw, that a person would read the document; None if ``draw`` is."""


NOT_DRAWN = Selection()
"""For predictions from before audits existed."""


@dataclass(frozen=True)
class AuditPlan:
    """How often documents are audited, reviewed twice or read again."""

    certification_rate: float = 0.0
    """Share of all documents, in [0, 1], audited to prove the threshold."""
    training_rate: float = 0.0
    """Share of the documents that would be sent, in [0, 1], audited to teach the calibrator. The
    two rates add up to at most 1.
    """
    mode: AuditMode = AuditMode.HOLD
    """Whether an audited document waits for its audit."""
    overlap_rate: float = 0.0
    """Share of ordinary reviews, in [0, 1], that a second person repeats without seeing the first
    answer.
    """
    gold_reread_rate: float = 0.0
    """Share of audits, in [0, 1], that a lead reads again even though the auditor agreed with the
    model. A lead reads every disagreement. See `reread_rate` for which ones.
    """
    ramp_up_rate: float | None = None
    """The same while nothing is sent, at least the certification rate: people read everything then,
    so that an audit costs no more than a hidden suggestion. None for the same rate.
    """

    def faults(self) -> Iterator[FieldFault]:
        """Yield the faults, with pointers into the policy."""
        rates = [
            ("/audit/certification_rate", self.certification_rate),
            ("/audit/training_rate", self.training_rate),
            ("/overlap_rate", self.overlap_rate),
            ("/gold_reread_rate", self.gold_reread_rate),
        ]
        if self.ramp_up_rate is not None:
            rates.append(("/audit/ramp_up_rate", self.ramp_up_rate))
        wrong = [
            FieldFault(pointer, f"is {rate}; it must lie between 0 and 1")
            for pointer, rate in rates
            if not 0.0 <= rate <= 1.0
        ]
        yield from wrong
        if not wrong and self.rate > 1.0:
            yield FieldFault(
                "/audit/training_rate",
                f"is {self.training_rate}; with the certification rate of "
                f"{self.certification_rate} it may be at most {1.0 - self.certification_rate:g}",
            )
        if not wrong and self.ramp_up < self.certification_rate:
            yield FieldFault(
                "/audit/ramp_up_rate",
                f"is {self.ramp_up}; it must be at least the certification rate of "
                f"{self.certification_rate}",
            )

    @cached_property
    def rate(self) -> float:
        """Audited share of the documents that would be sent."""
        return self.certification_rate + self.training_rate

    @property
    def ramp_up(self) -> float:
        """Share of all documents audited to prove a threshold while nothing is sent."""
        return self.certification_rate if self.ramp_up_rate is None else self.ramp_up_rate

    def checks_as_much_as(self, other: "AuditPlan") -> bool:
        """Return whether no document is sent unread that the other plan would check.

        Draws do not change with the plan, so a document that is drawn at one rate is drawn at
        every higher one.
        """
        return (
            self.certification_rate >= other.certification_rate
            and self.rate >= other.rate
            and (self.mode is AuditMode.HOLD or other.mode is AuditMode.SEND)
        )

    def role(self, draw: float) -> AuditRole:
        """Return the role of a document that would be sent."""
        if draw < self.rate:
            certifies = draw < self.certification_rate
            return AuditRole.CERTIFICATION if certifies else AuditRole.TRAINING
        return AuditRole.NONE

    def overlaps(self, draws: Draws) -> bool:
        """Return whether a second person also reviews the document."""
        return draws.overlap < self.overlap_rate


NO_AUDITS = AuditPlan()

BELOW = 0.2
"""Chance of a second reading below the threshold, as a multiple of the planned share."""


def reread_rate(
    share: float, confidence: float, threshold: float | None, usual: Sequence[float]
) -> float:
    """Return the chance that a lead reads an audit again if the auditor agrees.

    Errors that auditors miss matter in the sets that are sent. So most second readings go there,
    and the planned share of all agreements stays: how many of them lie above the threshold is
    estimated from other documents, which are right as often as their confidence says.

    ``share``: Planned share of all agreements, in [0, 1].
    ``confidence``: That of the audited set, in [0, 1].
    ``threshold``: The lowest confidence that may come to be sent.
    ``usual``: Confidences of other documents.

    >>> usual = [0.9] * 50 + [0.5] * 50
    >>> [round(reread_rate(0.1, one, 0.8, usual), 4) for one in (0.9, 0.5)]
    [0.1444, 0.02]
    """
    agreements = sum(usual)
    if threshold is None or not agreements:
        return share
    above = sum(confidence for confidence in usual if confidence >= threshold) / agreements
    if not 0.0 < above < 1.0:
        return share
    high = min(1.0, share * (1.0 - BELOW * (1.0 - above)) / above)
    low = (share - high * above) / (1.0 - above)
    return high if confidence >= threshold else min(max(low, 0.0), 1.0)


def plausible_threshold(confidences: Sequence[float], target: float) -> float | None:
    """Return the lowest threshold above which the mean confidence reaches the target.

    >>> plausible_threshold([0.99, 0.9, 0.8, 0.5], 0.895)
    0.8
    """
    total, n, lowest = 0.0, 0, None
    for confidence, alike in sorted(Counter(confidences).items(), reverse=True):
        total += confidence * alike
        n += alike
        if total >= target * n:
            lowest = confidence
    return lowest
