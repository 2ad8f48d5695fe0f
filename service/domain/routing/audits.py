"""Audits: which documents a person checks, drawn before they are scored.

A draw is a keyed hash of the message: its client, its id and its content. It does not depend on the
score, it cannot be predicted without the key, and the same message draws alike again. Near copies
with other ids draw each for itself, so that a form that is sent every day is audited as often as
others. They are told by other hashes, of what they have in common: their cluster and their bands.
"""

import hmac
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from setwise.service.domain.errors import FieldFault
from setwise.service.domain.routing.copies import BAND_BYTES

MARKED = 0.5
"""Share of the documents that are marked on arrival.

Marked documents are read as they come. They are the sample that says how good a model is, because
what is left of a queue from which people pick is easier than what comes.
"""

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
    """The same message has the same."""
    overlap: float
    reread: float
    mark: float = 1.0
    """Below `MARKED`, the document is read as it comes; copies and near copies are marked alike."""
    cluster: float | None = None
    """Copies have the same, and near copies that differ in no word."""


@dataclass(frozen=True)
class Lottery:
    """Draws for documents; only the server knows `key`."""

    key: bytes

    def __call__(self, client_id: str, name: str, content: bytes, likeness: bytes) -> Draws:
        """Return the draws of the document that ``client_id`` calls ``name``.

        Name and content decide on the audit. Names recur, so that by name a few documents would be
        audited always and the others never, and a client would learn which; so would contents.

        ``likeness``: What near copies have in common; see `Likeness`.

        >>> draw = Lottery(b"key")
        >>> one = draw("billing", "1", b"Na 140", b"na")
        >>> other = draw("billing", "2", b"Na 120", b"na")
        >>> one == draw("billing", "1", b"Na 140", b"na"), one.cluster == other.cluster
        (True, True)
        >>> one.audit == other.audit
        False
        """
        _, overlap, reread = self._by_name(client_id, name)
        cluster, mark, _ = self._numbers(_CONTENT + likeness)
        return Draws(self.audit(client_id, name, content), overlap, reread, mark, cluster)

    def audit(self, client_id: str, name: str, content: bytes) -> float:
        """Return the draw for the audit of a message."""
        return self._numbers(_MESSAGE + f"{client_id}\0{name}\0".encode() + content)[0]

    def reread(self, client_id: str, name: str) -> float:
        """Return the draw for a lead's second reading of an audit."""
        return self._by_name(client_id, name)[2]

    def toss(self, reader: str, at: datetime) -> float:
        """Return a number in [0, 1) for a claim: below `MARKED`, a marked document comes next."""
        return self._by_name(_CLAIM, f"{reader}\0{at.isoformat()}")[0]

    def _by_name(self, client_id: str, name: str) -> tuple[float, float, float]:
        # Names contain no NUL, so no two documents share a message.
        return self._numbers(f"{client_id}\0{name}".encode())

    def hashed(self, bands: Sequence[bytes]) -> bytes | None:
        """Return hashes of `BAND_BYTES` each; near copies have one in common at its place."""
        hashes = (hmac.digest(self.key, _BAND + band, "sha256") for band in bands)
        return b"".join(each[:BAND_BYTES] for each in hashes) or None

    def _numbers(self, message: bytes) -> tuple[float, float, float]:
        # A float has 53 bits; all 64 would round up to 1.
        drawn = _THREE_NUMBERS.unpack(hmac.digest(self.key, message, "sha256"))
        one, two, three = (number >> 11 for number in drawn)
        unit = 2.0**-53
        return one * unit, two * unit, three * unit

    def __repr__(self) -> str:
        return "Lottery()"


# No client's id starts with NUL.
_MESSAGE, _CONTENT, _BAND = b"\0message\0", b"\0content\0", b"\0band\0"
_CLAIM = "\0claim"
_THREE_NUMBERS = struct.Struct(">3Q8x")


