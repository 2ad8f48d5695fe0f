"""Three people who label notes, each with a rate of error of their own."""

from dataclasses import dataclass
from random import Random

from setwise.models.demo_notes.catalogue import BY_ID, BY_LABEL, CODES, fits, siblings
from setwise.models.demo_notes.codes import Code
from setwise.models.demo_notes.generator import Note

# Of the codes gone wrong, the share taken for a sibling; the others are missed.
_CONFUSED = 0.15
# Of the sets gone wrong, about this share gains a code that is not there, beside its other faults.
_ADDED = 0.1
# The reason for the visit stares one in the face.
_LEADING_HAZARD = 0.5


@dataclass(frozen=True)
class Annotator:
    """A reviewer with known skill.

    Attributes
    ----------
    set_error_rate : float
        Share of generated notes whose label set is not the true one, in [0, 1].
    hazard : float
        Probability that a secondary code of a note goes wrong; chosen to give that share, half of
        it for the leading code. A longer set is therefore wrong more often.
    """

    name: str
    group: str
    set_error_rate: float
    hazard: float


ANNOTATORS: tuple[Annotator, ...] = (
    Annotator("Priya", "senior coders", set_error_rate=0.05, hazard=0.021),
    Annotator("Marek", "coders", set_error_rate=0.15, hazard=0.069),
    Annotator("Jo", "trainees", set_error_rate=0.30, hazard=0.157),
)


def annotate(note: Note, annotator: Annotator, rng: Random) -> tuple[str, ...]:
    """Label a note as ``annotator`` would.

    Most mistakes are missed codes, some take a code for one that excludes it, few add a code that
    often comes along. The answer is never empty: who misses the only code puts a wrong one.

    Returns
    -------
    tuple of str
        Labels, without repetition.

    Examples
    --------
    >>> from setwise.models.demo_notes.generator import generate_notes
    >>> note, = generate_notes(1, seed=7)
    >>> perfect = Annotator("A", "g", set_error_rate=0.0, hazard=0.0)
    >>> annotate(note, perfect, Random(1)) == note.labels
    True
    """
    true = [BY_LABEL[label] for label in note.labels]
    given: list[Code] = []
    for place, code in enumerate(true):
        hazard = annotator.hazard * (_LEADING_HAZARD if place == 0 else 1.0)
        if rng.random() >= hazard:
            given.append(code)
        elif len(true) == 1 or rng.random() < _CONFUSED:
            given.append(_mistaken_for(code, true, rng))
    if not given:
        given.append(_mistaken_for(true[0], true, rng))
    if rng.random() < annotator.set_error_rate * _ADDED:
        added = _often_with(given[0], rng)
        if fits(added, given):
            given.append(added)
    return tuple(dict.fromkeys(code.label for code in given))


def _mistaken_for(code: Code, true: list[Code], rng: Random) -> Code:
    """Draw the code that is put in place of ``code``: a sibling, else one that resembles it."""
    taken = {other.id for other in true}
    near = sorted(siblings(code.id) - taken)
    if not near:
        near = [o.id for o in CODES if o.chapter == code.chapter and o.id not in taken]
    return BY_ID[rng.choice(near or [o.id for o in CODES if o.id not in taken])]


def _often_with(code: Code, rng: Random) -> Code:
    """Draw a code that often comes along with ``code``."""
    company = sorted(code.company) or [other.id for other in CODES if other.background > 0]
    return BY_ID[rng.choice(company)]
