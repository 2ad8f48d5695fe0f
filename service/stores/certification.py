"""Attempts to certify a threshold, and the audits behind them."""

from collections import defaultdict

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, func, insert, or_, select

from setwise.service.domain.audits import AuditRole
from setwise.service.domain.certification import (
    MOST_PROVING,
    AuditedPrediction,
    Certification,
    Scorer,
)
from setwise.service.domain.paging import Page
from setwise.service.domain.predictions import Reason
from setwise.service.domain.text import is_id
from setwise.service.stores.recalibration import made_by
from setwise.service.stores.reviews import to_annotation
from setwise.service.stores.tables import AUDITED, annotations, certifications, predictions


class CertificationStore:
    """Attempts to certify a threshold, and the audits behind them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, certification: Certification) -> None:
        scorer = certification.scorer
        row = {name: value for name, value in vars(certification).items() if name != "scorer"}
        self._connection.execute(
            insert(certifications),
            {**row, **scorer._asdict(), "evidence": dict(certification.evidence)},
        )

    def get(self, certification_id: str) -> Certification | None:
        if not is_id(certification_id):
            return None
        query = select(certifications).where(certifications.c.id == certification_id)
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else _to_certification(row)

    def page(self, *, after: str | None, limit: int) -> Page[Certification]:
        """Return a page of attempts, newest first."""
        query = select(certifications).order_by(certifications.c.id.desc()).limit(limit + 1)
        if after is not None:
            query = query.where(certifications.c.id < after)
        found = [_to_certification(row) for row in self._connection.execute(query).mappings()]
        items = tuple(found[:limit])
        return Page(items, items[-1].id if len(found) > limit else None)

    def newest(self, scorer: Scorer) -> Certification | None:
        query = select(certifications).where(_attempted_for(scorer))
        row = self._connection.execute(
            query.order_by(certifications.c.attempt.desc()).limit(1)
        ).mappings()
        found = row.one_or_none()
        return None if found is None else _to_certification(found)

    def proved(self, scorer: Scorer) -> list[Certification]:
        """Return the attempts that proved a threshold, newest first."""
        query = select(certifications).where(
            _attempted_for(scorer), certifications.c.threshold.is_not(None)
        )
        rows = self._connection.execute(query.order_by(certifications.c.attempt.desc())).mappings()
        return [_to_certification(row) for row in rows]

    def attempts(self, scorer: Scorer) -> int:
        query = select(func.coalesce(func.max(certifications.c.attempt), 0))
        return int(self._connection.execute(query.where(_attempted_for(scorer))).scalar_one())

    def serving(self) -> Scorer | None:
        """Return the scorer of the newest prediction; None without predictions."""
        newest = select(predictions.c.model_version, predictions.c.calibrator_version)
        row = self._connection.execute(
            newest.order_by(predictions.c.id.desc()).limit(1)
        ).one_or_none()
        return None if row is None else Scorer(*row)

    def audited(self, scorer: Scorer) -> list[AuditedPrediction]:
        """Return the predictions drawn for certification, oldest first."""
        column = predictions.c
        chosen = and_(
            AUDITED,
            column.audit_role == AuditRole.CERTIFICATION.value,
            column.model_version == scorer.model_version,
            column.calibrator_version == scorer.calibrator_version,
        )
        said = select(annotations).join(predictions, column.id == annotations.c.prediction_id)
        given = defaultdict(list)
        for row in self._connection.execute(
            said.where(chosen).order_by(annotations.c.id)
        ).mappings():
            one = to_annotation(row)
            given[one.prediction_id].append(one)
        rows = self._connection.execute(
            select(
                column.id,
                column.client_id,
                column.document_id,
                column.confidence,
                column.draw,
                column.policy_version,
                column.created_at,
                column.metadata,
                column.purged_at,
                column.candidates[0].label("first"),
            )
            .where(chosen)
            .order_by(column.id)
        ).mappings()
        return [
            AuditedPrediction(
                id=row["id"],
                client_id=row["client_id"],
                name=row["document_id"] or row["id"],
                confidence=row["confidence"],
                draw=row["draw"],
                policy_version=row["policy_version"],
                created_at=row["created_at"],
                labels=tuple(row["first"]["labels"]),
                annotations=tuple(given[row["id"]]),
                metadata=row["metadata"] if row["purged_at"] is None else None,
            )
            for row in rows
        ]

    def unaudited(self, scorer: Scorer, *, limit: int) -> list[float]:
        """Return confidences of the newest sendable predictions that prove nothing.

        They were not drawn to certify or, at rates near 1, are left out of the proof.
        """
        column = predictions.c
        query = (
            select(column.confidence)
            .where(
                made_by(self._connection, scorer),
                or_(
                    column.audit_role != AuditRole.CERTIFICATION.value,
                    column.draw >= MOST_PROVING,
                ),
                column.reason.not_in([Reason.OUT_OF_DOMAIN.value, Reason.RULE.value]),
            )
            .order_by(column.id.desc())
            .limit(limit)
        )
        return [*self._connection.execute(query).scalars()]


def _attempted_for(scorer: Scorer) -> ColumnElement[bool]:
    return and_(
        certifications.c.model_version == scorer.model_version,
        certifications.c.calibrator_version == scorer.calibrator_version,
    )


def _to_certification(row: RowMapping) -> Certification:
    own = {column.name: row[column] for column in certifications.c}
    scorer = Scorer(own.pop("model_version"), own.pop("calibrator_version"))
    return Certification(scorer=scorer, **own)
