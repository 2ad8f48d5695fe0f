"""The documents: where their pages are, and who may open them."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Depends

from setwise.service.domain.accounts.callers import Permission
from setwise.service.pages.board import parts as ui
from setwise.service.pages.visitors import who_may, who_sends
from setwise.service.sign_in.sessions import Visit

HERE = "/documents"

Reads = Annotated[Visit, Depends(who_may(Permission.READ_ALL_PREDICTIONS))]
Sends = Annotated[Visit, Depends(who_sends(Permission.READ_ALL_PREDICTIONS))]


def address(**values: object) -> str:
    """Return the address of a list with these filters.

    >>> address(audited="contradicted", reviewer=None)
    '/documents?audited=contradicted'
    """
    filters = {name: value for name, value in values.items() if value is not None}
    return f"{HERE}?{urlencode(filters, doseq=True)}" if filters else HERE


def counted(number: int, **filters: object) -> object:
    """Return a number with a link to the documents that it counts."""
    return ui.link(address(**filters), f"{number:,}") if number else 0


def of_document(prediction_id: str) -> str:
    """Return the address of a document's page."""
    return f"{HERE}/{prediction_id}"
