"""The shape of a code: its place in the hierarchy, its company and its words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Wording:
    """How notes speak of one code.

    Every phrase is a template of `phrases.say`. Noun phrases throughout, so that one phrase fits a
    list ("Imp: …"), a sentence ("was treated for …") and a negation ("no evidence of …").

    Attributes
    ----------
    names : tuple of str
        Plain names of the condition; each decides the code.
    short : tuple of str
        Abbreviations and ward slang that decide it.
    vague : tuple of str
        What a hurried author writes; it fits a sibling code, or none, as well.
    presenting : tuple of str
        What the patient complains of.
    denied : tuple of str
        Symptoms that an author rules out by asking; said of patients without this code.
    findings : tuple of str
        What the examination shows.
    tests : tuple of str
        Results as ``test: result``.
    treatment : tuple of str
        What is done about it now.
    medicines : tuple of str
        What is taken for it regularly.
    """

    names: tuple[str, ...]
    short: tuple[str, ...] = ()
    vague: tuple[str, ...] = ()
    presenting: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    treatment: tuple[str, ...] = ()
    medicines: tuple[str, ...] = ()


# Compared by identity: the catalogue holds each code once, and `company` cannot be hashed.
@dataclass(frozen=True, eq=False)
class Code:
    """One code of the catalogue.

    Attributes
    ----------
    id : str
        Chapter, hyphen, number, such as ``RES-12``.
    title : str
        What the code stands for.
    group : str
        The level between chapter and code.
    weight : float
        How often it is the reason for the visit, relative to the other codes.
    background : float
        How often it is carried along from before, relative to the other codes; 0 for events.
    care : {"home", "any", "hospital"}
        Where it is seen: by general practitioners and clinics, anywhere, or in hospital.
    ages : tuple of int
        Youngest and oldest patient, in years.
    company : mapping of str to float
        Codes that this one brings along, with relative weights.
    requires : tuple of str
        One of these must be present too.
    social : bool
        It is told as a habit, not as a diagnosis.
    """

    id: str
    title: str
    group: str
    wording: Wording
    weight: float = 0.0
    background: float = 0.0
    care: Literal["home", "any", "hospital"] = "any"
    ages: tuple[int, int] = (18, 95)
    company: Mapping[str, float] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    social: bool = False

    @property
    def label(self) -> str:
        """The label as it stands in data files: code and title."""
        return f"{self.id} {self.title}"

    @property
    def chapter(self) -> str:
        """The chapter's short name."""
        return self.id.partition("-")[0]


@dataclass(frozen=True)
class Chapter:
    """A chapter with its codes.

    Attributes
    ----------
    exclusive : tuple of tuple of str
        Ids of codes of which a note carries at most one.
    """

    id: str
    title: str
    codes: tuple[Code, ...]
    exclusive: tuple[tuple[str, ...], ...] = ()
