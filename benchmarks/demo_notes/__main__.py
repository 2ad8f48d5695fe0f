"""Writes the file of notes in the package.

python -m benchmarks.demo_notes
"""

import gzip
import json

from benchmarks.demo_notes.generator import generate_notes
from setwise.models.demo_notes import NOTES, Note

N_NOTES, SEED = 5_200, 1
"""The demo trains on 4,000 notes, and has 1,200 come in."""


def write_file() -> None:
    """Write the notes, those with equal labels together."""
    notes = sorted(
        generate_notes(N_NOTES, seed=SEED),
        key=lambda note: (note.labels, note.metadata["author"], note.id),
    )
    lines = "".join(json.dumps(_row(note), separators=(",", ":")) + "\n" for note in notes)
    NOTES.write_bytes(gzip.compress(lines.encode(), mtime=0))


def _row(note: Note) -> dict[str, object]:
    errors = {name: answer for name, answer in note.answers.items() if answer != note.labels}
    return {
        "labels": note.labels,
        "metadata": note.metadata,
        "text": note.text,
        "answers": errors,
        "id": note.id,
    }


if __name__ == "__main__":
    write_file()
