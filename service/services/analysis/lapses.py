"""Find annotators and groups who have stopped looking, from their blind answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from setwise.models.guarantees.lapses import find_lapses
from setwise.models.guarantees.noise import NoiseFault, NoiseFinding
from setwise.service.domain.annotators import BlindAnswer

MOST_WATCHED = 5_000
"""Most blind answers to watch, the newest."""


@dataclass(frozen=True)
class Lapsed:
    """An annotator or a group that contradicts the model unusually seldom."""

    name: str
    since: str
    """Id of the answer with which it began; answers from then on are not learnt from."""
    since_at: datetime
    """When that answer was given."""
    answers: int
    contradicted: int
    """Blind answers from then until it was found, and contradictions among them."""
    expected: float
    """Contradictions that would be usual for documents of these confidences."""

    def finding(self, *, shown: str | None = None, blocking: bool) -> NoiseFinding:
        """Return it in a sentence, with what to do; ``shown`` replaces the name."""
        name = shown or self.name
        return NoiseFinding(
            NoiseFault.SELDOM_CONTRADICTS,
            self.name,
            f"{name!r} contradicted {self.contradicted} of {self.answers} predictions from "
            f"{self.since_at:%-d %B %Y} on, where about {self.expected:.0f} are usual: raise "
            "gold_reread_rate, so that leads read more of the audits again, and give no audits to "
            "auditors who have stopped looking",
            blocking=blocking,
        )


def lapsed_annotators(answers: Sequence[BlindAnswer]) -> Mapping[str, Lapsed]:
    """Return the annotators who have stopped looking, by id."""
    return _found(answers, [one.annotator for one in answers])


def lapsed_groups(answers: Sequence[BlindAnswer]) -> Mapping[str, Lapsed]:
    """Return the groups that have stopped looking, by id."""
    return _found(answers, [one.group for one in answers])


def _found(answers: Sequence[BlindAnswer], names: Sequence[str]) -> Mapping[str, Lapsed]:
    found = find_lapses(
        names,
        [one.confidence for one in answers],
        [not one.agreed for one in answers],
        [one.upheld for one in answers],
    )
    lapsed = {}
    for one in found:
        first = answers[one.since]
        counts = one.answers, one.contradicted, one.expected
        lapsed[one.name] = Lapsed(one.name, first.id, first.answered_at, *counts)
    return lapsed
