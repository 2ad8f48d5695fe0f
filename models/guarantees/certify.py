"""Prove a threshold for anybody's confidences, from a sample of checked answers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.certificates import Certification
from setwise.models.guarantees.checked import checked_confidences, checked_flags
from setwise.models.guarantees.thresholds import certify_adjudicated

Bools = NDArray[np.bool_]


class _Verdicts(NamedTuple):
    """What the checks say of each answer, as `certify_adjudicated` reads it."""

    found_wrong: Bools
    missed: Bools
    reread_rate: float
    reread_draw: NDArray[np.float64]


def certify(
    confidence: ArrayLike,
    right: ArrayLike,
    *,
    target: float,
    risk: float = 0.1,
    weights: ArrayLike | None = None,
    agreed: ArrayLike | None = None,
    reread: ArrayLike | None = None,
    reread_rate: float | None = None,
    predicted: ArrayLike | None = None,
    random_state: int = 0,
) -> Certification:
    """Find the lowest confidence from which answers are right often enough, and prove it.

    The checked answers must be a random sample of those to come, drawn before anything was known of
    them. Nothing else is assumed: if the confidences are wrong, less is sent, and the proof holds.
    See `setwise.models.guarantees.thresholds` for the tests and their sources.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Confidences of the checked answers, in [0, 1], such as ``exp`` of a log-probability.
    right : array-like of shape (n,)
        1 or true where the answer was right, 0 where it was wrong. What is not known (None or NaN)
        counts as wrong.
    target : float
        Required share of right answers among those sent, in (0, 1].
    risk : float, default=0.1
        Probability, in (0, 1), that the threshold may miss the target. It holds for one attempt:
        divide it by the number of attempts if you try again with some of the same checks.
    weights : array-like of shape (n,), optional
        1 / probability with which each answer was drawn for a check; by default, all had the same.
        Answers that were likelier drawn are thinned at random until all count alike.
    agreed : array-like of shape (n,), optional
        Whether the person who checked accepted the answer. Give it if people may overlook errors:
        ``right`` then holds what the second reading found.
    reread : array-like of shape (n,), optional
        Whether an accepted answer was read again; ``right`` of others that were accepted is not
        used. Needed with ``agreed``.
    reread_rate : float, optional
        Probability, in (0, 1], with which an accepted answer was drawn to be read again. Needed
        with ``reread`` unless all were.
    predicted : array-like of shape (n_predictions,), optional
        Confidences of answers that were not checked: they set the thresholds to test, and the share
        that would be sent. By default those of the checked answers.
    random_state : int, default=0
        Seed of the thinning.

    Returns
    -------
    Certificate or CertificateRefusal
        Print it, or use ``threshold``, ``coverage``, ``accuracy_bound`` of a certificate, and
        ``reason``, ``further_audits`` of a refusal; ``to_dict`` has everything.

    Raises
    ------
    ValueError
        If lengths differ, a value is out of range, or something needed is missing.

    Examples
    --------
    >>> confidence = [0.99] * 60 + [0.5] * 40
    >>> found = certify(confidence, [1] * 60 + [0, 1] * 20, target=0.9)
    >>> found.certified, found.threshold, found.coverage
    (True, 0.99, 0.6)
    >>> print(found)
    Send at a confidence of 0.99 or more: 60.0 % of the answers.
    Of 60 checked ones, 60 were right (at least 96.2 %; target 0.9, risk 0.1).
    >>> print(certify([0.9] * 10, [1] * 10, target=0.9))
    Nothing is proved (target 0.9, risk 0.1): the checks look good enough, but there are too few.
    About 380 more checks would do, as it looks now.
    """
    values = checked_confidences("confidence", confidence)
    n = len(values)
    verdicts = _verdicts(n, right, agreed, reread, reread_rate)
    keep = _thinned(n, weights, random_state)
    return certify_adjudicated(
        values if predicted is None else predicted,
        values[keep],
        verdicts.found_wrong[keep],
        verdicts.missed[keep],
        verdicts.reread_rate,
        verdicts.reread_draw[keep],
        target=target,
        risk=risk,
        excluded={} if keep.all() else {"thinned": int(np.count_nonzero(~keep))},
    )


def _verdicts(
    n: int,
    right: ArrayLike,
    agreed: ArrayLike | None,
    reread: ArrayLike | None,
    reread_rate: float | None,
) -> _Verdicts:
    wrong = ~checked_flags("right", right, n, unknown=True)
    if agreed is None:
        if reread is not None or reread_rate is not None:
            raise ValueError("reread says which accepted answers were read again: give agreed, too")
        return _Verdicts(wrong, np.zeros(n, dtype=bool), 1.0, np.zeros(n))
    if reread is None:
        raise ValueError(
            "people who accept an answer may overlook an error: give reread, or leave agreed out "
            "if right is the truth"
        )
    accepted = checked_flags("agreed", agreed, n)
    again = checked_flags("reread", reread, n) & accepted
    if reread_rate is None:
        if (accepted & ~again).any():
            raise ValueError("reread_rate is needed: not all accepted answers were read again")
        reread_rate = 1.0
    if not 0.0 < reread_rate <= 1.0:
        raise ValueError(f"reread_rate is {reread_rate}; it must lie in (0, 1]")
    # With one rate, a draw says only whether it lies below the rate.
    draw = np.where(again | ~accepted, 0.0, np.nextafter(1.0, 0.0))
    return _Verdicts(wrong & ~accepted, wrong & again, reread_rate, draw)


def _thinned(n: int, weights: ArrayLike | None, random_state: int) -> Bools:
    """Return which answers remain so that all were drawn with the least probability."""
    if weights is None:
        return np.ones(n, dtype=bool)
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (n,):
        raise ValueError(f"weights has shape {values.shape}; {n} confidences need as many")
    if n and not (np.isfinite(values).all() and values.min() > 0.0):
        raise ValueError("weights must be positive numbers: 1 / probability of a check")
    draws = np.random.default_rng(random_state).random(n)
    keep: Bools = draws < values / values.max(initial=0.0)
    return keep
