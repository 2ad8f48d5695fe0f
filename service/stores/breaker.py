"""Audits that the breaker watches, its trips and its resets."""

from datetime import datetime
from typing import TypeVar

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    ScalarSelect,
    Select,
    case,
    func,
    insert,
    not_,
    or_,
    select,
    true,
)

from setwise.service.domain.breaker import Reset, Trip, TripCause, Unvouched
from setwise.service.domain.certification import Scorer
from setwise.service.domain.evidence import CONFIDENT
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.predictions import Decision
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, Segment
from setwise.service.stores.columns.rows import Store, by_scorer, in_segment, of_row, row_of
from setwise.service.stores.evidence import watched
from setwise.service.stores.tables import (
    OPEN,
    breaker_resets,
    breaker_trips,
    calibration_activations,
    model_activations,
    policies,
    predictions,
    review_tasks,
)

Value = TypeVar("Value")

_RESTS_ON_AUDITS = or_(
    policies.c.threshold_mode == ThresholdMode.CERTIFIED.value,
    policies.c.certification_rate > 0,
)
_BY_POLICY = policies.c.version == predictions.c.policy_version
_WITH_RESET = select(breaker_trips, breaker_resets).outerjoin(
    breaker_resets, breaker_resets.c.trip_id == breaker_trips.c.id
)


class BreakerStore(Store):
    """Audits that the breaker watches, its trips and its resets."""

    def confident(
        self, since: datetime, segment: Segment = ALL_DOCUMENTS
    ) -> tuple[int, datetime | None]:
        """Count predictions since then that were sent but for an audit.

        Also returns the time of the first prediction of any kind.
        """
        column = predictions.c
        sure = case((column.reason.in_([reason.value for reason in CONFIDENT]), 1))
        query = select(func.count(sure), func.min(column.created_at))
        row = self._connection.execute(
            query.where(column.created_at >= since, in_segment(column.segment, segment))
        ).one()
        return int(row[0]), row[1]

    def overdue_since(
        self,
        scorer: Scorer,
        *,
        after: str | None,
        read_by: datetime,
        segment: Segment = ALL_DOCUMENTS,
    ) -> datetime | None:
        """Return when the oldest overdue audit's set was predicted; None without any.

        ``after``: Look only at predictions with greater ids.
        ``read_by``: An unfinished audit of a prediction from before it is overdue.
        """
        # Open tasks are few, audits many.
        query = (
            select(func.min(predictions.c.created_at))
            .join(review_tasks, review_tasks.c.prediction_id == predictions.c.id)
            .where(
                OPEN,
                review_tasks.c.kind.in_([ReviewKind.AUDIT.value, ReviewKind.ADJUDICATION.value]),
                watched(scorer, after),
                in_segment(predictions.c.segment, segment),
                predictions.c.created_at <= read_by,
            )
        )
        oldest: datetime | None = self._connection.execute(query).scalar_one()
        return oldest

    def in_force_since(self) -> datetime | None:
        """Return since when the current sending configuration has been in force.

        The configuration is the model, its calibrator, and policies that rest on audits. None means
        from the start. Predictions sent by earlier configurations do not count against it.
        """
        starts = self._connection.execute(select(*_STARTS)).one()
        return max((start for start in starts if start is not None), default=None)

    def unvouched(
        self,
        scorer: Scorer,
        *,
        since: datetime | None,
        most: int,
        segment: Segment = ALL_DOCUMENTS,
    ) -> Unvouched:
        """Count predictions sent after ``since`` by audited policies, up to ``most``."""
        column = predictions.c
        decision: ColumnElement[str] = column.decision
        if self._connection.dialect.name == "sqlite":
            # SQLite has no statistics on instants and would read every sent prediction through the
            # index on decisions. An expression cannot use that index.
            decision = decision.concat("")
        sent = (
            select(column.created_at)
            .join(policies, _BY_POLICY)
            .where(
                decision == Decision.AUTO.value,
                by_scorer(predictions, scorer),
                _RESTS_ON_AUDITS,
                in_segment(column.segment, segment),
                true() if since is None else column.created_at > since,
            )
            .order_by(column.created_at)
            .limit(most)
            .subquery()
        )
        row = self._connection.execute(select(func.count(), func.min(sent.c.created_at))).one()
        return Unvouched(*row)

    def add(self, trip: Trip) -> None:
        """Store a trip."""
        self._connection.execute(
            insert(breaker_trips),
            {
                **row_of(trip, breaker_trips),
                **trip.scorer._asdict(),
                "cause": trip.cause.value,
            },
        )

    def close(self, reset: Reset) -> None:
        """Store a reset."""
        self._connection.execute(insert(breaker_resets), vars(reset))

    def trip(self, trip_id: str) -> Trip | None:
        """Return a trip, or None."""
        return self._named(select(breaker_trips), breaker_trips.c.id, trip_id, _to_trip)

    def newest_trip(
        self, segment: str | None = None, *, sets_evidence_aside: bool = False
    ) -> Trip | None:
        """Return the newest trip of a segment, by its key; None is all documents.

        ``sets_evidence_aside``: Only one that did.
        """
        about = breaker_trips.c.segment.is_not_distinct_from(segment)
        query = select(breaker_trips).where(about).order_by(breaker_trips.c.id.desc()).limit(1)
        if sets_evidence_aside:
            query = query.where(breaker_trips.c.cause == TripCause.DRIFT.value)
        return self._first(query, _to_trip)

    def newest_reset(self, segment: str | None = None) -> Reset | None:
        """Return the newest reset of a segment, by its key; None is all documents."""
        query = (
            select(breaker_resets)
            .join(breaker_trips, breaker_trips.c.id == breaker_resets.c.trip_id)
            .where(breaker_trips.c.segment.is_not_distinct_from(segment))
            .order_by(breaker_resets.c.id.desc())
            .limit(1)
        )
        return self._first(query, _to_reset)

    def history(self, limit: int) -> list[tuple[Trip, Reset | None]]:
        """Return the newest trips, newest first, each with its reset."""
        query = _WITH_RESET.order_by(breaker_trips.c.id.desc()).limit(limit)
        return self._every(
            query,
            lambda row: (
                _to_trip(row),
                None if row[breaker_resets.c.id] is None else _to_reset(row),
            ),
        )


