"""Turns of phrase that all forms of notes share."""

from collections.abc import Sequence
from random import Random

from setwise.models.demo_notes.authors import Author
from setwise.models.demo_notes.charts import Chart
from setwise.models.demo_notes.phrases import Register, say

# What letters write for the tests that terse notes abbreviate.
_TESTS = {
    "CXR": "chest X-ray",
    "XR": "X-ray",
    "USS": "ultrasound",
    "ABG": "blood gas",
    "U&E": "kidney function",
    "PEFR": "peak flow",
    "BM": "capillary glucose",
    "Hb": "haemoglobin",
    "WCC": "white cell count",
    "LFTs": "liver tests",
    "Lipids": "lipid profile",
    "Ketones": "ketone level",
    "OGD": "gastroscopy",
    "Echo": "echocardiogram",
    "Flexi": "flexible",
    "SALT": "swallow assessment",
}
_PARTS = {
    "L": "left",
    "R": "right",
    "bilat": "both",
    "abdo": "abdomen",
    "KUB": "urinary tract",
    "renal": "kidneys",
}
_IMAGING = frozenset({"XR", "USS", "CT", "MRI"})


class Pen:
    """A chart in an author's hand; the turns of phrase that all forms share."""

    def __init__(self, chart: Chart, author: Author, register: Register, rng: Random) -> None:
        self.chart, self.author, self.register, self.rng = chart, author, register, rng
        self.he = "She" if chart.sex == "F" else "He"
        self.his = "Her" if chart.sex == "F" else "His"

    def one(self, *options: str) -> str:
        """Choose one of the options and fill it in."""
        chosen = options[int(self.rng.random() * len(options))]
        return say(chosen, self.rng, self.register)

    def chance(self, probability: float) -> bool:
        """Draw yes with a probability."""
        return self.rng.random() < probability

    def perhaps(self, probability: float, *options: str) -> list[str]:
        """Choose one of the options, or nothing."""
        return [self.one(*options)] if self.chance(probability) else []

    def sections(self, *parts: str) -> str:
        """Put non-empty parts on lines, or one after the other."""
        kept = [part for part in parts if part]
        if self.author.layout == "lines":
            return "\n".join(kept)
        return " ".join(part if part[-1] in ".!?" else f"{part}." for part in kept)

    def listed(self, heading: str, items: Sequence[str], *, none: str = "") -> str:
        """Write a heading and its items; ``none`` is said when there are no items."""
        if not items:
            return f"{heading} {none}" if none else ""
        return f"{heading} {self.one(', ', ', ', '; ').join(items)}"

    def numbered(self, heading: str, items: Sequence[str]) -> str:
        """Write a heading and its items on lines of their own."""
        mark = self.one("1)", "1.", "-")
        lines = [
            f"{mark.replace('1', str(place))} {capital(item)}"
            for place, item in enumerate(items, start=1)
        ]
        return "\n".join([heading, *lines])

    def patient(self) -> str:
        """Describe the patient as letters do."""
        age = f"{self.chart.age}-year-old"
        young = ("woman", "lady") if self.chart.sex == "F" else ("man", "gentleman")
        return f"this {age} {self.one(*young)}"

    def denials(self) -> str:
        """Say what the patient does not complain of."""
        if not self.chart.denied:
            return ""
        start = self.one("Denies", "Denies", "No", "No")
        return f"{start} {' or '.join(self.chart.denied)}"

    def tests_told(self) -> list[str]:
        """Turn results into sentences."""
        told = []
        for test in self.chart.tests:
            name, _, result = test.partition(": ")
            verb = "showed" if not (result[0].isdigit() or result[0] == "<") else "was"
            told.append(f"{capital(_test_in_full(name))} {verb} {result}.")
        return told


def _test_in_full(name: str) -> str:
    """Spell out a test.

    >>> _test_in_full("XR L knee"), _test_in_full("Urine dip")
    ('X-ray of the left knee', 'Urine dip')
    """
    test, _, rest = name.partition(" ")
    full = _TESTS.get(test, test)
    if not rest:
        return full
    part = " ".join(_PARTS.get(word, word) for word in rest.split())
    if test not in _IMAGING:
        return f"{full} {part}"
    return f"{full} of {part}" if part.startswith("both") else f"{full} of the {part}"


def joined(items: Sequence[str]) -> str:
    """Join items as a sentence does.

    >>> joined(["hypoxia", "sepsis", "gout"])
    'hypoxia, sepsis and gout'
    """
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def capital(text: str) -> str:
    """Begin with a capital and leave the rest, which may hold abbreviations."""
    return text[:1].upper() + text[1:]
