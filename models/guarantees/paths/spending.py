"""How attempts share a risk: looks of one family, families of one model, attempts on demand.

A *family* is the scheduled looks of one scorer at one growing sequence of audits, with one target
and one order of thresholds. Its looks follow one path (`setwise.models.guarantees.paths`). Families
and attempts on demand add up, however they depend on each other.

More at the first look proves earlier where confidences are true, less where they are not; what is
left for late looks matters where few sets can be sent. The shares of looks are those that a
prototype found best at accuracies of .92 to .94; those of families and of the reserve are a choice.
"""

import math

LOOKS = (0.4, 0.25, 0.15, 0.1)
"""Shares of a family's risk that its first looks spend; each later one half of what is left."""

FIRST_FAMILY = 0.75
"""Share of the risk of a model's first family."""

LATER_FAMILIES = 0.2
"""Share of all later families: the second has a half of it, the third a sixth, then a twelfth."""

ON_DEMAND = 0.05
"""Share of the risk in reserve for attempts on demand; each spends half of what is left of it."""


def risk_spent(risk: float, look: int) -> float:
    """Return how much of a family's risk is spent by the end of a look.

    Parameters
    ----------
    risk : float
        Of the family.
    look : int
        From 1; 0 is before the first.

    Examples
    --------
    >>> [round(risk_spent(0.1, look), 5) for look in range(7)]
    [0.0, 0.04, 0.065, 0.08, 0.09, 0.095, 0.0975]
    """
    if look < 0:
        raise ValueError(f"looks count from 1; this is {look}")
    if look <= len(LOOKS):
        return risk * math.fsum(LOOKS[:look])
    return risk * (1.0 - (1.0 - math.fsum(LOOKS)) * 0.5 ** (look - len(LOOKS)))


def risk_of_family(risk: float, family: int) -> float:
    """Return the share of a risk for one of the families of a model.

    Parameters
    ----------
    risk : float
        In (0, 1); of all that is certified on one model's audits since the last alarm.
    family : int
        From 1.

    Examples
    --------
    >>> [round(risk_of_family(0.1, family), 4) for family in (1, 2, 3)]
    [0.075, 0.01, 0.0033]
    """
    if family < 1:
        raise ValueError(f"families count from 1; this is {family}")
    if family == 1:
        return risk * FIRST_FAMILY
    return risk * LATER_FAMILIES / (family * (family - 1))


def risk_on_demand(risk: float, attempt: int) -> float:
    """Return the share of a risk for an attempt at a time that somebody chose.

    Such a time may depend on what was found, so the attempt is no look of a family: it spends from
    a reserve.

    Parameters
    ----------
    risk : float
        As for `risk_of_family`.
    attempt : int
        From 1, among the attempts on demand.

    Examples
    --------
    >>> [round(risk_on_demand(0.1, attempt), 5) for attempt in (1, 2, 3)]
    [0.0025, 0.00125, 0.00063]
    """
    if attempt < 1:
        raise ValueError(f"attempts count from 1; this is {attempt}")
    return risk * ON_DEMAND * 0.5**attempt
