"""Evidence about predictions; the one reader of the table `checks`.

Rows of predictions are wide, so content is read only where labels or metadata are asked for.
"""

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    and_,
    func,
    or_,
    select,
    true,
    union,
)

from setwise.service.domain.certification import Scorer
from setwise.service.domain.evidence import CONFIDENT, CheckedDocument
from setwise.service.domain.predictions import Decision, Reason
from setwise.service.domain.routing.audits import AuditRole
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, Segment
from setwise.service.domain.truth import Check
from setwise.service.stores.columns.rows import Store, by_scorer, in_segment
from setwise.service.stores.columns.types import opened
from setwise.service.stores.tables import (
    AUDIT_READ,
    AUDITED,
    CONTRADICTING,
    checks,
    other_scores,
    predictions,
)

SLACK = timedelta(days=1)
"""Bound on clock skew: no check is older than its prediction by more than this."""

SENDABLE = predictions.c.reason.not_in([Reason.OUT_OF_DOMAIN.value, Reason.RULE.value])
PREDICTED = predictions.c.confidence.is_not(None)  # the index of reports has it
"""Condition that a model answered; what people say before there is one is about no model."""
ANSWERED = checks.c.model_version.is_not(None)
"""The same of a check."""
PROVES = predictions.c.audit_role == AuditRole.CERTIFICATION.value

_MADE = predictions.c
_CHECK = checks.c
_COLUMNS = (
    _MADE.id,
    _MADE.client_id,
    _MADE.document_id,
    _MADE.model_version,
    _MADE.calibrator_version,
    _MADE.confidence,
    _MADE.decision,
    _MADE.reason,
    _MADE.policy_version,
    _MADE.created_at,
    _MADE.audit_role,
    _MADE.draw,
    _MADE.inclusion_probability,
    _MADE.audit_chance,
    _MADE.in_rest,
    _MADE.cluster,
    _MADE.bands,
    _MADE.segment,
    _MADE.uncalibrated,
    _MADE.earlier_versions,
)
_OF_CHECK = tuple(_CHECK[each.name] for each in fields(Check))
_CHECKED, _CONTENT_FROM = len(_COLUMNS), len(_COLUMNS) + len(_OF_CHECK)
"""Where the columns of the check, and after them those of the content, begin in a row."""
_FIRST = _MADE.candidates[0].label("first")  # the others make up most of the row
_CONTENT = (_FIRST, _MADE.metadata, _MADE.purged_at)


_COUNTED = (
    _MADE.id,
    _MADE.client_id,
    _MADE.document_id,
    _MADE.confidence,
    _MADE.decision,
    _MADE.reason,
    _MADE.policy_version,
    _MADE.created_at,
    _MADE.audit_role,
    _MADE.draw,
    _MADE.segment,
    _CHECK.waits,
    _CHECK.audit_agreed,
    _CHECK.lead_agreed,
    _CHECK.reread,
    _CHECK.reread_rate,
    _CHECK.reread_draw,
)
_DOCUMENT: Any = CheckedDocument  # Any: the types do not tell how many values of a row it takes
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Another(NamedTuple):
    """A scorer whose answers to the documents are in question, not the ones that were given."""

    scorer: Scorer
    held_back: bool = False


