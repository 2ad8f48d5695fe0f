"""What the breaker needs from the world outside."""

from datetime import datetime
from typing import Protocol

from setwise.service.domain.breaker import Reset, Trip, Unvouched, WatchedAudit
from setwise.service.domain.certification import Scorer


class Breakers(Protocol):
    """What the breaker watches, when it tripped, and who closed it."""

    def audits(self, scorer: Scorer, *, after: str | None, limit: int) -> list[WatchedAudit]:
        """List, by prediction, the newest audits of what was sent or would have been.

        Parameters
        ----------
        after : str or None
            Id behind which a prediction's own must lie.
        """

    def in_force_since(self) -> datetime | None:
        """Tell since when all of what sends has been in force without a break.

        That is the model, its calibrator, and policies that rest on audits. None stands for the
        beginning. What other ones sent before is not to be held against those in force.
        """

    def unvouched(self, scorer: Scorer, *, since: datetime | None, most: int) -> Unvouched:
        """Count what was sent after ``since`` by policies that rest on audits, up to ``most``."""

    def add(self, trip: Trip) -> None:
        """Store a trip."""

    def close(self, reset: Reset) -> None:
        """Store a reset."""

    def trip(self, trip_id: str) -> Trip | None:
        """Return one."""

    def newest_trip(self, *, sets_evidence_aside: bool = False) -> Trip | None:
        """Return the newest trip, or the newest of those that set evidence aside."""

    def newest_reset(self) -> Reset | None:
        """Return the newest reset."""

    def history(self, limit: int) -> list[tuple[Trip, Reset | None]]:
        """List the newest trips, newest first, each with what ended it."""
