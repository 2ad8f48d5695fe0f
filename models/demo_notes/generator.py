"""The stream of notes."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random

from setwise.models.demo_notes.charts import draw_case
from setwise.models.demo_notes.writing import AUTHORS, FORMS, write

_AUTHORS_FOR = {
    care: [author for author in AUTHORS if care in FORMS[author.form].care]
    for care in ("home", "any", "hospital")
}
_SHARES_FOR = {
    care: list(accumulate(author.share for author in authors))
    for care, authors in _AUTHORS_FOR.items()
}


@dataclass(frozen=True)
class Note:
    """A generated note with its true labels."""

    id: str
    text: str
    # Labels of the codes that apply, the reason for the visit first; never empty.
    labels: tuple[str, ...]
    metadata: Mapping[str, str]  # ``site``, ``department``, ``note_type`` and ``author``


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
    rng = Random(f"{seed}:{place}")  # noqa: S311 - draws examples, keeps no secret
    case = draw_case(rng)
    care = case.codes[0].care
    author = rng.choices(_AUTHORS_FOR[care], cum_weights=_SHARES_FOR[care])[0]
    return Note(
        id=f"note-{seed}-{place:05d}",
        text=write(case, author, rng),
        labels=tuple(code.label for code in case.codes),
        metadata={
            "site": author.site,
            "department": author.department,
            "note_type": author.form,
            "author": author.initials,
        },
    )


def write_jsonl(notes: Iterable[Note], path: str | Path) -> int:
    """Write notes as JSON Lines and return their number."""
    count = 0
    with Path(path).open("w", encoding="utf-8") as lines:
        for count, note in enumerate(notes, start=1):  # noqa: B007 - the last one is returned
            record = {
                "id": note.id,
                "text": note.text,
                "labels": list(note.labels),
                "metadata": dict(note.metadata),
            }
            lines.write(json.dumps(record, ensure_ascii=False) + "\n")
    return count
