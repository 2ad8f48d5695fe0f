"""Short clinical notes with invented codes, for demonstrations and tests.

Codes, sentences, people and places are made up; nothing is taken from a real coding scheme.
"""

from setwise.models.demo_notes.annotators import ANNOTATORS, Annotator, annotate
from setwise.models.demo_notes.catalogue import CHAPTERS, CODES, EXCLUSIVE, Chapter, Code
from setwise.models.demo_notes.generator import Note, generate_notes, write_jsonl

__all__ = [
    "ANNOTATORS",
    "CHAPTERS",
    "CODES",
    "EXCLUSIVE",
    "Annotator",
    "Chapter",
    "Code",
    "Note",
    "annotate",
    "generate_notes",
    "write_jsonl",
]
