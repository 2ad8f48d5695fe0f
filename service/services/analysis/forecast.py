"""Forecasts of how many past documents a policy sends, how accurately.

Only a certificate proves a threshold, not these numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.policy import RoutingPolicy, ThresholdMode
from setwise.service.domain.reports import Cell, Evidence, Share, standing
from setwise.service.services.analysis.accuracy import Largest, Sums, columns, estimated

MOST_DOCUMENTS = 50_000
PREVIEWED = 5_000
"""Documents in a preview, which reads their labels and metadata."""

SECONDS_A_DAY = 86_400

_HIDDEN = 0.05
"""If more than this share of sent documents cannot be checked, their accuracy is unknown."""


@dataclass(frozen=True)
class Forecast:
    """The documents that a policy sends and leaves to people."""

    threshold: float | None
    documents: int
    sent: int
    coverage: float
    expected_accuracy: float | None
    """Mean confidence of the sent sets."""
    accuracy: Share
    reviews: int
    reviews_a_day: float
    """Documents left to people per day, at the pace of these documents."""


def forecasts(
    found: Sequence[Cell | Evidence],
    thresholds: Sequence[float | None],
    *,
    sendable: Sequence[bool],
    risk: float,
    days: float,
) -> list[Forecast]:
    """Return a forecast for each threshold.

    ``thresholds``: None sends nothing.
    ``sendable``: Whether each of ``found`` can be sent at all.
    ``risk``: Risk of each bound.
    ``days``: Days in which the documents arrived, at least 1.
    """
    import numpy as np  # noqa: PLC0415 -- loads slowly

    known = standing(found)
    order = sorted(
        (one for one, may in zip(found, sendable, strict=True) if may), key=lambda one: -one.least
    )
    counted, most = columns([(one, known.of(one)) for one in order])
    every = (
        [one.documents for one in order],
        [one.confidence for one in order],
        [one.documents * known.hides(one) for one in order],
        *counted,
    )
    sums, largest = np.zeros((len(every), len(order) + 1)), np.zeros((len(most), len(order) + 1))
    sums[:, 1:] = np.cumsum(np.array(every, dtype=np.float64), axis=1)
    largest[:, 1:] = np.maximum.accumulate(np.array(most), axis=1)
    least = -np.array([one.least for one in order])
    places = [
        0 if at is None else int(np.searchsorted(least, -at, side="right")) for at in thresholds
    ]
    sent, confidence, hidden, *checks = sums[:, places]
    accuracies = estimated(Sums(*checks), Largest(*largest[:, places]), risk)
    documents = sum(one.documents for one in found)
    made = []
    for i, (at, accuracy) in enumerate(zip(thresholds, accuracies, strict=True)):
        unknown = hidden[i] > _HIDDEN * sent[i]
        made.append(
            Forecast(
                threshold=at,
                documents=documents,
                sent=int(sent[i]),
                coverage=float(sent[i] / documents) if documents else 0.0,
                expected_accuracy=float(confidence[i] / sent[i]) if sent[i] else None,
                accuracy=replace(accuracy, value=None, low=None, high=None)
                if unknown
                else accuracy,
                reviews=documents - int(sent[i]),
                reviews_a_day=float((documents - sent[i]) / days),
            )
        )
    return made


def in_force(policy: RoutingPolicy) -> float | None:
    """Return the lowest confidence that is sent; None if nothing is sent."""
    return policy.least_confidence if policy.sends else None


def over(
    found: Sequence[Evidence],
    thresholds: Sequence[float | None],
    policy: RoutingPolicy,
) -> list[Forecast]:
    """Return a forecast for each threshold under a policy's rules."""
    sendable = [_sendable(one, policy) for one in found]
    return forecasts(found, thresholds, sendable=sendable, risk=policy.risk, days=_days(found))


def _sendable(one: Evidence, policy: RoutingPolicy) -> bool:
    unproved = one.uncalibrated and policy.threshold_mode is ThresholdMode.FIXED
    return not unproved and one.passes(policy.rules)


def under(found: Sequence[Evidence], policy: RoutingPolicy, *, tripped: bool = False) -> Forecast:
    """Return the forecast of a policy, for each document with the threshold of its segment.

    ``tripped``: Ignore a tripped breaker.
    """

    def least(gate: RoutingPolicy) -> float | None:
        return gate.least_confidence if gate.auto_send and (tripped or gate.sends) else None

    if policy.segmentation is None:
        return over(found, [least(policy)], policy)[0]
    limits = [
        None
        if (value := policy.value_of(one.segment, one.metadata)) is None
        # A document without a known segment is not sent.
        else least(policy.gate_named(value))
        for one in found
    ]
    sendable = [
        at is not None and one.confidence >= at and _sendable(one, policy)
        for one, at in zip(found, limits, strict=True)
    ]
    (made,) = forecasts(found, [0.0], sendable=sendable, risk=policy.risk, days=_days(found))
    return replace(made, threshold=None)


def gate_of(policy: RoutingPolicy, segment: str | None, *, needed: bool = False) -> RoutingPolicy:
    """Return the policy of a segment; the whole one without a segment.

    Raises `InvalidRequest` if the policy does not list it, or one is ``needed``.
    """
    if segment is not None:
        return policy.gate_named(segment)
    if needed and policy.segmentation is not None:
        fault = FieldFault("/segment", "is missing; name a segment")
        raise InvalidRequest("This cannot be reported without a segment.", [fault])
    return policy


def of_segment(found: list[Evidence], policy: RoutingPolicy, segment: str | None) -> list[Evidence]:
    """Return the evidence on a segment's documents; all without a segment."""
    if segment is None:
        return found
    return [one for one in found if policy.value_of(one.segment, one.metadata) == segment]


def _days(found: Sequence[Evidence]) -> float:
    instants = [one.created_at for one in found]
    span_s = (max(instants) - min(instants)).total_seconds() if instants else 0.0
    return max(span_s / SECONDS_A_DAY, 1.0)
