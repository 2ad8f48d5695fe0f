"""What people do with many documents at once."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from setwise.service.domain import errors
from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.documents import DocumentFilter, Order
from setwise.service.domain.files import (
    CONTENT,
    DOCUMENT,
    LONGEST_EXPORT_S,
    Format,
    content_row,
    document_row,
    header,
    lines,
)
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.documents import checked
from setwise.service.services.predictions import disclose

MOST_EXPORTED = 100_000
"""Most documents in one file; exports of all predictions have no limit."""

PAGE = 500
"""Documents of an export that are in memory together."""


@dataclass(frozen=True)
class Selections(Recorded):
    """Documents that somebody selected, or found."""

    stopwatch: Callable[[], float] = time.monotonic
    """Returns monotonic time in seconds."""

    def export(
        self,
        caller: Caller,
        wanted: DocumentFilter,
        order: Order = Order.NEWEST,
        *,
        written: Format,
        content: bool = False,
    ) -> Iterator[bytes]:
        """Return the parts of a file of the matching documents; raise errors before the first.

        Documents of which the caller holds a blind review are left out, and the caller is never
        given a blind review of the others.

        Raises `InvalidRequest` if nothing can match, or too much does.
        """
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin() as transaction:
            wanted = checked(transaction, wanted, caller)
            number = transaction.documents.count(wanted, most=MOST_EXPORTED + 1)
            if number > MOST_EXPORTED:
                raise errors.InvalidRequest(
                    f"More than {MOST_EXPORTED:,} documents match. Narrow the filter, or export "
                    "all predictions with GET /v1/exports/predictions."
                )
            self._note(
                transaction, caller, "export.read", "documents", format=written.value, rows=number
            )
        return self._parts(caller, wanted, order, written, content=content)

    def _parts(
        self,
        caller: Caller,
        wanted: DocumentFilter,
        order: Order,
        written: Format,
        *,
        content: bool,
    ) -> Iterator[bytes]:
        started, after = self.stopwatch(), None
        yield header(written, (*DOCUMENT, *CONTENT) if content else DOCUMENT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            while True:
                page = transaction.documents.page(wanted, order, after=after, limit=PAGE)
                found = {one.prediction.id: one for one in page.items}
                hidden = disclose(self.begin, self.now, caller, found)
                rows = [
                    document_row(one) | (content_row(one.prediction) if content else {})
                    for name, one in found.items()
                    if name not in hidden
                ]
                yield lines(written, rows)
                after = page.next_after
                if after is None:
                    return
                if self.stopwatch() - started > LONGEST_EXPORT_S:
                    raise errors.StorageUnavailable(
                        f"The export took longer than {LONGEST_EXPORT_S:.0f} s and was cut off; "
                        "narrow the filter."
                    )
