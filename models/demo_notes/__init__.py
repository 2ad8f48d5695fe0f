"""Short clinical notes with invented codes, for demonstrations and tests.

Codes, sentences, people and places are made up; nothing is taken from a real coding scheme. From a
clone of the repository, ``python -m benchmarks.demo_notes`` writes the file again.
"""

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

NOTES = Path(__file__).with_name("notes.jsonl.gz")

ANNOTATORS = {"Priya": "senior coders", "Marek": "coders", "Jo": "trainees"}
"""The group of each invented annotator; 5, 15 and 30 % of their sets are wrong."""


@dataclass(frozen=True)
class Note:
    """A generated note with its true labels."""

    id: str
    text: str
    # Labels of the codes that apply, the reason for the visit first; never empty.
    labels: tuple[str, ...]
    metadata: Mapping[str, str]  # ``site``, ``department``, ``note_type`` and ``author``
    answers: Mapping[str, tuple[str, ...]]  # what each of `ANNOTATORS` answers, with their errors


@cache
def read_notes() -> tuple[Note, ...]:
    """Return all 5,200 notes, in the order in which they were written.

    Examples
    --------
    >>> note = read_notes()[0]
    >>> note.id, len(note.labels), note.answers["Priya"] == note.labels
    ('note-1-00000', 3, True)
    """
    with gzip.open(NOTES, "rt", encoding="utf-8") as lines:
        notes = [_note(json.loads(line)) for line in lines]
    # The file has notes with equal labels together, which makes it a third smaller.
    return tuple(sorted(notes, key=lambda note: note.id))


def _note(row: Mapping[str, Any]) -> Note:
    labels = tuple(row["labels"])
    errors = row["answers"]  # without the answers that equal the labels
    answers = {name: tuple(errors.get(name, labels)) for name in ANNOTATORS}
    return Note(row["id"], row["text"], labels, row["metadata"], answers)


def write_jsonl(notes: Iterable[Note], path: str | Path) -> int:
    """Write notes as a data set, without the annotators' answers; return their number."""
    count = 0
    with Path(path).open("w", encoding="utf-8") as lines:
        for count, note in enumerate(notes, start=1):  # noqa: B007 - the last one is returned
            row = {
                "id": note.id,
                "text": note.text,
                "labels": note.labels,
                "metadata": dict(note.metadata),
            }
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
    return count