class EvidenceStore(Store):
    """Evidence about predictions."""

    def audited(self, scorer: Scorer) -> list[CheckedDocument]:
        """Return the certification audits that a scorer answered or scored, oldest first."""
        answered = or_(by_scorer(predictions, scorer), _MADE.id.in_(_scored(scorer)))
        return self._about(Another(scorer), and_(AUDITED, PROVES, answered))

    def counted(self, scorer: Scorer) -> list[CheckedDocument]:
        """Return the certification audits of what a scorer answered, oldest first.

        They have neither content nor what tells copies, and checks say only how the audit ended:
        enough to count them. There are many, so their rows are read by place.
        """
        query = select(*_COUNTED).select_from(predictions)
        query = query.outerjoin(checks, _CHECK.prediction_id == _MADE.id)
        own = query.where(AUDITED, PROVES, by_scorer(predictions, scorer)).order_by(_MADE.id)
        return [
            _DOCUMENT(
                id_,
                client_id,
                name or id_,
                scorer,
                *made,
                draw=draw,
                check=None if waits is None else _ended(waits, audit_agreed, lead_agreed, reread),
                reread_rate=reread_rate,
                reread_draw=reread_draw,
                segment=segment,
            )
            for (
                id_,
                client_id,
                name,
                *made,
                draw,
                segment,
                waits,
                audit_agreed,
                lead_agreed,
                reread,
                reread_rate,
                reread_draw,
            ) in self._connection.execute(own)
        ]

    def others_answered(self, scorer: Scorer) -> bool:
        """Return whether a scorer has scored what others answered."""
        return self._connection.execute(_scored(scorer).limit(1)).first() is not None

    def held_back(self, scorer: Scorer) -> list[CheckedDocument]:
        """Return what a scorer scored and another one held back from audits, oldest first.

        That is what would have been drawn for one.
        """
        others = _MADE.model_version != scorer.model_version
        kept_back = and_(~SENDABLE, others, _MADE.draw < _MADE.audit_chance)
        return self._about(
            Another(scorer, held_back=True), and_(kept_back, _MADE.id.in_(_scored(scorer)))
        )

    def watched(
        self, scorer: Scorer, *, after: str | None, limit: int, segment: Segment = ALL_DOCUMENTS
    ) -> list[CheckedDocument]:
        """Return the newest audits of sent or sendable predictions, ordered by prediction.

        ``after``: Return only predictions with greater ids.
        ``segment``: Return only predictions of it.
        """
        newest = _query().where(watched(scorer, after), in_segment(_MADE.segment, segment))
        return self._documents(newest.order_by(_MADE.id.desc()).limit(limit))[::-1]

    def recent(self, limit: int, *, with_content: bool) -> list[CheckedDocument]:
        """Return the most recent predictions, newest first."""
        query = _query(*(_CONTENT if with_content else ())).where(PREDICTED)
        return self._documents(query.order_by(_MADE.id.desc()).limit(limit))

    def of_model(self, model_version: str, *, limit: int) -> list[CheckedDocument]:
        """Return a model's predictions that were answered, newest first."""
        query = _answered().where(_CHECK.model_version == model_version)
        return self._documents(query.order_by(_CHECK.prediction_id.desc()).limit(limit))

    def contradicted_or_read_again(self) -> list[CheckedDocument]:
        """Return the audits that contradict the model, or that a lead has read, oldest first.

        They alone show how auditors err: of most audits, one person says that the model is right.
        """
        told = or_(~_CHECK.audit_agreed, _CHECK.lead_agreed.is_not(None))
        # The databases find them in the partial index. They are sorted here, because with ORDER BY
        # they would scan all answers in order instead.
        matches = _answered().where(has_check(_MADE.id, and_(AUDIT_READ, told)))
        return sorted(
            self._documents(matches),
            key=lambda document: (document.check and document.check.first_id) or "",
        )

    def checked(
        self,
        since: datetime,
        limit: int,
        *,
        before: datetime | None = None,
        segment: Segment = ALL_DOCUMENTS,
    ) -> list[CheckedDocument]:
        """Return the most recently checked predictions made since ``since``, oldest first.

        At most ``limit`` that people have reviewed, and at most ``limit`` with an outcome.
        """
        ids = union(
            *(
                select(
                    select(_CHECK.prediction_id)
                    .where(at >= since - SLACK, in_segment(_CHECK.segment, segment))
                    .where(*([] if before is None else [_CHECK.predicted_at < before]))
                    .order_by(at.desc())
                    .limit(limit)
                    .subquery()
                    .c.prediction_id
                )
                for at in (_CHECK.decided_at, _CHECK.reported_at)
            )
        )
        query = _answered(*_CONTENT).where(_MADE.id.in_(ids), _MADE.created_at >= since, PREDICTED)
        return self._documents(query.order_by(_MADE.id))

    def undecided(
        self, since: datetime, *, before: datetime | None = None, segment: Segment = ALL_DOCUMENTS
    ) -> int:
        """Count confident documents whose auditor's contradiction waits for a lead."""
        query = select(func.count()).where(
            AUDIT_READ,
            ~_CHECK.audit_agreed,
            _CHECK.waits,
            _CHECK.reason.in_([reason.value for reason in CONFIDENT]),
            _CHECK.predicted_at >= since,
            in_segment(_CHECK.segment, segment),
            *([] if before is None else [_CHECK.predicted_at < before]),
        )
        return int(self._connection.execute(query).scalar_one())

    def count(self) -> int:
        """Count the predictions of which anything is known."""
        query = select(func.count()).select_from(checks).where(ANSWERED)
        return int(self._connection.execute(query).scalar_one())

    def _about(self, of: Another, chosen: ColumnElement[bool]) -> list[CheckedDocument]:
        """Return documents with a scorer's answers to them, oldest first."""
        query = (
            _query(
                *_CONTENT,
                other_scores.c.confidence.label("other_confidence"),
                other_scores.c.labels.label("other_labels"),
            )
            .outerjoin(
                other_scores,
                and_(other_scores.c.prediction_id == _MADE.id, by_scorer(other_scores, of.scorer)),
            )
            .where(chosen)
            .order_by(_MADE.id)
        )
        return [_with_answer_of(of, row) for row in self._connection.execute(query)]

    def _documents(self, query: Select[Any]) -> list[CheckedDocument]:
        return [_to_document(row) for row in self._connection.execute(query)]


