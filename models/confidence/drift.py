r"""A detector that notices when what is sent no longer reaches the target.

Each audit of a set that was sent is a bet on "wrong" against the hypothesis "right with a
probability of at least :math:`t`, whatever came before". A stake :math:`\lambda` turns a capital of
1 into :math:`1 + \lambda` where the set was wrong and :math:`1 - \lambda (1 - t) / t` where it was
right; under the hypothesis that is no gain on average. A new capital of 1 joins at every audit, so
that a good past costs nothing later (Shiryaev and Roberts):
:math:`M \leftarrow (M + 1) \cdot` factor. Under the hypothesis :math:`M_n - n` is a
supermartingale. Hence, with an alarm at :math:`M \ge A`, the expected number of audits until a
false alarm is at least :math:`A`, and one comes within :math:`n` audits with a probability of at
most :math:`n / A` [1]_. Small stakes find small losses, large stakes large ones; the mean over
several is again such a process.

References
----------
.. [1] J. Shin, A. Ramdas and A. Rinaldo, "E-detectors: A Nonparametric Framework for Sequential
   Change Detection", New England Journal of Statistics in Data Science 2, 2024:
   the Shiryaev-Roberts e-detector.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

STAKES = (0.1, 0.2, 0.4, 0.8, 1.5, 3.0)
"""Stakes; a right set must not cost more than nearly all of the capital."""

_LARGEST_LOSS = 0.95  # of a capital, by one right set


@dataclass(frozen=True)
class DriftState:
    """Where the detector stands; immutable, and small enough for a database.

    Attributes
    ----------
    capital : tuple of float
        One for each stake, not negative.
    n_audits : int
        Audits seen since the start.
    """

    capital: tuple[float, ...]
    n_audits: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        return {"capital": list(self.capital), "n_audits": self.n_audits}


@dataclass(frozen=True)
class DriftDetector:
    """Watches audits of what was sent, one after the other.

    Parameters
    ----------
    target : float
        Least probability with which a set is right, in (0, 1). For answers that are not
        adjudicated, what it maps to: ``NoiseRates.agreement(target)``.
    run_length : float, default=5000
        Audits until a false alarm, on average at least; above 1. A longer run finds drift later.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> detector = DriftDetector(0.9, run_length=1000)
    >>> state = detector.start()
    >>> for audits in range(1, 100):
    ...     state = detector.step(state, right=False)
    ...     if detector.statistic(state) >= detector.run_length:
    ...         break
    >>> audits  # wrong ones in a row
    7
    """

    target: float
    run_length: float = 5000.0

    def __post_init__(self) -> None:
        if not 0.0 < self.target < 1.0:
            raise ValueError(f"target is {self.target}; it must lie between 0 and 1")
        if not self.run_length > 1.0:
            raise ValueError(f"run_length is {self.run_length}; it must be above 1")

    @property
    def stakes(self) -> Floats:
        """The stakes that this target allows, shape (n_stakes,)."""
        most = _LARGEST_LOSS * self.target / (1.0 - self.target)
        return np.unique(np.minimum(STAKES, most))

    def start(self) -> DriftState:
        """Return the state before the first audit."""
        return DriftState((0.0,) * len(self.stakes))

    def step(self, state: DriftState, *, right: bool) -> DriftState:
        """Return the state after one more audit."""
        return self.run(state, [right])[0]

    def run(self, state: DriftState, right: ArrayLike) -> tuple[DriftState, Floats]:
        """Take in several audits, oldest first.

        Parameters
        ----------
        state : DriftState
        right : array-like of shape (n,)
            1 where the audited set was right, else 0.

        Returns
        -------
        (DriftState, float64 ndarray of shape (n,))
            The state after them, and the statistic after each one.

        Raises
        ------
        ValueError
            If an outcome is neither 0 nor 1, or the state belongs to another target.
        """
        outcomes = np.asarray(right)
        if outcomes.ndim != 1 or not np.all((outcomes == 0) | (outcomes == 1)):
            raise ValueError("the outcome of an audit is 0 or 1")
        stakes = self.stakes
        if len(state.capital) != len(stakes):
            raise ValueError("the state belongs to a detector of another target")
        good, bad = 1.0 - stakes * (1.0 - self.target) / self.target, 1.0 + stakes
        capital = np.array(state.capital)
        path = np.empty((len(outcomes), len(stakes)))
        factors = np.where(outcomes[:, None] == 1, good, bad)
        for i, factor in enumerate(factors):  # each audit needs what the last one left
            np.add(capital, 1.0, out=capital)
            np.multiply(capital, factor, out=capital)
            path[i] = capital
        statistic = path.mean(axis=1)
        # Beyond the alarm nothing is to be learnt; finite numbers can be stored.
        kept = np.minimum(capital, np.finfo(np.float64).max / 1e6)
        return DriftState(tuple(kept.tolist()), state.n_audits + len(outcomes)), statistic

    def restore(self, stored: Mapping[str, Any]) -> DriftState:
        """Rebuild a state that `DriftState.to_json` made.

        Raises
        ------
        ValueError
            If it is no state of this detector.
        """
        try:
            capital = tuple(float(value) for value in stored["capital"])
            state = DriftState(capital, int(stored["n_audits"]))
        except (KeyError, TypeError) as fault:
            raise ValueError(f"not the state of a detector: {fault!r}") from fault
        sound = all(np.isfinite(value) and value >= 0 for value in capital)
        if not sound or len(capital) != len(self.stakes) or state.n_audits < 0:
            raise ValueError("the state belongs to a detector of another target, or is damaged")
        return state

    def statistic(self, state: DriftState) -> float:
        """Return the mean capital; the alarm is at ``run_length``."""
        return float(np.mean(state.capital))

    def false_alarm_bound(self, n_audits: int) -> float:
        """Return a bound of the probability of a false alarm within so many audits."""
        return min(1.0, n_audits / self.run_length)
