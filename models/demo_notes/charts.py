"""From a case to what its note will say, and leave unsaid.

Each code gets its evidence: named, told only by its signs or medicines, named vaguely, or queried.
Around it stands what misleads a reader in a hurry: symptoms denied, conditions ruled out, queried
in vain or long past, and relatives' illnesses. Some notes cannot be decided, as in life: "chest
infection" is pneumonia in one file and bronchitis in the next.
"""

from dataclasses import dataclass, field
from functools import cache
from random import Random

from setwise.models.demo_notes.cases import Case
from setwise.models.demo_notes.catalogue import CODES, siblings
from setwise.models.demo_notes.codes import Code
from setwise.models.demo_notes.phrases import Register, say

# Shares of the ways in which a code of this visit is told; the rest is told by signs alone.
_NAMED, _VAGUE, _QUERIED = 0.90, 0.04, 0.03
# The same for a condition carried along; the rest shows in its medicines or results.
_CARRIED_NAMED, _CARRIED_VAGUE = 0.94, 0.03

# NAME stands for the code's name.
_RULED_OUT: dict[Register, tuple[str, ...]] = {
    "terse": (
        "no evidence of NAME",
        "NAME excluded",
        "no sign of NAME",
        "no NAME",
        "NAME unlikely",
    ),
    "full": ("no evidence of NAME", "no sign of NAME", "nothing to suggest NAME"),
}
_QUERIES = ("?NAME", "? NAME", "possible NAME", "probable NAME", "likely NAME")
_UNCONFIRMED = ("?NAME", "? NAME", "possible NAME", "query NAME")
_PAST = ("NAME in {year}, resolved", "previous NAME {year}, no problems since")
_IN_FAMILY = ("NAME", "had NAME", "NAME aged {48-79}")
_RELATIVES = ("mother", "father", "brother", "sister", "grandmother", "uncle")
_NORMAL = {
    "RES": ("chest clear", "good air entry both sides"),
    "CIR": ("heart sounds normal", "HS I+II+0"),
    "DIG": ("abdomen soft, non-tender", "abdo SNT"),
    "NEU": ("neurology grossly intact", "GCS 15"),
}
_PAST_OF_ANYBODY = ("appendicectomy {year}", "tonsillectomy", "hay fever", "tinnitus", "eczema")
_PAST_OF = {
    "F": ("hysterectomy {year}", "two caesarean sections"),
    "M": ("vasectomy {year}", "hernia repair {year}"),
}
_INNOCENT_MEDICINES = (
    "paracetamol prn",
    "vitamin D",
    "folic acid 5 mg",
    "cetirizine 10 mg",
    "E45 cream",
)
_LIFE = ("lives alone", "never smoked", "non-smoker", "alcohol [occasional|8 units a week]")
_LIFE_OF_WORKERS = ("works in [a bakery|an office|a warehouse|a school]", "lives with partner")
_LIFE_OF_PENSIONERS = (
    "lives with [wife|husband|daughter]",
    "retired [teacher|bus driver|nurse|electrician]",
    "independent",
    "carers bd",
)
_PENSION_AGE = 67
# What runs in families, and so stands in a family history.
_HERITABLE = frozenset(
    {"CIR-10", "CIR-21", "CIR-50", "END-10", "END-11", "END-20", "END-30", "NEU-10", "NEU-20",
     "NEU-30", "NEU-42", "PSY-10", "MSK-30", "MSK-40", "RES-21", "DIG-20"}
)  # fmt: skip
_MEMORABLE = frozenset({"CIR-21", "CIR-50", "CIR-51", "CIR-52", "RES-14", "REN-10", "DIG-21",
                        "DIG-24", "DIG-40", "REN-42", "REN-43", "NEU-11", "SKN-10"})  # fmt: skip
# What an author thinks of and rules out: events, hardly ever long-standing conditions.
_EVENTS = frozenset(code.id for code in CODES if code.weight > code.background)
_CARRIED = frozenset(code.id for code in CODES if code.wording.medicines)


