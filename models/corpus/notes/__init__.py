"""Short clinical-style notes with invented codes, for demonstrations and tests.

Codes, sentences, people and places are made up; no text and no code of a real scheme is used.
"""

from models.corpus.notes.annotators import ANNOTATORS, Annotator, annotate
from models.corpus.notes.catalogue import CHAPTERS, CODES, EXCLUSIVE
from models.corpus.notes.codes import Chapter, Code
from models.corpus.notes.generator import Note, generate_notes, write_jsonl

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
