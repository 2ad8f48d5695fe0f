"""Audits that the breaker watches, and what it did."""

from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    func,
    insert,
    or_,
    select,
    true,
)

from service.db.tables import (
    AUDITED,
    annotations,
    breaker_resets,
    breaker_trips,
    predictions,
    routing_policies,
)
from service.domain.audits import AuditRole
from service.domain.breaker import Reset, Trip, TripCause, Unvouched, WatchedAudit
from service.domain.certification import Scorer
from service.domain.identity import is_id
from service.domain.predictions import Decision, Reason
from service.domain.reviews import ReviewKind
from service.domain.routing import ThresholdMode

_BY_POLICY = routing_policies.c.version == predictions.c.policy_version
_ENDS_AUDIT = or_(
    annotations.c.kind == ReviewKind.ADJUDICATION.value,
    and_(annotations.c.kind == ReviewKind.AUDIT.value, annotations.c.settles),
)
_WITH_RESET = select(breaker_trips, breaker_resets).outerjoin(
    breaker_resets, breaker_resets.c.trip_id == breaker_trips.c.id
)


class SqlBreakers:
    """Fills the port `service.use_cases.breaker_ports.Breakers`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def audits(self, scorer: Scorer, *, after: str | None, limit: int) -> list[WatchedAudit]:
        column = predictions.c
        newest = (
            select(
                column.id,
                routing_policies.c.target_accuracy,
                annotations.c.agreed,
                annotations.c.created_at,
            )
            .join(routing_policies, _BY_POLICY)
            .outerjoin(annotations, and_(annotations.c.prediction_id == column.id, _ENDS_AUDIT))
            .where(
                AUDITED,
                column.audit_role == AuditRole.CERTIFICATION.value,
                _made_by(scorer),
                or_(column.decision == Decision.AUTO.value, column.reason == Reason.AUDIT.value),
                true() if after is None else column.id > after,
            )
            .order_by(column.id.desc())
            .limit(limit)
        )
        rows = [WatchedAudit(*row) for row in self._connection.execute(newest)]
        return rows[::-1]

    def unvouched(self, scorer: Scorer, *, since: datetime | None, most: int) -> Unvouched:
        column = predictions.c
        decision: ColumnElement[str] = column.decision
        if self._connection.dialect.name == "sqlite":
            # It has no statistics of instants, and would rather read everything that was ever
            # sent by the index on decisions. An expression has no index.
            decision = decision.concat("")
        sent = (
            select(column.created_at)
            .join(routing_policies, _BY_POLICY)
            .where(
                decision == Decision.AUTO.value,
                _made_by(scorer),
                or_(
                    routing_policies.c.threshold_mode == ThresholdMode.CERTIFIED.value,
                    routing_policies.c.certification_rate > 0,
                ),
                true() if since is None else column.created_at > since,
            )
            .order_by(column.created_at)
            .limit(most)
            .subquery()
        )
        row = self._connection.execute(select(func.count(), func.min(sent.c.created_at))).one()
        return Unvouched(*row)

    def add(self, trip: Trip) -> None:
        own = {name: value for name, value in vars(trip).items() if name != "scorer"}
        self._connection.execute(
            insert(breaker_trips),
            {
                **own,
                **trip.scorer._asdict(),
                "cause": trip.cause.value,
                "evidence": dict(trip.evidence),
            },
        )

    def close(self, reset: Reset) -> None:
        self._connection.execute(insert(breaker_resets), vars(reset))

    def trip(self, trip_id: str) -> Trip | None:
        if not is_id(trip_id):
            return None
        query = select(breaker_trips).where(breaker_trips.c.id == trip_id)
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else _to_trip(row)

    def newest_trip(self, *, sets_evidence_aside: bool = False) -> Trip | None:
        query = select(breaker_trips).order_by(breaker_trips.c.id.desc()).limit(1)
        if sets_evidence_aside:
            query = query.where(breaker_trips.c.cause == TripCause.DRIFT.value)
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else _to_trip(row)

    def newest_reset(self) -> Reset | None:
        query = select(breaker_resets).order_by(breaker_resets.c.id.desc()).limit(1)
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else _to_reset(row)

    def history(self, limit: int) -> list[tuple[Trip, Reset | None]]:
        query = _WITH_RESET.order_by(breaker_trips.c.id.desc()).limit(limit)
        return [
            (_to_trip(row), None if row[breaker_resets.c.id] is None else _to_reset(row))
            for row in self._connection.execute(query).mappings()
        ]


def _made_by(scorer: Scorer) -> ColumnElement[bool]:
    return and_(
        predictions.c.model_version == scorer.model_version,
        predictions.c.calibrator_version == scorer.calibrator_version,
    )


def _to_trip(row: RowMapping) -> Trip:
    own = {column.name: row[column] for column in breaker_trips.c}
    scorer = Scorer(own.pop("model_version"), own.pop("calibrator_version"))
    return Trip(scorer=scorer, **{**own, "cause": TripCause(own["cause"])})


def _to_reset(row: RowMapping) -> Reset:
    return Reset(**{column.name: row[column] for column in breaker_resets.c})
