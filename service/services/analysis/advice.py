"""Advice on thresholds, resting on checked documents and their bounds alone.

A model's own confidence is no evidence that its confidence is right, so it advises nothing. Only a
certificate proves a threshold.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import NormalDist

from setwise.service.services.analysis.forecast import Forecast
from setwise.shown import Shown


@dataclass(frozen=True)
class Advice(Shown):
    """The threshold that checks support for a target, or what is missing."""

    threshold: float | None
    """The lowest one whose checked sets bound the accuracy by the target; or null."""
    checks_missing: int | None
    """About how many more checks of what would be sent, or second readings of them, could support
    a threshold; null if there is one, or if the checks contradict all.
    """
    sentence: str
    """The same in words."""


def advise(forecasts: Sequence[Forecast], target: float, risk: float) -> Advice:
    """Return the lowest threshold that the checks support, in a fixed sequence as certificates.

    The thresholds are tested from a start that no check determines downwards, until one fails: the
    lowest of many bounds would miss the target far more often than one bound does.

    ``forecasts``: One for each threshold that could be advised.
    ``target``: Share of sent sets that must be right, in (0, 1).
    ``risk``: Risk of each bound, and so of the advice.
    """
    possible = sorted(
        (each for each in forecasts if each.threshold is not None and each.sent),
        key=lambda forecast: -(forecast.threshold or 0.0),
    )
    start = _start(possible, target)
    supported = list(takewhile(lambda each: _supports(each, target), possible[start:]))
    if supported:
        best = supported[-1]
        return Advice(
            best.threshold,
            None,
            f"At a threshold of {best.threshold or 0.0:.3f}, {_share(best.accuracy.value)} of the "
            f"checked sets are right, at least {_share(best.accuracy.low)} by their bound "
            f"({_checks(best.accuracy.checked)}). "
            + (f"{best.accuracy.correction} " if best.accuracy.correction else "")
            + "Only a certificate proves a threshold.",
        )
    astray = any(_supports(each, target) for each in possible)
    # Where a higher threshold would pass by itself, only the start counts.
    tested = possible[start : start + 1] if astray else possible
    lacking = [_missing(each, target, risk) for each in tested]
    missing = min(
        (lack for lack in lacking if lack is not None),
        default=None if possible else (_without_errors(target, risk), _CHECKS),
    )
    if missing is None:
        here = possible[start]
        return Advice(
            None,
            None,
            f"No threshold can be advised: at none are {_share(target)} of the checked sets right."
            if not astray
            else "No threshold can be advised: the confidences promise most at "
            f"{here.threshold or 0.0:.3f}, where {_share(here.accuracy.value)} of the checked sets "
            "are right. Recalibrate first.",
        )
    n, kind = missing
    return Advice(
        None,
        n,
        f"No threshold can be advised yet: it takes about {n:,} more {kind[n != 1]} of what would "
        f"be sent to support {_share(target)}.",
    )


def _start(falling: Sequence[Forecast], target: float) -> int:
    """Return where the checks would say most for the target if the confidences were right."""
    evidence = [_evidence(each, target) for each in falling]
    return evidence.index(max(evidence)) if evidence else 0


def _evidence(forecast: Forecast, target: float) -> float:
    """Return the expected log-likelihood ratio of the mean confidence against the target."""
    p, checks = forecast.expected_accuracy or 0.0, forecast.accuracy
    if p <= target:
        return 0.0
    # An overlooked error that a second reading finds stands for those that nobody looks for.
    n = checks.checked * (checks.reread / checks.agreed if checks.agreed else 1.0)
    wrong = (1.0 - p) * math.log((1.0 - p) / (1.0 - target)) if p < 1.0 else 0.0
    return n * (p * math.log(p / target) + wrong)


def _supports(forecast: Forecast, target: float) -> bool:
    return (forecast.accuracy.low or 0.0) >= target


def misses(forecast: Forecast, target: float) -> bool:
    """Return whether even the upper bound of what is sent lies below the target."""
    return (
        bool(forecast.sent)
        and forecast.accuracy.high is not None
        and forecast.accuracy.high < target
    )


def verdict(forecast: Forecast, target: float) -> str:
    """Say what the checks of what is sent say of a target: reached, missed or not proved."""
    if misses(forecast, target):
        return "missed"
    return "reached" if forecast.sent and _supports(forecast, target) else "not proved"


def warning(forecast: Forecast, target: float) -> str | None:
    """Return the sentence about a forecast that misses the target, or None."""
    if not misses(forecast, target):
        return None
    return (
        f"This misses the target: by {_checks(forecast.accuracy.checked)}, at most "
        f"{_share(forecast.accuracy.high)} of what is sent is right; the target is "
        f"{_share(target)}."
    )


_CHECKS = "check", "checks"
_SECOND_READINGS = "second reading by a lead", "second readings by leads"
_BLIND = "blind reading", "blind readings"


def _missing(forecast: Forecast, target: float, risk: float) -> tuple[int, tuple[str, str]] | None:
    """Return how many more checks, of which kind, could support the threshold."""
    accuracy, share = forecast.accuracy.value, forecast.accuracy
    if accuracy is None:
        return _without_errors(target, risk), _CHECKS
    if accuracy <= target:
        return None
    wide = (
        NormalDist().inv_cdf(1.0 - risk) ** 2
        * accuracy
        * (1.0 - accuracy)
        / (accuracy - target) ** 2
    )
    needed = max(_without_errors(target, risk), math.ceil(wide))
    if share.in_view and not share.low:
        return needed, _BLIND
    if needed > share.checked or not share.agreed:
        return max(needed - share.checked, 1), _CHECKS
    # Enough is checked: how much of it is overlooked, only second readings can tell.
    readings = math.ceil(-math.log(risk) * share.agreed / share.checked / (accuracy - target))
    return max(readings - share.reread, 1), _SECOND_READINGS


def _without_errors(target: float, risk: float) -> int:
    """Return the least number of checks, all right, that supports a target.

    >>> _without_errors(0.95, 0.1)
    45
    """
    return math.ceil(math.log(risk) / math.log(target))


def _checks(n: int) -> str:
    return f"{n:,} check{'' if n == 1 else 's'}"


def _share(value: float | None) -> str:
    return f"{100.0 * (value or 0.0):.1f} %"
