"""Waiting work, and spans of the past."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Line:
    """Number of waiting things, and since when the oldest waits."""

    count: int
    since: datetime | None

    def age_s(self, now: datetime) -> float:
        """Return the age of the oldest in seconds; 0 if nothing waits.

        >>> from datetime import UTC
        >>> Line(1, datetime(2026, 1, 1, tzinfo=UTC)).age_s(datetime(2026, 1, 2, tzinfo=UTC))
        86400.0
        """
        return 0.0 if self.since is None else max(0.0, (now - self.since).total_seconds())


@dataclass(frozen=True)
class Backlog:
    """All waiting work at one instant.

    Attributes
    ----------
    reviews : mapping
        Tasks ``waiting`` or ``skipped`` since their creation, ``leased`` since the claim.
    deliveries : mapping
        Messages ``unrouted``, deliveries ``pending`` or ``dead``, since their creation.
    jobs : mapping
        ``queued`` since they are due (later jobs in the future), ``running`` since the start.
    """

    reviews: Mapping[str, Line]
    deliveries: Mapping[str, Line]
    jobs: Mapping[str, Line]


@dataclass(frozen=True)
class Span:
    """Filter of stored rows; None does not restrict."""

    client_id: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
