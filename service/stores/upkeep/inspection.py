"""Checks of a database for operators."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Engine, delete, false, func, select

from setwise.service.stores.tables import (
    DEAD,
    FAILED_ONCE,
    PENDING,
    QUEUED,
    deliveries,
    jobs,
)


class Due(NamedTuple):
    """When the first waiting job and delivery are due; None without any."""

    jobs: datetime | None
    deliveries: datetime | None
    failing: int
    dead: int
    """Deliveries that wait after a failed attempt, and those that were given up."""


def try_to_write(engine: Engine) -> None:
    """Take all locks and rights of a write, without changing rows."""
    with engine.connect() as connection, connection.begin() as transaction:
        connection.execute(delete(jobs).where(false()))
        transaction.rollback()


def first_due(engine: Engine) -> Due:
    """Return when the first waiting job and delivery are due, and failed deliveries."""
    failing = select(func.count()).select_from(deliveries).where(PENDING, FAILED_ONCE)
    dead = select(func.count()).select_from(deliveries).where(DEAD)
    with engine.connect() as connection:
        return Due(
            connection.execute(select(func.min(jobs.c.due_at)).where(QUEUED)).scalar_one(),
            connection.execute(select(func.min(deliveries.c.due_at)).where(PENDING)).scalar_one(),
            connection.execute(failing).scalar_one(),
            connection.execute(dead).scalar_one(),
        )
