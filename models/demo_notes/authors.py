"""Who writes: a few invented clinicians, each with a form, a hand and habits."""

from dataclasses import dataclass
from typing import Literal

Form = Literal["emergency", "triage", "ward_round", "discharge", "general_practice", "clinic"]


@dataclass(frozen=True)
class Author:
    """A clinician whose notes resemble one another.

    Attributes
    ----------
    share : float
        How many notes come from this author, relative to the others.
    short_rate : float
        Share of names abbreviated, in [0, 1].
    slip_rate : float
        Typing slips per long word, in [0, 1].
    layout : {"lines", "running"}
        Sections on lines of their own, or one paragraph.
    lower : bool
        Writes without capitals.
    """

    initials: str
    site: str
    department: str
    form: Form
    share: float
    short_rate: float
    slip_rate: float
    layout: Literal["lines", "running"] = "running"
    lower: bool = False


AUTHORS: tuple[Author, ...] = (
    Author("AKH", "Northgate", "Emergency", "emergency", 3, 0.70, 0.004, "lines"),
    Author("DRO", "Northgate", "Emergency", "emergency", 3, 0.85, 0.015),
    Author("mjp", "Northgate", "Emergency", "emergency", 2, 0.80, 0.030, lower=True),
    Author("SVE", "Riverside", "Emergency", "triage", 2, 0.60, 0.012),
    Author("LTN", "Northgate", "Emergency", "triage", 1, 0.75, 0.020),
    Author("FBA", "Riverside", "Acute medicine", "ward_round", 3, 0.60, 0.008, "lines"),
    Author("CWO", "Northgate", "Elderly care", "ward_round", 2, 0.50, 0.004, "lines"),
    Author("HSI", "Riverside", "Acute medicine", "discharge", 3, 0.10, 0.001),
    Author("PGR", "Northgate", "General surgery", "discharge", 2, 0.15, 0.003, "lines"),
    Author("IMO", "Riverside", "Elderly care", "discharge", 2, 0.25, 0.006),
    Author("TJE", "Mill Lane", "General practice", "general_practice", 3, 0.45, 0.004),
    Author("rbk", "Mill Lane", "General practice", "general_practice", 2, 0.70, 0.020, lower=True),
    Author("NAD", "Harbour Road", "General practice", "general_practice", 2, 0.35, 0.006, "lines"),
    Author("EQU", "Riverside", "Outpatients", "clinic", 2, 0.10, 0.001, "lines"),
)
