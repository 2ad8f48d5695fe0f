"""Attempts to certify a threshold, and the audits behind them."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, RowMapping, and_, func, insert, or_, select, true

from setwise.service.domain.certification import (
    MOST_PROVING,
    Certification,
    Score,
    Scorer,
    StreamDocument,
)
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.recalibration import calibrator_version
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, Segment
from setwise.service.domain.text import Page
from setwise.service.stores.columns.rows import Store, by_scorer, in_segment, of_row, row_of
from setwise.service.stores.evidence import PREDICTED, PROVES, SENDABLE
from setwise.service.stores.models import ModelStore
from setwise.service.stores.predictions import to_prediction
from setwise.service.stores.recalibration import CalibrationStore, made_by, made_by_model
from setwise.service.stores.tables import (
    AUDITED,
    annotations,
    certifications,
    other_scores,
    predictions,
)

MOST_VALUES = 1_000
"""Most values of `OTHER` that a certificate covers."""

_SETS_THRESHOLDS = and_(or_(~PROVES, predictions.c.draw >= MOST_PROVING), SENDABLE)


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

    def since(self, model_version: str, *, after: str | None) -> list[Certification]:
        """Return the attempts for a model, with any calibrator, since an alarm; oldest first."""
        column = certifications.c
        query = select(certifications).where(
            column.model_version == model_version, true() if after is None else column.id > after
        )
        return self._every(query.order_by(column.attempt), _to_certification)

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
            newest.where(PREDICTED).order_by(predictions.c.id.desc()).limit(1)
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
        audits = select(predictions).where(AUDITED, PROVES, other)
        recent = select(predictions).where(
            made_by_model(self._connection, scorer.model_version), other, ~PROVES, SENDABLE
        )
        return [
            prediction
            for query in (audits, recent.limit(limit))
            for prediction in self._every(query.order_by(column.id.desc()), to_prediction)
        ]

    def of_others(
        self, scorer: Scorer, *, since: datetime | None, limit: int, unread: bool = False
    ) -> tuple[list[str], list[str]]:
        """Return the ids of kept documents of other models that a scorer has yet to score.

        These are, oldest first, documents that were drawn to certify, or would have been if nothing
        had held them back and, newest first, the newest of the others. After ``since`` means that
        no copy came before.

        ``unread``: Whether to leave out those of the others that people have answered.
        """
        column, earlier = predictions.c, predictions.alias()
        scored = select(other_scores.c.prediction_id).where(by_scorer(other_scores, scorer))
        query = select(column.id).where(
            column.model_version != scorer.model_version,
            column.purged_at.is_(None),
            column.draw.is_not(None),
            column.id.not_in(scored),
        )
        if since is not None:
            came = select(earlier.c.id).where(earlier.c.created_at < since)
            same_name = came.where(
                earlier.c.client_id == column.client_id,
                earlier.c.document_id == column.document_id,
            )
            query = query.where(column.created_at >= since, ~same_name.exists())
        chance = func.coalesce(column.audit_chance, 0.0)
        drawn = or_(PROVES, and_(~SENDABLE, column.draw < MOST_PROVING, column.draw < chance))
        evidence = query.where(drawn).order_by(column.id)
        if since is not None:
            evidence = evidence.where(~came.where(earlier.c.cluster == column.cluster).exists())
        # The shares of documents with low and high rates need those that were held back, too.
        recent = query.where(~drawn).order_by(column.id.desc()).limit(limit)
        if unread:
            recent = recent.where(column.id.not_in(select(annotations.c.prediction_id)))
        proving, others = (
            [*self._connection.execute(each).scalars()] for each in (evidence, recent)
        )
        return proving, others

    def add_scores(self, scores: Sequence[Score]) -> None:
        """Store a scorer's answers; those that are stored already stay."""
        if not scores:
            return
        self._connection.execute(
            self._missing(other_scores),
            [{**row_of(score, other_scores), **score.scorer._asdict()} for score in scores],
        )

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

    def stream(
        self, scorer: Scorer, *, limit: int, segment: Segment = ALL_DOCUMENTS
    ) -> list[StreamDocument]:
        """Return a scorer's newest documents, audited or not, newest first.

        The scorer answered them itself, or scored them later. Of its model they could be sent; what
        another model held back, it may send.
        """
        column, scores = predictions.c, other_scores.c
        columns = [
            column.id,
            column.client_id,
            column.document_id,
            column.draw,
            column.cluster,
            column.bands,
            func.coalesce(column.audit_chance, 0.0),
            column.in_rest,
            PROVES.label("proves"),
            column.policy_version,
            column.segment,
            column.model_version,
            column.calibrator_version,
        ]
        meant = in_segment(column.segment, segment)
        own = select(column.confidence, *columns).where(
            made_by(self._connection, scorer), SENDABLE, meant
        )
        later = (
            select(scores.confidence, *columns)
            .join(predictions, column.id == scores.prediction_id)
            .where(
                by_scorer(other_scores, scorer),
                or_(SENDABLE, column.model_version != scorer.model_version),
                meant,
            )
        )
        rows = [
            StreamDocument(
                confidence=row[0],
                id=row[1],
                client_id=row[2],
                name=row[3] or row[1],
                draw=row[4],
                cluster=row[5],
                bands=row[6],
                audit_chance=row[7],
                in_rest=row[8],
                proves=row[9],
                policy_version=row[10],
                segment=row[11],
                scorer=Scorer(row[12], row[13]),
            )
            for query in (own, later)
            for row in self._connection.execute(query.order_by(column.id.desc()).limit(limit))
        ]
        return sorted(rows, key=lambda document: document.id, reverse=True)[:limit]

    def values(self, segment: Segment) -> list[str]:
        """Return the values of a segment's documents, the most frequent ones first."""
        key = predictions.c.segment
        query = select(key).where(in_segment(key, segment)).group_by(key)
        rows = self._connection.execute(query.order_by(func.count().desc()).limit(MOST_VALUES))
        return [Segment.of_key(each).value for each in rows.scalars()]

    def arrivals(
        self,
        since: datetime,
        floor: float,
        segment: Segment = ALL_DOCUMENTS,
        *,
        below: float | None = None,
    ) -> tuple[int, int, datetime | None]:
        """Count predictions since then, from a confidence on, whose audits can prove something.

        Also returns how many of them lie below a confidence, and the time of the first prediction
        of any kind.
        """
        column = predictions.c
        sendable = and_(SENDABLE, column.confidence >= floor)
        query = select(
            func.count().filter(sendable),
            func.count().filter(and_(sendable, column.confidence < (below or 0.0))),
            func.min(column.created_at),
        )
        row = self._connection.execute(
            query.where(column.created_at >= since, in_segment(column.segment, segment))
        ).one()
        return int(row[0]), int(row[1]), row[2]


def _about(segment: str | None) -> ColumnElement[bool]:
    return certifications.c.segment.is_not_distinct_from(segment)


def _to_certification(row: RowMapping) -> Certification:
    scorer = of_row(Scorer, certifications, row)
    return of_row(Certification, certifications, row, scorer=scorer)
