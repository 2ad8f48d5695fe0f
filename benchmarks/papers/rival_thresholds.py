"""Thresholds chosen in other ways, to compare with the certified ones."""

from collections.abc import Iterable
from itertools import takewhile
from operator import itemgetter
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.audit_tests import count_above
from setwise.models.guarantees.binomial import required_successes, upper_bound, upper_tail
from setwise.models.guarantees.certificates import Certification
from setwise.models.guarantees.checked import checked_confidences
from setwise.models.guarantees.sequence import (
    ThresholdSequence,
    plan_sequence,
)
from setwise.models.guarantees.thresholds import certify_adjudicated


def certify_clean(
    predicted: ArrayLike, confidence: ArrayLike, right: ArrayLike, *, target: float, risk: float
) -> Certification:
    """Certify a threshold from audits that miss no error.

    Parameters
    ----------
    predicted, confidence, target, risk
        As for `certify_adjudicated`.
    right : array-like of shape (n_audits,)
        1 where the whole set was right, else 0.

    Examples
    --------
    >>> predicted = [0.97] * 60 + [0.5] * 40
    >>> audited, right = [0.97] * 30 + [0.5] * 20, [1] * 30 + [1, 0] * 10
    >>> found = certify_clean(predicted, audited, right, target=0.9, risk=0.1)
    >>> found.threshold, found.coverage, round(found.accuracy_bound, 3)
    (0.97, 0.6, 0.926)
    >>> lacking = certify_clean(predicted, audited[20:], right[20:], target=0.9, risk=0.1)
    >>> str(lacking.reason), lacking.further_if_all_good  # 12 more above, of about 43 in 100
    ('too-few-audits', 28)
    """
    wrong = 1 - np.asarray(right, dtype=np.int64)
    none = np.zeros(np.shape(confidence))
    return certify_adjudicated(
        predicted, confidence, wrong, none, 1.0, none, target=target, risk=risk
    )


def plugin_threshold(
    predicted: ArrayLike, target: float, rule: Literal["pointwise", "mean"] = "pointwise"
) -> float | None:
    """Return the plug-in threshold, without audits or guarantee.

    Parameters
    ----------
    predicted : array-like of shape (n,)
        Confidences, in [0, 1].
    target : float
        Accuracy asked for, in (0, 1].
    rule : {"pointwise", "mean"}
        ``"pointwise"`` sends what has a confidence of at least the target (thesis, section 4.10);
        ``"mean"`` as much as keeps the mean confidence of what is sent at the target. If the
        confidences are exact, the second misses the target in half of all samples; if they are
        too high, both miss it.

    Returns
    -------
    float or None
        None if nothing may be sent.

    Raises
    ------
    ValueError
        If a confidence is out of range.

    Examples
    --------
    >>> plugin_threshold([0.99, 0.95, 0.8], 0.9)
    0.9
    >>> plugin_threshold([0.99, 0.95, 0.8], 0.9, "mean")
    0.8
    """
    ordered = np.sort(checked_confidences("predicted", predicted))[::-1]
    if len(ordered) == 0 or ordered[0] < target:
        return None
    if rule == "pointwise":
        return target
    mean = np.cumsum(ordered) / np.arange(1, len(ordered) + 1)
    # The mean falls along the order, and equal confidences are sent together.
    last = np.append(ordered[:-1] > ordered[1:], [True])
    return float(ordered[np.flatnonzero(last & (mean >= target))[-1]])


def sgr_threshold(
    confidence: ArrayLike, right: ArrayLike, target: float, risk: float
) -> float | None:
    """Search a threshold by bisection with guaranteed risk (SGR).

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Of audited predictions, in [0, 1].
    right : array-like of shape (n,)
        1 where the set was right, else 0.
    target, risk : float
        In (0, 1). Each of the ``ceil(log2 n)`` steps spends its share of the risk.

    Returns
    -------
    float or None
        The lowest threshold visited whose bound holds; None if none does.

    Raises
    ------
    ValueError
        If lengths differ or a confidence is out of range.

    References
    ----------
    .. [1] Y. Geifman and R. El-Yaniv, "Selective Classification for Deep Neural Networks", NeurIPS
       2017: Selection with Guaranteed Risk (SGR), Theorem 3.2. The bound of their Lemma 3.1 is
       that of Clopper and Pearson.

    Examples
    --------
    >>> sgr_threshold([0.9] * 100 + [0.4] * 100, [1] * 100 + [0] * 100, 0.9, 0.1)
    0.9
    """
    values = checked_confidences("confidence", confidence)
    outcome = np.asarray(right)
    if outcome.shape != values.shape:
        raise ValueError(f"{len(values)} confidences need as many outcomes")
    n = len(values)
    if n == 0:
        return None
    order = np.argsort(values, kind="stable")
    ordered, wrong = values[order], 1 - outcome[order]
    wrong_from = np.cumsum(wrong[::-1])[::-1]
    steps = max(int(np.ceil(np.log2(n))), 1)
    low, high, threshold = 0, n - 1, None
    for _ in range(steps):
        middle = (low + high + 1) // 2
        first = int(np.searchsorted(ordered, ordered[middle], side="left"))
        if upper_bound(wrong_from[first], n - first, risk / steps) <= 1.0 - target:
            threshold, high = float(ordered[middle]), middle
        else:
            low = middle
    return threshold


