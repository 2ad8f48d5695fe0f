"""Identifiers: UUIDv7 strings, so that ordering by id is ordering by time."""

import re
from datetime import datetime, timedelta

_CANONICAL = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_id(text: str) -> bool:
    """Tell whether ``text`` has the one form in which the service writes ids.

    Whatever has another form names nothing, and need not be looked up.

    >>> is_id("019aa4c1-8f5e-7c33-9d54-3b8f0c2f1a77"), is_id("019AA4C1"), is_id("")
    (True, False, False)
    """
    return _CANONICAL.fullmatch(text) is not None


def first_id_at(instant: datetime) -> str:
    """Return the least id of those made at ``instant`` or later (RFC 9562, section 5.7).

    >>> from datetime import UTC
    >>> first_id_at(datetime(2026, 1, 2, tzinfo=UTC))
    '019b7c01-0400-7000-8000-000000000000'
    """
    return _first_id(int(instant.timestamp() * 1_000))


def id_earlier(than: str, by: timedelta) -> str:
    """Return the least id of those made ``by`` before another one, or later.

    >>> id_earlier("019b7c01-0400-7c33-9d54-3b8f0c2f1a77", timedelta(seconds=1))
    '019b7c01-0018-7000-8000-000000000000'
    """
    return _first_id(int(than[:8] + than[9:13], base=16) - by // timedelta(milliseconds=1))


def _first_id(milliseconds: int) -> str:
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000"
