"""Forecasts of how many past documents a policy sends, how accurately.

Only a certificate proves a threshold, not these numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.policy import Gate, Policy
from setwise.service.domain.reports import Share, standing
from setwise.service.services.analysis.accuracy import Largest, Sums, estimated, terms
from setwise.shown import Probability, Shown

MOST_DOCUMENTS = 50_000

SECONDS_A_DAY = 86_400

_HIDDEN = 0.05
"""If more than this share of sent documents cannot be checked, their accuracy is unknown."""


@dataclass(frozen=True)
class Forecast(Shown):
    """The effect of a policy on recent documents."""

    threshold: Probability | None
    """null: nothing is sent, or segments have their own."""
    documents: int
    sent: int
    coverage: Probability
    """Share that was sent automatically."""
    expected_accuracy: Probability | None
    """Mean confidence of what is sent."""
    accuracy: Share
    reviews: int
    reviews_a_day: float
    """Documents left to people, at the pace of these documents."""


@dataclass(frozen=True)
class AutomationCurve(Shown):
    """The share that would be sent at each threshold."""

    now: Forecast
    """The policy in force."""
    items: list[Forecast]
    """Thresholds from 0 to 1, under the rules in force."""


def forecasts(
    evidence: Sequence[CheckedDocument],
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
    counted, most = terms([(each, weights.of(each)) for each in order])
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
    evidence: Sequence[CheckedDocument],
    thresholds: Sequence[float | None],
    policy: Policy,
    segment: str | None = None,
) -> list[Forecast]:
    """Return a forecast for each threshold under a policy's rules.

    ``segment``: Of which all the documents are.
    """
    sendable = [_sendable(each, policy) for each in evidence]
    risk, days = (policy.gate_for(segment) or policy).risk, _days(evidence)
    return forecasts(evidence, thresholds, sendable=sendable, risk=risk, days=days)


def _sendable(document: CheckedDocument, policy: Policy) -> bool:
    unproved = document.uncalibrated and not policy.certified
    return not unproved and document.passes(policy.rules)


def under(
    evidence: Sequence[CheckedDocument],
    policy: Policy,
    segment: str | None = None,
    *,
    tripped: bool = False,
) -> Forecast:
    """Return the forecast of a policy, for each document with the threshold of its gate.

    ``segment``: Of which all the documents are.
    ``tripped``: Ignore a tripped breaker.
    """

    def least(gate: Gate | None) -> float | None:
        # A document without a known segment is not sent.
        if gate is None or not policy.auto_send or (gate.tripped and not tripped):
            return None
        return gate.least_confidence

    gate = policy.gate_for(segment)
    limits = [
        least(gate or policy.gate_of_stored(each.segment, each.metadata)) for each in evidence
    ]
    sendable = [
        at is not None and each.confidence >= at and _sendable(each, policy)
        for each, at in zip(evidence, limits, strict=True)
    ]
    risk, days = (gate or policy).risk, _days(evidence)
    (forecast,) = forecasts(evidence, [0.0], sendable=sendable, risk=risk, days=days)
    return replace(forecast, threshold=least(gate))


def of_segment(
    evidence: list[CheckedDocument], policy: Policy, segment: str | None
) -> list[CheckedDocument]:
    """Return the evidence on a segment's documents; all without a segment."""
    if segment is None:
        return evidence
    gate = policy.gate_named(segment)
    return [each for each in evidence if gate.has(each.segment, each.metadata)]


def _days(evidence: Sequence[CheckedDocument]) -> float:
    instants = [each.created_at for each in evidence]
    span_s = (max(instants) - min(instants)).total_seconds() if instants else 0.0
    return max(span_s / SECONDS_A_DAY, 1.0)
