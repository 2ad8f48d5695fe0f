"""Plans audits: how long a drop of the accuracy stays unnoticed.

The breaker's own detector runs on simulated audits and starts without a past, as after a reset; a
past only speeds it up. What it needs is a number of audits, so one simulation serves every audit
rate.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from setwise.models.guarantees.drift import bet_factors

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

N_RUNS = 400
"""Simulated runs. The median of the audits until an alarm is then known to about 5 %."""

MOST_AUDITS = 20_000
"""Audits after which a run ends without an alarm."""

USUAL, ALMOST_ALWAYS = 0.5, 0.9
"""Shares of the runs in which a drop is found in time."""

_BLOCK = 256  # audits whose outcomes are drawn at a time


@dataclass(frozen=True)
class Delay:
    """Time from a drop of the accuracy until the breaker trips.

    Attributes
    ----------
    drop : float
        How far below the target the accuracy of what is sent falls.
    audits, audits_at_most : int or None
        Finished audits of sets that would be sent until the breaker trips: in half of the cases,
        and in 90 of 100, at most so many. None beyond `MOST_AUDITS`.
    weeks, weeks_at_most : int or None
        The same in weeks, begun ones included, while audits are read at once. None without audits.
    """

    drop: float
    audits: int | None
    audits_at_most: int | None
    weeks: int | None
    weeks_at_most: int | None


def weeks_to_find(
    drop: float,
    *,
    target: float,
    sent_a_week: float,
    audit_rate: float,
    reread_rate: float = 0.0,
    miss_rate: float = 0.0,
    run_length: float = 5_000.0,
    seed: int = 0,
) -> Delay:
    """Return how long the breaker takes to find a drop of the accuracy.

    Parameters
    ----------
    drop : float
        How far below the target the accuracy of what is sent falls, above 0 and at most the target.
    target : float
        In (0, 1).
    sent_a_week : float
        Documents a week that are sent, or would be but for the audit.
    audit_rate : float
        Share of them, in [0, 1], that is audited to certify.
    reread_rate : float, default=0
        Share, in [0, 1], of the audits that a lead reads although the auditor agreed.
    miss_rate : float, default=0
        How often auditors agree with a set that is wrong, in [0, 1].
    run_length : float, default=5000
        Of the breaker: audits until a false alarm, on average at least.
    seed : int, default=0

    Raises
    ------
    ValueError
        If a value is out of range.

    Examples
    --------
    >>> often = weeks_to_find(0.05, target=0.9, sent_a_week=500, audit_rate=0.12)
    >>> seldom = weeks_to_find(0.05, target=0.9, sent_a_week=500, audit_rate=0.04)
    >>> often.weeks, seldom.weeks
    (5, 14)
    """
    _check_shares(audit_rate=audit_rate, reread_rate=reread_rate, miss_rate=miss_rate)
    if not 0.0 < target < 1.0:
        raise ValueError(f"target is {target}; it must lie between 0 and 1")
    if not 0.0 < drop <= target:
        raise ValueError(f"drop is {drop}; it must be above 0 and at most the target of {target}")
    if not sent_a_week >= 0.0:
        raise ValueError(f"sent_a_week is {sent_a_week}; it must not be negative")
    if not run_length > 1.0:
        raise ValueError(f"run_length is {run_length}; it must be above 1")
    found = (1.0 - target + drop) * (1.0 - miss_rate * (1.0 - reread_rate))
    needed = _audits_to_alarm(found, target, run_length, seed)
    audits_a_week = sent_a_week * audit_rate
    audits = [_quantile(needed, share) for share in (USUAL, ALMOST_ALWAYS)]
    weeks = [
        None if one is None or audits_a_week == 0.0 else ceil(one / audits_a_week) for one in audits
    ]
    return Delay(drop, *audits, *weeks)


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} is {share}; it must lie in [0, 1]")


@lru_cache(maxsize=256)
def _audits_to_alarm(found: float, target: float, run_length: float, seed: int) -> Counts:
    """Return, sorted, how many audits each run needs until the alarm.

    Parameters
    ----------
    found : float
        Probability that an audit finds the set wrong.

    Returns
    -------
    int64 ndarray of shape (N_RUNS,)
        `MOST_AUDITS` + 1 without an alarm.
    """
    rng = np.random.default_rng(seed)
    factors = bet_factors(target)
    running = np.arange(N_RUNS)
    capital = np.zeros((N_RUNS, factors.shape[1]))
    needed = np.full(N_RUNS, MOST_AUDITS + 1, dtype=np.int64)
    for first in range(0, MOST_AUDITS, _BLOCK):
        outcomes = (rng.random((_BLOCK, N_RUNS)) >= found).astype(np.int64)
        for place in range(min(_BLOCK, MOST_AUDITS - first)):
            capital += 1.0
            capital *= factors[outcomes[place, running]]
            alarm = capital.mean(axis=1) >= run_length
            if alarm.any():
                needed[running[alarm]] = first + place + 1
                running, capital = running[~alarm], capital[~alarm]
        if len(running) == 0:
            break
    needed.sort()
    needed.flags.writeable = False  # the cache hands it out again
    return needed


def _quantile(needed: Counts, share: float) -> int | None:
    """Return the least number that suffices in a share of the runs."""
    found = int(needed[ceil(share * len(needed)) - 1])
    return found if found <= MOST_AUDITS else None
