"""Write and read the audit trail."""

from dataclasses import dataclass

from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.audit_trail import AuditEvent, EventFilter
from setwise.service.domain.text import Page, check_page
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
        /,
        **detail: object,
    ) -> None:
        event = AuditEvent.by(caller, action, subject, id=self.new_id(), at=self.now(), **detail)
        transaction.audit_trail.add(event)


@dataclass(frozen=True)
class AuditTrail:
    """The record of all changes."""

    begin: Transactions

    def page(
        self,
        caller: Caller,
        filters: EventFilter | None = None,
        *,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[AuditEvent]:
        """Return a page of matching events, newest first."""
        caller.require(Permission.READ_AUDIT_TRAIL)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.audit_trail.page(filters, after=after, limit=limit)
