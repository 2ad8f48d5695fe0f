r"""Finds auditors who begin to agree with whatever the model says.

Each blind answer is a bet against the hypothesis "this auditor still contradicts at least a
fraction :math:`f` as often as is usual": with the usual rate :math:`e` for the document's
confidence, the capital's factor is :math:`1 + \lambda (f e - X)`, where :math:`X` is 1 for a
contradiction. Its expectation is at most 1 under the hypothesis. Bets restart at each answer, as
in `setwise.models.guarantees.drift`, so a good past does not hide a lapse, and with an alarm at
:math:`A` a false one comes after at least :math:`A` answers on average. The usual rate is that
of others' contradictions without those that a lead refused: an auditor who often contradicts right
predictions does not make a careful auditor look careless. It is estimated; a fraction of one half
leaves room for its error and for honest differences.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FRACTION = 0.5
"""Share of the usual contradictions that an attentive auditor reaches."""

RUN_LENGTH = 5_000.0
"""Answers of an auditor until a false alarm, on average at least."""

FEWEST_OTHERS = 50
"""Answers by others from which they say what is usual; with fewer, the confidences do."""

_A_STRATUM = 50  # answers by others in a stratum of confidence
_MOST_STRATA = 5
_STAKES = np.array([0.3, 0.6, 0.95])  # shares of the stake that one contradiction would ruin


@dataclass(frozen=True)
class Lapse:
    """A time in which an auditor contradicted too seldom.

    Attributes
    ----------
    name : str
    since, until : int
        Rows of the answers between which the auditor contradicted least, and of the alarm.
    answers, contradicted : int
        The auditor's answers and contradictions in these rows.
    expected : float
        Contradictions that were usual for the confidences of these documents.
    """

    name: str
    since: int
    until: int
    answers: int
    contradicted: int
    expected: float


def find_lapses(
    name: ArrayLike,
    confidence: ArrayLike,
    contradicted: ArrayLike,
    upheld: ArrayLike | None = None,
    *,
    run_length: float = RUN_LENGTH,
) -> tuple[Lapse, ...]:
    """Find names that contradict less than half as often as usual.

    Parameters
    ----------
    name : array-like of str, shape (n,)
        Who gave each blind answer, oldest first: auditors, or their groups.
    confidence : array-like of shape (n,)
        Of the predictions, in [0, 1].
    contradicted : array-like of shape (n,)
        1 where the answer differs from the prediction, else 0.
    upheld : array-like of shape (n,), optional
        1 where the answer contradicts and no lead has refused it, else 0; by default, no
        contradiction was refused.
    run_length : float
        The evidence that counts as an alarm, above 1.

    Returns
    -------
    tuple of Lapse
        At most one for each name, its first; sorted by name.

    Raises
    ------
    ValueError
        If lengths differ or a value is out of range.

    Examples
    --------
    >>> who, confidence = ["ann", "ben"] * 400, [0.8] * 800
    >>> honest = [1, 1, 0, 0, 0, 0, 0, 0] * 100  # both contradict every fourth
    >>> find_lapses(who, confidence, honest)
    ()
    >>> later = [one * (row < 400 or row % 2 == 0) for row, one in enumerate(honest)]  # ben stops
    >>> [found] = find_lapses(who, confidence, later)
    >>> found.name, found.since, found.contradicted, found.answers
    ('ben', 395, 0, 58)
    """
    who, c = np.asarray(name, dtype=np.str_), np.asarray(confidence, dtype=np.float64)
    x = np.asarray(contradicted)
    right = np.asarray(x if upheld is None else upheld, dtype=bool)
    if who.ndim != 1 or not who.shape == c.shape == x.shape == right.shape:
        raise ValueError("names, confidences and answers must have one length")
    if not np.all((x == 0) | (x == 1)) or not np.all((c >= 0) & (c <= 1)):
        raise ValueError("an answer is 0 or 1, and a confidence lies in [0, 1]")
    if not run_length > 1.0:
        raise ValueError(f"run_length is {run_length}; it must be above 1")
    found = [
        _first_lapse(one, np.flatnonzero(who == one), c, x.astype(bool), right, run_length)
        for one in np.unique(who).tolist()
    ]
    return tuple(lapse for lapse in found if lapse is not None)


def _first_lapse(  # noqa: PLR0917 -- columns
    name: str,
    rows: NDArray[np.int64],
    confidence: Floats,
    contradicted: Bools,
    upheld: Bools,
    run_length: float,
) -> Lapse | None:
    others = np.ones(len(confidence), dtype=bool)
    others[rows] = False
    usual = usual_contradictions(confidence[rows], confidence[others], upheld[others])
    least, own = FRACTION * usual, contradicted[rows]
    capital = np.zeros(len(_STAKES))
    for i, (rate, against) in enumerate(zip(least.tolist(), own.tolist(), strict=True)):
        stakes = _STAKES / (1.0 - rate)
        capital = (capital + 1.0) * (1.0 + stakes * (rate - against))
        if capital.sum() >= run_length * len(capital):  # the mean, but faster
            # The most favourable beginning of a single bet.
            stake = _STAKES[int(capital.argmax())] / (1.0 - least[: i + 1])
            gains = np.log1p(stake * (least[: i + 1] - own[: i + 1]))
            start = int(np.cumsum(gains[::-1])[::-1].argmax())
            return Lapse(
                name,
                int(rows[start]),
                int(rows[i]),
                i + 1 - start,
                int(own[start : i + 1].sum()),
                float(usual[start : i + 1].sum()),
            )
    return None


def usual_contradictions(confidence: Floats, others: Floats, upheld: Bools) -> Floats:
    """Return how often others find errors in predictions of these confidences.

    Parameters
    ----------
    confidence : float64 ndarray of shape (n,)
    others : float64 ndarray of shape (m,)
        Confidences of the predictions that others answered.
    upheld : bool ndarray of shape (m,)
        Where they found an error.

    Returns
    -------
    float64 ndarray of shape (n,)
        In (0, 1): the rate in the stratum of the confidence; the rate that the confidence itself
        implies with fewer than `FEWEST_OTHERS` answers.
    """
    if len(others) < FEWEST_OTHERS:
        return np.clip(1.0 - confidence, 0.0, 0.9)
    n_strata = int(np.clip(len(others) // _A_STRATUM, 1, _MOST_STRATA))
    edges = np.unique(np.quantile(others, np.linspace(0, 1, n_strata + 1)[1:-1]))
    strata = np.searchsorted(edges, others, side="right")
    n = np.bincount(strata, minlength=len(edges) + 1)
    against = np.bincount(strata, weights=upheld, minlength=len(edges) + 1)
    rate = (against + 0.5) / (n + 1.0)
    return np.asarray(rate[np.searchsorted(edges, confidence, side="right")])