@cache
def abbreviations(code: Code) -> tuple[str, ...]:
    """Return those short names that are nouns and belong in letters too, such as COPD."""
    return tuple(name for name in code.wording.short if name.isalnum() and name.isupper())


@dataclass
class Chart:
    """What a note says, section by section, before an author gives it a form."""

    age: int
    sex: str
    presenting: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    background: list[str] = field(default_factory=list)
    medicines: list[str] = field(default_factory=list)
    family: list[str] = field(default_factory=list)
    social: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    ruled_out: list[str] = field(default_factory=list)
    impression: list[str] = field(default_factory=list)
    treatment: list[str] = field(default_factory=list)


def draw_chart(case: Case, rng: Random, *, short_rate: float, register: Register) -> Chart:
    """Draw the evidence for a case, in the words of an author.

    Parameters
    ----------
    short_rate : float
        Share of names that the author abbreviates, in [0, 1].
    """
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
        self.chart = Chart(age=case.age, sex=case.sex)
        present = {code.id for code in case.codes}
        self.touched = present.union(*(siblings(code) for code in present))

    def problem(self, code: Code, *, leading: bool) -> None:
        """Tell a code of this visit."""
        chart, words = self.chart, code.wording
        way = self.rng.random()
        if way < _NAMED:
            chart.impression.append(self.name(code))
        elif way < _NAMED + _VAGUE:
            chart.impression.append(self.pick(words.vague or words.names))
        elif way < _NAMED + _VAGUE + _QUERIED:
            chart.impression.append(self.about(code, _QUERIES))
        named = way < _NAMED
        vague = _NAMED <= way < _NAMED + _VAGUE
        # Signs must carry a code that is not named, and are few where its author was vague.
        depth = 0.8 if not (named or vague) else (0.25 if vague else (0.6 if leading else 0.35))
        if words.presenting and (leading or self.rng.random() < depth):
            told = words.vague if vague and words.vague else words.presenting
            chart.presenting.append(self.pick(told))
        said = False
        for options, section in ((words.findings, chart.findings), (words.tests, chart.tests)):
            if options and self.rng.random() < depth:
                section.append(self.pick(options))
                said = True
        remedies = words.treatment or words.medicines
        if remedies and (self.rng.random() < depth or not (said or named or vague)):
            remedy = self.pick(remedies)
            if remedy not in chart.treatment:  # as dehydration and gastroenteritis share
                chart.treatment.append(remedy)

    def carried(self, code: Code) -> None:
        """Tell a condition that the patient brings along."""
        chart, words = self.chart, code.wording
        way = self.rng.random()
        if way < _CARRIED_NAMED or not words.medicines:
            chart.background.append(self.name(code))
        elif way < _CARRIED_NAMED + _CARRIED_VAGUE:
            chart.background.append(self.pick(words.vague or words.names))
        unnamed = way >= _CARRIED_NAMED + _CARRIED_VAGUE
        if words.medicines and (unnamed or self.rng.random() < 0.5):
            chart.medicines.append(self.pick(words.medicines))
        if words.tests and self.rng.random() < (0.5 if unnamed else 0.12):
            chart.tests.append(self.pick(words.tests))

    def habit(self, code: Code) -> None:
        """Tell a habit, in the social history."""
        words = code.wording
        vague = words.vague and self.rng.random() < 0.08
        self.chart.social.append(self.pick(words.vague) if vague else self.name(code))
        if words.treatment and self.rng.random() < 0.2:
            self.chart.treatment.append(self.pick(words.treatment))

    def distract(self) -> None:
        """Mention codes that do not apply."""
        chart, rng = self.chart, self.rng
        for _ in range(self._number((0.72, 0.23, 0.05))):
            if (rival := self.stranger(near=0.7, among=_EVENTS)) is None:
                break
            chart.ruled_out.append(self.about(rival, _RULED_OUT[self.register]))
        for _ in range(self._number((0.35, 0.3, 0.25, 0.1))):
            self._deny()
        if rng.random() < 0.06 and (code := self.stranger(among=_HERITABLE)):
            condition = self.about(code, _IN_FAMILY)
            chart.family.append(f"{self.pick(_RELATIVES)} {condition}")
        if rng.random() < 0.06 and (code := self.stranger(among=_MEMORABLE)):
            chart.background.append(self.about(code, _PAST))
        if rng.random() < 0.03 and (code := self.stranger(near=0.7, among=_EVENTS)):
            chart.impression.append(self.about(code, _UNCONFIRMED))
        if rng.random() < 0.02 and (code := self.stranger(among=_CARRIED)):
            chart.medicines.append(self.pick(code.wording.medicines))

    def _deny(self) -> None:
        code = self.stranger(near=0.5)
        if code is None or not code.wording.denied:
            return
        symptom = self.pick(code.wording.denied)
        said = " ".join((*self.chart.presenting, *self.chart.findings, *self.chart.denied))
        if not any(word in said for word in symptom.split() if len(word) > 3):
            self.chart.denied.append(symptom)

    def fill(self) -> None:
        """Add what belongs to a note and to no code."""
        chart, rng = self.chart, self.rng
        chapters = {code.chapter for code in self.case.codes}
        for chapter, phrases in _NORMAL.items():
            if chapter not in chapters and rng.random() < 0.25:
                chart.findings.append(phrases[0] if self.register == "full" else self.pick(phrases))
        if rng.random() < 0.2:
            chart.background.append(self.pick(_PAST_OF_ANYBODY + _PAST_OF[self.case.sex]))
        if rng.random() < 0.15:
            chart.medicines.append(self.pick(_INNOCENT_MEDICINES))
        if rng.random() < 0.45:
            self._life()
        rng.shuffle(chart.background)
        rng.shuffle(chart.medicines)

    def _life(self) -> None:
        pensioner = self.case.age >= _PENSION_AGE
        line = self.pick(_LIFE + (_LIFE_OF_PENSIONERS if pensioner else _LIFE_OF_WORKERS))
        # A habit that is coded must not be denied in the next breath.
        if not (line.startswith("alcohol") and "PSY-20" in self.touched) and not (
            "smoke" in line and "PSY-30" in self.touched
        ):
            self.chart.social.append(line)

    def name(self, code: Code) -> str:
        """Name a code the way this author does."""
        words = code.wording
        short = words.short if self.register == "terse" else abbreviations(code)
        return self.pick(short if short and self.rng.random() < self.short_rate else words.names)

    def about(self, code: Code, templates: tuple[str, ...]) -> str:
        """Choose a template and put the code's name in it."""
        return self.pick(templates).replace("NAME", self._noun(code))

    def _noun(self, code: Code) -> str:
        """Name a code such that "no" can stand before it."""
        short = abbreviations(code)
        use_short = short and self.rng.random() < self.short_rate
        return self.pick(short if use_short else code.wording.names)

    def pick(self, templates: tuple[str, ...]) -> str:
        """Choose a template and fill it in."""
        chosen = templates[int(self.rng.random() * len(templates))]
        return say(chosen, self.rng, self.register)

    def stranger(self, *, near: float = 0.0, among: frozenset[str] | None = None) -> Code | None:
        """Draw a code that neither applies nor excludes one that does; None if there is none.

        Parameters
        ----------
        near : float
            Probability of one from a chapter of this case, where a mention misleads most.
        """
        age = self.case.age
        options = [
            code
            for code in CODES
            if code.id not in self.touched
            and not code.social
            and (among is None or code.id in among)
            and (among is _HERITABLE or code.ages[0] - 5 <= age <= code.ages[1])
        ]
        if self.rng.random() < near:
            chapters = {code.chapter for code in self.case.codes}
            options = [code for code in options if code.chapter in chapters] or options
        weights = [code.weight + code.background for code in options]
        # A young patient may have each of the few that their age allows.
        return self.rng.choices(options, weights)[0] if options else None

    def _number(self, shares: tuple[float, ...]) -> int:
        drawn, number = self.rng.random(), 0
        while number < len(shares) - 1 and drawn >= shares[number]:
            drawn -= shares[number]
            number += 1
        return number
