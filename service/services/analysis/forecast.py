"""Forecasts of how many past documents a policy sends, how accurately.

Only a certificate proves a threshold, not these numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.policy import RoutingPolicy, ThresholdMode
from setwise.service.domain.reports import Evidence, Share, standing
from setwise.service.services.analysis.accuracy import Largest, Sums, columns, estimated

MOST_DOCUMENTS = 50_000

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
    evidence: Sequence[Evidence],
    thresholds: Sequence[float | None],
    *,
    sendable: Sequence[bool],
    risk: float,
    days: float,
) -> list[Forecast]:
    """Return a forecast for each threshold.

    ``thresholds``: None sends nothing.
    ``sendable``: Whether each document can be sent at all.
    ``risk``: Risk of each bound.
    ``days``: Days in which the documents arrived, at least 1.
    """
    import numpy as np  # noqa: PLC0415 -- loads slowly

    weights = standing(evidence)
    order = sorted(
        (each for each, may in zip(evidence, sendable, strict=True) if may),
        key=lambda each: -each.confidence,
    )
    counted, most = columns([(each, weights.of(each)) for each in order])
    every = (
        [1] * len(order),
        [each.confidence for each in order],
        [weights.hides(each) for each in order],
        *counted,
    )
    sums, largest = np.zeros((len(every), len(order) + 1)), np.zeros((len(most), len(order) + 1))
    sums[:, 1:] = np.cumsum(np.array(every, dtype=np.float64), axis=1)
    largest[:, 1:] = np.maximum.accumulate(np.array(most), axis=1)
    least = -np.array([each.confidence for each in order])
    places = [
        0 if at is None else int(np.searchsorted(least, -at, side="right")) for at in thresholds
    ]
    sent, confidence, hidden, *checks = sums[:, places]
    accuracies = estimated(Sums(*checks), Largest(*largest[:, places]), risk)
    documents = len(evidence)
    return [
        Forecast(
            threshold=at,
            documents=documents,
            sent=int(sent[i]),
            coverage=float(sent[i] / documents) if documents else 0.0,
            expected_accuracy=float(confidence[i] / sent[i]) if sent[i] else None,
            accuracy=replace(accuracy, value=None, low=None, high=None)
            if hidden[i] > _HIDDEN * sent[i]
            else accuracy,
            reviews=documents - int(sent[i]),
            reviews_a_day=float((documents - sent[i]) / days),
        )
        for i, (at, accuracy) in enumerate(zip(thresholds, accuracies, strict=True))
    ]


def over(
    evidence: Sequence[Evidence],
    thresholds: Sequence[float | None],
    policy: RoutingPolicy,
) -> list[Forecast]:
    """Return a forecast for each threshold under a policy's rules."""
    sendable = [_sendable(each, policy) for each in evidence]
    days = _days(evidence)
    return forecasts(evidence, thresholds, sendable=sendable, risk=policy.risk, days=days)


def _sendable(document: Evidence, policy: RoutingPolicy) -> bool:
    unproved = document.uncalibrated and policy.threshold_mode is ThresholdMode.FIXED
    return not unproved and document.passes(policy.rules)


def under(
    evidence: Sequence[Evidence], policy: RoutingPolicy, *, tripped: bool = False
) -> Forecast:
    """Return the forecast of a policy, for each document with the threshold of its segment.

    ``tripped``: Ignore a tripped breaker.
    """

    def least(gate: RoutingPolicy) -> float | None:
        return gate.least_confidence if gate.auto_send and (tripped or gate.sends) else None

    if policy.segmentation is None:
        return over(evidence, [least(policy)], policy)[0]
    limits = [
        None
        if (value := policy.value_of(each.segment, each.metadata)) is None
        # A document without a known segment is not sent.
        else least(policy.gate_named(value))
        for each in evidence
    ]
    sendable = [
        at is not None and each.confidence >= at and _sendable(each, policy)
        for each, at in zip(evidence, limits, strict=True)
    ]
    days = _days(evidence)
    (forecast,) = forecasts(evidence, [0.0], sendable=sendable, risk=policy.risk, days=days)
    return replace(forecast, threshold=None)


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


def of_segment(
    evidence: list[Evidence], policy: RoutingPolicy, segment: str | None
) -> list[Evidence]:
    """Return the evidence on a segment's documents; all without a segment."""
    if segment is None:
        return evidence
    return [each for each in evidence if policy.value_of(each.segment, each.metadata) == segment]


def _days(evidence: Sequence[Evidence]) -> float:
    instants = [each.created_at for each in evidence]
    span_s = (max(instants) - min(instants)).total_seconds() if instants else 0.0
    return max(span_s / SECONDS_A_DAY, 1.0)
