"""Identifiers: UUIDv7 strings, so that ordering by id is ordering by time."""

import re

_CANONICAL = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_id(text: str) -> bool:
    """Tell whether ``text`` has the one form in which the service writes ids.

    Whatever has another form names nothing, and need not be looked up.

    >>> is_id("019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77"), is_id("019AA4C1"), is_id("")
    (True, False, False)
    """
    return _CANONICAL.fullmatch(text) is not None
