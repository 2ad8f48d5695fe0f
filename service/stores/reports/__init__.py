"""Aggregates for reports, from counts by day, so their cost does not grow with the documents."""

from collections.abc import Mapping
from datetime import date
from typing import Any  # of several columns

from sqlalchemy import Column, ColumnElement, Connection, Select, func, select, true

from setwise.service.domain.effort import ReadingCount
from setwise.service.domain.evidence import Cell
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.reports import ReviewDay, StepCount
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, Segment
from setwise.service.stores.columns.rows import in_segment
from setwise.service.stores.tables import (
    prediction_counts,
    predictions,
    review_counts,
    step_counts,
)

_MADE, _STEP, _READ = prediction_counts.c, step_counts.c, review_counts.c


class ReportStore:
    """Aggregates of predictions and reviews by day in UTC, of the documents of a segment."""

    def __init__(self, connection: Connection, segment: Segment) -> None:
        self._connection = connection
        self._segment = segment

    def tally(self, since: date, before: date | None = None) -> list[Cell]:
        """Return counts of the predictions of these days, of each day and kind.

        ``before``: The day after the last one.
        """
        kinds = (
            _MADE.day,
            _MADE.decision,
            _MADE.reason,
            _MADE.inclusion_probability,
            _MADE.in_rest,
            _MADE.reviewer_agreed,
            _MADE.outcome_agreed,
            _MADE.reread,
            _MADE.reread_rate,
            _MADE.first_shown,
        )
        documents = func.sum(_MADE.documents)
        query: Select[Any] = (
            select(*kinds, documents, func.sum(_MADE.confidence))
            .where(*self._within(_MADE.day, _MADE.segment, since, before))
            .group_by(*kinds)
            .having(documents > 0)
        )
        return [
            Cell._make((date.fromisoformat(day), *kind, int(n), confidence))
            for day, *kind, n, confidence in self._connection.execute(query)
        ]

    def steps(self, since: date, before: date | None = None) -> list[StepCount]:
        """Return counts of the same predictions, of each step of confidence."""
        kinds = _STEP.step, _STEP.decision, _STEP.reason
        query: Select[Any] = select(*kinds, func.sum(_STEP.documents)).where(
            *self._within(_STEP.day, _STEP.segment, since, before)
        )
        rows = self._connection.execute(query.group_by(*kinds))
        return [StepCount._make((*kind, int(n))) for *kind, n in rows]

    def review_days(self, since: date) -> list[ReviewDay]:
        """Return arrived and completed reviews, one row per day, oldest first."""
        query = select(
            _READ.day, func.sum(_READ.arrived), func.sum(_READ.completed), func.sum(_READ.seconds)
        ).where(*self._within(_READ.day, _READ.segment, since, None))
        return [
            ReviewDay(date.fromisoformat(day), int(arrived), int(completed), seconds)
            for day, arrived, completed, seconds in self._connection.execute(
                query.group_by(_READ.day).order_by(_READ.day)
            )
        ]

    def readings(self, since: date, before: date | None = None) -> list[ReadingCount]:
        """Return completed reviews of these days, of each day and kind of reading."""
        kinds = _READ.day, _READ.reading
        query: Select[Any] = (
            select(*kinds, func.sum(_READ.completed), func.sum(_READ.seconds))
            .where(*self._within(_READ.day, _READ.segment, since, before))
            .where(_READ.reading.is_not(None))
            .group_by(*kinds)
        )
        return [
            ReadingCount(date.fromisoformat(day), reading, int(readings), seconds)
            for day, reading, readings, seconds in self._connection.execute(query)
        ]

    def decisions(self) -> Mapping[tuple[Decision, Reason], int]:
        """Return how many predictions there are of each decision and reason."""
        kind = _MADE.decision, _MADE.reason
        query = select(*kind, func.sum(_MADE.documents)).group_by(*kind)
        rows = self._connection.execute(query.where(in_segment(_MADE.segment, self._segment)))
        return {(decision, reason): int(documents) for decision, reason, documents in rows}

    def reviews(self) -> int:
        """Return how many review tasks there are."""
        query = select(func.coalesce(func.sum(_READ.arrived), 0))
        about = in_segment(_READ.segment, self._segment)
        return int(self._connection.execute(query.where(about)).scalar_one())

    def _within(
        self, day: Column[str], segment: Column[str], since: date, before: date | None
    ) -> list[ColumnElement[bool]]:
        return [
            day >= since.isoformat(),
            in_segment(segment, self._segment),
            *([] if before is None else [day < before.isoformat()]),
        ]


def about_segment(prediction_id: Column[str], segment: Segment) -> ColumnElement[bool]:
    """Return the condition that a prediction is meant; None means all."""
    if segment == ALL_DOCUMENTS:
        return true()
    of = predictions.alias("meant")
    return (
        select(of.c.id).where(of.c.id == prediction_id, in_segment(of.c.segment, segment)).exists()
    )
