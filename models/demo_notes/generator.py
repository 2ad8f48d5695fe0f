"""The stream of notes."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random

from setwise.models.demo_notes.authors import AUTHORS, Author, Form
from setwise.models.demo_notes.cases import draw_case
from setwise.models.demo_notes.charts import draw_chart
from setwise.models.demo_notes.forms import register_of, write
from setwise.models.demo_notes.slips import slip

_FORMS_FOR: dict[str, frozenset[Form]] = {
    "home": frozenset({"general_practice", "clinic", "triage", "emergency"}),
    "any": frozenset({"general_practice", "triage", "emergency", "ward_round", "discharge"}),
    "hospital": frozenset({"triage", "emergency", "ward_round", "discharge"}),
}


def _authors_for(forms: frozenset[Form]) -> tuple[tuple[Author, ...], tuple[float, ...]]:
    authors = tuple(author for author in AUTHORS if author.form in forms)
    return authors, tuple(accumulate(author.share for author in authors))


_AUTHORS_FOR = {care: _authors_for(forms) for care, forms in _FORMS_FOR.items()}


@dataclass(frozen=True)
class Note:
    """A generated note with its true labels.

    Attributes
    ----------
    labels : tuple of str
        Labels of the codes that apply, the reason for the visit first; never empty.
    metadata : mapping
        ``site``, ``department``, ``note_type`` and ``author``.
    """

    id: str
    text: str
    labels: tuple[str, ...]
    metadata: Mapping[str, str]


def generate_notes(n: int, *, seed: int, start: int = 0) -> Iterator[Note]:
    """Generate notes one after the other.

    Parameters
    ----------
    n : int
        How many, at least 0.
    seed : int
        Equal seeds give equal streams.
    start : int
        Place in the stream of the first note. Each note depends on the seed and its place alone,
        so a later part of a stream can be had without the earlier one.

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
    authors, shares = _AUTHORS_FOR[case.codes[0].care]
    author = rng.choices(authors, cum_weights=shares)[0]
    chart = draw_chart(case, rng, short_rate=author.short_rate, register=register_of(author))
    text = slip(write(chart, author, rng), rng, author.slip_rate)
    return Note(
        id=f"note-{seed}-{place:05d}",
        text=text.lower() if author.lower else text,
        labels=tuple(code.label for code in case.codes),
        metadata={
            "site": author.site,
            "department": author.department,
            "note_type": author.form,
            "author": author.initials,
        },
    )


def write_jsonl(notes: Iterable[Note], path: str | Path) -> int:
    """Write notes as JSON Lines in the text data format and return how many there were."""
    count = 0
    with Path(path).open("w", encoding="utf-8") as lines:
        for note in notes:
            record = {
                "id": note.id,
                "text": note.text,
                "labels": list(note.labels),
                "metadata": dict(note.metadata),
            }
            lines.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count
