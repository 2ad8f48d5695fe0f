"""Those who answer, the groups that they belong to, and what is known of their mistakes.

A noise rate is how often an answer is wrong about a prediction: alpha where the prediction is
right, beta where it is wrong (`guarantees.noise` has the definitions). Rates are a group's:
one annotator alone has too few gold labels to tell.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from setwise.service.domain.errors import FieldFault
from setwise.service.domain.text import text_faults

DEFAULT_GROUP = "default"
"""Where everybody belongs until somebody says otherwise; it is there from the beginning."""

LONGEST_GROUP_NAME = 100
_GROUP_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")


class Rates(NamedTuple):
    """Noise rates that the owner vouches for.

    Attributes
    ----------
    alpha : float
        P(the answer contradicts the prediction | the prediction is right), in [0, 1).
    beta : float
        P(the answer equals the prediction | the prediction is wrong), in [0, 1).
    """

    alpha: float
    beta: float

    def faults(self, pointer: str) -> Iterator[FieldFault]:
        """Yield what keeps answers with these rates from telling anything.

        >>> [fault.detail for fault in Rates(0.7, 0.4).faults("/noise")]
        ['and beta add up to 1.1; below 1 they must stay, or the answers say nothing']
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
                f"and beta add up to {total:g}; below 1 they must stay, or the answers say nothing",
            )


@dataclass(frozen=True)
class Group:
    """Annotators who err alike.

    Attributes
    ----------
    id : str
        A short name, such as ``coders``; annotations carry it.
    fixed : Rates or None
        What the owner says of them; None where gold labels are to tell.
    version : int
        Grows with each change; 0 before it was ever stored.
    """

    id: str
    name: str
    fixed: Rates | None
    version: int
    changed_at: datetime
    changed_by: str


@dataclass(frozen=True)
class GroupChange:
    """A group as an administrator wants it."""

    name: str
    fixed: Rates | None = None

    def faults(self, group_id: str) -> Iterator[FieldFault]:
        """Yield what keeps it from being stored."""
        if not _GROUP_ID.fullmatch(group_id):
            yield FieldFault(
                "/path/group_id",
                "must have 1 to 50 of a-z, 0-9, - and _, a letter or digit first",
            )
        yield from text_faults(self.name, "/name", longest=LONGEST_GROUP_NAME)
        if self.fixed is not None:
            yield from self.fixed.faults("/noise")


@dataclass(frozen=True)
class Annotator:
    """Somebody, or some program, that answers.

    Attributes
    ----------
    id : str
        Of the person or key.
    version : int
        Grows with each change; 0 for somebody whom nobody has put anywhere.
    """

    id: str
    group: str
    version: int


class Answers(NamedTuple):
    """How much somebody has answered.

    Attributes
    ----------
    blind : int
        Answers that were given without seeing another one.
    seconds : float
        Mean time of an answer.
    """

    answered: int = 0
    blind: int = 0
    seconds: float = 0.0
    last_at: datetime | None = None


class GoldAnswer(NamedTuple):
    """A blind answer to a document of which a lead has established the label set.

    Attributes
    ----------
    agreed : bool
        The answer is the prediction.
    right : bool
        So is what the lead decided.
    weight : float
        Inverse of the probability with which a lead came to read it: every contradiction is
        read, of the rest as many as the policy says.
    """

    annotator: str
    group: str
    agreed: bool
    right: bool
    confidence: float
    weight: float


class BlindAnswer(NamedTuple):
    """An answer by somebody who saw no other one."""

    annotator: str
    group: str
    agreed: bool
    confidence: float


class AnswerPair(NamedTuple):
    """What two people of one group said of one document, the second without seeing the first."""

    group: str
    first_agreed: bool
    second_agreed: bool
    confidence: float
