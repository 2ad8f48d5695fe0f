r"""Thresholds that audits prove: learn-then-test with a fixed sequence of exact tests.

The hypotheses :math:`H_j`: "of all that comes with confidence :math:`\tau_j` or more, a share of at
most :math:`t` is right" are ordered from high thresholds to low ones, independently of the audits,
and tested in this order, each at the full risk, until one is not rejected. A *false* certificate
requires rejecting the first true hypothesis, so its probability is at most the risk [1]_.
Thresholds and order come from unlabelled confidences.

Audits must be a simple random sample of the stream, drawn before anything was known of the document
(for example by a hash of its identifier), and other predictions must determine the thresholds.
Given how many audits lie above a threshold, the number of right ones is then binomial, and the
tests are exact. Nothing else is assumed: wrong confidences reduce automation, not the
guarantee.

References
----------
.. [1] A. Angelopoulos, S. Bates, E. Candès, M. Jordan and L. Lei, "Learn then Test: Calibrating
   Predictive Algorithms to Achieve Risk Control", 2021, arXiv:2110.01052: fixed sequence testing,
   with binomial tail p-values.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.audit_tests import (
    AdjudicatedAudits,
    AdjudicatedTest,
    AuditTest,
    BinomialTest,
)
from setwise.models.guarantees.certificates import Certification, Method, Refusal, RefusalReason
from setwise.models.guarantees.sequence import Claim, checked_confidences, plan_sequence, walk

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_Kind = Callable[[Floats, Floats, Bools], AuditTest]
_NOTHING: Mapping[str, int] = MappingProxyType({})


def certify(
    predicted: ArrayLike,
    confidence: ArrayLike,
    right: ArrayLike,
    *,
    target: float,
    risk: float,
    excluded: Mapping[str, int] = _NOTHING,
) -> Certification:
    """Find the lowest threshold that error-free audits prove.

    Parameters
    ----------
    predicted : array-like of shape (n_predictions,)
        Confidences of predictions that were not audited, in [0, 1].
    confidence : array-like of shape (n_audits,)
        Confidences of the audited predictions, in [0, 1], from the same calibrator.
    right : array-like of shape (n_audits,)
        1 where the whole set was right, else 0.
    target : float
        Required accuracy of what is sent, in (0, 1].
    risk : float
        Probability, in (0, 1), that a certified threshold may miss the target.
    excluded : mapping from str to int, optional
        Number of audits that the caller left out, by reason; kept with the evidence.

    Returns
    -------
    Certificate or Refusal
        A refusal if the target is 1, or predictions, audits or evidence are lacking.

    Raises
    ------
    ValueError
        If lengths differ or a value is out of range.

    Examples
    --------
    >>> from setwise.models.guarantees.certificates import Certificate, Refusal
    >>> predicted = [0.97] * 60 + [0.5] * 40
    >>> audited, right = [0.97] * 30 + [0.5] * 20, [1] * 30 + [1, 0] * 10
    >>> found = certify(predicted, audited, right, target=0.9, risk=0.1)
    >>> assert isinstance(found, Certificate)
    >>> found.threshold, found.coverage, round(found.accuracy_bound, 3)
    (0.97, 0.6, 0.926)
    >>> lacking = certify(predicted, audited[20:], right[20:], target=0.9, risk=0.1)
    >>> assert isinstance(lacking, Refusal)
    >>> str(lacking.reason), lacking.further_if_all_good  # 12 more above, and 60 % are above
    ('too-few-audits', 20)
    """
    audits = _Audits.checked(
        predicted, confidence, right, target=target, risk=risk, excluded=excluded
    )
    return audits.certified(Method.CLEAN, risk, BinomialTest)


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
) -> Certification:
    """Find the lowest threshold that adjudicated audits prove.

    If an audit disagrees with the prediction, a lead decides, so auditors' false alarms do no
    harm. Errors that auditors miss are bounded above each threshold, together with those that they
    find, from the agreements that a lead reads again: see `setwise.models.guarantees.joint` for
    the test and its proof. How often auditors miss errors may depend on anything.

    Parameters
    ----------
    predicted, confidence, target, risk, excluded
        As for `certify`.
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

    Returns
    -------
    Certificate or Refusal
        Refused with ``MISS_RATE_UNKNOWN`` if no agreement could have been drawn.

    Raises
    ------
    ValueError
        If lengths differ, a value is out of range, or a miss was not drawn.

    Examples
    --------
    >>> from setwise.models.guarantees.certificates import Refusal
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
    >>> assert isinstance(unknown, Refusal)
    >>> str(unknown.reason)
    'miss-rate-unknown'
    """
    audits = _Audits.checked(
        predicted, confidence, found_wrong, target=target, risk=risk, excluded=excluded
    )
    rates = np.asarray(reread_rate, dtype=np.float64)
    n = len(audits.confidence)
    otherwise = float(rates) if rates.ndim == 0 else float(rates.max(initial=0.0)) or 1.0
    rates = np.full(n, rates) if rates.ndim == 0 else rates
    draws, misses = np.asarray(reread_draw, dtype=np.float64), np.asarray(missed)
    if not rates.shape == draws.shape == misses.shape == (n,):
        raise ValueError(f"{n} audits need as many misses, rates and draws of second readings")
    if not np.all((rates >= 0) & (rates <= 1)) or not np.all((draws >= 0) & (draws < 1)):
        raise ValueError("rates of second readings lie in [0, 1] and draws in [0, 1)")
    if not np.all((misses == 0) | (misses == 1)):
        raise ValueError("missed is 0 or 1")
    # `_Audits.good` holds what was found wrong.
    if (misses.astype(bool) & (audits.good | (draws >= rates))).any():
        raise ValueError("a miss is an agreement that was drawn for a second reading")
    if (rates.max() if n else otherwise) <= 0.0:
        return audits.refused(Method.ADJUDICATED, RefusalReason.MISS_RATE_UNKNOWN)
    columns = AdjudicatedAudits(
        audits.confidence, audits.good, misses.astype(bool), rates, draws, otherwise
    )
    return audits.certified(
        Method.ADJUDICATED, risk, lambda thresholds, *_: AdjudicatedTest(thresholds, columns)
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Audits:
    """Checked arguments of a certification."""

    predicted: Floats
    confidence: Floats
    good: Bools
    target: float
    risk: float
    excluded: Mapping[str, int]

    @classmethod
    def checked(
        cls,
        predicted: ArrayLike,
        confidence: ArrayLike,
        outcome: ArrayLike,
        *,
        target: float,
        risk: float,
        excluded: Mapping[str, int],
    ) -> Self:
        values = checked_confidences("confidence", confidence)
        outcomes = np.asarray(outcome)
        if outcomes.shape != values.shape:
            raise ValueError(
                f"{len(values)} audits need as many outcomes, not of shape {outcomes.shape}"
            )
        if not np.all((outcomes == 0) | (outcomes == 1)):
            raise ValueError("the outcome of an audit is 0 or 1")
        if not 0.0 < target <= 1.0:
            raise ValueError(f"target is {target}; it must lie in (0, 1]")
        if not 0.0 < risk < 1.0:
            raise ValueError(f"risk is {risk}; it must lie between 0 and 1, both excluded")
        return cls(
            predicted=checked_confidences("predicted", predicted),
            confidence=values,
            good=outcomes.astype(bool),
            target=target,
            risk=risk,
            excluded=dict(excluded),
        )

    def certified(self, method: Method, test_risk: float, kind: _Kind) -> Certification:
        """Plan the sequence and test the audits along it."""
        if len(self.predicted) == 0:
            return self.refused(method, RefusalReason.NO_PREDICTIONS)
        if self.target >= 1.0:
            return self.refused(method, RefusalReason.TARGET_UNPROVABLE)
        sequence = plan_sequence(self.predicted)
        test = kind(sequence.thresholds, self.confidence, self.good)
        start = sequence.start(test, len(self.confidence), self.target, test_risk)
        if isinstance(test, AdjudicatedTest) and test.reread_rate[start] <= 0.0:
            return self.refused(method, RefusalReason.MISS_RATE_UNKNOWN)
        return walk(self._claim(method, test_risk), sequence, test, start)

    def refused(self, method: Method, reason: RefusalReason) -> Refusal:
        """Refuse without a test."""
        return Refusal(**self._claim(method, self.risk)._asdict(), steps=(), reason=reason)

    def _claim(self, method: Method, test_risk: float) -> Claim:
        return Claim(
            method=method,
            target=self.target,
            risk=self.risk,
            test_risk=test_risk,
            n_audits=len(self.confidence),
            n_predictions=len(self.predicted),
            excluded=self.excluded,
        )
