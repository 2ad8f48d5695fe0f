"""Simulates a workload's audits until the first certificate.

Confidences are counted between the thresholds of the certification's sequence, where audits and
what people find are multinomial and binomial. A set is right with a probability of its confidence,
less `Workload.overconfidence`.
"""

from dataclasses import dataclass
from math import ceil, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from setwise.models.guarantees.binomial import upper_tail
from setwise.models.guarantees.certificates import risk_of_attempt
from setwise.models.guarantees.sequence import checked_confidences

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]

N_RUNS = 400
"""Simulated runs. A median number of audits is then known to about 5 %."""

NEVER = int(np.iinfo(np.int64).max)
"""Number of audits of a run that does not end."""

USUAL = 0.5
"""Share of the runs that a median speaks of."""

_THRESHOLDS = (
    50  # fewer than a certification has; its automation is known to two parts in a hundred
)
_MOST_ATTEMPTS = 8  # audits grow seventeenfold in between


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload:
    """What arrives, what is promised, and how people read.

    Attributes
    ----------
    confidences : float64 ndarray of shape (n,)
        Of documents that may be sent, in [0, 1]; at least one.
    documents_a_week : float
        All documents, above 0.
    sendable : float, default=1
        Share of them, in (0, 1], that may be sent at all; rules hold the others back.
    target, risk : float
        Of the policy, in (0, 1).
    miss_rate : float, default=0.05
        How often auditors agree with a set that is wrong, in [0, 1].
    false_alarm_rate : float, default=0.1
        How often auditors contradict a set that is right, in [0, 1].
    overconfidence : float, default=0
        How much higher than the accuracy the confidences are, in [0, 1).
    run_length : float, default=5000
        Of the breaker: audits until a false alarm, on average at least.
    first_attempt : int
        Audits at the first certification, at least 1.
    growth : float, default=1.5
        Audits at each further one, as a multiple, above 1.
    seed : int, default=0

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    confidences: Floats
    documents_a_week: float
    target: float
    risk: float
    first_attempt: int
    growth: float = 1.5
    sendable: float = 1.0
    miss_rate: float = 0.05
    false_alarm_rate: float = 0.1
    overconfidence: float = 0.0
    run_length: float = 5_000.0
    seed: int = 0

    def __post_init__(self) -> None:
        if len(checked_confidences("confidences", self.confidences)) == 0:
            raise ValueError("confidences must not be empty")
        check_shares(
            sendable=self.sendable,
            miss_rate=self.miss_rate,
            false_alarm_rate=self.false_alarm_rate,
            overconfidence=self.overconfidence,
        )
        for name in ("target", "risk"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must lie between 0 and 1")
        for name, least in (
            ("documents_a_week", 0.0),
            ("sendable", 0.0),
            ("first_attempt", 0),
            ("growth", 1.0),
            ("run_length", 1.0),
        ):
            if not least < getattr(self, name) < inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above {least:g}")

    @property
    def candidates_a_week(self) -> float:
        """Documents a week that may be sent."""
        return self.documents_a_week * self.sendable

    def wrong(self) -> Floats:
        """Return the probability that each label set is wrong."""
        right = np.asarray(self.confidences, dtype=np.float64) - self.overconfidence
        return 1.0 - np.clip(right, 0.0, 1.0)


def check_shares(**shares: float) -> None:
    """Raise `ValueError` unless each lies in [0, 1]."""
    for name, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"{name} is {share}; it must lie in [0, 1]")


class Firsts(NamedTuple):
    """First certificates of all runs.

    Attributes
    ----------
    audits : int64 ndarray of shape (N_RUNS,)
        Audits until the certificate, rising; `NEVER` without one.
    share, wrong : float
        Share of the documents above the median threshold, 0 if half of the runs have none, and
        share of the sets above it that are wrong.
    """

    audits: Counts
    share: float
    wrong: float


class _Audited(NamedTuple):
    """Counts of audits, each of shape (n_runs, n_bins).

    Attributes
    ----------
    n : int64 ndarray
    found_wrong, missed : int64 ndarray
        Errors found by auditors, and by second readings where the auditor agreed.
    """

    n: Counts
    found_wrong: Counts
    missed: Counts

    def plus(self, more: "_Audited") -> "_Audited":
        return _Audited(*(old + new for old, new in zip(self, more, strict=True)))

    def of(self, runs: Bools) -> "_Audited":
        return _Audited(*(each[runs] for each in self))


def first_certificates(workload: Workload, reread: float) -> Firsts:
    """Simulate attempts to certify until each run has its first certificate.

    Parameters
    ----------
    reread : float
        Share of the audits, in [0, 1], that a lead reads although the auditor agreed.
    """
    check_shares(reread_rate=reread)
    rng = np.random.default_rng(workload.seed)
    share, wrong = _bins(workload)
    running = np.arange(N_RUNS)
    needed, proved = np.full(N_RUNS, NEVER), np.full(N_RUNS, -1)
    so_far, drawn = _Audited(*np.zeros((3, N_RUNS, len(share)), dtype=np.int64)), 0
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        wanted = ceil(workload.growth * drawn) if drawn else workload.first_attempt
        n = rng.multinomial(wanted - drawn, share, size=len(running))
        faults = rng.binomial(n, wrong)
        overlooked = rng.binomial(faults, workload.miss_rate)
        missed = rng.binomial(overlooked, reread)
        so_far, drawn = so_far.plus(_Audited(n, faults - overlooked, missed)), wanted
        risk = risk_of_attempt(workload.risk, attempt)
        steps = _proved(so_far, reread, 1.0 - workload.target, risk)
        done = steps >= 0
        needed[running[done]], proved[running[done]] = drawn, steps[done]
        running, so_far = running[~done], so_far.of(~done)
        if len(running) == 0:
            break
    usual = int(np.sort(proved)[::-1][ceil(USUAL * N_RUNS) - 1])
    if usual < 0:
        return Firsts(np.sort(needed), 0.0, 0.0)
    above, errors = share[: usual + 1], wrong[: usual + 1]
    return Firsts(np.sort(needed), float(above.sum()), float(above @ errors / above.sum()))


def _bins(workload: Workload) -> tuple[Floats, Floats]:
    """Return each threshold bin's share of documents, and its wrong share.

    The thresholds are quantiles of the confidences, the highest first, as those of a certification.
    """
    pool = np.sort(np.asarray(workload.confidences, dtype=np.float64))[::-1]
    ranks = np.ceil(np.linspace(0, len(pool), _THRESHOLDS + 1)[1:]).astype(np.int64)
    thresholds = np.unique(pool[ranks - 1])[::-1]
    # A document belongs to the first threshold that is not above its confidence.
    place = np.searchsorted(-thresholds, -np.asarray(workload.confidences), side="left")
    n = np.bincount(place, minlength=len(thresholds))
    return n / n.sum(), np.bincount(place, workload.wrong(), len(thresholds)) / n


def _proved(audited: _Audited, reread: float, most_wrong: float, risk: float) -> Counts:
    """Return the last step that each run proves, or -1.

    A step is proved where neither "every error was found" nor "the errors beyond those found were
    missed" can hold; the joint test comes to the same in 97 of 100 cases. Testing begins where most
    runs pass, as a certification begins where it expects the highest power.
    """
    n, found, missed = (each.cumsum(axis=1) for each in audited)
    passed = upper_tail(n - found - missed, n, 1.0 - most_wrong) <= risk
    if reread < 1.0:
        unseen = special.gammainccinv(missed + 1.0, risk) / reread if reread > 0.0 else inf
        passed &= found <= n * most_wrong - unseen
    start = int(passed.mean(axis=0).argmax())
    in_order = np.logical_and.accumulate(passed[:, start:], axis=1)
    return np.where(passed[:, start], start + in_order.sum(axis=1) - 1, -1)


def quantile(needed: Counts, share: float) -> int | None:
    """Return the least number that suffices in a share of the runs."""
    found = int(needed[ceil(share * len(needed)) - 1])
    return None if found == NEVER else found
