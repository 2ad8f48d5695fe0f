"""Annotators, their groups, and their error rates.

A noise rate is how often an answer about a prediction is wrong: alpha where the prediction is
right, beta where it is wrong (`guarantees.noise` has the definitions). Rates belong to groups,
because a single annotator has too few gold labels for an estimate.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from setwise.service.domain.errors import FieldFault
from setwise.service.domain.text import name_faults
from setwise.shown import Shown

DEFAULT_GROUP = "default"
"""Group of annotators who were never assigned one; it always exists."""

LONGEST_GROUP_NAME = 100
_GROUP_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")


class Rates(NamedTuple):
    """How often answers about predictions are wrong."""

    alpha: float
    """P(the answer contradicts the prediction | the prediction is right), in [0, 1)."""
    beta: float
    """P(the answer equals the prediction | the prediction is wrong), in [0, 1)."""

    def faults(self, pointer: str) -> Iterator[FieldFault]:
        """Yield why answers with these rates carry no information.

        >>> [fault.detail for fault in Rates(0.7, 0.4).faults("/noise")]
        ['and beta add up to 1.1; from 1 on the answers carry no information']
        """
        wrong = [
            FieldFault(f"{pointer}/{name}", f"is {rate}; it must be at least 0 and below 1")
            for name, rate in zip(self._fields, self, strict=True)
            if not 0.0 <= rate < 1.0
        ]
        yield from wrong
        total = self.alpha + self.beta
        if not wrong and total >= 1.0:
            yield FieldFault(
                f"{pointer}/alpha",
                f"and beta add up to {total:g}; from 1 on the answers carry no information",
            )


@dataclass(frozen=True)
class AnnotatorGroup:
    """Annotators with the same error rates."""

    id: str
    """A short name, such as ``coders``; annotations carry it."""
    name: str
    fixed: Rates | None
    """Rates of blind answers that an administrator set; None to estimate them from gold labels."""
    version: int
    """Grows with each change, and the `ETag` carries it; 0 until it is stored."""
    changed_at: datetime
    changed_by: str
    fixed_with_suggestion: Rates | None = None
    """The same of answers given with the suggestion in view; None if they are unknown."""


@dataclass(frozen=True)
class GroupChange:
    """A group's settings that an administrator asks for."""

    name: str
    fixed: Rates | None = None
    fixed_with_suggestion: Rates | None = None

    def faults(self, group_id: str) -> Iterator[FieldFault]:
        """Yield the faults of the change."""
        if not _GROUP_ID.fullmatch(group_id):
            yield FieldFault(
                "/path/group_id",
                "must have 1 to 50 of a-z, 0-9, - and _, a letter or digit first",
            )
        yield from name_faults(self.name, "/name", longest=LONGEST_GROUP_NAME)
        if self.fixed is not None:
            yield from self.fixed.faults("/noise")
        if self.fixed_with_suggestion is not None:
            yield from self.fixed_with_suggestion.faults("/noise/with_suggestion")


@dataclass(frozen=True)
class Annotator:
    """A person or program that answers."""

    id: str
    """Id of the person or key."""
    group: str
    version: int
    """Grows with each change; 0 for an annotator who was never assigned to a group."""


class AnswerCounts(NamedTuple):
    """How much an annotator has answered."""

    answered: int = 0
    blind: int = 0
    """Answers given without seeing another one."""
    seconds: float = 0.0
    """Mean time of an answer."""
    last_at: datetime | None = None


@dataclass(frozen=True)
class ReviewPace(Shown):
    """How much, and how fast, an annotator has decided lately."""

    decisions: int = 0
    median_seconds: float | None = None
    """From claim to decision; null without decisions."""


PersonalFigures = Literal["leads", "admins", "self"]
"""Who may see the figures of a single person, apart from that person."""
