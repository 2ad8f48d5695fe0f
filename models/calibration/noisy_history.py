"""Noise rates of the people who labelled the training documents.

An annotator's set differs from the truth with probability alpha, and so from a right prediction;
it equals a wrong prediction with probability beta (`setwise.models.guarantees.noise.NoiseRates`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from setwise.models.calibration.losses import checked_rates
from setwise.models.data.formats.reviews import GOLD
from setwise.models.guarantees.noise import NoiseRates
from setwise.spelling import spelled

Floats = NDArray[np.float64]

Noise = Mapping[str, Any]
"""Rates by annotator or group, as in JSON: see `checked_noise`."""

EVERYONE = "*"
"""Name of the rates of annotators, and rows without one, that no other entry names."""

_KEYS = {"alpha", "beta", "annotators"}


def checked_noise(noise: Noise) -> dict[str, NoiseRates]:
    """Return the rates of each annotator.

    Parameters
    ----------
    noise : mapping
        ``{"ann": {"alpha": 0.1, "beta": 0.01}, "trainees": {"alpha": 0.3, "annotators": ["bob",
        "eve"]}, "*": {"alpha": 0.2}}``: an entry is of one annotator, or of a group that lists its
        annotators. ``beta`` is 0 if missing, ``"*"`` stands for all others.

    Raises
    ------
    ValueError
        If an entry has another form, names a person twice, or its rates sum to 1 or more.

    Examples
    --------
    >>> checked_noise({"trainees": {"alpha": 0.3, "annotators": ["bob"]}})
    {'bob': NoiseRates(alpha=0.3, beta=0.0)}
    """
    if not noise:
        raise ValueError('give noise rates, such as {"*": {"alpha": 0.2}}')
    checked: dict[str, NoiseRates] = {}
    for name, entry in noise.items():
        rates = _rates(name, entry)
        for member in map(spelled, _members(name, entry)):
            if member in checked:
                raise ValueError(f"the noise of {member!r} is given twice")
            checked[member] = rates
    return checked


def _rates(name: str, entry: object) -> NoiseRates:
    """Return the rates of one entry."""
    if not isinstance(entry, Mapping) or not {"alpha"} <= entry.keys() <= _KEYS:
        keys = "'alpha' and perhaps 'beta' and 'annotators'"
        raise ValueError(f"the noise of {name!r} is an object with {keys}")
    numbers = [entry["alpha"], entry.get("beta", 0.0)]
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        raise ValueError(f"alpha and beta of {name!r} must be numbers")
    rates = NoiseRates(*map(float, numbers))
    if rates.separation <= 0:
        raise ValueError(
            f"alpha and beta of {name!r} add up to 1 or more: such labels say nothing; leave them "
            "out"
        )
    return rates


def _members(name: str, entry: Mapping[str, Any]) -> list[str]:
    """Return the annotators of one entry."""
    members = entry.get("annotators", [name])
    if not isinstance(members, list) or not all(isinstance(member, str) for member in members):
        raise ValueError(f"the annotators of {name!r} must be a list of names")
    if GOLD in members:
        raise ValueError(f"{GOLD!r} stands for decided rows, which have no noise")
    return members


class RowRates(NamedTuple):
    """Noise rates, one per row."""

    alpha: Floats
    beta: Floats

    @classmethod
    def of(cls, noise: Noise, annotators: Sequence[str | None] | None, n: int) -> Self:
        """Return the rates of documents by who labelled them.

        Rows without an annotator have the rates of everyone, or none if these are not given.

        Raises
        ------
        ValueError
            If a rate is missing; the message names annotators.
        """
        rates = checked_noise(noise)
        others = rates.get(EVERYONE)
        by_name: dict[str | None, NoiseRates] = {
            None: others or NoiseRates(0.0, 0.0),
            GOLD: NoiseRates(0.0, 0.0),
        }
        by_name.update(rates)
        names = (None,) * n if annotators is None else annotators
        missing = sorted({name for name in names if name is not None and name not in by_name})
        if missing and others is None:
            listed = ", ".join(missing[:3])
            raise ValueError(
                f"there are no noise rates of {listed}{', …' if len(missing) > 3 else ''}; add "
                f"them, or {EVERYONE!r} for all others"
            )
        by_row = [by_name.get(name, by_name[None]) for name in names]
        return cls(
            *checked_rates([row.alpha for row in by_row], [row.beta for row in by_row], len(by_row))
        )

    def take(self, rows: NDArray[np.integer]) -> "RowRates":
        """Return these rows."""
        return RowRates(self.alpha[rows], self.beta[rows])
