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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.guarantees.audit_tests import (
    AuditTest,
    BettingTest,
    BinomialTest,
    MixtureTest,
    Rate,
    mean_rate,
)
from setwise.models.guarantees.binomial import upper_bound
from setwise.models.guarantees.certificates import Certification, Method, Refusal, RefusalReason
from setwise.models.guarantees.noise import NoiseRates
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
    return audits.certified(Method.CLEAN, Rate(), risk, BinomialTest)


@dataclass(frozen=True)
class MissRate:
    """An upper bound of the rate of agreement with wrong predictions.

    Attributes
    ----------
    upper : float
        In [0, 1].
    risk : float
        Probability, in [0, 1), that the true rate is higher.
    """

    upper: float
    risk: float

    def __post_init__(self) -> None:
        if not (0.0 <= self.upper <= 1.0 and 0.0 <= self.risk < 1.0):
            raise ValueError("a miss rate lies in [0, 1] and its risk in [0, 1)")

    @classmethod
    def known(cls, rate: float) -> Self:
        """Return a rate that needs no evidence."""
        return cls(rate, 0.0)

    @classmethod
    def from_counts(cls, n_missed: int, n_wrong: int, risk: float) -> Self:
        """Bound the rate from wrong predictions that reviewers judged blindly.

        Parameters
        ----------
        n_missed, n_wrong : int
            Number of wrong predictions that a reviewer agreed with, and of all reviewed. They must
            not be selected by the reviewer's answer.
        risk : float
            In (0, 1). A tenth of a certificate's whole risk is a good share.

        Raises
        ------
        ValueError
            If the counts do not fit.
        """
        if not 0 <= n_missed <= n_wrong:
            raise ValueError(f"{n_missed} of {n_wrong} wrong predictions cannot have been missed")
        return cls(float(upper_bound(n_missed, n_wrong, risk)), risk)


def certify_adjudicated(
    predicted: ArrayLike,
    confidence: ArrayLike,
    found_wrong: ArrayLike,
    *,
    miss_rate: MissRate,
    reread_rate: float = 0.0,
    target: float,
    risk: float,
    excluded: Mapping[str, int] = _NOTHING,
) -> Certification:
    r"""Find the lowest threshold that adjudicated audits prove.

    If an audit disagrees with the prediction, a lead decides, so reviewers' false alarms do no
    harm. Overlooked errors remain: with a share :math:`w` of wrong predictions, errors are
    found at the rate :math:`w (1 - \beta (1 - r))`, where :math:`\beta` is the miss rate and
    :math:`r` the share of agreements that the lead reads as well. Hence the test of
    :math:`P(\mathrm{Bin}(m, (1 - t)(1 - \beta_U (1 - r))) \le k)`, at the risk that the bound
    :math:`\beta_U` leaves.

    Parameters
    ----------
    predicted, confidence, target, risk, excluded
        As for `certify`.
    found_wrong : array-like of shape (n_audits,)
        1 where the audit and the lead found the prediction wrong. An undecided disagreement counts
        as 1, because leaving it out would favour the model.
    miss_rate : MissRate
        Its risk is part of ``risk``.
    reread_rate : float, default=0
        Share :math:`r`, in [0, 1], of agreements that were drawn at random to be read again. Errors
        found there count in ``found_wrong``.

    Returns
    -------
    Certificate or Refusal

    Raises
    ------
    ValueError
        If lengths differ, a value is out of range, or the miss rate's risk is not below ``risk``.
    """
    if not 0.0 <= reread_rate <= 1.0:
        raise ValueError(f"reread_rate is {reread_rate}; it must lie in [0, 1]")
    if not miss_rate.risk < risk:
        raise ValueError(
            f"the miss rate spends {miss_rate.risk} of the risk {risk}: nothing is left"
        )
    audits = _Audits.checked(
        predicted, confidence, found_wrong, target=target, risk=risk, excluded=excluded
    )
    audits = replace(audits, good=~audits.good)
    detected = 1.0 - miss_rate.upper * (1.0 - reread_rate)
    if detected <= 0.0:
        return audits.refused(Method.ADJUDICATED, RefusalReason.MISS_RATE_UNKNOWN)
    rate = Rate(1.0 - detected, detected)
    return audits.certified(
        Method.ADJUDICATED,
        rate,
        risk - miss_rate.risk,
        lambda thresholds, values, good: BinomialTest(thresholds, values, good, rate),
    )


