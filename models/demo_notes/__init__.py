"""Short clinical notes with invented codes, for demonstrations and tests.

Codes, sentences, people and places are made up; nothing is taken from a real coding scheme.
"""

from setwise.models.demo_notes.annotators import ANNOTATORS, annotate
from setwise.models.demo_notes.catalogue import CODES
from setwise.models.demo_notes.generator import Note, generate_notes, write_jsonl

__all__ = [
    "ANNOTATORS",
    "CODES",
    "Note",
    "annotate",
    "generate_notes",
    "write_jsonl",
]