def _starts() -> tuple[ScalarSelect[datetime], ...]:
    """Return queries for when policies, model and calibrator came into force.

    Each starts with the first entry after the last different one, and is NULL without a different
    one. A model starts with its own calibrator.
    """
    policy, model, calibrator = policies.c, model_activations.c, calibration_activations.c
    active = _only(select(model.model_id).order_by(model.ordinal.desc()).limit(1))
    of_active = calibrator.model_id == active
    serving = _only(
        select(calibrator.calibration_id)
        .where(of_active)
        .order_by(calibrator.ordinal.desc())
        .limit(1)
    )
    unaudited = _only(
        select(policy.ordinal)
        .where(not_(_RESTS_ON_AUDITS))
        .order_by(policy.ordinal.desc())
        .limit(1)
    )
    other_model = _only(select(func.max(model.ordinal)).where(model.model_id != active))
    other_calibrator = _only(
        select(func.coalesce(func.max(calibrator.ordinal), 0)).where(
            of_active, calibrator.calibration_id.is_distinct_from(serving)
        )
    )
    return (
        _only(select(func.min(policy.created_at)).where(policy.ordinal > unaudited)),
        _only(select(func.min(model.activated_at)).where(model.ordinal > other_model)),
        _only(
            select(func.min(calibrator.activated_at)).where(
                of_active, calibrator.ordinal > other_calibrator
            )
        ),
    )


def _only(query: Select[tuple[Value]]) -> ScalarSelect[Value]:
    """Return the query as a scalar, uncorrelated with enclosing queries."""
    return query.correlate(None).scalar_subquery()


_STARTS = _starts()


def _to_trip(row: RowMapping) -> Trip:
    column = breaker_trips.c
    scorer = of_row(Scorer, breaker_trips, row)
    return of_row(Trip, breaker_trips, row, scorer=scorer, cause=TripCause(row[column.cause]))


def _to_reset(row: RowMapping) -> Reset:
    return of_row(Reset, breaker_resets, row)
