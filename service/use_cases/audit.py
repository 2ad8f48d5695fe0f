"""Read the audit trail."""

from dataclasses import dataclass

from service.domain.history import Event
from service.domain.people import Caller, Permission
from service.use_cases.paging import Page, check_page
from service.use_cases.people_ports import EventFilter
from service.use_cases.ports import Begin


@dataclass(frozen=True)
class ListEvents:
    """List what was done, newest first."""

    begin: Begin

    def __call__(
        self,
        caller: Caller,
        wanted: EventFilter | None = None,
        *,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[Event]:
        """Return one page of the events that match ``wanted``."""
        caller.require(Permission.READ_AUDIT_TRAIL)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            return transaction.audit_trail.page(wanted, after=after, limit=limit)
