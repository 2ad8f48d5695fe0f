"""Plans audits: weeks to a certificate or to an alarm, and costs.

A plan is simulated with the product's own tests: the fixed sequence of the certification at its
attempts, and the detector of the breaker. What they need is a number of audits, so one simulation
serves every audit rate. A label set is taken to be right with a probability of its confidence. The
detector starts without a past, as after a reset; a past only speeds it up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from setwise.models.guarantees.drift import bet_factors
from setwise.models.guarantees.retest import RUN_LENGTH as RETEST_RUN_LENGTH
from setwise.models.guarantees.workload import (
    N_RUNS,
    NEVER,
    USUAL,
    Counts,
    Firsts,
    Workload,
    check_shares,
    first_certificates,
    quantile,
)

MOST_AUDITS = 20_000
"""Audits after which a run ends without an alarm."""

OFTEN, ALMOST_ALWAYS = 0.8, 0.9
"""Shares of the runs in which a certificate, or an alarm, comes in time."""

YEAR = 52
"""Weeks over which costs are compared."""

_BLOCK = 256  # audits whose outcomes are drawn at a time


class Rates(NamedTuple):
    """How much is read.

    Attributes
    ----------
    certification_rate : float
        Share of the documents, in [0, 1], audited while sets are sent.
    ramp_up_rate : float
        Share audited while nothing is sent, in [0, 1].
    gold_reread_rate : float
        Share of the audits that a lead reads although the auditor agreed, in [0, 1].
    """

    certification_rate: float
    ramp_up_rate: float
    gold_reread_rate: float


class Prices(NamedTuple):
    """What a reading and an error cost, in any unit.

    Attributes
    ----------
    audit : float
        Of each audit, of each re-reading and of each adjudication.
    review : float
    error : float
        Of each set that is sent and wrong.
    """

    audit: float = 1.0
    review: float = 1.0
    error: float = 10.0


class Goals(NamedTuple):
    """What a plan should achieve.

    Attributes
    ----------
    drop : float
        How far below the target the accuracy falls in the drop to be found.
    certificate_weeks : float or None
        Weeks in which the first certificate should come, in 80 of 100 cases.
    find_weeks : float or None
        Weeks in which the drop should be found, in 90 of 100 cases.
    """

    drop: float = 0.05
    certificate_weeks: float | None = None
    find_weeks: float | None = None


class Week(NamedTuple):
    """An average week.

    Attributes
    ----------
    audits, rereads, adjudications, reviews : float
        Readings: blind audits, audits that a lead reads although the auditor agreed, contradictions
        that a lead decides, and documents that go to review.
    sent, errors : float
        Sets that are sent, and those of them that are wrong.
    """

    audits: float
    rereads: float
    adjudications: float
    reviews: float
    sent: float = 0.0
    errors: float = 0.0

    @property
    def readings(self) -> float:
        """Number of readings of any kind."""
        return self.audits + self.rereads + self.adjudications + self.reviews

    def cost(self, prices: Prices) -> float:
        """Return what the week costs."""
        read = self.audits + self.rereads + self.adjudications
        return prices.audit * read + prices.review * self.reviews + prices.error * self.errors


@dataclass(frozen=True)
class Delay:
    """Time from a drop of the accuracy until the breaker trips.

    Attributes
    ----------
    drop : float
        How far below the target the accuracy of what is sent falls.
    audits, audits_at_most : int or None
        Finished audits of sets that would be sent until the breaker trips: in half of the cases,
        and in 90 of 100, at most so many. None beyond `MOST_AUDITS`.
    weeks, weeks_at_most : int or None
        The same in weeks, begun ones included, while audits are read at once. None without audits.
    """

    drop: float
    audits: int | None
    audits_at_most: int | None
    weeks: int | None
    weeks_at_most: int | None


@dataclass(frozen=True)
class Plan:
    """What rates lead to.

    Attributes
    ----------
    rates : Rates
    weeks, weeks_at_most : int or None
        Weeks to the first certificate: in half of the cases, and in 80 of 100, at most so many.
        None if there is none in eight attempts.
    automation : float or None
        Share of all documents that is sent then, in half of the cases at least; None without a
        certificate.
    ramp_up : Week
        Before the certificate.
    running : Week or None
        After it.
    delay : Delay or None
        Until a drop is found and sending stops; None if nothing is sent.
    retest : Delay or None
        Until the certificate in force gives up its threshold for a higher one.
    cost_a_week : float
        Mean over the first year.
    meets : bool
        Whether it achieves the goals and certifies at all.
    """

    rates: Rates
    weeks: int | None
    weeks_at_most: int | None
    automation: float | None
    ramp_up: Week
    running: Week | None
    delay: Delay | None
    retest: Delay | None
    cost_a_week: float
    meets: bool


def plans(
    workload: Workload,
    *,
    audit: Sequence[float] = (0.02, 0.04, 0.08, 0.12, 0.2),
    ramp_up: Sequence[float] = (0.1, 0.3, 0.6),
    reread: Sequence[float] = (0.1, 0.25, 0.5),
    prices: Prices = Prices(),  # noqa: B008  # immutable
    goals: Goals = Goals(),  # noqa: B008  # immutable
    reread_above: Callable[[float], float] = float,
) -> list[Plan]:
    """Return a plan for each combination of rates, best first.

    Those that meet the goals come first, by cost, so the first plan is the one to recommend if it
    does. The others come by the time in which they find the drop, the soonest first.

    Parameters
    ----------
    audit, ramp_up, reread : sequence of float
        Rates to combine; a ramp-up rate below the audit rate is left out, unless all are.
    reread_above : callable
        Returns the share of agreements that is read again where sets may be sent, for the share of
        all agreements; by default the same.

    Raises
    ------
    ValueError
        If a rate or a goal is out of range.
    """
    found = []
    for again in reread:
        above = reread_above(again)
        first = first_certificates(workload, above)
        for rate in audit:
            higher = [one for one in ramp_up if one >= rate] or [rate]
            found += [
                _plan(workload, Rates(rate, up, again), first, prices, goals, above=above)
                for up in higher
            ]
    return sorted(found, key=_order)


def _order(plan: Plan) -> tuple[bool, float, float]:
    """Return what plans are sorted by."""
    weeks = None if plan.meets or plan.delay is None else plan.delay.weeks_at_most
    late = 0.0 if plan.meets else inf if weeks is None else float(weeks)
    return not plan.meets, late, plan.cost_a_week


def _plan(
    workload: Workload, rates: Rates, first: Firsts, prices: Prices, goals: Goals, *, above: float
) -> Plan:
    check_shares(**rates._asdict())
    weeks, at_most = (
        _weeks(quantile(first.audits, share), workload.candidates_a_week * rates.ramp_up_rate)
        for share in (USUAL, OFTEN)
    )
    ramp_up = _week(workload, rates.ramp_up_rate, rates.gold_reread_rate)
    if weeks is None:
        cost = ramp_up.cost(prices)
        return Plan(rates, None, None, None, ramp_up, None, None, None, cost, meets=False)
    running = _week(
        workload, rates.certification_rate, rates.gold_reread_rate, first.share, first.wrong
    )
    delay, retest = (
        weeks_to_find(
            goals.drop,
            target=workload.target,
            sent_a_week=workload.candidates_a_week * first.share,
            audit_rate=rates.certification_rate,
            reread_rate=above,
            miss_rate=workload.miss_rate,
            run_length=run_length,
            seed=workload.seed,
        )
        for run_length in (workload.run_length, RETEST_RUN_LENGTH)
    )
    before = min(weeks, YEAR)
    cost = (before * ramp_up.cost(prices) + (YEAR - before) * running.cost(prices)) / YEAR
    on_time = _within(at_most, goals.certificate_weeks)
    return Plan(
        rates,
        weeks,
        at_most,
        running.sent / workload.documents_a_week,
        ramp_up,
        running,
        delay,
        retest,
        cost,
        meets=on_time and _within(delay.weeks_at_most, goals.find_weeks),
    )


def _within(weeks: int | None, wanted: float | None) -> bool:
    return wanted is None or (weeks is not None and weeks <= wanted)


def _week(
    workload: Workload, rate: float, reread: float, share: float = 0.0, wrong: float = 0.0
) -> Week:
    """Return an average week that sends a share of the candidates."""
    audits = workload.candidates_a_week * rate
    sent = workload.candidates_a_week * share * (1.0 - rate)
    faults = float(workload.wrong().mean())
    contradicted = faults * (1.0 - workload.miss_rate) + (1.0 - faults) * workload.false_alarm_rate
    return Week(
        audits=audits,
        rereads=audits * (1.0 - contradicted) * reread,
        adjudications=audits * contradicted,
        reviews=workload.documents_a_week - audits - sent,
        sent=sent,
        errors=sent * wrong,
    )


def weeks_to_find(
    drop: float,
    *,
    target: float,
    sent_a_week: float,
    audit_rate: float,
    reread_rate: float = 0.0,
    miss_rate: float = 0.0,
    run_length: float = 5_000.0,
    seed: int = 0,
) -> Delay:
    """Return how long the breaker takes to find a drop.

    Parameters
    ----------
    drop : float
        How far below the target the accuracy of what is sent falls, above 0 and at most the target.
    target : float
        In (0, 1).
    sent_a_week : float
        Documents a week that are sent, or would be but for the audit.
    audit_rate : float
        Share of them, in [0, 1], that is audited to certify.
    reread_rate : float, default=0
        Share, in [0, 1], of the audits that a lead reads although the auditor agreed.
    miss_rate : float, default=0
        How often auditors agree with a set that is wrong, in [0, 1].
    run_length : float, default=5000
        Of the breaker: audits until a false alarm, on average at least.
    seed : int, default=0

    Raises
    ------
    ValueError
        If a value is out of range.

    Examples
    --------
    >>> often = weeks_to_find(0.05, target=0.9, sent_a_week=500, audit_rate=0.12)
    >>> seldom = weeks_to_find(0.05, target=0.9, sent_a_week=500, audit_rate=0.04)
    >>> often.weeks, seldom.weeks
    (5, 14)
    """
    check_shares(audit_rate=audit_rate, reread_rate=reread_rate, miss_rate=miss_rate)
    if not 0.0 < target < 1.0:
        raise ValueError(f"target is {target}; it must lie between 0 and 1")
    if not 0.0 < drop <= target:
        raise ValueError(f"drop is {drop}; it must be above 0 and at most the target of {target}")
    if not sent_a_week >= 0.0:
        raise ValueError(f"sent_a_week is {sent_a_week}; it must not be negative")
    if not run_length > 1.0:
        raise ValueError(f"run_length is {run_length}; it must be above 1")
    wrong = 1.0 - target + drop
    missed = wrong * miss_rate
    needed = _audits_to_alarm(wrong - missed, missed, reread_rate, target, run_length, seed)
    audits = [quantile(needed, share) for share in (USUAL, ALMOST_ALWAYS)]
    return Delay(drop, *audits, *(_weeks(one, sent_a_week * audit_rate) for one in audits))


@lru_cache(maxsize=256)
def _audits_to_alarm(  # noqa: PLR0917 -- the key of the cache
    found: float, missed: float, reread_rate: float, target: float, run_length: float, seed: int
) -> Counts:
    """Return, sorted, how many audits each run needs until the alarm.

    Parameters
    ----------
    found, missed : float
        Probabilities that an auditor finds an error, and that one is overlooked.

    Returns
    -------
    int64 ndarray of shape (N_RUNS,)
        `NEVER` without an alarm.
    """
    rng = np.random.default_rng(seed)
    wrong, right = bet_factors(target)
    # An error that a second reading finds stands for those that are not read again.
    reread = right + (wrong - right) / reread_rate if reread_rate > 0.0 else right
    factors = np.stack([wrong, reread, right])
    edges = np.array([found, found + missed * reread_rate])
    running = np.arange(N_RUNS)
    capital = np.zeros((N_RUNS, factors.shape[1]))
    needed = np.full(N_RUNS, NEVER)
    for first in range(0, MOST_AUDITS, _BLOCK):
        outcomes = np.searchsorted(edges, rng.random((_BLOCK, N_RUNS)), side="right")
        for place in range(min(_BLOCK, MOST_AUDITS - first)):
            capital += 1.0
            capital *= factors[outcomes[place, running]]
            alarm = capital.mean(axis=1) >= run_length
            if alarm.any():
                needed[running[alarm]] = first + place + 1
                running, capital = running[~alarm], capital[~alarm]
        if len(running) == 0:
            break
    needed.sort()
    needed.flags.writeable = False  # the cache hands it out again
    return needed


def _weeks(audits: int | None, a_week: float) -> int | None:
    """Return the weeks that audits take, begun ones included."""
    return None if audits is None or a_week == 0.0 else ceil(audits / a_week)