def bonferroni_threshold(
    predicted: ArrayLike,
    confidence: ArrayLike,
    right: ArrayLike,
    target: float,
    risk: float,
    *,
    n_thresholds: int = 20,
) -> float | None:
    """Return the lowest threshold that passes a test at an equal share of the risk.

    This is *Learn then Test* without an order of the hypotheses. Parameters are those of
    `certify_clean`.

    Examples
    --------
    >>> c = [0.9] * 100 + [0.4] * 100
    >>> bonferroni_threshold(c, c, [1] * 100 + [0] * 100, 0.9, 0.1, n_thresholds=4)
    0.9
    """
    values, good = checked_confidences("confidence", confidence), np.asarray(right, dtype=bool)
    thresholds = plan_sequence(predicted, n_thresholds=n_thresholds).thresholds
    above, n_good = count_above(thresholds, values), count_above(thresholds, values[good])
    passed = upper_tail(n_good, above, target) <= risk / len(thresholds)
    return float(thresholds[passed].min()) if passed.any() else None


def strict_threshold(
    predicted: ArrayLike, confidence: ArrayLike, right: ArrayLike, target: float, risk: float
) -> float | None:
    """Return the threshold of a fixed sequence that begins as high as anything could pass.

    Examples
    --------
    >>> c = [0.9] * 100 + [0.4] * 100
    >>> strict_threshold(c, c, [1] * 100 + [0] * 100, 0.9, 0.1)
    0.9
    """
    values, good = checked_confidences("confidence", confidence), np.asarray(right, dtype=bool)
    thresholds = plan_sequence(predicted).thresholds
    above, n_good = count_above(thresholds, values), count_above(thresholds, values[good])
    first = int(np.argmax(target**above <= risk))
    return last_passed(thresholds[first:], upper_tail(n_good, above, target)[first:] <= risk)


def pooled_threshold(  # noqa: PLR0917 -- what the audits found
    predicted: ArrayLike,
    confidence: ArrayLike,
    found_wrong: ArrayLike,
    missed: tuple[int, int],
    reread_rate: float,
    target: float,
    risk: float,
) -> float | None:
    """Return the threshold if one miss rate is taken to hold at every confidence.

    A tenth of the risk bounds it, from all audits that were read again. If auditors miss errors
    where the model is sure, the bound is too low there.

    Parameters
    ----------
    missed : (int, int)
        Misses among the errors of audits read again whatever the answer, and all such errors.
    """
    values, good = checked_confidences("confidence", confidence), ~np.asarray(found_wrong, bool)
    most_missed = float(upper_bound(*missed, risk / 10))
    detected = 1.0 - most_missed * (1.0 - reread_rate)
    if detected <= 0.0:
        return None
    sequence = plan_sequence(predicted)
    thresholds = sequence.thresholds
    above, n_good = count_above(thresholds, values), count_above(thresholds, values[good])
    null = 1.0 - detected * (1.0 - target)
    likely = 1.0 - detected * (1.0 - sequence.confidence)
    first = first_step(sequence, len(values), null, likely, 0.9 * risk)
    passed = upper_tail(n_good, above, null)[first:] <= 0.9 * risk
    return last_passed(thresholds[first:], passed)


def first_step(
    sequence: ThresholdSequence,
    n_audits: int,
    null: ArrayLike,
    rate: NDArray[np.float64],
    risk: float,
) -> int:
    """Return the step at which an exact test most probably rejects a rate.

    Parameters
    ----------
    null, rate : array-like of shape (n_thresholds,), or float
        Rate under the hypothesis, and the one expected.
    """
    n = np.floor(n_audits * sequence.share).astype(np.int64)
    return int(upper_tail(required_successes(n, null, risk), n, rate).argmax())


def last_passed(thresholds: NDArray[np.float64], passed: Iterable[bool]) -> float | None:
    """Return the last threshold before one fails.

    >>> last_passed(np.array([0.9, 0.8, 0.7]), [True, True, False])
    0.8
    """
    first = list(takewhile(itemgetter(1), zip(thresholds, passed, strict=True)))
    return float(first[-1][0]) if first else None
