"""What a change of the policy would do, told before it is made."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.policy import PolicyChange, RoutingPolicy
from setwise.service.domain.rules import Rule
from setwise.service.domain.verdicts import Evidence
from setwise.service.services.administer import certified
from setwise.service.services.forecast import (
    LEAST_CHECKED,
    PREVIEWED,
    Forecast,
    lowest_threshold,
    over,
)
from setwise.service.stores.clock import Clock
from setwise.service.stores.transaction import Transactions


@dataclass(frozen=True)
class HeldBack:
    """How many of the documents one rule would keep for people, whatever their confidence."""

    rule: Rule
    documents: int


@dataclass(frozen=True)
class Effect:
    """The policy in force and the changed one, on the same recent documents.

    Attributes
    ----------
    before, after : RoutingPolicy
        ``after`` carries the certificate that it would get, if there is one.
    now, then : Forecast
        As if the breaker let everything through: a change does not let it go.
    reachable : float or None
        Lowest threshold that would have met the target on these documents. It is for orientation:
        documents are not checked at random, so nothing is proved by it.
    held_back : tuple of HeldBack
        By each rule of the change.
    """

    before: RoutingPolicy
    after: RoutingPolicy
    now: Forecast
    then: Forecast
    reachable: float | None
    held_back: tuple[HeldBack, ...]


@dataclass(frozen=True)
class PreviewChange:
    """Say what a whole change of the policy would do with recent documents."""

    begin: Transactions
    now: Clock

    def __call__(self, caller: Caller, change: PolicyChange) -> Effect:
        """Return the effect; nothing is stored.

        Raises
        ------
        InvalidRequest
            If the change asks for what cannot be.
        """
        caller.require(Permission.REPORT)
        faults = list(change.faults())
        if faults:
            raise InvalidRequest("The policy cannot take effect like this.", faults)
        with self.begin(read_only=True) as transaction:
            before = transaction.policies.current()
            wanted = change.as_policy(before.version, self.now(), caller.id)
            after = certified(
                transaction,
                replace(wanted, trip_id=before.trip_id),
                transaction.certifications.serving(),
            )
            found = transaction.history.evidence(PREVIEWED, with_labels=True)
        steps = sorted({one.confidence for one in found})
        every = over(found, steps, after.rules, after.risk)
        return Effect(
            before=before,
            after=after,
            now=_forecast(found, before),
            then=_forecast(found, after),
            reachable=lowest_threshold(every, after.target_accuracy, LEAST_CHECKED),
            held_back=tuple(
                HeldBack(rule, sum(rule.holds_back(frozenset(x.labels), x.metadata) for x in found))
                for rule in after.rules
            ),
        )


def _forecast(found: Sequence[Evidence], policy: RoutingPolicy) -> Forecast:
    threshold = policy.least_confidence if policy.auto_send else None
    (made,) = over(found, [threshold], policy.rules, policy.risk)
    return made
