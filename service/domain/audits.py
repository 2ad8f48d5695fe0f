"""Audits: which documents a person checks, drawn before they are scored.

A draw is a keyed hash of the document's name. It can be repeated for any document later, it does
not depend on the score, and it cannot be predicted without the key.
"""

import hmac
import struct
from collections.abc import Iterator
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

    def __call__(self, client_id: str, name: str) -> Draws:
        """Return the draws of the document that ``client_id`` calls ``name``.

        >>> Lottery(b"key")("billing", "note-17") == Lottery(b"key")("billing", "note-17")
        True
        """
        # Names contain no NUL, so no two documents share a message.
        drawn = hmac.digest(self.key, f"{client_id}\0{name}".encode(), "sha256")
        audit, overlap, reread = _THREE_NUMBERS.unpack(drawn)
        # A float has 53 bits; all 64 would round up to 1.
        unit = 2.0**-53
        return Draws((audit >> 11) * unit, (overlap >> 11) * unit, (reread >> 11) * unit)

    def __repr__(self) -> str:
        return "Lottery()"


_THREE_NUMBERS = struct.Struct(">3Q8x")


class Selection(NamedTuple):
    """The draw that decided whether a person reads a document.

    Attributes
    ----------
    role : AuditRole
    draw : float or None
        The number that decided the role; None for predictions from before audits existed.
    inclusion_probability : float or None
        Probability, before the draw, that a person would read the document; None if ``draw`` is.
    """

    role: AuditRole = AuditRole.NONE
    draw: float | None = None
    inclusion_probability: float | None = None


NOT_DRAWN = Selection()
"""For predictions from before audits existed."""


@dataclass(frozen=True)
class AuditPlan:
    """How often documents are audited, reviewed twice or read again.

    Attributes
    ----------
    certification_rate : float
        Share of all documents, in [0, 1], audited to prove the threshold.
    training_rate : float
        Share of the documents that would be sent, in [0, 1], audited to teach the calibrator. The
        two rates add up to at most 1.
    mode : AuditMode
        Whether an audited document waits for its audit.
    overlap_rate : float
        Share of ordinary reviews, in [0, 1], that a second person repeats without seeing the
        first answer.
    gold_reread_rate : float
        Share of audits, in [0, 1], that a lead reads again even though the auditor agreed with
        the model. A lead reads every disagreement.
    """

    certification_rate: float = 0.0
    training_rate: float = 0.0
    mode: AuditMode = AuditMode.HOLD
    overlap_rate: float = 0.0
    gold_reread_rate: float = 0.0

    def faults(self) -> Iterator[FieldFault]:
        """Yield the faults, with pointers into the policy."""
        rates = (
            ("/audit/certification_rate", self.certification_rate),
            ("/audit/training_rate", self.training_rate),
            ("/overlap_rate", self.overlap_rate),
            ("/gold_reread_rate", self.gold_reread_rate),
        )
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

    @cached_property
    def rate(self) -> float:
        """Audited share of the documents that would be sent."""
        return self.certification_rate + self.training_rate

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

    def rereads(self, draws: Draws) -> bool:
        """Return whether a lead reads the audit again in any case."""
        return draws.reread < self.gold_reread_rate


NO_AUDITS = AuditPlan()
