"""Draws cases (patients with true codes) and charts (contents of notes).

Each code gets its evidence: its name, only its signs or medicines, a vague name, or a query.
Other phrases mislead a hurried reader: symptoms denied, conditions ruled out, queried in vain or
long past, and relatives' illnesses. Some notes cannot be decided, as in life: "chest infection"
is pneumonia in one file and bronchitis in the next.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random

from benchmarks.demo_notes.catalogue import BY_ID, CODES, Code, fits, read_toml, siblings
from benchmarks.demo_notes.phrases import Register, pick, say

WORDING = read_toml("wording.toml")
SECTIONS = (
    "presenting", "denied", "background", "medicines", "family", "social",
    "findings", "tests", "ruled_out", "impression", "treatment",
)  # fmt: skip
Chart = dict[str, list[str]]
"""Contents of a note by section, before an author writes it."""

# Shares of notes with 1, 2, … 8 codes: mostly one to four.
_N_CODES = tuple(accumulate((0.27, 0.27, 0.20, 0.12, 0.07, 0.04, 0.02, 0.01)))
# Further codes come from the company of the present ones, else from common conditions.
_FROM_COMPANY = 0.55
# A crowded case may find no further code that fits the age and the exclusions.
_TRIES_PER_CODE = 8
# Shares of codes of this visit by form of mention; the rest appear only through signs.
_NAMED, _VAGUE, _QUERIED = 0.90, 0.04, 0.03
# The same for earlier conditions; the rest appear only through medicines or results.
_CARRIED_NAMED, _CARRIED_VAGUE = 0.94, 0.03
_PENSION_AGE = 67

_REASONS = tuple(code for code in CODES if code.weight > 0)
_REASON_WEIGHTS = tuple(accumulate(code.weight for code in _REASONS))
_COMMON = tuple(code for code in CODES if code.background > 0)
_COMMON_WEIGHTS = tuple(accumulate(code.background for code in _COMMON))
_HERITABLE = frozenset(WORDING["heritable"])
_MEMORABLE = frozenset(WORDING["memorable"])
# What an author thinks of and rules out: events, rarely long-standing conditions.
_EVENTS = frozenset(code.id for code in CODES if code.weight > code.background)
_MEDICATED = frozenset(code.id for code in CODES if code.medicines)


@dataclass(frozen=True)
class Case:
    """A patient and the true codes, the reason for visit first."""

    age: int
    sex: str
    codes: tuple[Code, ...]


def draw_case(rng: Random) -> Case:
    """Draw a reason for the visit and further codes."""
    n_codes = 1 + _place(_N_CODES, rng)
    reason = _REASONS[_place(_REASON_WEIGHTS, rng)]
    codes = [reason]
    if reason.requires:
        causes = [BY_ID[other] for other in reason.requires]
        weights = tuple(accumulate(cause.weight + cause.background for cause in causes))
        codes.append(causes[_place(weights, rng)])
    youngest = max(code.ages[0] for code in codes)
    oldest = max(youngest, min(code.ages[1] for code in codes))
    age = round(rng.triangular(youngest, oldest, youngest + 0.6 * (oldest - youngest)))
    for _ in range(_TRIES_PER_CODE * n_codes):
        if len(codes) >= n_codes:
            break
        code = _further_code(codes, rng)
        if code.ages[0] <= age <= code.ages[1] and fits(code, codes):
            codes.append(code)
    return Case(age=age, sex="F" if rng.random() < 0.5 else "M", codes=tuple(codes))


def _further_code(codes: Sequence[Code], rng: Random) -> Code:
    if rng.random() < _FROM_COMPANY:
        company = [pair for code in codes for pair in code.company.items()]
        if company:
            weights = tuple(accumulate(weight for _, weight in company))
            return BY_ID[company[_place(weights, rng)][0]]
    return _COMMON[_place(_COMMON_WEIGHTS, rng)]


def _place(cumulative: Sequence[float], rng: Random) -> int:
    """Draw a place with probability in proportion to its share of `cumulative`."""
    drawn = rng.random() * cumulative[-1]
    return next(place for place, bound in enumerate(cumulative) if drawn < bound)


@cache
def _abbreviations(code: Code) -> tuple[str, ...]:
    """Return the short names that are nouns, such as COPD."""
    return tuple(name for name in code.short if name.isalnum() and name.isupper())


def draw_chart(case: Case, rng: Random, *, short_rate: float, register: Register) -> Chart:
    """Draw the evidence for a case; `short_rate` abbreviates names."""
    writer = _ChartWriter(case, rng, short_rate, register)
    for place, code in enumerate(case.codes):
        if code.social:
            writer.habit(code)
        elif place == 0 or code.background == 0:
            writer.problem(code, leading=place == 0)
        else:
            writer.carried(code)
    writer.distract()
    writer.fill()
    return writer.chart


class _ChartWriter:
    """Writes one chart; holds what every step needs."""

    def __init__(self, case: Case, rng: Random, short_rate: float, register: Register) -> None:
        self.case, self.rng, self.short_rate, self.register = case, rng, short_rate, register
        self.chart: Chart = {section: [] for section in SECTIONS}
        present = {code.id for code in case.codes}
        self.touched = present.union(*(siblings(code) for code in present))
        self.chapters = {code.chapter for code in case.codes}

    def problem(self, code: Code, *, leading: bool) -> None:
        """Add a code of this visit."""
        chart, way = self.chart, self.rng.random()
        named, vague = way < _NAMED, _NAMED <= way < _NAMED + _VAGUE
        if named:
            chart["impression"].append(self.name(code))
        elif vague:
            self.add("impression", code.vague or code.names)
        elif way < _NAMED + _VAGUE + _QUERIED:
            self.mention("impression", code, "queried")
        # Signs must carry a code that is not named, and are few where its author was vague.
        depth = 0.8 if not (named or vague) else (0.25 if vague else (0.6 if leading else 0.35))
        if code.presenting and (leading or self.rng.random() < depth):
            self.add("presenting", code.vague if vague and code.vague else code.presenting)
        signs = False
        for section, options in (("findings", code.findings), ("tests", code.tests)):
            if options and self.rng.random() < depth:
                self.add(section, options)
                signs = True
        remedies = code.treatment or code.medicines
        if remedies and (self.rng.random() < depth or not (signs or named or vague)):
            remedy = self.say(remedies)
            if remedy not in chart["treatment"]:  # as dehydration and gastroenteritis share
                chart["treatment"].append(remedy)

    def carried(self, code: Code) -> None:
        """Add a condition that the patient has from before."""
        way = self.rng.random()
        if way < _CARRIED_NAMED or not code.medicines:
            self.chart["background"].append(self.name(code))
        elif way < _CARRIED_NAMED + _CARRIED_VAGUE:
            self.add("background", code.vague or code.names)
        unnamed = way >= _CARRIED_NAMED + _CARRIED_VAGUE
        if code.medicines and (unnamed or self.rng.random() < 0.5):
            self.add("medicines", code.medicines)
        if code.tests and self.rng.random() < (0.5 if unnamed else 0.12):
            self.add("tests", code.tests)

    def habit(self, code: Code) -> None:
        """Add a habit to the social history."""
        vague = code.vague and self.rng.random() < 0.08
        self.chart["social"].append(self.say(code.vague) if vague else self.name(code))
        if code.treatment and self.rng.random() < 0.2:
            self.add("treatment", code.treatment)

    def distract(self) -> None:
        """Mention codes that do not apply."""
        rng = self.rng
        for _ in range(_place((0.72, 0.95, 1.0), rng)):
            if not (rival := self.stranger(_EVENTS, near=0.7)):
                break
            self.mention("ruled_out", rival, f"ruled_out_{self.register}")
        for _ in range(_place((0.35, 0.65, 0.9, 1.0), rng)):
            self._deny()
        if rng.random() < 0.06 and (code := self.stranger(_HERITABLE, any_age=True)):
            self.mention("family", code, "in_family")
            relative = self.say(WORDING["relatives"])
            self.chart["family"][-1] = f"{relative} {self.chart['family'][-1]}"
        if rng.random() < 0.06 and (code := self.stranger(_MEMORABLE)):
            self.mention("background", code, "past")
        if rng.random() < 0.03 and (code := self.stranger(_EVENTS, near=0.7)):
            self.mention("impression", code, "unconfirmed")
        if rng.random() < 0.02 and (code := self.stranger(_MEDICATED)):
            self.add("medicines", code.medicines)

    def _deny(self) -> None:
        code = self.stranger(near=0.5)
        if code is None or not code.denied:
            return
        chart, symptom = self.chart, self.say(code.denied)
        words = " ".join((*chart["presenting"], *chart["findings"], *chart["denied"]))
        if not any(word in words for word in symptom.split() if len(word) > 3):
            chart["denied"].append(symptom)

    def fill(self) -> None:
        """Add what belongs to a note and to no code."""
        chart, rng = self.chart, self.rng
        for chapter, phrases in WORDING["normal"].items():
            if chapter not in self.chapters and rng.random() < 0.25:
                full = self.register == "full"
                chart["findings"].append(phrases[0] if full else self.say(phrases))
        if rng.random() < 0.2:
            self.add("background", WORDING["past"][self.case.sex])
        if rng.random() < 0.15:
            self.add("medicines", WORDING["innocent_medicines"])
        if rng.random() < 0.45:
            pensioner = self.case.age >= _PENSION_AGE
            line = self.say(WORDING["social"]["pensioners" if pensioner else "workers"])
            denies = WORDING["social"]["denies"].items()
            if not any(word in line and code in self.touched for word, code in denies):
                chart["social"].append(line)
        rng.shuffle(chart["background"])
        rng.shuffle(chart["medicines"])

    def name(self, code: Code) -> str:
        """Return the code's name as this author writes it."""
        short = code.short if self.register == "terse" else _abbreviations(code)
        return self.say(short if short and self.rng.random() < self.short_rate else code.names)

    def mention(self, section: str, code: Code, way: str) -> None:
        """Add a mention of a code that is not a plain diagnosis."""
        phrase = self.say(WORDING["mentions"][way])
        # A name before which "no" can stand.
        short = _abbreviations(code)
        names = short if short and self.rng.random() < self.short_rate else code.names
        self.chart[section].append(phrase.replace("NAME", self.say(names)))

    def add(self, section: str, phrases: Sequence[str]) -> None:
        """Add one of the phrases to a section."""
        self.chart[section].append(self.say(phrases))

    def say(self, phrases: Sequence[str]) -> str:
        """Choose a phrase and fill it in."""
        return say(pick(phrases, self.rng), self.rng, self.register)

    def stranger(
        self, among: Collection[str] = BY_ID, *, near: float = 0.0, any_age: bool = False
    ) -> Code | None:
        """Draw a code that neither applies nor conflicts, or None.

        With probability `near` it is from a chapter of this case, where a mention misleads most.
        """
        age = self.case.age
        options = [
            code
            for code in CODES
            if code.id in among
            and code.id not in self.touched
            and not code.social
            and (any_age or code.ages[0] - 5 <= age <= code.ages[1])
        ]
        if self.rng.random() < near:
            options = [code for code in options if code.chapter in self.chapters] or options
        weights = [code.weight + code.background for code in options]
        # A young patient may have each of the few that their age allows.
        return self.rng.choices(options, weights)[0] if options else None
