r"""Thresholds that audits prove: learn-then-test with a fixed sequence of tests.

The hypotheses :math:`H_j`: "of all that comes with confidence :math:`\tau_j` or more, a share of at
most :math:`t` is right" are ordered from high thresholds to low ones, independently of the audits,
and tested in this order, each at the full risk, until one is not rejected. A *false* certificate
requires rejecting the first true hypothesis, so its probability is at most the risk [1]_.
Thresholds and order come from unlabelled confidences.

Audits must be a simple random sample of the stream, drawn before anything was known of the document
(for example by a hash of its identifier), and other predictions must determine the thresholds.
Given how many audits lie above a threshold, the errors found and missed among them are then
multinomial, as the tests assume (`setwise.models.guarantees.joint`). Nothing else is assumed: wrong
confidences reduce automation, not the guarantee.

References
----------
.. [1] A. Angelopoulos, S. Bates, E. Candès, M. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", 2021, arXiv:2110.01052: fixed sequence testing.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.audit_tests import (
    AdjudicatedAudits,
    AdjudicatedTest,
    Budget,
    Epochs,
    Tested,
    TestedTwice,
    ThinStratum,
)
from setwise.models.guarantees.certificates import CertificateRefusal, Certification, RefusalReason
from setwise.models.guarantees.checked import checked_confidences, checked_flags
from setwise.models.guarantees.sequence import (
    Claim,
    ThresholdSequence,
    ordered_sequence,
    plan_sequence,
    walk,
)

Floats = NDArray[np.float64]

_NOTHING: Mapping[str, int] = MappingProxyType({})


class CountedOnce(NamedTuple):
    """The audits of `certify_adjudicated` with one for each document; fields as there."""

    confidence: ArrayLike
    found_wrong: ArrayLike
    missed: ArrayLike
    reread_rate: ArrayLike
    reread_draw: ArrayLike
    looks: Sequence[int] | None = None
    """How many of them each earlier look had."""
    thin: ArrayLike | None = None
    stream: tuple[ArrayLike, ArrayLike] | None = None
    epochs: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None


def certify_adjudicated(  # noqa: PLR0917 -- one column of the audits each
    predicted: ArrayLike,
    confidence: ArrayLike,
    found_wrong: ArrayLike,
    missed: ArrayLike,
    reread_rate: ArrayLike,
    reread_draw: ArrayLike,
    *,
    target: float,
    risk: float,
    excluded: Mapping[str, int] = _NOTHING,
    weeks: ArrayLike | None = None,
    looks: Sequence[int] | None = None,
    order: ArrayLike | None = None,
    thin: ArrayLike | None = None,
    stream: tuple[ArrayLike, ArrayLike] | None = None,
    epochs: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    different: CountedOnce | None = None,
) -> Certification:
    """Find the lowest threshold that adjudicated audits prove.

    If an audit disagrees with the prediction, a lead decides, so auditors' false alarms do no
    harm. Errors that auditors miss are bounded above each threshold, together with those that they
    find, from the agreements that a lead reads again: see `setwise.models.guarantees.joint` for
    the test and its proof. How often auditors miss errors may depend on anything.

    Parameters
    ----------
    predicted : array-like of shape (n_predictions,)
        Confidences of predictions that were not audited, in [0, 1].
    confidence : array-like of shape (n_audits,)
        Confidences of the audited predictions, in [0, 1], from the same calibrator.
    found_wrong : array-like of shape (n_audits,)
        1 where the audit and the lead found the prediction wrong. An undecided disagreement counts
        as 1, because leaving it out would favour the model.
    missed : array-like of shape (n_audits,)
        1 where the audit agreed, was drawn for a second reading, and the lead found the prediction
        wrong or has not read it in time.
    reread_rate : array-like of shape (n_audits,), or float
        Probability, in [0, 1], that an agreement with this prediction is drawn for a second
        reading. It may depend on the confidence and the time, never on an answer.
    reread_draw : array-like of shape (n_audits,)
        Numbers in [0, 1), independent of all else; those below the rate are drawn.
    target : float
        Required accuracy of what is sent, in (0, 1].
    risk : float
        Probability, in (0, 1), that a certified threshold may miss the target. With ``looks``, it
        is that of all looks together.
    excluded : mapping from str to int, optional
        Number of audits that the caller left out, by reason; kept with the evidence.
    weeks : array-like of shape (n_audits,), optional
        When each audited document came, in weeks from any date. Thresholds above which the accuracy
        seems to have fallen below the target by now are not certified.
    looks : sequence of int, optional
        Number of audits at each earlier look at them, rising; empty for the first of several. Each
        had that many of the first rows. Looks come at numbers of audits that do not depend on what
        was found. Without it, this attempt has the risk for itself.
    order : array-like, optional
        Falling thresholds to test, from the first one on: ``order`` of the first look. Later looks
        must have it.
    thin : array-like of shape (n_audits,), optional
        True where an audit was drawn at the lower of two rates; all agreements there should have
        been read again, because others count as wrong.
    stream : pair of array-like, optional
        Confidences of all documents of the time of the audits, audited or not, and whether they
        would have been drawn at the lower rate. Needed with ``thin``.
    epochs : triple of array-like, optional
        Where the rule that told the strata apart has changed: the number of its epoch, from 0, for
        each audit and for each document of the stream, and for each epoch the least threshold above
        which it has no thin stratum. Each test takes the audits of all epochs without one, or those
        of one other epoch, whichever are more.
    weights : array-like of shape (n_predictions,), optional
        How many documents each prediction stands for, if those with some confidences were audited
        more often than others.
    different : CountedOnce, optional
        If some audits are of copies of one document: the same with each document once. A threshold
        is certified if both prove it; see `setwise.models.guarantees.audit_tests.TestedTwice`.

    Returns
    -------
    Certificate or CertificateRefusal
        A refusal if the target is 1, or predictions, audits or evidence are lacking; with
        ``MISS_RATE_UNKNOWN`` if no agreement could have been drawn, with ``DRIFTING`` if the
        accuracy above every proved threshold seems to have fallen below the target.

    Raises
    ------
    ValueError
        If lengths differ, a value is out of range, or a miss was not drawn.

    Examples
    --------
    >>> from setwise.models.guarantees.certificates import CertificateRefusal
    >>> draws = [(i + 0.5) / 60 for i in range(60)]
    >>> nothing, predicted = [0] * 60, [0.97] * 100
    >>> found = certify_adjudicated(
    ...     predicted, [0.97] * 60, nothing, nothing, 0.5, draws, target=0.9, risk=0.1
    ... )
    >>> found.certified, found.n_above
    (True, 60)
    >>> unknown = certify_adjudicated(
    ...     predicted, [0.97] * 60, nothing, nothing, 0.0, draws, target=0.9, risk=0.1
    ... )
    >>> assert isinstance(unknown, CertificateRefusal)
    >>> str(unknown.reason)
    'miss-rate-unknown'
    """
    pool = checked_confidences("predicted", predicted)
    audits = _checked_audits(confidence, found_wrong, missed, reread_rate, reread_draw, weeks)
    check_claim(target, risk)
    strata = _checked_strata(len(audits.confidence), thin, stream, epochs)
    audits = audits._replace(thin=strata)
    return certify_audits(
        audits,
        Budget(risk, _checked_looks(looks, order, len(audits.confidence))),
        pool,
        different=None if different is None else _once(different, risk, order),
        weights=_checked_weights(weights, len(pool)),
        target=target,
        excluded=excluded,
        order=order,
    )


def certify_audits(
    audits: AdjudicatedAudits,
    budget: Budget,
    predicted: Floats,
    *,
    target: float,
    different: tuple[AdjudicatedAudits, Budget] | None = None,
    weights: Floats | None = None,
    excluded: Mapping[str, int] = _NOTHING,
    order: ArrayLike | None = None,
) -> Certification:
    """Find the lowest threshold that these audits prove; see `certify_adjudicated`.

    Parameters
    ----------
    audits : AdjudicatedAudits
    budget : Budget
    predicted : float64 ndarray of shape (n_predictions,)
    target : float
    different : AdjudicatedAudits and Budget, optional
        The same with each document once, if some audits are of copies.
    weights : float64 ndarray of shape (n_predictions,), optional
        How many predictions each one stands for.
    excluded : mapping from str to int, optional
    order : array-like, optional
    """

    def tested(thresholds: Floats) -> Tested:
        test = AdjudicatedTest(thresholds, audits, budget)
        if different is None:
            return test
        return TestedTwice(test, AdjudicatedTest(thresholds, *different))

    n, looks = len(audits.confidence), budget.earlier
    claim = Claim(target, budget.risk, budget.now, n, len(predicted), dict(excluded), looks)
    if (audits.reread_rate.max() if n else audits.otherwise) <= 0.0:
        reason = RefusalReason.MISS_RATE_UNKNOWN
    elif len(predicted) == 0:
        reason = RefusalReason.NO_PREDICTIONS
    elif target >= 1.0:
        reason = RefusalReason.TARGET_UNPROVABLE
    else:
        sequence: ThresholdSequence
        if order is None:
            sequence = plan_sequence(predicted, weights)
            test = tested(sequence.thresholds)
            start = sequence.start(test, target)
        else:
            sequence, start = ordered_sequence(order, predicted, weights), 0
            test = tested(sequence.thresholds)
        claim = claim._replace(order=tuple(sequence.thresholds[start:].tolist()))
        if test.reread_rate[start] > 0.0:
            return walk(claim, sequence, test, start)
        reason = RefusalReason.MISS_RATE_UNKNOWN
    return CertificateRefusal(**claim._asdict(), steps=(), reason=reason)


def first_order(
    predicted: Floats, weights: Floats, audits: AdjudicatedAudits, risk: float, target: float
) -> Floats:
    """Return the thresholds that the first of several looks tests, in their order."""
    sequence = plan_sequence(predicted, weights)
    test = AdjudicatedTest(sequence.thresholds, audits, Budget(risk, ()))
    return sequence.thresholds[sequence.start(test, target) :]


def check_claim(target: float, risk: float) -> None:
    """Raise `ValueError` if target or risk is out of range."""
    if not 0.0 < target <= 1.0:
        raise ValueError(f"target is {target}; it must lie in (0, 1]")
    if not 0.0 < risk < 1.0:
        raise ValueError(f"risk is {risk}; it must lie between 0 and 1, both excluded")


def _once(
    different: CountedOnce, risk: float, order: ArrayLike | None
) -> tuple[AdjudicatedAudits, Budget]:
    audits = _checked_audits(*different[:5], None)
    n = len(audits.confidence)
    strata = _checked_strata(n, different.thin, different.stream, different.epochs)
    # Later looks may have other copies only.
    budget = Budget(risk, _checked_looks(different.looks, order, n, rising=False))
    return audits._replace(thin=strata), budget


def _checked_looks(
    looks: Sequence[int] | None, order: ArrayLike | None, n: int, *, rising: bool = True
) -> tuple[int, ...] | None:
    if looks is None:
        return None
    sizes = tuple(int(size) for size in looks)
    if any(size < 0 for size in sizes) or list(sizes) != sorted(set(sizes) if rising else sizes):
        raise ValueError(f"looks must be rising numbers of audits, not {list(looks)}")
    if sizes and sizes[-1] > n:
        raise ValueError(f"an earlier look had {sizes[-1]} audits; there are {n}")
    if sizes and order is None:
        raise ValueError("looks after the first need the order of the first one")
    return sizes


def _checked_weights(weights: ArrayLike | None, n: int) -> Floats | None:
    if weights is None:
        return None
    each = np.asarray(weights, dtype=np.float64)
    if each.shape != (n,) or not np.all(np.isfinite(each) & (each > 0)):
        raise ValueError(f"weights must be {n} positive numbers, one for each prediction")
    return each


def _checked_strata(
    n: int,
    thin: ArrayLike | None,
    stream: tuple[ArrayLike, ArrayLike] | None,
    epochs: tuple[ArrayLike, ArrayLike, ArrayLike] | None,
) -> ThinStratum | None:
    if thin is None:
        return None
    if stream is None:
        raise ValueError("thin needs the stream that tells the strata's shares")
    confidence = checked_confidences("stream", stream[0])
    documents = checked_flags("stream", stream[1], len(confidence))
    strata = ThinStratum(checked_flags("thin", thin, n), confidence, documents)
    if epochs is None:
        return strata
    of_audits, of_documents = (np.asarray(each, dtype=np.int64) for each in epochs[:2])
    whole_from = np.asarray(epochs[2], dtype=np.float64)
    if of_audits.shape != (n,) or of_documents.shape != confidence.shape:
        raise ValueError("epochs must name one of each audit and of each document of the stream")
    for places in (of_audits, of_documents):
        if ((places < 0) | (places >= len(whole_from))).any():
            raise ValueError(f"epochs must be numbers from 0 to {len(whole_from) - 1}")
    return strata._replace(epochs=Epochs(of_audits, of_documents, whole_from))


def _checked_audits(  # noqa: PLR0917 -- one column of the audits each
    confidence: ArrayLike,
    found_wrong: ArrayLike,
    missed: ArrayLike,
    reread_rate: ArrayLike,
    reread_draw: ArrayLike,
    weeks: ArrayLike | None,
) -> AdjudicatedAudits:
    values, wrong = checked_confidences("confidence", confidence), np.asarray(found_wrong)
    n = len(values)
    if wrong.shape != (n,):
        raise ValueError(f"{n} audits need as many outcomes, not of shape {wrong.shape}")
    if not np.all((wrong == 0) | (wrong == 1)):
        raise ValueError("the outcome of an audit is 0 or 1")
    rates = np.asarray(reread_rate, dtype=np.float64)
    otherwise = float(rates) if rates.ndim == 0 else float(rates.max(initial=0.0)) or 1.0
    rates = np.full(n, rates) if rates.ndim == 0 else rates
    draws, misses = np.asarray(reread_draw, dtype=np.float64), np.asarray(missed)
    if not rates.shape == draws.shape == misses.shape == (n,):
        raise ValueError(f"{n} audits need as many misses, rates and draws of second readings")
    if not np.all((rates >= 0) & (rates <= 1)) or not np.all((draws >= 0) & (draws < 1)):
        raise ValueError("rates of second readings lie in [0, 1] and draws in [0, 1)")
    if not np.all((misses == 0) | (misses == 1)):
        raise ValueError("missed is 0 or 1")
    found, overlooked = wrong.astype(bool), misses.astype(bool)
    if (overlooked & (found | (draws >= rates))).any():
        raise ValueError("a miss is an agreement that was drawn for a second reading")
    came = None if weeks is None else np.asarray(weeks, dtype=np.float64)
    if came is not None and (came.shape != (n,) or not np.isfinite(came).all()):
        raise ValueError(f"{n} audits need as many finite times, not of shape {came.shape}")
    return AdjudicatedAudits(values, found, overlooked, rates, draws, otherwise, came)
