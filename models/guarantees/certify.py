"""Prove a threshold for anybody's confidences, from a sample of checked answers."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.audit_tests import AdjudicatedAudits, Budget
from setwise.models.guarantees.certificates import Certification
from setwise.models.guarantees.checked import checked_confidences, checked_flags, is_missing
from setwise.models.guarantees.copies import keyed_draws, one_of_each
from setwise.models.guarantees.thresholds import certify_audits, check_claim, first_order

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]


class _Verdicts(NamedTuple):
    """What the checks say of each answer, as `AdjudicatedAudits` reads it."""

    found_wrong: Bools
    missed: Bools
    reread_rate: float
    reread_draw: Floats


def certify(  # noqa: PLR0917 -- data come first, by position too
    confidence: ArrayLike,
    right: ArrayLike,
    target: float = 0.95,
    weights: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    looks: Sequence[int] | None = None,
    *,
    risk: float = 0.1,
    agreed: ArrayLike | None = None,
    reread: ArrayLike | None = None,
    reread_rate: float | None = None,
    predicted: ArrayLike | None = None,
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
    target : float, default=0.95
        Required share of right answers among those sent, in (0, 1].
    weights : array-like of shape (n,), optional
        1 / probability with which each answer was drawn for a check; by default, all had the same.
        Above each threshold, answers that were likelier drawn are thinned to the least probability
        there, by draws that follow from the data.
    clusters : array-like of shape (n,), optional
        Name of the cluster of each answer, the same for copies and near copies of one document. A
        threshold must then be proved twice: for all answers, and with one of each cluster, however
        many of its answers were checked. An answer whose name is missing (None or NaN) is alone.
    looks : sequence of int, optional
        Numbers of checks at all attempts on growing data, rising: an attempt has as many of the
        first rows. Give it if you have tried with some of these checks before, or may try again
        with more. All attempts share the risk; this one has all rows. The numbers must not depend
        on what was found. Thresholds come from the checks of the first attempt, or from
        ``predicted``, which must stay the same.
    risk : float, default=0.1
        Probability, in (0, 1), that a threshold may miss the target; of all ``looks`` together.
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
        that would be sent. By default those of the checked answers, each by its weight.

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

    The second attempt, after one with the first 60 checks:

    >>> again = certify(confidence, [1] * 60 + [0, 1] * 20, target=0.9, looks=[60, 100])
    >>> again.certified, round(again.test_risk, 3)
    (True, 0.025)
    """
    values = checked_confidences("confidence", confidence)
    n = len(values)
    check_claim(target, risk)
    verdicts = _verdicts(n, right, agreed, reread, reread_rate)
    stands_for = _checked_weights(n, weights)
    earlier = _earlier(looks, n)
    since = np.searchsorted(np.array(earlier or (), dtype=np.int64), np.arange(n), side="right")
    draws = keyed_draws(since, values, stands_for, verdicts.found_wrong, verdicts.missed)
    chance = stands_for.min(initial=np.inf) / stands_for
    audits = AdjudicatedAudits(
        values,
        verdicts.found_wrong,
        verdicts.missed,
        np.full(n, verdicts.reread_rate),
        verdicts.reread_draw,
        verdicts.reread_rate,
        chance=None if weights is None else chance,
        chance_draw=None if weights is None else draws,
    )
    if predicted is None:
        pool, pool_weights = values, stands_for
        first = earlier[0] if earlier else n
    else:
        pool = checked_confidences("predicted", predicted)
        pool_weights, first = np.ones(len(pool)), len(pool)
    different = None
    if clusters is not None:
        once = one_of_each(_names(n, clusters), draws, since)
        sizes = None if earlier is None else tuple(int((once < size).sum()) for size in earlier)
        if len(once) < n:
            different = audits.only(once), Budget(risk, sizes)
    budget, order = Budget(risk, earlier), None
    if earlier and first:
        at_first = audits.first(earlier[0])
        order = first_order(pool[:first], pool_weights[:first], at_first, risk, target)
    return certify_audits(
        audits,
        budget,
        pool,
        target=target,
        weights=pool_weights,
        different=different,
        order=order,
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


def _checked_weights(n: int, weights: ArrayLike | None) -> Floats:
    if weights is None:
        return np.ones(n)
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (n,):
        raise ValueError(f"weights has shape {values.shape}; {n} confidences need as many")
    if n and not (np.isfinite(values).all() and values.min() > 0.0):
        raise ValueError("weights must be positive numbers: 1 / probability of a check")
    return values


def _earlier(looks: Sequence[int] | None, n: int) -> tuple[int, ...] | None:
    """Return the sizes of the attempts before this one, which has all rows."""
    if looks is None:
        return None
    sizes = np.asarray(looks)
    whole = sizes.ndim == 1 and (len(sizes) == 0 or np.issubdtype(sizes.dtype, np.integer))
    if not whole or (sizes <= 0).any() or (np.diff(sizes) <= 0).any():
        raise ValueError(f"looks must be rising numbers of checks, not {looks}")
    if len(sizes) and sizes[0] > n:
        raise ValueError(f"looks says that the first attempt had {sizes[0]} checks; there are {n}")
    return tuple(int(size) for size in sizes if size < n)


def _names(n: int, clusters: ArrayLike) -> list[Hashable]:
    held: Any = clusters
    names = held.tolist() if hasattr(held, "tolist") else list(held)
    if (shape := np.shape(np.array(names, dtype=object))) != (n,):
        raise ValueError(f"clusters has shape {shape}; {n} confidences need as many names")
    return [object() if is_missing(name) else name for name in names]
