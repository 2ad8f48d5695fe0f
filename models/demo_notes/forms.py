"""The forms of notes, each with its writer and its register."""

from collections.abc import Callable
from random import Random

from setwise.models.demo_notes import letters, shorthand
from setwise.models.demo_notes.authors import Author, Form
from setwise.models.demo_notes.charts import Chart
from setwise.models.demo_notes.pen import Pen
from setwise.models.demo_notes.phrases import Register

_FORMS: dict[Form, tuple[Callable[[Pen], str], Register]] = {
    "emergency": (shorthand.emergency, "terse"),
    "triage": (shorthand.triage, "terse"),
    "ward_round": (shorthand.ward_round, "terse"),
    "general_practice": (shorthand.general_practice, "terse"),
    "discharge": (letters.discharge, "full"),
    "clinic": (letters.clinic, "full"),
}


def register_of(author: Author) -> Register:
    """Tell how tersely an author writes."""
    return _FORMS[author.form][1]


def write(chart: Chart, author: Author, rng: Random) -> str:
    """Write a chart down in the form that its author uses."""
    writer, register = _FORMS[author.form]
    return writer(Pen(chart, author, register, rng))
