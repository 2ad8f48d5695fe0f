"""What calibrators and error rates were learnt from, out of annotations."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
)

from setwise.service.domain.annotators import AnswerPair, GoldAnswer
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.recalibration import NOT_ANSWERED, WAITS_FOR_A_LEAD, Noise
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.truth import PersonAnswer
from setwise.service.stores.tables import annotations, predictions, routing_policies

_DECIDED = annotations.alias("decided")
UNUSUAL = "kind <> 'review'"


def answer_of(
    annotations: Sequence[Annotation], outcome: Outcome | None, noise: Noise
) -> tuple[object, ...] | str:
    """Return the best answer, as (agreed, source, its person, checked), or why there is none."""
    if outcome is not None:
        return outcome.agreed, "outcome", None, False
    by_kind = {annotation.kind: annotation for annotation in annotations}
    if ReviewKind.AUDIT in by_kind:
        return _audited(by_kind[ReviewKind.AUDIT], by_kind.get(ReviewKind.ADJUDICATION))
    review = by_kind.get(ReviewKind.REVIEW) or by_kind.get(ReviewKind.OVERLAP)
    if review is None:
        return NOT_ANSWERED
    decided = by_kind.get(ReviewKind.REOPENED) or by_kind.get(ReviewKind.ADJUDICATION)
    if decided is not None and noise is Noise.NONE:
        return decided.agreed, "review", None, False
    return review.agreed, "review", _person(review), False


def _audited(audit: Annotation, decided: Annotation | None) -> tuple[object, ...] | str:
    if decided is not None:
        # A second reading that does not depend on the auditor's answer is the truth. A decision
        # made because the auditor contradicted the model misses the auditor's wrong agreements.
        return decided.agreed, "audit", None if audit.agreed else _person(audit), True
    if not audit.agreed:
        return WAITS_FOR_A_LEAD
    return True, "audit", _person(audit), True


def _person(annotation: Annotation) -> PersonAnswer:
    return PersonAnswer(annotation.group, annotation.agreed, annotation.suggestion_shown)


def gold(connection: Connection) -> list[GoldAnswer]:
    """Return blind answers to audits that a lead has adjudicated, oldest first."""
    audit = annotations.alias("audit")
    rate = func.coalesce(audit.c.reread_rate, routing_policies.c.gold_reread_rate)
    query = (
        select(
            audit.c.id,
            audit.c.reviewer,
            audit.c.group,
            audit.c.agreed,
            _DECIDED.c.agreed.label("right"),
            predictions.c.confidence,
            case((audit.c.agreed, 1.0 / func.nullif(rate, 0.0)), else_=1.0).label("weight"),
            case((rate > 0, rate), else_=1.0).label("read_again"),
        )
        .select_from(audit)
        .join(_DECIDED, _decides(audit.c.prediction_id))
        .join(predictions, predictions.c.id == audit.c.prediction_id)
        .join(routing_policies, routing_policies.c.version == predictions.c.policy_version)
        .where(
            audit.c.kind == ReviewKind.AUDIT.value,
            # Agreements are adjudicated only by chance: with a rate of 0, none were.
            or_(~audit.c.agreed, rate > 0),
        )
    )
    return [GoldAnswer(*row) for row in _oldest_first(connection, query)]


def contradictions(connection: Connection) -> Mapping[str, tuple[int, int]]:
    """Return each group's audits that contradict the model, and those that leads decided."""
    audit = annotations.alias("audit")
    query = (
        select(audit.c.group, func.count(), func.count(_DECIDED.c.id))
        .select_from(audit)
        .outerjoin(_DECIDED, _decides(audit.c.prediction_id))
        .where(_unusual("audit"), audit.c.kind == ReviewKind.AUDIT.value, ~audit.c.agreed)
        .group_by(audit.c.group)
    )
    return {group: (n, n_known) for group, n, n_known in connection.execute(query)}


def shown_gold(connection: Connection) -> list[GoldAnswer]:
    """Return answers with a suggestion in view that blind answers check, oldest first.

    Second readings are drawn at random. If both people agree, that counts as the truth;
    otherwise a lead's decision does, and answers that wait for one are left out.
    """
    first, second = annotations.alias("first"), annotations.alias("second")
    query = (
        select(
            first.c.id,
            first.c.reviewer,
            first.c.group,
            first.c.agreed,
            func.coalesce(_DECIDED.c.agreed, first.c.agreed).label("right"),
            predictions.c.confidence,
            literal(1.0),
            literal(1.0),
        )
        .join(second, second.c.prediction_id == first.c.prediction_id)
        .outerjoin(_DECIDED, _decides(first.c.prediction_id))
        .join(predictions, predictions.c.id == first.c.prediction_id)
        .where(
            first.c.kind == ReviewKind.REVIEW.value,
            first.c.round == 0,
            first.c.suggestion_shown,
            _unusual("second"),
            second.c.kind == ReviewKind.OVERLAP.value,
            or_(_DECIDED.c.id.is_not(None), first.c.agreed == second.c.agreed),
        )
    )
    return [GoldAnswer(*row) for row in _oldest_first(connection, query)]


def pairs(connection: Connection) -> list[AnswerPair]:
    """Return ordinary reviews that the same group reviewed a second time."""
    first, second = annotations.alias("first"), annotations.alias("second")
    query = (
        select(
            first.c.id,
            first.c.group,
            first.c.agreed,
            second.c.agreed,
            predictions.c.confidence,
        )
        .join(
            second,
            and_(
                second.c.prediction_id == first.c.prediction_id,
                second.c.group == first.c.group,
            ),
        )
        .join(predictions, predictions.c.id == first.c.prediction_id)
        .where(
            first.c.kind == ReviewKind.REVIEW.value,
            first.c.round == 0,
            _unusual("second"),
            second.c.kind == ReviewKind.OVERLAP.value,
        )
    )
    return [AnswerPair(*row[1:]) for row in _oldest_first(connection, query)]


def _oldest_first(connection: Connection, query: Select[Any]) -> list[tuple[Any, ...]]:
    rows = sorted(connection.execute(query), key=lambda row: str(row[0]))
    return [tuple(row) for row in rows]


def _unusual(alias: str) -> ColumnElement[bool]:
    """Return the unusual-answers index's condition, for a table alias."""
    return literal_column(f"{alias}.{UNUSUAL}")


def _decides(prediction_id: Column[str]) -> ColumnElement[bool]:
    """Return the condition that `_DECIDED` is a lead's decision on a prediction."""
    return and_(
        _DECIDED.c.prediction_id == prediction_id,
        _unusual("decided"),
        _DECIDED.c.kind == ReviewKind.ADJUDICATION.value,
    )
