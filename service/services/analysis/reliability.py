"""Reliability: how well confidence agrees with accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.models.results import ReliabilityCurve
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.reports import Share, Standing, standing
from setwise.service.services.analysis.accuracy import share
from setwise.shown import Probability, Shown

BUCKETS = 10

LEAST_CHECKED = 50
"""Fewest checked documents for a curve; with fewer, it would show only chance."""

MOST_CHECKED = 1_200
"""Most checked documents in a curve, the newest; more would not change it visibly."""

LEVEL = 0.9
"""Share of curves inside the band, at each point, if confidences are true."""


@dataclass(frozen=True)
class Bucket(Shown):
    """Documents of about the same confidence."""

    low: Probability
    """Included."""
    high: Probability
    documents: int
    confidence: Probability | None
    """Mean, over the checked documents."""
    accuracy: Share


@dataclass(frozen=True)
class Curve(ReliabilityCurve):
    """An isotonic curve of accuracy over confidence, and a consistency band.

    At each point, the share `level` of the curves of honest confidences lies within the band.
    """

    checked: int
    """Documents that it is drawn from, the newest."""
    judgement: str
    """What the confidences are worth, in a sentence."""


@dataclass(frozen=True)
class Reliability(Shown):
    """How well confidence agrees with being right."""

    documents: int
    checked: int
    brier: float | None
    """Mean squared error of the confidence; checked documents are weighted to represent all."""
    buckets: tuple[Bucket, ...]
    curve: Curve | None
    """null until 50 documents are checked."""


def draw_curve(checks: Sequence[CheckedDocument], known: Standing) -> Curve | None:
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
    right = [check.right is True for check, _ in rows]
    weights = [weight for _, weight in rows]
    drawn = draw_reliability(confidence, right, sample_weight=weights, level=LEVEL)
    judgement = str(judge_scores(confidence, right, sample_weight=weights))
    return Curve(**vars(drawn), checked=len(rows), judgement=judgement)


def measure(checks: Sequence[CheckedDocument], risk: float) -> Reliability:
    """Return the reliability of documents, newest first, in buckets of equal width."""
    known = standing(checks)
    buckets: list[list[CheckedDocument]] = [[] for _ in range(BUCKETS)]
    for check in checks:
        buckets[min(int(check.confidence * BUCKETS), BUCKETS - 1)].append(check)
    weight = [known.of(check) for check in checks]
    square = [
        each * (check.confidence - bool(check.right)) ** 2
        for check, each in zip(checks, weight, strict=True)
    ]
    return Reliability(
        documents=len(checks),
        checked=sum(each > 0.0 for each in weight),
        brier=sum(square) / sum(weight) if sum(weight) else None,
        buckets=tuple(_bucket(place, inside, known, risk) for place, inside in enumerate(buckets)),
        curve=draw_curve(checks[::-1], known),
    )


def _bucket(place: int, inside: Sequence[CheckedDocument], known: Standing, risk: float) -> Bucket:
    weighed = [(check.confidence, known.of(check)) for check in inside]
    total = sum(weight for _, weight in weighed)
    return Bucket(
        low=place / BUCKETS,
        high=(place + 1) / BUCKETS,
        documents=len(inside),
        confidence=sum(each * weight for each, weight in weighed) / total if total else None,
        accuracy=share(inside, risk, known),
    )
