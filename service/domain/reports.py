"""How much work waits, and for how long."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Line:
    """Things that wait for the same: how many, and since when the oldest does."""

    count: int
    since: datetime | None

    def age_s(self, now: datetime) -> float:
        """Return for how long the oldest has waited, in seconds; 0 where nothing waits.

        >>> from datetime import UTC
        >>> Line(1, datetime(2026, 1, 1, tzinfo=UTC)).age_s(datetime(2026, 1, 2, tzinfo=UTC))
        86400.0
        """
        return 0.0 if self.since is None else max(0.0, (now - self.since).total_seconds())


@dataclass(frozen=True)
class Backlog:
    """Everything that waits, at one instant.

    Attributes
    ----------
    reviews : mapping
        Tasks that are ``waiting`` or ``skipped`` since they were made, ``leased`` since the claim.
    deliveries : mapping
        Messages that are ``unrouted``, deliveries that are ``pending`` or ``dead``, since they
        were made.
    jobs : mapping
        ``queued`` since they are due (a time to come for later ones), ``running`` since the start.
    """

    reviews: Mapping[str, Line]
    deliveries: Mapping[str, Line]
    jobs: Mapping[str, Line]


@dataclass(frozen=True)
class Span:
    """Which rows of the past are meant; None does not restrict."""

    client_id: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
