"""What reports read of each prediction, from annotations and outcomes."""

from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from setwise.service.domain.reviews import ReviewKind
from setwise.service.stores.tables import annotations, outcomes, predictions
from tests.old_readings.verdicts import (
    ADJUDICATED,
    COUNTS,
    flag,
    outcome_agreed_of,
    reread_flag,
    reread_of,
    reread_rate_of,
    reviewer_agreed_of,
)


class OldVerdict(NamedTuple):
    """What was read of a prediction."""

    reviewer_agreed: bool | None
    outcome_agreed: bool | None
    reread: bool | None
    reread_rate: float | None
    truth: tuple[str, ...] | None
    undecided: bool


def verdicts(connection: Connection) -> dict[str, OldVerdict]:
    """Return what was read of every prediction."""
    column = predictions.c
    rows = connection.execute(
        select(
            column.id,
            reviewer_agreed_of(column.id),
            outcome_agreed_of(column.id),
            reread_of(column.id),
            reread_rate_of(column.id),
        )
    ).all()
    reviews = _first(
        connection,
        select(annotations.c.prediction_id, annotations.c.labels)
        .where(COUNTS)
        .order_by(ADJUDICATED.desc(), annotations.c.agreed, annotations.c.id),
    )
    reports = _first(
        connection,
        select(outcomes.c.prediction_id, outcomes.c.labels).order_by(outcomes.c.number.desc()),
    )
    waiting = _undecided(connection)
    return {
        name: OldVerdict(
            flag(reviewed),
            flag(reported),
            reread_flag(reread),
            rate,
            reports.get(name, reviews.get(name)),
            name in waiting,
        )
        for name, reviewed, reported, reread, rate in rows
    }


def _first(connection: Connection, query: Any) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, labels in connection.execute(query):
        found.setdefault(name, tuple(labels))
    return found


def _undecided(connection: Connection) -> set[str]:
    """Return the predictions whose auditor's contradiction waits for a lead."""
    of, lead = annotations.c, annotations.alias("lead")
    decided = select(lead.c.id).where(
        lead.c.prediction_id == of.prediction_id, lead.c.kind == ReviewKind.ADJUDICATION.value
    )
    query = select(of.prediction_id).where(
        of.kind == ReviewKind.AUDIT.value, ~of.settles, ~of.agreed, ~decided.exists()
    )
    return set(connection.execute(query).scalars())
