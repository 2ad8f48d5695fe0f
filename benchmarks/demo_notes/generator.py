"""The stream of notes."""

from collections.abc import Iterator
from itertools import accumulate
from random import Random

from benchmarks.demo_notes.annotators import ANNOTATORS, annotate
from benchmarks.demo_notes.charts import draw_case
from benchmarks.demo_notes.writing import AUTHORS, FORMS, write
from setwise.models.demo_notes import Note

_AUTHORS_FOR = {
    care: [author for author in AUTHORS if care in FORMS[author.form].care]
    for care in ("home", "any", "hospital")
}
_SHARES_FOR = {
    care: list(accumulate(author.share for author in authors))
    for care, authors in _AUTHORS_FOR.items()
}


def generate_notes(n: int, *, seed: int, start: int = 0) -> Iterator[Note]:
    """Generate notes one after the other.

    Parameters
    ----------
    n : int
        How many, at least 0.
    seed : int
        Equal seeds give equal streams.
    start : int
        Place in the stream of the first note. Each note depends only on the seed and its place,
        so a later part of a stream needs no earlier part.

    Raises
    ------
    ValueError
        If `n` or `start` is negative.

    Examples
    --------
    >>> first, second = generate_notes(2, seed=7)
    >>> [second] == list(generate_notes(1, seed=7, start=1))
    True
    """
    if n < 0 or start < 0:
        raise ValueError(f"n and start must be at least 0, got n={n} and start={start}")
    return (_note(seed, place) for place in range(start, start + n))


def _note(seed: int, place: int) -> Note:
    rng = Random(f"{seed}:{place}")
    case = draw_case(rng)
    care = case.codes[0].care
    author = rng.choices(_AUTHORS_FOR[care], cum_weights=_SHARES_FOR[care])[0]
    labels = tuple(code.label for code in case.codes)
    return Note(
        id=f"note-{seed}-{place:05d}",
        text=write(case, author, rng),
        labels=labels,
        metadata={
            "site": author.site,
            "department": author.department,
            "note_type": author.form,
            "author": author.initials,
        },
        answers={
            annotator.name: annotate(labels, annotator, Random(f"{seed}:{place}:{annotator.name}"))
            for annotator in ANNOTATORS
        },
    )
