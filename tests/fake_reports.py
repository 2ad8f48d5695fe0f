"""Aggregates for reports, in memory."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from setwise.service.domain.audits import AuditRole
from setwise.service.domain.certification import Scorer
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.verdicts import (
    Cell,
    CheckedSet,
    Counted,
    ReviewDay,
    deciding,
    last_told,
    step_of,
)
from setwise.service.stores.reports import LONGEST_READING_S

if TYPE_CHECKING:
    from tests.fakes import _Contents


def _day(at: datetime) -> date:
    return at.astimezone(UTC).date()


@dataclass
class FakeReports:
    """Fills the port `setwise.service.services.report_ports.Reports`."""

    contents: "_Contents" = field(repr=False)

    def _since(self, since: datetime) -> list[Prediction]:
        stored = self.contents.predictions.values()
        return sorted((one for one in stored if one.created_at >= since), key=lambda one: one.id)

    def _said(self, prediction_id: str) -> Annotation | None:
        stored = self.contents.annotations.values()
        return deciding(one for one in stored if one.prediction_id == prediction_id)

    def _told(self, prediction_id: str) -> Outcome | None:
        stored = self.contents.outcomes.values()
        return last_told(one for one in stored if one.prediction_id == prediction_id)

    def tally(self, since: datetime, splits: Sequence[float] = ()) -> Counted:
        found = self._since(since)

        def place(one: Prediction) -> tuple[None, int, float | None]:
            confidence = one.scored.confidence
            reached = max((split for split in splits if split <= confidence), default=None)
            return None, step_of(confidence), reached

        return Counted(
            self._cells(found, lambda one: (_day(one.created_at), None, None)),
            self._cells(found, place),
        )

    def _cells(
        self,
        found: list[Prediction],
        place: Callable[[Prediction], tuple[date | None, int | None, float | None]],
    ) -> list[Cell]:
        documents: Counter[tuple[object, ...]] = Counter()
        confidence: Counter[tuple[object, ...]] = Counter()
        for one in found:
            said, told = self._said(one.id), self._told(one.id)
            day, step, split = place(one)
            key = (
                split,
                day,
                step,
                one.decision,
                one.reason,
                one.selection.inclusion_probability,
                said and said.agreed,
                told and told.agreed,
            )
            documents[key] += 1
            confidence[key] += one.scored.confidence
        return [Cell(*key[1:], documents[key], confidence[key], split=key[0]) for key in documents]

    def review_days(self, since: datetime) -> list[ReviewDay]:
        arrived = Counter(
            _day(one.created_at)
            for one in self.contents.reviews.values()
            if one.created_at >= since
        )
        seconds: defaultdict[date, list[float]] = defaultdict(list)
        for one in self.contents.annotations.values():
            if one.created_at >= since:
                seconds[_day(one.created_at)].append(min(one.seconds, LONGEST_READING_S))
        return [
            ReviewDay(day, arrived[day], len(seconds[day]), sum(seconds[day]))
            for day in sorted({*arrived, *seconds})
        ]

    def checked(self, since: datetime, limit: int) -> list[CheckedSet]:
        chosen: set[str] = set()
        for stored in (self.contents.annotations, self.contents.outcomes):
            newest = sorted(stored.values(), key=lambda one: one.created_at, reverse=True)
            chosen |= {one.prediction_id for one in newest[:limit]}
        found = []
        for one in self._since(since):
            said, told = self._said(one.id), self._told(one.id)
            answer = told or said
            if one.id in chosen and answer is not None:
                found.append(
                    CheckedSet(
                        one.id,
                        one.client_id,
                        dict(one.document.metadata),
                        one.scored.confidence,
                        one.reason,
                        one.selection.inclusion_probability,
                        said.agreed if said else None,
                        told.agreed if told else None,
                        one.scored.labels,
                        answer.labels,
                    )
                )
        return found

    def certification_audits(self, scorer: Scorer) -> int:
        read = {
            one.prediction_id
            for one in self.contents.annotations.values()
            if one.kind is ReviewKind.AUDIT
        }
        return sum(
            one.selection.role is AuditRole.CERTIFICATION
            and Scorer(one.scored.model_version, one.scored.calibrator_version) == scorer
            for one in self.contents.predictions.values()
            if one.id in read
        )
