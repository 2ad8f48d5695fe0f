"""How well confidence agrees with being right."""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.verdicts import CheckedSet, Evidence, Standing, standing, verdict
from setwise.service.services.forecast import Share, check_documents, share
from setwise.service.stores.transaction import Transactions

BUCKETS = 10

LEAST_CHECKED = 50
"""Checked documents below which a curve would show nothing but chance."""

MOST_CHECKED = 1_200
"""The newest ones, from which the curve is drawn: more change it by less than its own width."""

LEVEL = 0.9
"""Share of honest curves inside the band, point by point."""


@dataclass(frozen=True)
class Bucket:
    """Documents of about the same confidence.

    Attributes
    ----------
    low, high : float
        The confidences that it holds, ``low`` included.
    confidence : float or None
        Their mean, over the checked documents, to be compared with the accuracy.
    """

    low: float
    high: float
    documents: int
    confidence: float | None
    accuracy: Share


@dataclass(frozen=True)
class Curve:
    """A reliability curve with the band in which honest confidences would lie.

    Attributes
    ----------
    confidence, accuracy, low, high : tuple of float
        Places, the curve there, and the band there; all in [0, 1].
    level : float
        Share of honest curves inside the band, point by point.
    p_value : float
        Of the hypothesis that the confidences are true, in (0, 1].
    checked : int
        Documents that it is drawn from.
    """

    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: float
    p_value: float
    checked: int


@dataclass(frozen=True)
class Reliability:
    """How well confidence agrees with being right.

    Attributes
    ----------
    brier : float or None
        Mean squared difference between confidence and correctness, over all documents as far as
        the checked ones stand for them.
    curve : Curve or None
        None while too few are checked.
    """

    documents: int
    checked: int
    brier: float | None
    buckets: tuple[Bucket, ...]
    curve: Curve | None


def draw_curve(found: Sequence[CheckedSet | Evidence], known: Standing) -> Curve | None:
    """Return the reliability curve of checked documents; None if there are too few.

    Parameters
    ----------
    found : sequence
        The last `MOST_CHECKED` that ``known`` gives a weight count.
    """
    weighed = [(one, known.of(one)) for one in found]
    rows = [(one, weight) for one, weight in weighed if weight > 0.0][-MOST_CHECKED:]
    if len(rows) < LEAST_CHECKED:
        return None
    from setwise.models.evaluation.reliability import draw_reliability  # noqa: PLC0415 -- loads slowly

    drawn = draw_reliability(
        [one.confidence for one, _ in rows],
        [verdict(one) is True for one, _ in rows],
        sample_weight=[weight for _, weight in rows],
        level=LEVEL,
    )
    return Curve(
        drawn.confidence,
        drawn.accuracy,
        drawn.low,
        drawn.high,
        drawn.level,
        drawn.p_value,
        len(rows),
    )


@dataclass(frozen=True)
class ReportReliability:
    """Compare confidence with correctness on recent documents."""

    begin: Transactions

    def __call__(self, caller: Caller, documents: int) -> Reliability:
        """Return ten buckets of equal width, and the curve."""
        caller.require(Permission.REPORT)
        check_documents(documents)
        with self.begin(read_only=True) as transaction:
            policy = transaction.policies.current()
            found = transaction.history.evidence(documents, with_labels=False)
        known = standing(found)
        buckets: list[list[Evidence]] = [[] for _ in range(BUCKETS)]
        for one in found:
            buckets[min(int(one.confidence * BUCKETS), BUCKETS - 1)].append(one)
        weight = [known.of(one) for one in found]
        square = [
            each * (one.confidence - bool(verdict(one))) ** 2
            for one, each in zip(found, weight, strict=True)
        ]
        return Reliability(
            documents=len(found),
            checked=sum(each > 0.0 for each in weight),
            brier=sum(square) / sum(weight) if sum(weight) else None,
            buckets=tuple(
                _bucket(place, inside, known, policy.risk) for place, inside in enumerate(buckets)
            ),
            curve=draw_curve(found[::-1], known),
        )


def _bucket(place: int, inside: Sequence[Evidence], known: Standing, risk: float) -> Bucket:
    weighed = [(one.confidence, known.of(one)) for one in inside]
    total = sum(weight for _, weight in weighed)
    return Bucket(
        low=place / BUCKETS,
        high=(place + 1) / BUCKETS,
        documents=len(inside),
        confidence=sum(each * weight for each, weight in weighed) / total if total else None,
        accuracy=share(inside, risk, known),
    )
