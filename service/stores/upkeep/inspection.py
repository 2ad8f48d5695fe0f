"""Questions that someone asks who looks after an installation."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Engine, delete, false, func, select

from setwise.service.stores.tables import PENDING, QUEUED, deliveries, jobs


class Due(NamedTuple):
    """When the work that waits was, or is, due first; None where none waits."""

    jobs: datetime | None
    deliveries: datetime | None


def try_to_write(engine: Engine) -> None:
    """Take every lock and right that a write needs, and touch no row."""
    with engine.connect() as connection, connection.begin() as transaction:
        connection.execute(delete(jobs).where(false()))
        transaction.rollback()


def first_due(engine: Engine) -> Due:
    """Return when the first waiting job and delivery were due."""
    with engine.connect() as connection:
        return Due(
            connection.execute(select(func.min(jobs.c.due_at)).where(QUEUED)).scalar_one(),
            connection.execute(select(func.min(deliveries.c.due_at)).where(PENDING)).scalar_one(),
        )
