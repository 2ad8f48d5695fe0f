"""Reliability: how well confidence agrees with accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.service.domain.reports import CheckedSet, Evidence, Share, Standing, standing, verdict
from setwise.service.services.analysis.accuracy import share

BUCKETS = 10

LEAST_CHECKED = 50
"""Fewest checked documents for a curve; with fewer, it would show only chance."""

MOST_CHECKED = 1_200
"""Most checked documents in a curve, the newest; more would not change it visibly."""

LEVEL = 0.9
"""Share of curves inside the band, at each point, if confidences are true."""


@dataclass(frozen=True)
class Bucket:
    """Documents of similar confidence."""

    low: float
    high: float
    """Range of confidences, ``low`` included."""
    documents: int
    confidence: float | None
    """Mean over the checked documents, to compare with the accuracy."""
    accuracy: Share


@dataclass(frozen=True)
class Curve:
    """A reliability curve with the band that true confidences would stay in."""

    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    """Points, and the curve and the band there; all in [0, 1]."""
    level: float
    """Share of curves inside the band, at each point, if confidences are true."""
    p_value: float
    """P-value of the hypothesis that the confidences are true, in (0, 1]."""
    checked: int
    """Number of documents in the curve."""
    judgement: str = ""
    """What the confidences are worth, in a sentence; see `judge_scores`."""


@dataclass(frozen=True)
class Reliability:
    """How well confidence agrees with accuracy."""

    documents: int
    checked: int
    brier: float | None
    """Mean squared difference between confidence and correctness; checked documents are weighted to
    represent all.
    """
    buckets: tuple[Bucket, ...]
    curve: Curve | None
    """None if too few documents are checked."""


def draw_curve(checks: Sequence[CheckedSet | Evidence], known: Standing) -> Curve | None:
    """Return the reliability curve of checked documents; None if too few.

    ``found``: The last `MOST_CHECKED` with a weight in ``known`` are used.
    """
    weighed = [(check, known.of(check)) for check in checks]
    rows = [(check, weight) for check, weight in weighed if weight > 0.0][-MOST_CHECKED:]
    if len(rows) < LEAST_CHECKED:
        return None
    from setwise.models.evaluation.judging import judge_scores  # noqa: PLC0415 -- loads slowly
    from setwise.models.evaluation.reliability import draw_reliability  # noqa: PLC0415 -- as above

    confidence = [check.confidence for check, _ in rows]
    right = [verdict(check) is True for check, _ in rows]
    weights = [weight for _, weight in rows]
    drawn = draw_reliability(confidence, right, sample_weight=weights, level=LEVEL)
    return Curve(
        drawn.confidence,
        drawn.accuracy,
        drawn.low,
        drawn.high,
        drawn.level,
        drawn.p_value,
        len(rows),
        str(judge_scores(confidence, right, sample_weight=weights)),
    )


def measure(checks: Sequence[Evidence], risk: float) -> Reliability:
    """Return the reliability of documents, newest first, in buckets of equal width."""
    known = standing(checks)
    buckets: list[list[Evidence]] = [[] for _ in range(BUCKETS)]
    for check in checks:
        buckets[min(int(check.confidence * BUCKETS), BUCKETS - 1)].append(check)
    weight = [known.of(check) for check in checks]
    square = [
        each * (check.confidence - bool(verdict(check))) ** 2
        for check, each in zip(checks, weight, strict=True)
    ]
    return Reliability(
        documents=len(checks),
        checked=sum(each > 0.0 for each in weight),
        brier=sum(square) / sum(weight) if sum(weight) else None,
        buckets=tuple(_bucket(place, inside, known, risk) for place, inside in enumerate(buckets)),
        curve=draw_curve(checks[::-1], known),
    )


def _bucket(place: int, inside: Sequence[Evidence], known: Standing, risk: float) -> Bucket:
    weighed = [(check.confidence, known.of(check)) for check in inside]
    total = sum(weight for _, weight in weighed)
    return Bucket(
        low=place / BUCKETS,
        high=(place + 1) / BUCKETS,
        documents=len(inside),
        confidence=sum(each * weight for each, weight in weighed) / total if total else None,
        accuracy=share(inside, risk, known),
    )