def certify_noisy(
    predicted: ArrayLike,
    confidence: ArrayLike,
    agreed: ArrayLike,
    group: ArrayLike,
    rates: Sequence[NoiseRates],
    *,
    random_assignment: bool,
    rates_risk: float = 0.0,
    target: float,
    risk: float,
    excluded: Mapping[str, int] = _NOTHING,
) -> Certification:
    """Find the lowest threshold that noisy audits prove.

    Agreement is tested against what the target maps to, ``(1 - alpha) t + beta (1 - t)``, group by
    group. That is exact if documents were assigned to groups at random. Otherwise (an expert
    gets the easy cases, for example) only betting on unbiased single answers is valid; it needs
    more audits. Estimated rates must be replaced by conservative bounds, the lower of alpha
    and the upper of beta (`GroupNoise.cautious_rates`), and ``rates_risk`` pays for them; that is
    valid, but adjudicating the audits costs fewer gold labels.

    Parameters
    ----------
    predicted, confidence, target, risk, excluded
        As for `certify`; betting needs the audits in the order in which they were drawn.
    agreed : array-like of shape (n_audits,)
        1 where the reviewer's blind set equals the predicted one, else 0.
    group : array-like of int, shape (n_audits,)
        Index into ``rates``.
    rates : sequence of NoiseRates
    random_assignment : bool
        Whether documents were given to groups at random.
    rates_risk : float, default=0
        Probability that some rate is less cautious than the true one, below ``risk``.

    Returns
    -------
    Certificate or Refusal
        Refused with ``NOISE_TOO_HIGH`` if alpha + beta reaches 1 in a group that audited.

    Raises
    ------
    ValueError
        If lengths differ, a value is out of range, or a group has no rates.
    """
    if not 0.0 <= rates_risk < risk:
        raise ValueError(f"the rates spend {rates_risk} of the risk {risk}: nothing is left")
    audits = _Audits.checked(
        predicted, confidence, agreed, target=target, risk=risk, excluded=excluded
    )
    groups = np.asarray(group)
    if groups.shape != audits.confidence.shape or groups.dtype.kind not in "iu":
        raise ValueError("group must hold one index for each audit")
    if len(rates) == 0 or (len(groups) and not (0 <= groups.min() <= groups.max() < len(rates))):
        raise ValueError(f"group must index the {len(rates)} noise rates")
    method = Method.KNOWN_NOISE if random_assignment else Method.BETTING
    present = np.unique(groups) if len(groups) else np.arange(len(rates))
    of_present = [rates[code] for code in present.tolist()]
    if any(rate.separation <= 0 for rate in of_present):
        return audits.refused(method, RefusalReason.NOISE_TOO_HIGH)
    codes = np.searchsorted(present, groups).astype(np.int64)
    kind = MixtureTest if random_assignment else BettingTest
    return audits.certified(
        method,
        mean_rate(of_present, np.bincount(codes, minlength=len(of_present))),
        risk - rates_risk,
        lambda thresholds, values, good: kind(thresholds, values, good, codes, of_present),
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

    def certified(self, method: Method, rate: Rate, test_risk: float, kind: _Kind) -> Certification:
        """Plan the sequence and test the audits along it."""
        if len(self.predicted) == 0:
            return self.refused(method, RefusalReason.NO_PREDICTIONS)
        if self.target >= 1.0:
            return self.refused(method, RefusalReason.TARGET_UNPROVABLE)
        n_audits = len(self.confidence)
        sequence = plan_sequence(self.predicted, n_audits, self.target, test_risk, rate=rate)
        test = kind(sequence.thresholds, self.confidence, self.good)
        return walk(self._claim(method, test_risk), sequence, test)

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
