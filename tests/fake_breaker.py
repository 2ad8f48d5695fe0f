"""What the breaker watches and did, in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from setwise.service.domain.audits import AuditRole
from setwise.service.domain.breaker import (
    Reset,
    Trip,
    Unvouched,
    WatchedAudit,
    ends_audit,
    would_be_sent,
)
from setwise.service.domain.certification import Scorer
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.predictions import Decision, Prediction

if TYPE_CHECKING:
    from tests.fakes import _Contents


@dataclass
class FakeBreakers:
    """Fills the port `setwise.service.services.breaker_ports.Breakers`."""

    contents: "_Contents" = field(repr=False)

    def _policy(self, of: Prediction) -> RoutingPolicy:
        return next(one for one in self.contents.policies if one.version == of.policy_version)

    def _made_by(self, scorer: Scorer) -> list[Prediction]:
        stored = sorted(self.contents.predictions.values(), key=lambda one: one.id)
        return [
            one
            for one in stored
            if (one.scored.model_version, one.scored.calibrator_version) == scorer
        ]

    def audits(self, scorer: Scorer, *, after: str | None, limit: int) -> list[WatchedAudit]:
        return [
            self._watched(one)
            for one in self._made_by(scorer)
            if one.selection.role is AuditRole.CERTIFICATION
            and would_be_sent(one)
            and (after is None or one.id > after)
        ][-limit:]

    def _watched(self, of: Prediction) -> WatchedAudit:
        said = self.contents.annotations.values()
        end = next((one for one in said if one.prediction_id == of.id and ends_audit(one)), None)
        return WatchedAudit(
            of.id,
            self._policy(of).target_accuracy,
            None if end is None else end.agreed,
            None if end is None else end.created_at,
        )

    def in_force_since(self) -> datetime | None:
        policies, models = self.contents.policies, self.contents.activations
        serving = models[-1][0] if models else None
        own = [one for one in self.contents.calibration_activations if one[0] == serving]
        starts = [
            _start([(one.rests_on_audits, one.created_at) for one in policies]),
            _start(models),
            _start([(None, policies[0].created_at), *((one[1], one[2]) for one in own)]),
        ]
        return max((one for one in starts if one is not None), default=None)

    def unvouched(self, scorer: Scorer, *, since: datetime | None, most: int) -> Unvouched:
        instants = sorted(
            one.created_at
            for one in self._made_by(scorer)
            if one.decision is Decision.AUTO
            and self._policy(one).rests_on_audits
            and (since is None or one.created_at > since)
        )[:most]
        return Unvouched(len(instants), min(instants, default=None))

    def add(self, trip: Trip) -> None:
        self.contents.trips[trip.id] = trip

    def close(self, reset: Reset) -> None:
        self.contents.resets[reset.trip_id] = reset

    def trip(self, trip_id: str) -> Trip | None:
        return self.contents.trips.get(trip_id)

    def newest_trip(self, *, sets_evidence_aside: bool = False) -> Trip | None:
        found = [
            one
            for one in self.contents.trips.values()
            if one.sets_evidence_aside or not sets_evidence_aside
        ]
        return max(found, key=lambda one: one.id, default=None)

    def newest_reset(self) -> Reset | None:
        return max(self.contents.resets.values(), key=lambda one: one.id, default=None)

    def history(self, limit: int) -> list[tuple[Trip, Reset | None]]:
        newest = sorted(self.contents.trips.values(), key=lambda one: one.id, reverse=True)
        return [(one, self.contents.resets.get(one.id)) for one in newest[:limit]]


def _start(served: Sequence[tuple[object, datetime]]) -> datetime | None:
    """Return when the last of these came into force; None if it was never anything else."""
    start = None
    for (before, _), (present, at) in pairwise(served):
        start = at if present != before else start
    return start