class Selection(NamedTuple):
    """The draw that decided whether a person reads a document."""

    role: AuditRole = AuditRole.NONE
    draw: float | None = None
    """The number that decided the role; None for predictions from before audits existed."""
    inclusion_probability: float | None = None
    """Probability, before the draw, that a person would read the document; None if ``draw`` is."""
    audit_chance: float | None = None
    """Probability, before the draw, that it would be audited to certify, were it not held back by a
    rule or out of domain; None if ``draw`` is.
    """
    in_rest: bool = False
    """Whether it was drawn at the rate of documents that can hardly be sent."""
    cluster: float | None = None
    """As of `Draws`; None if ``draw`` is."""
    bands: bytes | None = None
    """As of `Lottery.hashed`: near copies, also with other words, have one in common. None for
    short texts, and where no proof may count the document.
    """

    @property
    def drawn(self) -> bool:
        """Whether its draw would have it audited to certify."""
        draw, chance = self.draw, self.audit_chance
        return draw is not None and chance is not None and draw < chance


NOT_DRAWN = Selection()
"""For predictions from before audits existed."""


@dataclass(frozen=True)
class AuditPlan:
    """How often documents are audited, reviewed twice or read again."""

    certification_rate: float = 0.0
    """Share of the documents that could be sent, in [0, 1], audited to prove the threshold; of all
    documents without a ``rest_rate``.
    """
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
    """The certification rate while nothing is sent, at least as high: people read everything then,
    so that an audit costs no more than a hidden suggestion. None for the same rate.
    """
    rest_rate: float | None = None
    """Share of the remaining documents, in (0, 1], audited to prove the threshold; at most the
    certification rate. None for the same rate everywhere.
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
        if self.rest_rate is not None:
            rates.append(("/audit/rest_rate", self.rest_rate))
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
        elif not wrong:
            yield from self._rest_faults()

    def _rest_faults(self) -> Iterator[FieldFault]:
        rest = self.rest_rate
        if rest is None or rest == self.certification_rate == self.ramp_up:
            return
        if rest > self.certification_rate:
            yield FieldFault(
                "/audit/rest_rate",
                f"is {rest}; it may be at most the certification rate of {self.certification_rate}",
            )
        elif rest == 0.0:
            yield FieldFault(
                "/audit/rest_rate",
                "is 0; some of the rest must be read blind too, or every blind task would say that "
                "the model is sure",
            )
        elif self.ramp_up == 1.0:
            rate = "certification_rate" if self.ramp_up_rate is None else "ramp_up_rate"
            yield FieldFault(
                f"/audit/{rate}",
                "is 1; with a lower rest_rate it must be below 1, or every task with a suggestion "
                "would say that the model is not sure",
            )

    @cached_property
    def rate(self) -> float:
        """Audited share of the documents that would be sent."""
        return self.certification_rate + self.training_rate

    @property
    def ramp_up(self) -> float:
        """The certification rate while nothing is sent."""
        return self.certification_rate if self.ramp_up_rate is None else self.ramp_up_rate

    @property
    def two_rates(self) -> bool:
        """Whether documents that could be sent are audited more often than the rest."""
        return self.rest_rate is not None and self.rest_rate < self.ramp_up

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

    def overlaps(self, draws: Draws, *, sends: bool = True) -> bool:
        """Return whether a second person also reviews the document.

        While nothing is sent, second readings go to documents that are not marked first: people err
        most where a model is unsure, and those are read for that.
        """
        rate = self.overlap_rate
        if not sends:
            rest = max(rate - (1.0 - MARKED), 0.0) / MARKED
            rate = rest if draws.mark < MARKED else min(rate / (1.0 - MARKED), 1.0)
        return draws.overlap < rate

    def marks(self, draws: Draws) -> bool:
        """Return whether the document is read as it comes, if people read in an order of their own.

        What is read blind while nothing is sent is always marked.
        """
        return draws.mark < MARKED or draws.audit < self.ramp_up


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


MARGIN = 0.1
"""How far below the plausible threshold documents are still audited as those that could be sent.

Confidences may promise too little, and the next calibrator may promise more.
"""


def audited_from(confidences: Sequence[float], target: float) -> float | None:
    """Return the confidence from which documents could come to be sent; None if it is not clear.

    >>> round(audited_from([0.99, 0.9, 0.8, 0.5], 0.895), 3)
    0.7
    """
    plausible = plausible_threshold(confidences, target)
    return None if plausible is None else max(plausible - MARGIN, 0.0)


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
