"""Pages of lists, and the limits that every list shares."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.text import is_id

Item = TypeVar("Item")


@dataclass(frozen=True)
class Page(Generic[Item]):
    """One page of a list.

    ``next_after`` is the id after which the next page starts, None at the end.
    """

    items: tuple[Item, ...]
    next_after: str | None


LONGEST_PAGE = 200
"""Most items in a page; a page is read and sent whole."""


def check_page(after: str | None, limit: int) -> None:
    """Raise `InvalidRequest` if the limit or the id is invalid.

    ``after``: Id of the last item of the page before; None for the first page.
    ``limit``: Most items wanted, from 1 to 200.
    """
    if not 1 <= limit <= LONGEST_PAGE:
        fault = FieldFault("/limit", f"is {limit}; it must lie between 1 and {LONGEST_PAGE}")
        raise InvalidRequest("The limit of the list is out of range.", [fault])
    if after is not None and not is_id(after):
        fault = FieldFault("/cursor", "is not a cursor that this service gave out")
        raise InvalidRequest("The cursor of the list is wrong; start without one.", [fault])
