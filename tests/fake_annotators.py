"""Annotators and groups, in memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from setwise.service.domain.annotators import (
    DEFAULT_GROUP,
    Annotator,
    AnswerPair,
    Answers,
    BlindAnswer,
    GoldAnswer,
    Group,
)
from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reviews import Annotation, ReviewKind

if TYPE_CHECKING:
    from tests.fakes import _Contents


@dataclass
class FakeAnnotators:
    """Fills the port `setwise.service.services.annotator_ports.Annotators`."""

    contents: "_Contents" = field(repr=False)

    def group_of(self, annotator_id: str) -> str:
        found = self.contents.annotators.get(annotator_id)
        return DEFAULT_GROUP if found is None else found.group

    def placed(self) -> Mapping[str, Annotator]:
        return dict(self.contents.annotators)

    def place(self, annotator: Annotator) -> None:
        before = self.contents.annotators.get(annotator.id)
        if annotator.version != (before.version if before else 0) + 1:
            raise StaleVersion("The annotator has changed.")
        self.contents.annotators[annotator.id] = annotator

    def group(self, group_id: str) -> Group | None:
        return self.contents.groups.get(group_id)

    def groups(self) -> list[Group]:
        return sorted(self.contents.groups.values(), key=lambda one: one.id)

    def save_group(self, group: Group) -> None:
        before = self.contents.groups.get(group.id)
        if group.version != (before.version if before else 0) + 1:
            raise StaleVersion("The group has changed.")
        self.contents.groups[group.id] = group

    def _said(self) -> Iterator[tuple[Annotation, Prediction]]:
        for one in sorted(self.contents.annotations.values(), key=lambda one: one.id):
            yield one, self.contents.predictions[one.prediction_id]

    def answers(self) -> Mapping[str, Answers]:
        by_reviewer: dict[str, list[Annotation]] = {}
        for one, _ in self._said():
            by_reviewer.setdefault(one.reviewer, []).append(one)
        return {
            who: Answers(
                len(said),
                sum(one.kind.blind for one in said),
                sum(one.seconds for one in said) / len(said),
                max(one.created_at for one in said),
            )
            for who, said in by_reviewer.items()
        }

    def gold(self) -> list[GoldAnswer]:
        decided = {
            one.prediction_id: one
            for one in self.contents.annotations.values()
            if one.kind is ReviewKind.ADJUDICATION
        }
        rates = {one.version: one.audits.gold_reread_rate for one in self.contents.policies}
        return [
            GoldAnswer(
                one.reviewer,
                one.group,
                one.agreed,
                decided[of.id].agreed,
                of.scored.confidence,
                1.0 / rates[of.policy_version] if one.agreed else 1.0,
            )
            for one, of in self._said()
            if one.kind is ReviewKind.AUDIT
            and of.id in decided
            and (not one.agreed or rates[of.policy_version] > 0)
        ]

    def blind_counts(self) -> dict[str, tuple[int, int]]:
        said: dict[str, list[bool]] = {}
        for one in self.blind():
            said.setdefault(one.annotator, []).append(one.agreed)
        return {who: (len(agreed), sum(agreed)) for who, agreed in said.items()}

    def blind(self) -> list[BlindAnswer]:
        return [
            BlindAnswer(one.reviewer, one.group, one.agreed, of.scored.confidence)
            for one, of in self._said()
            if one.kind.blind
        ]

    def pairs(self) -> list[AnswerPair]:
        second = {
            (one.prediction_id, one.group): one
            for one in self.contents.annotations.values()
            if one.kind is ReviewKind.OVERLAP
        }
        return [
            AnswerPair(one.group, one.agreed, again.agreed, of.scored.confidence)
            for one, of in self._said()
            if one.kind is ReviewKind.REVIEW
            and (again := second.get((of.id, one.group))) is not None
        ]
