"""Base of services that change data: transactions, clock, ids, audit trail."""

from dataclasses import dataclass, replace

from setwise.service.domain.audit_trail import Event
from setwise.service.domain.callers import Caller
from setwise.service.stores.database import Clock, NewId
from setwise.service.stores.transaction import Transaction, Transactions


@dataclass(frozen=True)
class Recorded:
    """A service that records its changes in the audit trail."""

    begin: Transactions
    now: Clock
    new_id: NewId

    def _note(
        self,
        transaction: Transaction,
        caller: Caller,
        action: str,
        subject: str,
        request_id: str | None = None,
        /,
        **detail: object,
    ) -> None:
        if request_id is not None:
            caller = replace(caller, request_id=request_id)
        transaction.audit_trail.add(
            Event.by(
                caller,
                action,
                subject,
                id=self.new_id(),
                at=self.now(),
                **detail,
            )
        )
