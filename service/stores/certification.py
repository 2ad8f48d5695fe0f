"""Attempts to certify a threshold, and the audits behind them."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, RowMapping, and_, func, insert, or_, select, true

from setwise.service.domain.certification import (
    MOST_PROVING,
    AuditedPrediction,
    Certification,
    Score,
    Scorer,
    Unscored,
)
from setwise.service.domain.predictions import Prediction, Reason
from setwise.service.domain.recalibration import calibrator_version
from setwise.service.domain.routing.audits import AuditRole
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, Segment
from setwise.service.domain.text import Page
from setwise.service.domain.truth import AuditReading
from setwise.service.stores.columns.rows import Store, by_scorer, in_segment, of_row, row_of
from setwise.service.stores.columns.types import opened
from setwise.service.stores.models import ModelStore
from setwise.service.stores.predictions import to_prediction
from setwise.service.stores.recalibration import CalibrationStore, made_by, made_by_model
from setwise.service.stores.tables import (
    AUDITED,
    certifications,
    checks,
    other_scores,
    predictions,
)
from setwise.service.stores.truth import REREAD_DRAW, to_reread_draw

MOST_VALUES = 1_000
"""Most values of `OTHER` that a certificate covers."""

_SENDABLE = predictions.c.reason.not_in([Reason.OUT_OF_DOMAIN.value, Reason.RULE.value])
_PROVES = predictions.c.audit_role == AuditRole.CERTIFICATION.value
_SETS_THRESHOLDS = and_(or_(~_PROVES, predictions.c.draw >= MOST_PROVING), _SENDABLE)


class CertificationStore(Store):
    """Attempts to certify a threshold, and the audits behind them."""

    def add(self, certification: Certification) -> None:
        self._connection.execute(
            insert(certifications),
            {**row_of(certification, certifications), **certification.scorer._asdict()},
        )

    def get(self, certification_id: str) -> Certification | None:
        query = select(certifications)
        return self._named(query, certifications.c.id, certification_id, _to_certification)

    def page(self, *, after: str | None, limit: int) -> Page[Certification]:
        """Return a page of attempts, newest first."""
        query, column = select(certifications), certifications.c.id
        return self._page(query, column, _to_certification, after=after, limit=limit)

    def newest(self, scorer: Scorer, segment: str | None = None) -> Certification | None:
        """Return the last attempt for a segment, by its key; None is all documents."""
        query = select(certifications).where(by_scorer(certifications, scorer), _about(segment))
        return self._first(
            query.order_by(certifications.c.attempt.desc()).limit(1), _to_certification
        )

    def stated_untrained(self, scorer: Scorer) -> bool:
        """Return whether the last attempt rested on the word that audits taught nothing."""
        query = select(certifications.c.evidence).where(by_scorer(certifications, scorer))
        query = query.order_by(certifications.c.attempt.desc()).limit(1)
        evidence = self._connection.execute(query).scalar_one_or_none()
        return evidence is not None and evidence.trained_on_audits is False

    def proved(self, scorer: Scorer, segment: str | None = None) -> list[Certification]:
        """Return the attempts that proved a threshold for a segment, newest first."""
        query = select(certifications).where(
            by_scorer(certifications, scorer),
            _about(segment),
            certifications.c.threshold.is_not(None),
        )
        return self._every(query.order_by(certifications.c.attempt.desc()), _to_certification)

    def attempts(self, model_version: str) -> int:
        """Count the attempts for a model, with any calibrator."""
        query = select(func.count()).where(certifications.c.model_version == model_version)
        return int(self._connection.execute(query).scalar_one())

    def risks(self, model_version: str, *, after: str | None) -> list[tuple[str, float]]:
        """Return the policy version of each attempt for a model, and the risk that it spent."""
        column = certifications.c
        query = select(column.policy_version, column.evidence).where(
            column.model_version == model_version, true() if after is None else column.id > after
        )
        rows = self._connection.execute(query)
        return [(version, evidence.risk) for version, evidence in rows]

    def place(self, model_version: str, segment: str | None, *, after: str | None) -> int:
        """Return the place of the next attempt among those that share a segment's risk."""
        query = select(func.count()).where(
            certifications.c.model_version == model_version,
            _about(segment),
            true() if after is None else certifications.c.id > after,
        )
        return int(self._connection.execute(query).scalar_one()) + 1

    def tried(self, model_version: str) -> set[str]:
        """Return the keys of the segments that have had an attempt for a model."""
        column = certifications.c
        query = select(column.segment).distinct()
        query = query.where(column.model_version == model_version, column.segment.is_not(None))
        return set(self._connection.execute(query).scalars())

    def serving(self) -> Scorer | None:
        """Return the active model and calibrator; None before the first prediction.

        Without a registered model it is the scorer of the newest prediction.
        """
        newest = select(predictions.c.model_version, predictions.c.calibrator_version)
        row = self._connection.execute(
            newest.order_by(predictions.c.id.desc()).limit(1)
        ).one_or_none()
        if row is None:
            return None
        model = ModelStore(self._connection).active()
        if model is None:
            return Scorer(*row)
        learnt = CalibrationStore(self._connection).active(model.id)
        version = calibrator_version(model, learnt)
        return Scorer(model.version, version) if version else Scorer(*row)

    def unscored(self, scorer: Scorer, *, limit: int) -> list[Prediction]:
        """Return a model's predictions that a new calibrator has yet to score, newest first.

        These are all that were drawn to certify and, of the others, the newest ones.
        """
        column = predictions.c
        scored = select(other_scores.c.prediction_id).where(by_scorer(other_scores, scorer))
        other = and_(
            column.model_version == scorer.model_version,
            column.calibrator_version != scorer.calibrator_version,
            column.id.not_in(scored),
        )
        audits = select(predictions).where(AUDITED, _PROVES, other)
        recent = select(predictions).where(
            made_by_model(self._connection, scorer.model_version), other, ~_PROVES, _SENDABLE
        )
        return [
            prediction
            for query in (audits, recent.limit(limit))
            for prediction in self._every(query.order_by(column.id.desc()), to_prediction)
        ]

    def of_others(
        self, scorer: Scorer, *, since: datetime | None, limit: int
    ) -> tuple[list[Unscored], list[Unscored]]:
        """Return kept documents of other models that a scorer has yet to score.

        These are, oldest first, documents that were drawn to certify or held back from audits and,
        newest first, the newest of the others. After ``since`` means that no copy came before.
        """
        column, earlier = predictions.c, predictions.alias()
        scored = select(other_scores.c.prediction_id).where(by_scorer(other_scores, scorer))
        query = select(
            column.id,
            column.draw,
            column.policy_version,
            column.model_version,
            column.calibrator_version,
            (~_SENDABLE).label("held_back"),
            column.segment,
        ).where(
            column.model_version != scorer.model_version,
            column.purged_at.is_(None),
            column.draw.is_not(None),
            column.id.not_in(scored),
        )
        if since is not None:
            same_name = select(earlier.c.id).where(
                earlier.c.created_at < since,
                earlier.c.client_id == column.client_id,
                earlier.c.document_id == column.document_id,
            )
            query = query.where(column.created_at >= since, ~same_name.exists())
        held_back = and_(~_SENDABLE, column.draw < MOST_PROVING)
        evidence = query.where(or_(_PROVES, held_back)).order_by(column.id)
        recent = query.where(_SENDABLE, ~_PROVES).order_by(column.id.desc()).limit(limit)
        proving, others = (
            [
                Unscored(row.id, row.draw, row.policy_version, Scorer(*row[3:5]), *row[5:])
                for row in self._connection.execute(each)
            ]
            for each in (evidence, recent)
        )
        if since is None:
            return proving, others
        highest = max((audit.draw for audit in proving), default=0.0)
        copied = select(column.draw).where(column.created_at < since, column.draw <= highest)
        before = set(self._connection.execute(copied).scalars())
        return [audit for audit in proving if audit.draw not in before], others

    def documents(self, ids: Sequence[str]) -> list[Prediction]:
        query = select(predictions).where(predictions.c.id.in_(ids)).order_by(predictions.c.id)
        return self._every(query, to_prediction)

    def add_scores(self, scores: Sequence[Score]) -> None:
        """Store a scorer's answers; those that are stored already stay."""
        if not scores:
            return
        self._connection.execute(
            self._missing(other_scores),
            [{**row_of(score, other_scores), **score.scorer._asdict()} for score in scores],
        )

    def audited(self, scorer: Scorer) -> list[AuditedPrediction]:
        """Return the certification audits that a scorer answered or scored, oldest first."""
        return self._audited(scorer, _audits_of(scorer), held_back=False)

    def held_back(self, scorer: Scorer) -> list[AuditedPrediction]:
        """Return what a scorer scored and another one held back from audits, oldest first."""
        scored = select(other_scores.c.prediction_id).where(by_scorer(other_scores, scorer))
        chosen = and_(
            ~_SENDABLE,
            predictions.c.model_version != scorer.model_version,
            predictions.c.id.in_(scored),
        )
        return self._audited(scorer, chosen, held_back=True)

    def _audited(
        self, scorer: Scorer, chosen: ColumnElement[bool], *, held_back: bool
    ) -> list[AuditedPrediction]:
        column, check = predictions.c, checks.c
        rows = self._connection.execute(
            select(
                column.id,
                column.client_id,
                column.document_id,
                func.coalesce(other_scores.c.confidence, column.confidence).label("confidence"),
                column.draw,
                column.policy_version,
                column.model_version,
                column.created_at,
                column.metadata,
                column.purged_at,
                column.segment,
                column.candidates[0].label("first"),
                other_scores.c.labels,
                check.audit_labels,
                check.lead_labels,
                check.waits,
                *REREAD_DRAW,
            )
            .outerjoin(
                other_scores,
                and_(other_scores.c.prediction_id == column.id, by_scorer(other_scores, scorer)),
            )
            .outerjoin(checks, check.prediction_id == column.id)
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
                labels=tuple(row["first"]["labels"] if row["labels"] is None else row["labels"]),
                reading=_reading(row),
                metadata=opened(row["metadata"], row["id"], row["client_id"], otherwise=None)
                if row["purged_at"] is None
                else None,
                own=row["model_version"] == scorer.model_version,
                held_back=held_back,
                segment=row["segment"],
            )
            for row in rows
        ]

    def unaudited(
        self, scorer: Scorer, *, limit: int, segment: Segment = ALL_DOCUMENTS
    ) -> list[float]:
        """Return a scorer's confidences in the newest sendable sets that prove nothing.

        They were not drawn to certify or, at rates near 1, are left out of the proof. The scorer
        answered them itself, or scored them later.
        """
        meant = in_segment(predictions.c.segment, segment)
        confidences = (
            select(predictions.c.confidence)
            .where(made_by(self._connection, scorer), _SETS_THRESHOLDS, meant)
            .order_by(predictions.c.id.desc())
            .limit(limit)
        )
        later = (
            select(other_scores.c.confidence)
            .join(predictions, predictions.c.id == other_scores.c.prediction_id)
            .where(by_scorer(other_scores, scorer), _SETS_THRESHOLDS, meant)
            .order_by(other_scores.c.prediction_id.desc())
            .limit(limit)
        )
        columns = (self._connection.execute(query).scalars() for query in (confidences, later))
        return [confidence for part in columns for confidence in part][:limit]

    def values(self, segment: Segment) -> list[str]:
        """Return the values of a segment's documents, the most frequent ones first."""
        key = predictions.c.segment
        query = select(key).where(in_segment(key, segment)).group_by(key)
        rows = self._connection.execute(query.order_by(func.count().desc()).limit(MOST_VALUES))
        return [Segment.of_key(each).value for each in rows.scalars()]

    def arrivals(
        self, since: datetime, floor: float, segment: Segment = ALL_DOCUMENTS
    ) -> tuple[int, datetime | None]:
        """Count predictions since then, from a confidence on, whose audits can prove something.

        Also returns the time of the first prediction of any kind.
        """
        column = predictions.c
        sendable = and_(_SENDABLE, column.confidence >= floor)
        query = select(func.count().filter(sendable), func.min(column.created_at))
        row = self._connection.execute(
            query.where(column.created_at >= since, in_segment(column.segment, segment))
        ).one()
        return int(row[0]), row[1]


def _audits_of(scorer: Scorer) -> ColumnElement[bool]:
    """Return the condition that a prediction's audit is evidence about a scorer."""
    scored = select(other_scores.c.prediction_id).where(by_scorer(other_scores, scorer))
    answered = or_(by_scorer(predictions, scorer), predictions.c.id.in_(scored))
    return and_(AUDITED, _PROVES, answered)


def _about(segment: str | None) -> ColumnElement[bool]:
    return certifications.c.segment.is_not_distinct_from(segment)


def _reading(row: RowMapping) -> AuditReading | None:
    auditor, lead = (
        None if row[name] is None else tuple(row[name]) for name in ("audit_labels", "lead_labels")
    )
    if auditor is None and lead is None:
        return None
    return AuditReading(auditor, lead, row["waits"], to_reread_draw(row))


def _to_certification(row: RowMapping) -> Certification:
    scorer = of_row(Scorer, certifications, row)
    return of_row(Certification, certifications, row, scorer=scorer)
