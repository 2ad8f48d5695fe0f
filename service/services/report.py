"""Numbers about the work done and the work that waits."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reports import Backlog
from setwise.service.domain.reviews import ReviewState
from setwise.service.stores.clock import Clock
from setwise.service.stores.transaction import Transactions


@dataclass(frozen=True)
class Counts:
    """How many documents went which way, and how far their reviews are.

    Attributes
    ----------
    auto_sent : int
        Predictions that left without a person.
    waiting, leased, completed, skipped : int
        Review tasks by state; a skipped one waits for a lead.
    reasons : mapping
        Predictions by the reason of their decision.
    """

    auto_sent: int
    waiting: int
    leased: int
    completed: int
    skipped: int
    reasons: Mapping[Reason, int]

    @property
    def predictions(self) -> int:
        """Every document that came in."""
        return sum(self.reasons.values())


@dataclass(frozen=True)
class Summary:
    """Count predictions and review tasks, both at one instant."""

    begin: Transactions

    def __call__(self, caller: Caller) -> Counts:
        """Return the counts."""
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            decided = transaction.predictions.counts()
            reviews = transaction.reviews.counts()
        reasons = dict.fromkeys(Reason, 0)
        for (_, reason), count in decided.items():
            reasons[reason] += count
        return Counts(
            auto_sent=sum(n for (decision, _), n in decided.items() if decision is Decision.AUTO),
            waiting=reviews.get(ReviewState.WAITING, 0),
            leased=reviews.get(ReviewState.LEASED, 0),
            completed=reviews.get(ReviewState.COMPLETED, 0),
            skipped=reviews.get(ReviewState.SKIPPED, 0),
            reasons=reasons,
        )


@dataclass(frozen=True)
class ReadBacklog:
    """Tell how much work waits, and since when, without reading what is done."""

    begin: Transactions
    now: Clock

    def __call__(self, caller: Caller) -> tuple[Backlog, datetime]:
        """Return the backlog and the time at which it was read."""
        caller.require(Permission.REPORT)
        with self.begin(read_only=True) as transaction:
            return transaction.backlog.read(), self.now()
