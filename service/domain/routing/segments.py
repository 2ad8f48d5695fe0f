"""Segments: parts of the documents, each with its threshold, proof and breaker.

A segmentation reads one field of the metadata, or the length of the text in bands. Values that the
policy does not list are `OTHER`. A *unit* has its own audits and attempts: a segment, or `POOL` for
the segments without an attempt so far. See `setwise.models.guarantees.segments`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import FieldFault
from setwise.service.domain.predictions import Document
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.text import text_faults

TEXT_LENGTH = "text_length"
"""Segments by the number of characters of the text, in bands."""

OTHER = "other"
"""The segment of documents without a value, or with one that the policy does not list."""

POOL = "(pool)"
"""The unit of the segments without an attempt so far."""

MOST_SEGMENTS = 50
LONGEST_VALUE = 100
LONGEST_FIELD = 100

_PLAIN = re.compile(r"[^\x00-\x1f\x7f]+")


class Fallback(StrEnum):
    """What a segment without a proof does."""

    NONE = "none"
    POOL = "pool"


class Segment(NamedTuple):
    """One segment: a field of the documents and its value.

    >>> Segment("site", "north").key, Segment.of_key("site=a=b")
    ('site=north', Segment(field='site', value='a=b'))
    """

    field: str
    value: str

    @property
    def key(self) -> str:
        """The segment as stored with predictions, certificates and trips."""
        return f"{self.field}={self.value}"

    @classmethod
    def of_key(cls, key: str) -> "Segment":
        """Return the segment that is stored so."""
        return cls(*key.split("=", 1))


def value_of(key: str | None) -> str | None:
    """Return the value of the segment with a key; None for all documents."""
    return None if key is None else Segment.of_key(key).value


@dataclass(frozen=True)
class Segmentation:
    """How documents are divided."""

    by: str
    """A field of the metadata, without "=", or `TEXT_LENGTH`."""
    bounds: tuple[int, ...] = ()
    """Rising lengths at which the bands after the first one begin; only for `TEXT_LENGTH`."""
    fallback: Fallback = Fallback.NONE
    most: int = 10
    """Most segments with a proof; the risk is shared among this many."""

    @property
    def share(self) -> float:
        """Share of the risk for each unit, including the pool."""
        return 1.0 / (self.most + (self.fallback is Fallback.POOL))

    def of(self, document: Document) -> Segment:
        """Return the segment of a document, whether or not the policy lists it."""
        if self.by != TEXT_LENGTH:
            return self.of_metadata(document.metadata)
        if document.text is None:
            return Segment(self.by, OTHER)
        place = sum(len(document.text) >= bound for bound in self.bounds)
        return Segment(self.by, self.bands()[place])

    def of_metadata(self, metadata: Mapping[str, object]) -> Segment:
        """Return the segment of a document with this metadata.

        >>> Segmentation("site").of_metadata({"site": 7}).value
        '7'
        """
        found = metadata.get(self.by)
        value = str(found).lower() if isinstance(found, bool) else str(found)
        usable = isinstance(found, str | int | float) and _usable(value)
        return Segment(self.by, value if usable else OTHER)

    def known(self, stored: str | None, metadata: Mapping[str, object] | None) -> str | None:
        """Return the key of a stored document's segment; None if it is unknown."""
        if stored is not None:
            by, value = Segment.of_key(stored)
            if by == self.by and value in (
                *self.bands(),
                OTHER,
                *(() if self.bands() else [value]),
            ):
                return stored
        if metadata is None or self.by == TEXT_LENGTH:
            return None
        return self.of_metadata(metadata).key

    def divides_like(self, other: "Segmentation") -> bool:
        """Return whether documents have the same segments under both."""
        return (self.by, self.bounds) == (other.by, other.bounds)

    def bands(self) -> tuple[str, ...]:
        """Return the values of a segmentation by length; empty for a field.

        >>> Segmentation("text_length", (500, 2000)).bands()
        ('0-499', '500-1999', '2000-')
        """
        if self.by != TEXT_LENGTH:
            return ()
        inner = [f"{low}-{high - 1}" for low, high in pairwise((0, *self.bounds))]
        return (*inner, f"{(0, *self.bounds)[-1]}-")

    def key(self, value: str) -> str:
        """Return the key of the segment with this value."""
        return Segment(self.by, value).key

    def faults(self) -> Iterator[FieldFault]:
        """Yield the faults, with pointers into the policy."""
        yield from text_faults(self.by, "/segment_by", longest=LONGEST_FIELD)
        if "=" in self.by:
            yield FieldFault("/segment_by", 'must not contain "="')
        if not 1 <= self.most <= MOST_SEGMENTS:
            detail = f"is {self.most}; it must lie between 1 and {MOST_SEGMENTS}"
            yield FieldFault("/most_segments", detail)
        if self.by == TEXT_LENGTH:
            rising = all(low < high for low, high in pairwise((0, *self.bounds)))
            if not self.bounds or not rising:
                detail = f"must be rising lengths above 0 where segment_by is {TEXT_LENGTH!r}"
                yield FieldFault("/segment_bounds", detail)
            elif len(self.bounds) >= self.most:
                detail = f"makes {len(self.bounds) + 1} bands; most_segments is {self.most}"
                yield FieldFault("/segment_bounds", detail)
        elif self.bounds:
            detail = f"goes with a segment_by of {TEXT_LENGTH!r} only"
            yield FieldFault("/segment_bounds", detail)


