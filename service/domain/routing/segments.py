"""Segments of the documents, each with its audits, threshold, certificate and breaker.

A policy divides documents by one field of the metadata, by the length of the text in bands, or not
at all. Undivided documents are one segment, `ALL`. Otherwise documents with a value that the policy
does not list, or without one, are the segment `OTHER`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import FieldFault
from setwise.service.domain.predictions import Document
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.text import name_faults
from setwise.spelling import misnamed

TEXT_LENGTH = "text_length"
"""Segments by the number of characters of the text, in bands."""

ALL = "all"
"""The segment of all documents where the policy does not divide them."""

OTHER = "other"
"""The segment of documents without a value, or with one that the policy does not list."""

LEAST_SEGMENTS, MOST_SEGMENTS = 1, 50
LONGEST_VALUE = 100
LONGEST_FIELD = 100


class Segment(NamedTuple):
    """The documents with a value of a field.

    >>> Segment("site", "north").key, Segment.of_key("site=a=b").value
    ('site=north', 'a=b')
    """

    field: str | None
    """None if the policy does not divide documents."""
    value: str
    listed: frozenset[str] = frozenset()
    """Values that the policy lists; documents with others belong to `OTHER`. Empty for the rest."""

    @property
    def key(self) -> str | None:
        """The segment as stored with predictions, certificates and trips; None for `ALL`."""
        return None if self.field is None else f"{self.field}={self.value}"

    @classmethod
    def of_key(cls, key: str | None) -> "Segment":
        """Return the segment that is stored so."""
        if key is None:
            return ALL_DOCUMENTS
        field, value = key.split("=", 1)
        return cls(field, value)


ALL_DOCUMENTS = Segment(None, ALL)


def value_of(key: str | None) -> str | None:
    """Return the value of the segment with a key, as it is shown; None for `ALL`."""
    return None if key is None else Segment.of_key(key).value


@dataclass(frozen=True)
class SegmentBy:
    """What divides documents into segments."""

    field: str | None = None
    """A field of the metadata, without "=", or `TEXT_LENGTH`; None if nothing does."""
    bounds: tuple[int, ...] = ()
    """Rising lengths at which the bands after the first one begin; only for `TEXT_LENGTH`."""
    most: int = 10
    """Most segments, with `OTHER`; the risk is shared among this many. With 1, one certificate is
    for all documents, and values that come after it wait.
    """
    covers: tuple[str, ...] | None = None
    """Values of `OTHER` that came before its certificate; others wait for a person. None for any.
    """

    @property
    def rest(self) -> str:
        """The segment of all documents with values that are not listed."""
        return ALL if self.field is None else OTHER

    @property
    def shares(self) -> int:
        """How many segments share the risk."""
        return 1 if self.field is None else self.most

    def is_like(self, other: "SegmentBy") -> bool:
        """Return whether both divide documents alike, whichever segments are listed."""
        return (self.field, self.bounds) == (other.field, other.bounds)

    def of(self, document: Document) -> Segment:
        """Return the segment of a document, whether or not the policy lists it."""
        if self.field != TEXT_LENGTH:
            return self.of_metadata(document.metadata)
        if document.text is None:
            return Segment(self.field, OTHER)
        place = sum(len(document.text) >= bound for bound in self.bounds)
        return Segment(self.field, self.bands()[place])

    def of_metadata(self, metadata: Mapping[str, object]) -> Segment:
        """Return the segment of a document with this metadata.

        >>> SegmentBy("site").of_metadata({"site": 7}).value
        '7'
        """
        if self.field is None:
            return ALL_DOCUMENTS
        content = metadata.get(self.field)
        value = str(content).lower() if isinstance(content, bool) else str(content)
        usable = isinstance(content, str | int | float) and _usable(value)
        return Segment(self.field, value if usable else OTHER)

    def of_stored(self, key: str | None, metadata: Mapping[str, object] | None) -> Segment | None:
        """Return the segment of a stored document, whatever divided documents at the time.

        None if it is unknown.

        ``key``: Of its segment then.
        ``metadata``: None if it is erased or was not read.
        """
        segment, bands = Segment.of_key(key), self.bands()
        if segment.field == self.field and (not bands or segment.value in (*bands, OTHER)):
            return segment
        if self.field is not None and (metadata is None or self.field == TEXT_LENGTH):
            return None
        return self.of_metadata(metadata or {})

    def bands(self) -> tuple[str, ...]:
        """Return the values of segments by length; empty for a field.

        >>> SegmentBy("text_length", (500, 2000)).bands()
        ('0-499', '500-1999', '2000-')
        """
        if self.field != TEXT_LENGTH:
            return ()
        inner = [f"{low}-{high - 1}" for low, high in pairwise((0, *self.bounds))]
        return (*inner, f"{(0, *self.bounds)[-1]}-")

    def faults(self) -> Iterator[FieldFault]:
        """Yield the faults, with pointers into the policy."""
        if self.field is None:
            return
        yield from name_faults(self.field, "/segment_by", longest=LONGEST_FIELD)
        if "=" in self.field:
            yield FieldFault("/segment_by", 'must not contain "="')
        if not LEAST_SEGMENTS <= self.most <= MOST_SEGMENTS:
            detail = f"is {self.most}; it must lie between {LEAST_SEGMENTS} and {MOST_SEGMENTS}"
            yield FieldFault("/most_segments", detail)
        if self.field == TEXT_LENGTH:
            rising = all(low < high for low, high in pairwise((0, *self.bounds)))
            if not self.bounds or not rising:
                detail = f"must be rising lengths above 0 where segment_by is {TEXT_LENGTH!r}"
                yield FieldFault("/segment_bounds", detail)
            elif len(self.bands()) >= self.most:
                detail = f"makes {len(self.bands())} bands and other; most_segments is {self.most}"
                yield FieldFault("/segment_bounds", detail)
        elif self.bounds:
            detail = f"goes with a segment_by of {TEXT_LENGTH!r} only"
            yield FieldFault("/segment_bounds", detail)


def _usable(value: str) -> bool:
    return 0 < len(value) <= LONGEST_VALUE and misnamed(value) is None


@dataclass(frozen=True)
class GateState:
    """What is stored of one segment's gate, and what an administrator lists of it."""

    value: str
    """Value of the segment."""
    threshold: float | None = None
    """Its own one, proved or set by hand; None for the policy's fixed one."""
    certificate_id: str | None = None
    """The certificate that proves it."""
    certified_for: Scorer | None = None
    """The scorer that a proved threshold holds for; nothing of other scorers is sent."""
    trip_id: str | None = None
    """The trip of the breaker that stops it from sending; None if the breaker has not tripped."""
    audits: AuditPlan | None = None
    """Its own rates; None for those of the policy."""
    audited_from: float | None = None
    """The confidence from which documents could come to be sent, by the confidences of a scorer
    alone; those below are audited at the lower of two rates. None if it is not known.
    """
    audited_for: Scorer | None = None
    """The scorer that this holds for; of others, all are audited at the higher rate."""


