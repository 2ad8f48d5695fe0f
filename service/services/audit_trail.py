"""Read the audit trail."""

from dataclasses import dataclass

from setwise.service.domain.audit_trail import Event, EventFilter
from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.paging import Page, check_page
from setwise.service.stores.transaction import Transactions


@dataclass(frozen=True)
class AuditTrail:
    """The record of all changes."""

    begin: Transactions

    def page(
        self,
        caller: Caller,
        wanted: EventFilter | None = None,
        *,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[Event]:
        """Return a page of matching events, newest first."""
        caller.require(Permission.READ_AUDIT_TRAIL)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.audit_trail.page(wanted, after=after, limit=limit)