def _usable(value: str) -> bool:
    return len(value) <= LONGEST_VALUE and value != POOL and _PLAIN.fullmatch(value) is not None


@dataclass(frozen=True)
class SegmentRule:
    """The part of a policy for one segment, or for the pool; see `RoutingPolicy`."""

    value: str
    """The segment's, `OTHER` or `POOL`."""
    threshold: float | None = None
    certificate_id: str | None = None
    certified_for: Scorer | None = None
    trip_id: str | None = None
    audits: AuditPlan | None = None
    """Its own rates; None for those of the policy."""
    members: tuple[str, ...] = ()
    """Values that the pool's certificate covers."""


class Scope(NamedTuple):
    """The documents of a unit, by the keys of their segments."""

    keys: tuple[str, ...]
    listed: tuple[str, ...] | None = None
    """Keys that the policy lists; documents with other keys belong to the unit, too."""

    def has(self, key: str | None) -> bool:
        """Return whether the unit has a document of this segment.

        >>> scope = Scope(("site=a",), listed=("site=a", "site=b"))
        >>> scope.has("site=new"), scope.has("ward=new")
        (True, False)
        """
        if key is None or key in self.keys:
            return key is not None
        others = self.listed is not None and key not in self.listed
        return others and Segment.of_key(key).field == self.field

    @property
    def field(self) -> str:
        """Field of the metadata that divides the documents."""
        return Segment.of_key(self.keys[0]).field


def rule_faults(
    rules: Sequence[SegmentRule], segmentation: Segmentation | None, *, fixed: bool
) -> Iterator[FieldFault]:
    """Yield the faults of segments as an administrator lists them."""
    if segmentation is None:
        if rules:
            yield FieldFault("/segments", "goes with segment_by")
        return
    if len(rules) > segmentation.most:
        detail = f"lists {len(rules)}; most_segments is {segmentation.most}"
        yield FieldFault("/segments", detail)
    seen: set[str] = set()
    for place, rule in enumerate(rules):
        pointer = f"/segments/{place}"
        bands = segmentation.bands()
        if not _usable(rule.value) or rule.value == OTHER or (bands and rule.value not in bands):
            yield FieldFault(f"{pointer}/value", "cannot be the value of a segment")
        if rule.value in seen:
            yield FieldFault(f"{pointer}/value", "stands in the list already")
        seen.add(rule.value)
        if rule.threshold is not None and not fixed:
            detail = "must be null in mode 'certified', where evidence sets it"
            yield FieldFault(f"{pointer}/threshold/value", detail)
        if rule.threshold is not None and not 0.0 <= rule.threshold <= 1.0:
            detail = f"is {rule.threshold}; it must lie between 0 and 1"
            yield FieldFault(f"{pointer}/threshold/value", detail)
        for fault in rule.audits.faults() if rule.audits else ():
            yield FieldFault(f"{pointer}{fault.pointer}", fault.detail)
