"""Whether reviewers and outcomes agree with a prediction, in SQL."""

from datetime import datetime, timedelta

from sqlalchemy import CTE, Column, ColumnElement, and_, case, func, or_, select, true

from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.segments import Segment
from setwise.service.stores.columns.rows import in_segment
from setwise.service.stores.tables import annotations, outcomes, predictions, routing_policies

SLACK = timedelta(days=1)
"""Bound on clock skew: no check is older than its prediction by more than this."""

REREAD = (None, False, True)
"""What became of an auditor's agreement, by the number that `reread_of` returns."""

# A lead's annotation decides before those that settled the document; among several, one that
# disagrees with the model. An audit that waits for a lead counts with the auditor's answer: leaving
# out only agreements, or only disagreements, would favour one side. A reopening does not count:
# a person doubted the document, and errors would count more often than others. Flags become numbers
# because PostgreSQL has no minimum of booleans.
ADJUDICATED = case((annotations.c.kind == ReviewKind.ADJUDICATION.value, 1), else_=0)
_AGREED = case((annotations.c.agreed, 1), else_=0)
COUNTS = and_(
    annotations.c.round == 0,
    or_(annotations.c.settles, annotations.c.kind == ReviewKind.AUDIT.value),
)
_LAST_WORD = func.coalesce(func.min(case((ADJUDICATED == 1, _AGREED))), func.min(_AGREED))


def about_segment(prediction_id: Column[str], segment: Segment | None) -> ColumnElement[bool]:
    """Return the condition that a prediction is meant; None means all."""
    if segment is None:
        return true()
    of = predictions.alias("meant")
    return (
        select(of.c.id).where(of.c.id == prediction_id, in_segment(of.c.segment, segment)).exists()
    )


def reviewer_agreed_of(prediction_id: Column[str]) -> ColumnElement[int | None]:
    """Return the reviewers' final answer on a prediction: 1, 0 or NULL."""
    word = select(_LAST_WORD).where(annotations.c.prediction_id == prediction_id, COUNTS)
    return word.scalar_subquery()


def outcome_agreed_of(prediction_id: Column[str]) -> ColumnElement[bool | None]:
    """Return whether the last outcome agrees with the prediction; NULL without outcomes."""
    last = select(outcomes.c.agreed).where(outcomes.c.prediction_id == prediction_id)
    return last.order_by(outcomes.c.number.desc()).limit(1).scalar_subquery()


# Whether an auditor agreed, and whether a lead read the document nevertheless; see `REREAD`.
_AGREEMENT = and_(annotations.c.kind == ReviewKind.AUDIT.value, annotations.c.agreed)
_READ_AGAIN = func.max(case((_AGREEMENT, 1), else_=0)) * (1 + func.max(ADJUDICATED))
_AUDITED = predictions.alias("audited")
_AUDITED_BY = (
    select(_AUDITED.c.policy_version)
    .where(_AUDITED.c.id == annotations.c.prediction_id)
    .correlate(annotations)
    .scalar_subquery()
)
_REREAD_RATE = func.max(
    case(
        (
            _AGREEMENT,
            func.coalesce(
                annotations.c.reread_rate,
                select(routing_policies.c.gold_reread_rate)
                .where(routing_policies.c.version == _AUDITED_BY)
                .correlate(annotations)
                .scalar_subquery(),
            ),
        )
    )
)


def reread_of(prediction_id: Column[str]) -> ColumnElement[int | None]:
    """Return what became of an auditor's agreement; `reread_flag` reads it."""
    query = select(_READ_AGAIN).where(annotations.c.prediction_id == prediction_id)
    return query.scalar_subquery()


def reread_flag(number: int | None) -> bool | None:
    """Return whether a lead read an agreement again; None without one."""
    return REREAD[number or 0]


def reread_rate_of(prediction_id: Column[str]) -> ColumnElement[float | None]:
    """Return with which probability an auditor's agreement was to be read again."""
    query = select(_REREAD_RATE).where(annotations.c.prediction_id == prediction_id)
    return query.scalar_subquery()


def flag(number: int | bool | None) -> bool | None:
    """Return a database's number or boolean as a boolean."""
    return None if number is None else bool(number)


def reviewer_agreed_since(since: datetime) -> CTE:
    """Return the final answer of the reviewers of each prediction."""
    of = annotations.c
    return (
        select(
            of.prediction_id,
            _LAST_WORD.label("agreed"),
            _READ_AGAIN.label("reread"),
            _REREAD_RATE.label("reread_rate"),
        )
        .where(of.created_at >= since - SLACK, COUNTS)
        .group_by(of.prediction_id)
        .cte("reviewed")
    )


def outcome_agreed_since(since: datetime) -> CTE:
    """Return whether the last outcome of each prediction agrees with it."""
    of = outcomes.c
    # The flag is the lowest bit, so it comes with the greatest number.
    last = func.max(of.number * 2 + case((of.agreed, 1), else_=0))
    return (
        select(of.prediction_id, (last % 2).label("agreed"))
        .where(of.created_at >= since - SLACK)
        .group_by(of.prediction_id)
        .cte("reported")
    )
