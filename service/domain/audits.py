"""Which documents a person checks although nothing calls for it, drawn before they are scored.

A draw is a keyed hash of the document's own name. So it can be repeated for any document later,
says nothing of the score, and nobody without the key can tell which documents will be checked.
"""

import hmac
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from setwise.service.domain.errors import FieldFault


class AuditRole(StrEnum):
    """What a check is for; what serves one purpose never serves the other.

    Certification audits prove the threshold: each is a simple random draw from all documents, at
    any threshold. Training audits show the calibrator documents that nobody would have read.
    """

    NONE = "none"
    CERTIFICATION = "certification"
    TRAINING = "training"


class AuditMode(StrEnum):
    """What becomes of a confident document that is checked: it waits, or is sent meanwhile."""

    HOLD = "hold"
    SEND = "send"


class Draws(NamedTuple):
    """Independent numbers in [0, 1) that belong to one document."""

    audit: float
    overlap: float
    reread: float


@dataclass(frozen=True)
class Lottery:
    """Draws for documents; `key` is known to the server alone."""

    key: bytes

    def __call__(self, client_id: str, name: str) -> Draws:
        """Return the draws of the document that ``client_id`` calls ``name``.

        >>> Lottery(b"key")("billing", "note-17") == Lottery(b"key")("billing", "note-17")
        True
        """
        # Names hold no NUL, so that no two documents share a message.
        drawn = hmac.digest(self.key, f"{client_id}\0{name}".encode(), "sha256")
        audit, overlap, reread = _THREE_NUMBERS.unpack(drawn)
        # A float has 53 bits; all 64 would round up to 1.
        unit = 2.0**-53
        return Draws((audit >> 11) * unit, (overlap >> 11) * unit, (reread >> 11) * unit)

    def __repr__(self) -> str:
        return "Lottery()"


_THREE_NUMBERS = struct.Struct(">3Q8x")


class Selection(NamedTuple):
    """How a document came to be read, or not.

    Attributes
    ----------
    role : AuditRole
    draw : float or None
        What decided on the role; None for predictions from before audits existed.
    inclusion_probability : float or None
        Probability, before the draw, that a person would read the document; None likewise.
    """

    role: AuditRole = AuditRole.NONE
    draw: float | None = None
    inclusion_probability: float | None = None


NOT_DRAWN = Selection()
"""For predictions from before audits existed."""


@dataclass(frozen=True)
class AuditPlan:
    """How often what is checked.

    Attributes
    ----------
    certification_rate : float
        Share of all documents, in [0, 1], whose label set is established to prove the threshold.
    training_rate : float
        Share of the documents that would be sent, in [0, 1], read to teach the calibrator. The two
        rates together are at most 1.
    mode : AuditMode
        Whether a document that is checked waits for it.
    overlap_rate : float
        Share of ordinary reviews, in [0, 1], that a second person does without seeing the first.
    gold_reread_rate : float
        Share of audits, in [0, 1], that a lead reads again although the auditor agreed with the
        model. Disagreements are always read again.
    """

    certification_rate: float = 0.0
    training_rate: float = 0.0
    mode: AuditMode = AuditMode.HOLD
    overlap_rate: float = 0.0
    gold_reread_rate: float = 0.0

    def faults(self) -> Iterator[FieldFault]:
        """Yield what is wrong, by its place in a policy."""
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
        """Share of the documents that would be sent which are checked."""
        return self.certification_rate + self.training_rate

    def role(self, draw: float) -> AuditRole:
        """Return the role of a document that would be sent."""
        if draw < self.rate:
            certifies = draw < self.certification_rate
            return AuditRole.CERTIFICATION if certifies else AuditRole.TRAINING
        return AuditRole.NONE

    def overlaps(self, draws: Draws) -> bool:
        """Tell whether a second person reviews the document as well."""
        return draws.overlap < self.overlap_rate

    def rereads(self, draws: Draws) -> bool:
        """Tell whether a lead reads an audit again even if it agrees with the model."""
        return draws.reread < self.gold_reread_rate


NO_AUDITS = AuditPlan()
