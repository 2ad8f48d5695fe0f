"""Plans of audits: their cost, certificates, and time to find a drop."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from setwise.service.domain.breaker import RUN_LENGTH
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.routing.audits import plausible_threshold, reread_rate
from setwise.service.services.analysis.proofs import SCHEDULE, Schedule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from setwise.models.guarantees import planning

Plan: TypeAlias = "planning.Plan"
"""What rates lead to."""

MOST_RATES = 6
"""Most rates of a kind in a request; every combination is a plan."""

MOST_BINS = 100
_CANNOT = "Audits cannot be planned like this."
_POINTS = 5_000  # that stand for a described distribution
_CERTIFICATION = (0.02, 0.04, 0.08, 0.12, 0.2)
_RAMP_UP = (0.1, 0.3, 0.6)
_REREAD = (0.1, 0.25, 0.5)


class Bin(NamedTuple):
    """Documents of one confidence."""

    confidence: float
    """In [0, 1]."""
    share: float
    """How many there are, against the other bins; above 0."""


@dataclass(frozen=True)
class PlanRequest:
    """What to plan for."""

    target_accuracy: float | None = None
    risk: float | None = None
    """None: those of the policy."""
    documents_a_week: float | None = None
    """None: as in the last weeks."""
    distribution: Sequence[Bin] | None = None
    """None: the confidences of recent predictions."""
    miss_rate: float = 0.05
    false_alarm_rate: float = 0.1
    """How often auditors agree with a wrong set, and contradict a right one, in [0, 1)."""
    overconfidence: float = 0.0
    """How much higher than the accuracy the confidences are, in [0, 1)."""
    certification_rates: Sequence[float] = ()
    ramp_up_rates: Sequence[float] = ()
    gold_reread_rates: Sequence[float] = ()
    """Rates to combine; empty for the usual ones and those of the policy."""
    audit_price: float = 1.0
    review_price: float = 1.0
    error_price: float = 10.0
    """Not negative, in any unit."""
    drop: float = 0.05
    """How far below the target the accuracy falls in the drop to be found."""
    certificate_weeks: float | None = 26.0
    find_weeks: float | None = 26.0
    """Weeks in which the certificate should come and the drop be found; None for any."""

    def under(self, policy: RoutingPolicy) -> RoutingPolicy:
        """Return the policy with the target and the risk that are planned for.

        Raises `InvalidRequest` if one of them is out of range.
        """
        faults = []
        for name in ("target_accuracy", "risk"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < 1.0:
                detail = f"is {value}; it must lie between 0 and 1, both excluded"
                faults.append(FieldFault(f"/{name}", detail))
        if faults:
            raise InvalidRequest(_CANNOT, faults)
        return replace(
            policy,
            target_accuracy=self.target_accuracy or policy.target_accuracy,
            risk=self.risk or policy.risk,
        )

    def faults(self, target: float) -> Iterator[FieldFault]:
        """Yield what is wrong with it, for the target that is planned for."""
        for name in ("miss_rate", "false_alarm_rate", "overconfidence"):
            value = getattr(self, name)
            if not 0.0 <= value < 1.0:
                yield FieldFault(f"/{name}", f"is {value}; it must be from 0 to below 1")
        for name in ("documents_a_week", "certificate_weeks", "find_weeks"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < 1e9:
                yield FieldFault(f"/{name}", f"is {value}; it must be above 0 and below a billion")
        for name in ("audit_price", "review_price", "error_price"):
            value = getattr(self, name)
            if not 0.0 <= value < 1e9:
                yield FieldFault(f"/{name}", f"is {value}; it must be from 0 to below a billion")
        if not 0.0 < self.drop <= target:
            detail = f"is {self.drop}; it must be above 0 and at most the target of {target:g}"
            yield FieldFault("/drop", detail)
        yield from self._rate_faults()
        yield from self._distribution_faults()

    def _rate_faults(self) -> Iterator[FieldFault]:
        for name in ("certification_rates", "ramp_up_rates", "gold_reread_rates"):
            rates = getattr(self, name)
            if len(rates) > MOST_RATES:
                yield FieldFault(f"/{name}", f"has {len(rates)} rates; send at most {MOST_RATES}")
            for place, rate in enumerate(rates):
                if not 0.0 < rate <= 1.0:
                    detail = f"is {rate}; it must be above 0 and at most 1"
                    yield FieldFault(f"/{name}/{place}", detail)

    def _distribution_faults(self) -> Iterator[FieldFault]:
        if self.distribution is None:
            return
        if not 1 <= len(self.distribution) <= MOST_BINS:
            detail = f"has {len(self.distribution)} entries; send from 1 to {MOST_BINS}"
            yield FieldFault("/distribution", detail)
        for place, one in enumerate(self.distribution):
            if not 0.0 <= one.confidence <= 1.0:
                detail = f"is {one.confidence}; it must lie between 0 and 1"
                yield FieldFault(f"/distribution/{place}/confidence", detail)
            if not 0.0 < one.share < 1e9:
                detail = f"is {one.share}; it must be above 0 and below a billion"
                yield FieldFault(f"/distribution/{place}/share", detail)


@dataclass(frozen=True)
class Arrivals:
    """What arrived lately."""

    confidences: Sequence[float] = field(default=(), repr=False)
    """Of documents that may be sent."""
    documents_a_week: float | None = None
    """None without documents."""
    sendable: float = 1.0
    """Share of the documents that may be sent, in (0, 1]."""


@dataclass(frozen=True)
class Planned:
    """Plans, with what they are for."""

    target_accuracy: float
    risk: float
    documents_a_week: float
    sendable: float
    """Share of the documents that may be sent at all."""
    confidences: int
    """Number of confidences that the plans rest on."""
    items: "tuple[Plan, ...]"
    """Those that meet the goals, the cheapest first; then the others, the soonest first."""
    recommended: "Plan | None"
    """The cheapest one that meets the goals."""
    now: "Plan | None"
    """What the rates of the policy lead to; None if it audits nothing."""
    sentence: str
    """The recommendation, or why there is none."""


def plan_audits(
    request: PlanRequest,
    policy: RoutingPolicy,
    arrivals: Arrivals,
    run_length: float = RUN_LENGTH,
    schedule: Schedule = SCHEDULE,
) -> Planned:
    """Return plans of audits for these arrivals.

    Raises `InvalidRequest` if a value is out of range, or nothing says what will arrive.

    ``run_length``: Of the breaker.
    """
    from setwise.models.guarantees.planning import Goals, Prices, plans  # noqa: PLC0415 -- numpy loads slowly
    from setwise.models.guarantees.workload import Workload  # noqa: PLC0415 -- as above

    policy = request.under(policy)
    target, risk = policy.target_accuracy, policy.risk
    documents = request.documents_a_week or arrivals.documents_a_week
    faults = [*request.faults(target), *_unknown(request, arrivals, documents)]
    if faults or documents is None:
        raise InvalidRequest(_CANNOT, faults)
    confidences = _confidences(request, arrivals)
    workload = Workload(
        confidences=confidences,
        documents_a_week=documents,
        sendable=arrivals.sendable if request.distribution is None else 1.0,
        target=target,
        risk=risk,
        miss_rate=request.miss_rate,
        false_alarm_rate=request.false_alarm_rate,
        overconfidence=request.overconfidence,
        first_attempt=schedule.first(policy),
        growth=schedule.growth,
        run_length=run_length,
    )
    known = confidences.tolist()
    threshold = plausible_threshold(known, target)
    made = partial(
        plans,
        workload,
        prices=Prices(request.audit_price, request.review_price, request.error_price),
        goals=Goals(request.drop, request.certificate_weeks, request.find_weeks),
        # The share of agreements that is read again where sets may be sent.
        reread_above=lambda share: reread_rate(share, 1.0, threshold, known),
    )
    found = made(
        audit=request.certification_rates or _CERTIFICATION,
        ramp_up=request.ramp_up_rates or _RAMP_UP,
        reread=request.gold_reread_rates or _REREAD,
    )
    audits = policy.audits
    (present,) = made(
        audit=[audits.certification_rate],
        ramp_up=[audits.ramp_up],
        reread=[audits.gold_reread_rate],
    )
    recommended = found[0] if found[0].meets else None
    return Planned(
        target_accuracy=target,
        risk=risk,
        documents_a_week=documents,
        sendable=workload.sendable,
        confidences=len(confidences),
        items=tuple(found),
        recommended=recommended,
        now=present if audits.certification_rate > 0.0 else None,
        sentence=_sentence(recommended, found, target),
    )


def _unknown(
    request: PlanRequest, arrivals: Arrivals, documents: float | None
) -> Iterator[FieldFault]:
    because = "is missing, and nothing has been predicted yet"
    if request.distribution is None and not arrivals.confidences:
        yield FieldFault("/distribution", because)
    if documents is None:
        yield FieldFault("/documents_a_week", because)


def _confidences(request: PlanRequest, arrivals: Arrivals) -> "NDArray[np.float64]":
    import numpy as np  # noqa: PLC0415 -- it loads slowly

    if request.distribution is None:
        return np.asarray(arrivals.confidences, dtype=np.float64)
    values, shares = np.array(request.distribution, dtype=np.float64).T
    return np.repeat(values, np.ceil(_POINTS * shares / shares.sum()).astype(np.int64))


def _sentence(plan: "Plan | None", found: "Sequence[Plan]", target: float) -> str:
    if plan is None or plan.delay is None or plan.automation is None:
        delays = [one.delay.weeks_at_most for one in found if one.delay is not None]
        soonest = min((one for one in delays if one is not None), default=None)
        return (
            "None of these plans meets the goals: the soonest finds the drop within "
            f"{_weeks(soonest)}. Allow more time, look for a larger drop, or lower the target."
        )
    rates, delay = plan.rates, plan.delay
    return (
        f"Audit {rates.ramp_up_rate:.0%} of the documents until the first certificate, which takes "
        f"{_weeks(plan.weeks)}, and {rates.certification_rate:.0%} from then on; have "
        f"{rates.gold_reread_rate:.0%} of the agreements read again. Then {plan.automation:.1%} "
        f"are sent, and a drop to {target - delay.drop:.1%} takes {_weeks(delay.weeks)} to find."
    )


def _weeks(weeks: int | None) -> str:
    if weeks is None:
        return "years"
    return "about a week" if weeks == 1 else f"about {weeks} weeks"
