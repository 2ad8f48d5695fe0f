"""Writes charts as notes in the forms of `forms/*.toml`."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from benchmarks.demo_notes.catalogue import DATA, read_toml
from benchmarks.demo_notes.charts import WORDING, Case, draw_chart
from benchmarks.demo_notes.phrases import Register, pick, say, slip

Words = str | Sequence[str]
_IMAGING = frozenset({"XR", "USS", "CT", "MRI"})


@dataclass(frozen=True)
class Part:
    """A part of a form; `README.md` explains the fields."""

    kind: Literal["list", "sentence", "numbered", "results", "text", "fill", "shuffle"]
    of: Sequence[str] = ()
    words: Words = ""
    otherwise: Words = ""
    chance: float = 1.0
    joins: str = ""
    extra: Sequence[str] = ()
    extra_chance: float = 0.0
    none: dict[str, Any] | None = None
    layout: str = ""
    paragraph: str = "story"
    name: str = ""


@dataclass(frozen=True)
class Form:
    """A form of notes; `README.md` explains the fields."""

    register: Register
    care: Sequence[str]
    parts: Sequence[Part]
    paragraphs: Sequence[str] = ()
    between: str = ""


@dataclass(frozen=True)
class Author:
    """A clinician; `people.toml` lists the fields."""

    initials: str
    site: str
    department: str
    form: str
    share: float
    short_rate: float
    slip_rate: float
    layout: Literal["lines", "running"] = "running"
    lower: bool = False


def _form(name: str) -> Form:
    read = read_toml("forms", name)
    return Form(**{**read, "parts": tuple(Part(**part) for part in read["parts"])})


FORMS = {
    file.name.removesuffix(".toml"): _form(file.name) for file in DATA.joinpath("forms").iterdir()
}
AUTHORS = tuple(Author(**author) for author in read_toml("people.toml")["authors"])


def write(case: Case, author: Author, rng: Random) -> str:
    """Write the note of a case as its author does."""
    text = slip(_Writer(case, author, rng).write(), rng, author.slip_rate)
    return text.lower() if author.lower else text


class _Writer:
    """Writes one note; holds what its parts share."""

    def __init__(self, case: Case, author: Author, rng: Random) -> None:
        self.case, self.author, self.form, self.rng = case, author, FORMS[author.form], rng
        self.letter = self.form.register == "full"
        self.chart = draw_chart(
            case, rng, short_rate=author.short_rate, register=self.form.register
        )
        self.patient = WORDING["patient"][case.sex]
        self.values = {"age": str(case.age), "sex": case.sex} | {
            pronoun: self.patient[pronoun] for pronoun in ("he", "his", "him")
        }

    def write(self) -> str:
        """Write the parts one after the other."""
        printed: dict[str, list[str]] = defaultdict(list)
        for part in self.form.parts:
            if part.layout in ("", self.author.layout):
                text = self.part(part)
                if part.name:
                    self.values[part.name] = text
                elif text:
                    printed[part.paragraph].append(text)
        if self.letter:
            paragraphs = (" ".join(printed[name]) for name in self.form.paragraphs)
            return self.form.between.join(filter(None, paragraphs))
        lines = printed["story"]
        if self.author.layout == "lines":
            return "\n".join(lines)
        return " ".join(line if line[-1] in ".!?" else f"{line}." for line in lines)

    def part(self, part: Part) -> str:
        """Write a part; a change of the chart has no text."""
        items = [item for section in part.of for item in self.chart[section]]
        match part.kind:
            case "fill" if not self.chart[part.of[0]]:
                self.chart[part.of[0]] = items[:1] or [self.one(part.words)]
            case "shuffle":
                self.rng.shuffle(items)
                self.chart |= {section: [] for section in part.of} | {part.of[0]: items}
            case "text":
                certain = part.chance == 1 or self.rng.random() < part.chance
                return self.one(part.words if certain else part.otherwise)
            case "list":
                return self.listed(part, items)
            case "sentence":
                return self.sentence(part, items)
            case "numbered" if items:
                heading, mark = self.one(part.words), self.one(["1)", "1.", "-"])
                lines = (
                    f"{mark.replace('1', str(place))} {_capital(item)}"
                    for place, item in enumerate(items, start=1)
                )
                return "\n".join([heading, *lines])
            case "results":
                return " ".join(map(_result, items))
        return ""

    def listed(self, part: Part, items: list[str]) -> str:
        """Write a heading and its items."""
        if part.joins and items and self.rng.random() < part.chance:
            self.chart[part.joins] += items
            return ""
        heading = self.one(part.words)
        if part.extra and self.rng.random() < part.extra_chance:
            items.append(self.one(part.extra))
        none = ""
        if part.none and not self.chart[part.none["unless"]]:
            none = self.one(part.none["words"])
        if items:
            return f"{heading} {self.one([', ', ', ', '; ']).join(items)}"
        return f"{heading} {none}" if none else ""

    def sentence(self, part: Part, items: list[str]) -> str:
        """Write a lead and its items, as a full sentence in letters."""
        if items:
            text = f"{self.one(part.words)} {_joined(items, denied='denied' in part.of)}"
        else:
            text = self.one(part.otherwise)
        return f"{_capital(text)}." if text and self.letter else text

    def one(self, words: Words) -> str:
        """Choose one of several phrases and fill it in."""
        if isinstance(words, str):
            return say(words, self.rng, self.form.register, self.value)
        # Patients are described before the choice: the streams of old seeds depend on the order.
        described = [
            phrase.replace("{patient}", pick(self.patient["described"], self.rng))
            if "{patient}" in phrase
            else phrase
            for phrase in words
        ]
        return say(pick(described, self.rng), self.rng, self.form.register, self.value)

    def value(self, slot: str) -> str:
        """Return the text of a slot: a name or a section."""
        name = slot.lower()
        text = self.values[name] if name in self.values else _joined(self.chart[name])
        return text if slot == name else _capital(text)


def _joined(items: Sequence[str], *, denied: bool = False) -> str:
    """Join items as a sentence does.

    >>> _joined(["hypoxia", "sepsis", "gout"])
    'hypoxia, sepsis and gout'
    """
    if denied:
        return " or ".join(items)
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def _capital(text: str) -> str:
    """Begin with a capital and leave the rest, which may hold abbreviations."""
    return text[:1].upper() + text[1:]


def _result(test: str) -> str:
    """Return a result as a sentence.

    >>> _result("XR L knee: no fracture")
    'X-ray of the left knee showed no fracture.'
    """
    name, _, result = test.partition(": ")
    verb = "was" if result[0].isdigit() or result[0] == "<" else "showed"
    abbreviation, _, rest = name.partition(" ")
    full = WORDING["tests"].get(abbreviation, abbreviation)
    if rest:
        part = " ".join(WORDING["body_parts"].get(word, word) for word in rest.split())
        of = "of the " if abbreviation in _IMAGING else ""
        full = f"{full} {'of ' if of and part.startswith('both') else of}{part}"
    return f"{_capital(full)} {verb} {result}."
