"""Names, guidelines and parents of labels, read from a file."""

import csv
import io
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from setwise.formulas import unguarded
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.text import unnameable, unstorable
from setwise.spelling import spelled

MOST_LABEL_NOTES = 50_000
LONGEST_LABEL_NOTE = 4_000


class LabelNote(NamedTuple):
    """What people read of a label."""

    label: str
    name: str | None
    guideline: str | None
    """When the label applies."""
    parent: str | None
    """The label above it; one of the notes, though perhaps no label of the model."""


def read_label_notes(text: str) -> list[LabelNote]:
    r"""Return the notes of a CSV file with a header; raises `InvalidRequest`.

    >>> [note.parent for note in read_label_notes("label,parent,name\nJ,,Lungs\nJ18,J,")]
    [None, 'J']
    """
    reader = csv.DictReader(io.StringIO(text.strip().lstrip("\N{BYTE ORDER MARK}")))
    try:
        notes = {place: _label_note(row) for place, row in enumerate(reader, 2)}
    except csv.Error as error:
        raise _bad_file(str(error)) from error
    unknown = {name for name in reader.fieldnames or () if name not in LabelNote._fields}
    if text.strip() and (unknown or "label" not in (reader.fieldnames or ())):
        raise _bad_file("the first line must name label, and may name name, guideline and parent")
    if len(notes) > MOST_LABEL_NOTES:
        raise _bad_file(f"at most {MOST_LABEL_NOTES:,} labels can be described")
    parents = {note.label: note.parent for note in notes.values()}
    if len(parents) < len(notes):
        raise _bad_file("a label is described twice")
    for place, note in notes.items():
        if reason := _label_fault(note, parents):
            raise _bad_file(f"record {place} {reason}")
    try:
        TopologicalSorter({label: [above] for label, above in parents.items() if above}).prepare()
    except CycleError as error:
        raise _bad_file(f"label {error.args[1][0]} is below itself") from error
    return list(notes.values())


def _label_fault(note: LabelNote, parents: Mapping[str, str | None]) -> str | None:
    if not note.label:
        return "has no label"
    if any(unstorable(part) or len(part) > LONGEST_LABEL_NOTE for part in note if part):
        return "holds text that is too long or cannot be stored"
    for part in filter(None, (note.label, note.name)):
        if why := unnameable(part):
            return f"has a name that {why}"
    if note.parent is not None and note.parent not in parents:
        return "names a parent that the file does not describe"
    return None


def _label_note(row: Mapping[str, str | None]) -> LabelNote:
    cells = (unguarded(row.get(part) or "").strip() for part in LabelNote._fields)
    label, name, guideline, parent = cells
    return LabelNote(spelled(label), name or None, guideline or None, spelled(parent) or None)


def _bad_file(reason: str) -> InvalidRequest:
    return InvalidRequest("The label file cannot be read.", [FieldFault("/file", reason)])
