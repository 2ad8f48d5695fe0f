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

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from setwise.models.guarantees.audit_tests import AdjudicatedAudits, AdjudicatedTest
from setwise.models.guarantees.certificates import CertificateRefusal, Certification, RefusalReason
from setwise.models.guarantees.checked import checked_confidences
from setwise.models.guarantees.sequence import Claim, plan_sequence, walk

_NOTHING: Mapping[str, int] = MappingProxyType({})


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
        Probability, in (0, 1), that a certified threshold may miss the target.
    excluded : mapping from str to int, optional
        Number of audits that the caller left out, by reason; kept with the evidence.
    weeks : array-like of shape (n_audits,), optional
        When each audited document came, in weeks from any date. Thresholds above which the accuracy
        seems to have fallen below the target by now are not certified.

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
    if not 0.0 < target <= 1.0:
        raise ValueError(f"target is {target}; it must lie in (0, 1]")
    if not 0.0 < risk < 1.0:
        raise ValueError(f"risk is {risk}; it must lie between 0 and 1, both excluded")
    n = len(audits.confidence)
    claim = Claim(target, risk, risk, n, len(pool), dict(excluded))
    if (audits.reread_rate.max() if n else audits.otherwise) <= 0.0:
        reason = RefusalReason.MISS_RATE_UNKNOWN
    elif len(pool) == 0:
        reason = RefusalReason.NO_PREDICTIONS
    elif target >= 1.0:
        reason = RefusalReason.TARGET_UNPROVABLE
    else:
        sequence = plan_sequence(pool)
        test = AdjudicatedTest(sequence.thresholds, audits)
        start = sequence.start(test, n, target, risk)
        if test.reread_rate[start] > 0.0:
            return walk(claim, sequence, test, start)
        reason = RefusalReason.MISS_RATE_UNKNOWN
    return CertificateRefusal(**claim._asdict(), steps=(), reason=reason)


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
