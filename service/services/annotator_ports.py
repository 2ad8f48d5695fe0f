"""What is needed of annotators and their groups from the world outside."""

from collections.abc import Mapping
from typing import Protocol

from setwise.service.domain.annotators import (
    Annotator,
    AnswerPair,
    Answers,
    BlindAnswer,
    GoldAnswer,
    Group,
)


class Annotators(Protocol):
    """Who belongs where, and what answers tell of the groups."""

    def group_of(self, annotator_id: str) -> str:
        """Return the group's id, the default one for somebody whom nobody has put anywhere."""

    def placed(self) -> Mapping[str, Annotator]:
        """Return those whom somebody has put into a group, by id."""

    def place(self, annotator: Annotator) -> None:
        """Store where somebody belongs; raises `StaleVersion` unless it is the next version."""

    def group(self, group_id: str) -> Group | None:
        """Return one."""

    def groups(self) -> list[Group]:
        """List by id."""

    def save_group(self, group: Group) -> None:
        """Store a group; raises `StaleVersion` unless it is the next version, from 1."""

    def answers(self) -> Mapping[str, Answers]:
        """Count what everybody has answered, by id."""

    def gold(self) -> list[GoldAnswer]:
        """List, oldest first, the blind answers to audits that leads have decided on."""

    def blind_counts(self) -> Mapping[str, tuple[int, int]]:
        """Count the blind answers of everybody who gave some, and those that agree, by id."""

    def blind(self) -> list[BlindAnswer]:
        """List every blind answer, oldest first."""

    def pairs(self) -> list[AnswerPair]:
        """List the ordinary reviews that somebody of the same group did a second time."""
