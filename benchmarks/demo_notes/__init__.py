"""Generates the notes of `setwise.models.demo_notes`, and as many others as a benchmark needs."""

from benchmarks.demo_notes.annotators import ANNOTATORS, annotate
from benchmarks.demo_notes.catalogue import CODES
from benchmarks.demo_notes.generator import generate_notes

__all__ = ["ANNOTATORS", "CODES", "annotate", "generate_notes"]
