"""Column types that mean the same on SQLite and PostgreSQL."""

from datetime import UTC, datetime

from sqlalchemy import JSON, DateTime, Dialect, String
from sqlalchemy.dialects.postgresql import UUID
from sqlalchemy.types import TypeDecorator

Id = String(36).with_variant(UUID(as_uuid=False), "postgresql")
"""A UUID, as text in Python on both; 16 bytes on PostgreSQL. Both order as the text does."""

Json = JSON(none_as_null=True)
"""Kept as it was written: PostgreSQL's ``jsonb`` would turn 1e300 into an integer of 301 digits and
lose the order of names, and takes longer to write. A query that needs its operators may cast."""


class Instant(TypeDecorator[datetime]):
    """A point in time: aware and in UTC in Python.

    PostgreSQL stores ``timestamptz``; SQLite text of fixed width in UTC, which sorts by time.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a naive time, whose zone nobody knows."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; the service keeps UTC only")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give the time back in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)
