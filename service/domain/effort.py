"""What people's reading costs: how much was read, for how long, and what sending spared."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import NamedTuple

from setwise.service.domain.reviews import ReviewKind
from setwise.shown import Shown


class Reading(StrEnum):
    """What a person read a document for."""

    ASSISTED = "assisted"
    """A first reading with a suggestion in view."""
    BLIND = "blind"
    """A first reading without one: an audit, or a document that came before there was a model."""
    SECOND = "second"
    """A reading of a document that a person had read: an overlap, or a reopened document."""
    ADJUDICATION = "adjudication"
    """A lead's decision."""


def reading_of(kind: ReviewKind, *, shown: bool) -> Reading:
    """Return what a review was.

    ``shown``: Whether the reviewer saw an answer of the model or of another person.

    >>> reading_of(ReviewKind.REVIEW, shown=True), reading_of(ReviewKind.AUDIT, shown=False)
    (<Reading.ASSISTED: 'assisted'>, <Reading.BLIND: 'blind'>)
    """
    if kind is ReviewKind.ADJUDICATION:
        return Reading.ADJUDICATION
    if kind in {ReviewKind.OVERLAP, ReviewKind.REOPENED}:
        return Reading.SECOND
    return Reading.ASSISTED if shown else Reading.BLIND


class ReadingCount(NamedTuple):
    """Readings of one kind on one day."""

    day: date
    reading: Reading
    readings: int
    seconds: float
    """Their total time; long pauses are cut off."""


def hours_of(readings: float, each_s: float | None) -> float | None:
    """Return how long so many readings take; None if the time of one is not known."""
    return None if each_s is None else readings * each_s / 3600


@dataclass(frozen=True)
class ReadingTime(Shown):
    """Readings of one kind, and the time that they took."""

    readings: int = 0
    """How many there were."""
    seconds: float = 0.0
    """Total time; a pause of more than fifteen minutes counts as fifteen."""

    @property
    def each_s(self) -> float | None:
        """Mean time of a reading, in seconds; None without any."""
        return self.seconds / self.readings if self.readings else None

    def __add__(self, other: "ReadingTime") -> "ReadingTime":
        """Return both together."""
        return ReadingTime(self.readings + other.readings, self.seconds + other.seconds)


@dataclass(frozen=True)
class Effort(Shown):
    """What people read in a period, and what they would have read without automatic sending."""

    unread: int
    """Documents that were sent without being read."""
    assisted: ReadingTime
    """First readings with a suggestion in view."""
    blind: ReadingTime
    """First readings without one: audits, and documents that came before there was a model."""
    second: ReadingTime
    """Readings of what was already read: overlaps and reopened documents."""
    adjudication: ReadingTime
    """Decisions of leads."""
    hours: float
    """Time of all readings."""
    hours_without: float | None
    """Time for reading everything once: what was read first, and what was sent unread, at the mean
    time of a first reading. null before the first one.
    """

    @classmethod
    def of(cls, unread: int, counts: Iterable[ReadingCount]) -> "Effort":
        """Return the effort of a period.

        >>> monday = date(2026, 11, 23)
        >>> read = ReadingCount(monday, Reading.ASSISTED, 10, 600.0)
        >>> audits = ReadingCount(monday, Reading.BLIND, 5, 600.0)
        >>> effort = Effort.of(30, [read, audits])
        >>> round(effort.hours, 2), effort.hours_without, effort.total.readings
        (0.33, 1.0, 15)
        """
        times = dict.fromkeys(Reading, ReadingTime())
        for count in counts:
            times[count.reading] += ReadingTime(count.readings, count.seconds)
        total = sum(times.values(), ReadingTime())
        each_s = (times[Reading.ASSISTED] + times[Reading.BLIND]).each_s
        first = times[Reading.ASSISTED].readings + times[Reading.BLIND].readings
        return cls(
            unread=unread,
            assisted=times[Reading.ASSISTED],
            blind=times[Reading.BLIND],
            second=times[Reading.SECOND],
            adjudication=times[Reading.ADJUDICATION],
            hours=total.seconds / 3600,
            hours_without=hours_of(unread + first, each_s),
        )

    @property
    def times(self) -> dict[Reading, ReadingTime]:
        """Readings by kind."""
        return {reading: getattr(self, reading.value) for reading in Reading}

    @property
    def total(self) -> ReadingTime:
        """All readings."""
        return sum(self.times.values(), ReadingTime())

    @property
    def hours_saved(self) -> float | None:
        """How much longer reading everything once would have taken; None before a first reading.

        Negative where audits and second readings cost more than sending spares.
        """
        return None if self.hours_without is None else self.hours_without - self.hours

    @property
    def readings_per_sent(self) -> float | None:
        """Readings for each document that was sent unread; None if none was."""
        return self.total.readings / self.unread if self.unread else None
