"""Attempts to certify, in memory."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from setwise.service.domain.audits import AuditRole
from setwise.service.domain.certification import AuditedPrediction, Certification, Scorer
from setwise.service.domain.paging import Page
from setwise.service.domain.predictions import Prediction, Reason

if TYPE_CHECKING:
    from tests.fakes import _Contents


def _scorer(of: Prediction) -> Scorer:
    return Scorer(of.scored.model_version, of.scored.calibrator_version)


@dataclass
class FakeCertifications:
    """Fills the port `setwise.service.services.prediction_ports.Certifications`."""

    contents: "_Contents" = field(repr=False)

    def _newest_first(self) -> list[Certification]:
        stored = self.contents.certifications.values()
        return sorted(stored, key=lambda one: one.id, reverse=True)

    def _predictions(self, scorer: Scorer) -> list[Prediction]:
        stored = sorted(self.contents.predictions.values(), key=lambda one: one.id)
        return [one for one in stored if _scorer(one) == scorer]

    def add(self, certification: Certification) -> None:
        self.contents.certifications[certification.id] = certification

    def get(self, certification_id: str) -> Certification | None:
        return self.contents.certifications.get(certification_id)

    def page(self, *, after: str | None, limit: int) -> Page[Certification]:
        found = [one for one in self._newest_first() if after is None or one.id < after]
        items = tuple(found[:limit])
        return Page(items, items[-1].id if len(found) > limit else None)

    def newest(self, scorer: Scorer) -> Certification | None:
        return next((one for one in self._newest_first() if one.scorer == scorer), None)

    def proved(self, scorer: Scorer) -> list[Certification]:
        return [
            one
            for one in self._newest_first()
            if one.scorer == scorer and one.threshold is not None
        ]

    def attempts(self, scorer: Scorer) -> int:
        return sum(one.scorer == scorer for one in self.contents.certifications.values())

    def serving(self) -> Scorer | None:
        newest = max(self.contents.predictions.values(), key=lambda one: one.id, default=None)
        return None if newest is None else _scorer(newest)

    def audited(self, scorer: Scorer) -> list[AuditedPrediction]:
        return [
            AuditedPrediction(
                id=one.id,
                client_id=one.client_id,
                name=one.name,
                confidence=one.scored.confidence,
                draw=one.selection.draw or 0.0,
                policy_version=one.policy_version,
                labels=one.scored.labels,
                annotations=tuple(
                    sorted(
                        (
                            said
                            for said in self.contents.annotations.values()
                            if said.prediction_id == one.id
                        ),
                        key=lambda said: said.id,
                    )
                ),
            )
            for one in self._predictions(scorer)
            if one.selection.role is AuditRole.CERTIFICATION
        ]

    def unaudited(self, scorer: Scorer, *, limit: int) -> list[float]:
        newest_first = reversed(self._predictions(scorer))
        found = [
            one.scored.confidence
            for one in newest_first
            if one.selection.role is not AuditRole.CERTIFICATION
            and one.reason not in {Reason.OUT_OF_DOMAIN, Reason.RULE}
        ]
        return found[:limit]
