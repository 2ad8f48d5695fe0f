"""Three invented reviewers with known error rates."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.demo_notes.catalogue import (
    BY_ID,
    BY_LABEL,
    CODES,
    Code,
    fits,
    read_toml,
    siblings,
)

# Of the codes gone wrong, the share taken for a sibling; the others are missed.
_CONFUSED = 0.15
# Of the sets gone wrong, the share that gains a code that is not there.
_ADDED = 0.1
# Reviewers get the reason for the visit wrong less often.
_LEADING_HAZARD = 0.5


@dataclass(frozen=True)
class Annotator:
    """A reviewer with known skill; `people.toml` lists the fields."""

    name: str
    group: str
    set_error_rate: float
    hazard: float


ANNOTATORS = tuple(Annotator(**annotator) for annotator in read_toml("people.toml")["annotators"])


def annotate(labels: Sequence[str], annotator: Annotator, rng: Random) -> tuple[str, ...]:
    """Return the annotator's distinct labels for a note with these, at least one.

    Most mistakes are missed codes, some take a code for one that excludes it, few add a code that
    often comes along. If the only code is missed, a wrong one takes its place.

    Examples
    --------
    >>> labels = CODES[0].label, CODES[20].label
    >>> perfect = Annotator("A", "g", set_error_rate=0.0, hazard=0.0)
    >>> annotate(labels, perfect, Random(1)) == labels
    True
    """
    true = [BY_LABEL[label] for label in labels]
    answer: list[Code] = []
    for place, code in enumerate(true):
        hazard = annotator.hazard * (_LEADING_HAZARD if place == 0 else 1.0)
        if rng.random() >= hazard:
            answer.append(code)
        elif len(true) == 1 or rng.random() < _CONFUSED:
            answer.append(_mistaken_for(code, true, rng))
    if not answer:
        answer.append(_mistaken_for(true[0], true, rng))
    if rng.random() < annotator.set_error_rate * _ADDED:
        common = [code.id for code in CODES if code.background > 0]
        added = BY_ID[rng.choice(sorted(answer[0].company) or common)]
        if fits(added, answer):
            answer.append(added)
    return tuple(dict.fromkeys(code.label for code in answer))


def _mistaken_for(code: Code, true: Sequence[Code], rng: Random) -> Code:
    """Draw a wrong code for `code`: sibling, else chapter, else any."""
    present = {other.id for other in true}
    near = sorted(siblings(code.id) - present)
    if not near:
        near = [o.id for o in CODES if o.chapter == code.chapter and o.id not in present]
    return BY_ID[rng.choice(near or [o.id for o in CODES if o.id not in present])]