def state_faults(
    states: Sequence[GateState], segment_by: SegmentBy, *, fixed: bool
) -> Iterator[FieldFault]:
    """Yield the faults of gates as an administrator lists them."""
    if segment_by.field is None:
        if states:
            yield FieldFault("/segments", "goes with segment_by")
        return
    n_segments = len({OTHER, *(state.value for state in states)})
    if n_segments > max(segment_by.most, LEAST_SEGMENTS):
        detail = f"makes {n_segments} with other; most_segments is {segment_by.most}"
        yield FieldFault("/segments", detail)
    bands, before = segment_by.bands(), set[str]()
    for place, state in enumerate(states):
        pointer = f"/segments/{place}"
        if not _usable(state.value) or (bands and state.value not in (*bands, OTHER)):
            yield FieldFault(f"{pointer}/value", "cannot be the value of a segment")
        if state.value in before:
            yield FieldFault(f"{pointer}/value", "stands in the list already")
        before.add(state.value)
        if state.threshold is not None and not fixed:
            detail = "must be null in mode 'certified', where evidence sets it"
            yield FieldFault(f"{pointer}/threshold/value", detail)
        if state.threshold is not None and not 0.0 <= state.threshold <= 1.0:
            detail = f"is {state.threshold}; it must lie between 0 and 1"
            yield FieldFault(f"{pointer}/threshold/value", detail)
        for fault in state.audits.faults() if state.audits else ():
            yield FieldFault(f"{pointer}{fault.pointer}", fault.detail)
