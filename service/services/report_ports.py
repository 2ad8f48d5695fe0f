"""What is needed of the past from the world outside: rows for exports, counts for reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from setwise.service.domain.audit_trail import Event
from setwise.service.domain.certification import Scorer
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reports import Backlog
from setwise.service.domain.reviews import Annotation
from setwise.service.domain.verdicts import CheckedSet, Counted, Evidence, ReviewDay


@dataclass(frozen=True)
class Span:
    """Which rows of the past are meant; None does not restrict."""

    client_id: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None


class History(Protocol):
    """What is stored, in the order of its ids."""

    def predictions(self, span: Span, *, after: str | None, limit: int) -> list[Prediction]: ...

    def annotations(
        self, span: Span, *, after: str | None, limit: int
    ) -> list[tuple[Annotation, Prediction]]: ...

    def outcomes(
        self, span: Span, *, after: str | None, limit: int
    ) -> list[tuple[Outcome, Prediction]]: ...

    def events(self, span: Span, *, after: str | None, limit: int) -> list[Event]:
        """List the audit trail of all clients."""

    def evidence(self, limit: int, *, with_labels: bool) -> list[Evidence]:
        """Return what is known of the most recent predictions, newest first."""


class Backlogs(Protocol):
    """Work that waits."""

    def read(self) -> Backlog: ...


class Reports(Protocol):
    """Aggregates of what was predicted and reviewed, by days in UTC."""

    def tally(self, since: datetime, splits: Sequence[float] = ()) -> Counted:
        """Return the predictions made from ``since`` on, counted by what they have in common.

        Steps of confidence within which one of ``splits`` lies are counted in parts.
        """

    def review_days(self, since: datetime) -> list[ReviewDay]:
        """Return what came to reviewers and what they completed, a row a day, oldest first."""

    def checked(self, since: datetime, limit: int) -> list[CheckedSet]:
        """Return predictions made and checked from ``since`` on, the last checked ones.

        At most ``limit`` that people read, and as many that only other programs reported on.
        """

    def certification_audits(self, scorer: Scorer) -> int:
        """Count the documents drawn to certify that auditors have read."""
