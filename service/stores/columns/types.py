"""Column types that mean the same on SQLite and PostgreSQL."""

import json
from datetime import UTC, datetime
from enum import StrEnum

from pydantic_core import to_json
from sqlalchemy import JSON, DateTime, Dialect, String, Text
from sqlalchemy.dialects.postgresql import UUID
from sqlalchemy.types import TypeDecorator


def stored_json(value: object) -> str:
    """Return ``value`` as JSON without whitespace.

    Raises `ValueError` if a number has no JSON form.
    """
    text = to_json(value, inf_nan_mode="constants").decode()
    if "NaN" in text or "Infinity" in text:  # an invalid number, or the word in a text
        json.dumps(value, allow_nan=False)
    return text


Id = String(36).with_variant(UUID(as_uuid=False), "postgresql")
"""A UUID: text in Python, 16 bytes on PostgreSQL. Both databases sort it like its text."""

Json = JSON(none_as_null=True)
"""JSON stored as written. PostgreSQL's ``jsonb`` would turn 1e300 into an integer of 301 digits and
lose the order of names, and is slower to write. Queries that need its operators can cast."""


class Choice(TypeDecorator[StrEnum]):
    """A member of an enumeration, stored as its text."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- the method of a type
        """Return the text of a member, or a text as it is."""
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:  # noqa: ARG002 -- as above
        """Return the member of a stored text."""
        return None if value is None else self.kind(value)


class Instant(TypeDecorator[datetime]):
    """A point in time, aware and in UTC in Python.

    PostgreSQL stores ``timestamptz``; SQLite stores UTC text of fixed width, which sorts by time.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the time in UTC; raises `ValueError` without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; the service keeps UTC only")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the stored time in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)
