"""Audits, from annotations."""

from collections import defaultdict
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, func, select

from setwise.service.domain.certification import AuditedPrediction, Scorer
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.routing.audits import RereadDraw
from setwise.service.stores.tables import annotations, predictions, routing_policies
from setwise.service.stores.truth import to_annotation


class OldAudit(NamedTuple):
    """What certification read of an audited prediction."""

    labels: tuple[str, ...]
    annotations: tuple[Annotation, ...]
    reread: RereadDraw
    held_back: bool

    @property
    def audit(self) -> Annotation | None:
        return next((each for each in self.annotations if each.kind is ReviewKind.AUDIT), None)

    @property
    def agreed(self) -> bool:
        return self.audit is not None and set(self.audit.labels) == set(self.labels)

    @property
    def wrong(self) -> bool | None:
        if self.held_back:
            return True
        for each in self.annotations:
            if each.kind is ReviewKind.ADJUDICATION:
                return set(each.labels) != set(self.labels)
        if self.audit is None or (self.agreed and not self.audit.settles):
            return None
        return not self.agreed

    def counts(self) -> tuple[bool, bool]:
        if self.wrong is False:
            return False, False
        missed = self.reread.drawn and self.agreed
        return not missed, missed

    @property
    def decided(self) -> bool:
        return any(each.kind is ReviewKind.ADJUDICATION for each in self.annotations)


def certification_audits(
    connection: Connection, audits: list[AuditedPrediction]
) -> list[dict[str, Any]]:
    """Return what was read of the same predictions."""
    query = select(annotations).where(
        annotations.c.prediction_id.in_([audit.id for audit in audits])
    )
    answers = defaultdict(list)
    for row in connection.execute(query.order_by(annotations.c.id)).mappings():
        answers[row["prediction_id"]].append(to_annotation(row))
    olds = [
        OldAudit(
            audit.labels,
            tuple(answers[audit.id]),
            audit.reread,
            audit.held_back,
        )
        for audit in audits
    ]
    return [facts(old) for old in olds]


def facts(audit: OldAudit | AuditedPrediction) -> dict[str, Any]:
    """Return what a certificate takes from an audit."""
    read = audit.audit is not None if isinstance(audit, OldAudit) else _read(audit)
    names = "labels", "agreed", "wrong", "decided", "reread", "held_back"
    return {
        "read": read,
        "counts": audit.counts(),
        **{name: getattr(audit, name) for name in names},
    }


def _read(audit: AuditedPrediction) -> bool:
    return audit.reading is not None and audit.reading.auditor is not None


def watched(connection: Connection, scorer: Scorer) -> dict[str, tuple[Any, ...]]:
    """Return what the breaker read of each audit."""
    audit, decided = annotations.alias("audit"), annotations.alias("decided")

    def about(annotation: Any, kind: ReviewKind) -> Any:
        return and_(annotation.c.prediction_id == predictions.c.id, annotation.c.kind == kind.value)

    query = (
        select(
            predictions.c.id,
            func.coalesce(audit.c.reread_rate, routing_policies.c.gold_reread_rate).label("rate"),
            audit.c.agreed.label("agreed"),
            audit.c.settles,
            audit.c.created_at.label("audited_at"),
            decided.c.agreed.label("right"),
            decided.c.created_at.label("decided_at"),
        )
        .join(routing_policies, routing_policies.c.version == predictions.c.policy_version)
        .outerjoin(audit, about(audit, ReviewKind.AUDIT))
        .outerjoin(decided, about(decided, ReviewKind.ADJUDICATION))
        .where(predictions.c.model_version == scorer.model_version)
    )
    found = {}
    for row in connection.execute(query).mappings():
        done = row["right"] is not None
        final = bool(row["settles"]) and not done
        reread = bool(row["agreed"]) and not row["settles"]
        found[row["id"]] = (
            row["right"] if done else row["agreed"] if final else None,
            row["decided_at"] if done else row["audited_at"] if final else None,
            row["agreed"],
            (row["rate"] or 1.0) if reread else None,
        )
    return found
