"""Forecasts of how many past documents a policy sends, how accurately.

A set counts as right or wrong if a person or a later outcome says so; `standing` weights these
checks. Only a certificate proves a threshold, not these numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.reports import Cell, Evidence, Known, Standing, standing, verdict
from setwise.service.domain.rules import Rule

MOST_DOCUMENTS = 50_000
PREVIEWED = 5_000
"""Documents in a preview, which reads their labels and metadata."""

SECONDS_A_DAY = 86_400

_HIDDEN = 0.05
"""If more than this share of sent documents cannot be checked, their accuracy is unknown."""


@dataclass(frozen=True)
class Share:
    """The share of right sets among checked ones, and an estimate.

    The estimate is for all sets.

    Attributes
    ----------
    checked, right : int
        Counts of checked sets and of right ones among them.
    value, low, high : float or None
        Estimate for all sets, with exact bounds, each at the requested risk. Each checked set
        stands for the sets that were as likely to be checked. None without checked sets.
    """

    checked: int
    right: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Forecast:
    """The documents that a policy sends and leaves to people.

    Attributes
    ----------
    expected_accuracy : float or None
        Mean confidence of the sent sets.
    reviews_a_day : float
        Documents left to people per day, at the pace of these documents.
    """

    threshold: float | None
    documents: int
    sent: int
    coverage: float
    expected_accuracy: float | None
    accuracy: Share
    reviews: int
    reviews_a_day: float


def forecasts(
    found: Sequence[Cell | Evidence],
    thresholds: Sequence[float | None],
    *,
    sendable: Sequence[bool],
    risk: float,
    days: float,
) -> list[Forecast]:
    """Return a forecast for each threshold.

    Parameters
    ----------
    thresholds : sequence of float or None
        None sends nothing.
    sendable : sequence of bool
        Whether each of ``found`` can be sent at all.
    risk : float
        Risk of each bound.
    days : float
        Days in which the documents arrived, at least 1.
    """
    import numpy as np  # noqa: PLC0415 -- it and scipy load slowly

    from setwise.models.guarantees.proportions import Sums, bound_shares  # noqa: PLC0415 -- as above

    known = standing(found)
    order = sorted(
        (one for one, may in zip(found, sendable, strict=True) if may), key=lambda one: -one.least
    )
    weight = np.array([known.of(one) for one in order])
    n = np.array([one.documents for one in order], dtype=np.float64)
    checked, right = n * (weight > 0), n * [verdict(one) is True for one in order] * (weight > 0)
    columns = (
        n,
        [one.confidence for one in order],
        n * [known.hides(one) for one in order],
        checked,
        right,
        checked * weight,
        checked * weight**2,
        right * weight,
        right * weight**2,
    )
    sums = np.zeros((len(columns), len(order) + 1))
    sums[:, 1:] = np.cumsum(np.array(columns).reshape(len(columns), -1), axis=1)
    least = -np.array([one.least for one in order])
    places = [
        0 if at is None else int(np.searchsorted(least, -at, side="right")) for at in thresholds
    ]
    sent, confidence, hidden, n_checked, n_right, *weights = sums[:, places]
    value, low, high = bound_shares(Sums(*weights), risk)
    documents = sum(one.documents for one in found)
    made = []
    for i, at in enumerate(thresholds):
        accuracy = Share(int(n_checked[i]), int(n_right[i]))
        if n_checked[i] and hidden[i] <= _HIDDEN * sent[i]:
            accuracy = replace(
                accuracy, value=float(value[i]), low=float(low[i]), high=float(high[i])
            )
        made.append(
            Forecast(
                threshold=at,
                documents=documents,
                sent=int(sent[i]),
                coverage=float(sent[i] / documents) if documents else 0.0,
                expected_accuracy=float(confidence[i] / sent[i]) if sent[i] else None,
                accuracy=accuracy,
                reviews=documents - int(sent[i]),
                reviews_a_day=float((documents - sent[i]) / days),
            )
        )
    return made


Weighed = tuple[Known, float]
"""Predictions of one kind, and how many others each of them stands for."""


def share(found: Sequence[Known], risk: float, known: Standing | None = None) -> Share:
    """Return the share of ``found`` that is right, estimated from checked sets.

    Parameters
    ----------
    known : Standing or None
        Weights of checked sets; by default, computed from ``found``.
    """
    known = known or standing(found)
    return shares([[(one, known.of(one)) for one in found]], risk)[0]


def shares(groups: Sequence[Sequence[Weighed]], risk: float) -> list[Share]:
    """Return the share of each group that is right, computed together."""
    from setwise.models.guarantees.proportions import Sums, bound_shares  # noqa: PLC0415 -- as above

    counted = [_counted(group) for group in groups]
    some = [one for one in counted if one.checked]
    if not some:
        return [Share(0, 0) for _ in counted]
    _, _, *sums = zip(*some, strict=True)
    bounds = zip(*bound_shares(Sums(*sums), risk), strict=True)
    return [
        Share(one.checked, one.right, *map(float, next(bounds))) if one.checked else Share(0, 0)
        for one in counted
    ]


class _Counted(NamedTuple):
    """Counts of checked and right documents, and weight sums for `Sums`."""

    checked: int
    right: int
    weight: float
    squares: float
    hit: float
    hit_squares: float


def _counted(group: Sequence[Weighed]) -> _Counted:
    checked = n_right = 0
    weights = squares = hit = hit_squares = 0.0
    for one, weight in group:
        if weight:
            n = one.documents
            weighed, squared = n * weight, n * weight**2
            checked += n
            weights += weighed
            squares += squared
            if verdict(one):
                n_right += n
                hit += weighed
                hit_squares += squared
    return _Counted(checked, n_right, weights, squares, hit, hit_squares)


def in_force(policy: RoutingPolicy) -> float | None:
    """Return the lowest confidence that is sent; None if nothing is sent."""
    return policy.least_confidence if policy.sends else None


def over(
    found: Sequence[Evidence],
    thresholds: Sequence[float | None],
    rules: Sequence[Rule],
    risk: float,
) -> list[Forecast]:
    """Return a forecast for each threshold under these rules."""
    instants = [one.created_at for one in found]
    span_s = (max(instants) - min(instants)).total_seconds() if instants else 0.0
    return forecasts(
        found,
        thresholds,
        sendable=[one.passes(rules) for one in found],
        risk=risk,
        days=max(span_s / SECONDS_A_DAY, 1.0),
    )