def watched(scorer: Scorer, after: str | None) -> ColumnElement[bool]:
    """Return the condition that the breaker watches a prediction's audit."""
    return and_(
        AUDITED,
        PROVES,
        by_scorer(predictions, scorer),
        or_(_MADE.decision == Decision.AUTO.value, _MADE.reason == Reason.AUDIT.value),
        true() if after is None else _MADE.id > after,
    )


def has_check(
    prediction_id: ColumnElement[str], *conditions: ColumnElement[bool]
) -> ColumnElement[bool]:
    """Return the condition that something is known about a prediction."""
    return prediction_id.in_(select(_CHECK.prediction_id).where(*conditions))


CONTRADICTED = has_check(_MADE.id, CONTRADICTING)
AUDITOR_AGREED = has_check(_MADE.id, AUDIT_READ, _CHECK.audit_agreed)
AUDITOR_CONTRADICTED = has_check(_MADE.id, AUDIT_READ, ~_CHECK.audit_agreed)


def _scored(scorer: Scorer) -> Select[tuple[str]]:
    return select(other_scores.c.prediction_id).where(by_scorer(other_scores, scorer))


def _query(*more: ColumnElement[Any]) -> Select[Any]:  # Any: of several types
    joined = _CHECK.prediction_id == _MADE.id
    return select(*_COLUMNS, *_OF_CHECK, *more).select_from(predictions).outerjoin(checks, joined)


def _answered(*more: ColumnElement[Any]) -> Select[Any]:  # Any: as above
    joined = _CHECK.prediction_id == _MADE.id
    return select(*_COLUMNS, *_OF_CHECK, *more).select_from(predictions).join(checks, joined)


def _to_document(row: Row[Any]) -> CheckedDocument:
    """Return the document in a row of `_query`, with the set that was answered.

    Reports read thousands, so their rows are read by place, which takes less time than by column.
    """
    id_, client_id, name, model, calibrator, *made, segment, uncalibrated, earlier = row[:_CHECKED]
    check = None if row[_CHECKED] is None else _to_check(row[_CHECKED:_CONTENT_FROM])
    labels, shown = (), None
    if content := row[_CONTENT_FROM:]:
        first, metadata, purged_at = content[:3]
        labels = tuple(first["labels"])
        if purged_at is None:
            shown = opened(metadata, id_, client_id, otherwise=None)
    document: CheckedDocument = _DOCUMENT(
        id_,
        client_id,
        name or id_,
        Scorer(model, calibrator),
        *made,
        check=check,
        reread_rate=None if check is None else check.reread_rate,
        reread_draw=None if check is None else check.reread_draw,
        segment=segment,
        labels=labels,
        metadata=shown,
        uncalibrated=uncalibrated or False,
        earlier_versions=earlier,
    )
    return document


def _to_check(values: Sequence[Any]) -> Check:  # Any: of several types
    """Return the check with the values of `_OF_CHECK`."""
    given: Any = (tuple(each) if isinstance(each, list) else each for each in values)
    return Check(*given)


@cache
def _ended(
    waits: bool,
    audit_agreed: bool | None,
    lead_agreed: bool | None,
    reread: bool | None,
) -> Check:
    """Return a check that says how an audit ended, and no more: many end alike."""
    return Check(
        "",
        audit_agreed is False,
        _LONG_AGO,
        waits=waits,
        audit_agreed=audit_agreed,
        lead_agreed=lead_agreed,
        reread=reread,
    )


def _with_answer_of(of: Another, row: Row[Any]) -> CheckedDocument:
    """Return the document in a row of `_about`, with the set of that scorer."""
    document = _to_document(row)
    confidence, labels = tuple(row)[-2:]
    return document._replace(
        confidence=document.confidence if confidence is None else confidence,
        labels=document.labels if labels is None else tuple(labels),
        own=document.scorer.model_version == of.scorer.model_version,
        held_back=of.held_back,
    )
