"""Say what is odd about a label set before a person settles a document with it."""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.errors import ModelUnavailable
from setwise.service.domain.reviews import ReviewTask
from setwise.service.domain.rules import Rule, constraints_broken
from setwise.service.services.ports import PredictorSource
from setwise.service.stores.transaction import Transactions


@dataclass(frozen=True)
class Oddity:
    """What stands against a label set; neither forbids it.

    Attributes
    ----------
    unseen : bool
        No training document has exactly this set.
    broken : tuple of Rule
        Rules of the policy on which labels go together.
    """

    unseen: bool
    broken: tuple[Rule, ...]


@dataclass(frozen=True)
class CheckSets:
    """Hold label sets against the training documents and the policy's rules."""

    begin: Transactions
    predictors: PredictorSource

    def __call__(
        self, caller: Caller, task: ReviewTask, sets: Sequence[Sequence[str]]
    ) -> list[Oddity]:
        """Return what is odd about each set, if a reviewer gave it to the task's document."""
        caller.require(Permission.REVIEW)
        with self.begin(read_only=True) as transaction:
            rules = transaction.policies.current().rules
        seen = self._seen(sets)
        metadata = task.prediction.document.metadata
        return [
            Oddity(not known, constraints_broken(rules, labels, metadata))
            for known, labels in zip(seen, sets, strict=True)
        ]

    def _seen(self, sets: Sequence[Sequence[str]]) -> Sequence[bool]:
        try:
            return self.predictors.active().seen(sets)
        except ModelUnavailable:  # nothing is known, so nothing is odd
            return [True] * len(sets)
