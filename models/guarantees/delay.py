"""Simulates how many audits the breaker needs to find a drop of the accuracy.

The detector starts without a past, as after a reset; a past only speeds it up.
"""

from functools import lru_cache

import numpy as np

from setwise.models.guarantees.drift import bet_factors

MOST_AUDITS = 20_000
"""Audits after which a run ends without an alarm."""

N_RUNS = 400
"""Simulated runs. A median number of audits is then known to about 5 %."""

_BLOCK = 256  # audits whose outcomes are drawn at a time


@lru_cache(maxsize=256)
def audits_to_alarm(accuracy: float, *, target: float, run_length: float) -> int | None:
    """Return how many audits raise the alarm in half of the cases.

    Parameters
    ----------
    accuracy : float
        Probability that a set is right, in [0, 1); auditors find every error.
    target : float
        Of the breaker, in (0, 1).
    run_length : float
        Of the breaker: audits until a false alarm, on average at least; above 1.

    Returns
    -------
    int or None
        None if half of the runs have no alarm within `MOST_AUDITS`.

    Raises
    ------
    ValueError
        If a value is out of range.

    Examples
    --------
    >>> audits_to_alarm(0.85, target=0.9, run_length=5_000.0)
    278
    """
    if not 0.0 <= accuracy < 1.0:
        raise ValueError(f"accuracy is {accuracy}; it must be from 0 to below 1")
    if not 0.0 < target < 1.0:
        raise ValueError(f"target is {target}; it must lie between 0 and 1")
    if not run_length > 1.0:
        raise ValueError(f"run_length is {run_length}; it must be above 1")
    median = simulate_alarms(accuracy, target, run_length)[N_RUNS // 2 - 1]
    return None if median > MOST_AUDITS else int(median)


def simulate_alarms(accuracy: float, target: float, run_length: float) -> np.ndarray:
    """Return, sorted, after how many audits each run raises the alarm.

    Returns
    -------
    int64 ndarray of shape (N_RUNS,)
        More than `MOST_AUDITS` without an alarm.
    """
    rng = np.random.default_rng(0)
    factors = bet_factors(target)
    running = np.arange(N_RUNS)
    capital = np.zeros((N_RUNS, factors.shape[1]))
    needed = np.full(N_RUNS, MOST_AUDITS + 1)
    for first in range(0, MOST_AUDITS, _BLOCK):
        right = (rng.random((_BLOCK, N_RUNS)) >= 1.0 - accuracy).astype(np.int64)
        for place in range(min(_BLOCK, MOST_AUDITS - first)):
            capital += 1.0
            capital *= factors[right[place, running]]
            alarm = capital.mean(axis=1) >= run_length
            if alarm.any():
                needed[running[alarm]] = first + place + 1
                running, capital = running[~alarm], capital[~alarm]
        if len(running) == 0:
            break
    return np.sort(needed)
