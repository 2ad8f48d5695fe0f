"""The accuracy of label sets, corrected for the errors that auditors overlook.

A set counts as right or wrong if a person or a later outcome says so; `standing` weights these
checks. Where an auditor agrees, the set may be wrong nevertheless: how often, only those agreements
show that a lead reads again. With weights w and a probability r of a second reading, the share of
wrong sets is

    (sum of w over the errors found + s * sum of w / r over the errors overlooked) / sum of w,

where s makes the second readings stand for all agreements: the sum of w over the agreements,
divided by the sum of w / r over those that were read again. Agreements with the suggestion in view
are corrected by `standing`, or leave the accuracy without a lower bound.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from setwise.service.domain.evidence import Evidence, in_view
from setwise.service.domain.reports import Share, Standing, standing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Weighed = tuple[Evidence, float]
"""Documents of one kind, and how many others each of them stands for."""


class Sums(NamedTuple):
    """The sums of the formula: over each kind of document or, added up, over samples."""

    checked: "Floats"
    right: "Floats"
    agreed: "Floats"
    """Checked sets that stand on an auditor's agreement alone."""
    reread: "Floats"
    overlooked: "Floats"
    weight: "Floats"
    """Of w; with ``squares``, of its squares, as below."""
    squares: "Floats"
    errors: "Floats"
    """Of w over the errors found."""
    error_squares: "Floats"
    agreements: "Floats"
    """Of w over the agreements."""
    readings: "Floats"
    """Of w / r over those that were read again."""
    missed: "Floats"
    """Of w / r over those of them that were found wrong."""
    missed_squares: "Floats"
    in_view: "Floats"
    """Agreements with the suggestion in view that nobody has read again."""


class Largest(NamedTuple):
    """The largest weights: of each kind of document, or of samples."""

    known: "Floats"
    """Of w over the sets whose truth is known; infinite if one of them bounds nothing."""
    readings: "Floats"
    """Of w / r over the agreements that were read again."""


def terms(checks: Sequence[Weighed]) -> tuple[Sums, Largest]:
    """Return what documents of each kind add to the sums, and their weights."""
    import numpy as np  # noqa: PLC0415 -- loads slowly

    def column(values: Sequence[float]) -> "Floats":
        return np.array(values, dtype=np.float64)

    w = column([weight for _, weight in checks])
    n = column([check.documents for check, _ in checks]) * (w > 0)
    wrong = column([check.right is not True for check, _ in checks])
    agreed = column([_stands_on_agreement(check) for check, _ in checks])
    reread = agreed * column([check.reread is True for check, _ in checks])
    unread = column([in_view(check) and check.reread is False for check, _ in checks])
    w_over_r = w / column([check.reread_rate or 1.0 for check, _ in checks])
    found, missed = n * (1.0 - agreed) * wrong, n * reread * wrong
    sums = Sums(
        checked=n,
        right=n * (1.0 - wrong),
        agreed=n * agreed,
        reread=n * reread,
        overlooked=missed,
        weight=n * w,
        squares=n * w**2,
        errors=found * w,
        error_squares=found * w**2,
        agreements=n * agreed * w,
        readings=n * reread * w_over_r,
        missed=missed * w_over_r,
        missed_squares=missed * w_over_r**2,
        in_view=n * unread,
    )
    known = np.where(unread * w > 0, np.inf, (1.0 - agreed) * w)
    return sums, Largest(known=known, readings=reread * w_over_r)


def _stands_on_agreement(check: Evidence) -> bool:
    """Return whether an auditor's agreement is all that is known."""
    # An outcome takes precedence over auditors, and is the truth.
    return check.reread is not None and check.outcome_agreed is None and not in_view(check)


def share(checks: Sequence[Evidence], risk: float, known: Standing | None = None) -> Share:
    """Return the share of sets that is right, estimated from checked ones.

    ``known``: Weights of checked sets; by default, computed from ``checks``.
    """
    known = known or standing(checks)
    return shares([[(check, known.of(check)) for check in checks]], risk)[0]


def shares(groups: Sequence[Sequence[Weighed]], risk: float) -> list[Share]:
    """Return the share of each group that is right, computed together."""
    import numpy as np  # noqa: PLC0415 -- loads slowly

    if not any(weight for group in groups for _, weight in group):
        return [Share(0, 0) for _ in groups]
    parts = [terms(group) for group in groups]
    sums = [[term.sum() for term in each] for each, _ in parts]
    most = [[term.max(initial=0.0) for term in each] for _, each in parts]
    return estimated(Sums(*np.transpose(sums)), Largest(*np.transpose(most)), risk)


def estimated(of: Sums, most: Largest, risk: float) -> list[Share]:
    """Return the accuracy of each sample; ``risk`` is that of each bound."""
    import numpy as np  # noqa: PLC0415 -- it and scipy load slowly

    from setwise.models.guarantees.corrected import ErrorSums, bound_accuracies  # noqa: PLC0415 -- as above

    some = of.readings > 0
    s = np.where(some, of.agreements / np.where(some, of.readings, 1.0), 0.0)
    unseen = np.where(some, s * most.readings, np.inf)
    value, low, high = bound_accuracies(
        ErrorSums(
            weight=of.weight,
            squares=of.squares,
            error=of.errors + s * of.missed,
            error_squares=of.error_squares + s**2 * of.missed_squares,
            largest=np.where(of.agreements > 0, np.maximum(most.known, unseen), most.known),
        ),
        risk,
    )
    return [
        Share(
            checked=int(of.checked[i]),
            right=int(of.right[i]),
            value=float(value[i]) if of.checked[i] else None,
            low=float(low[i]) if of.checked[i] else None,
            high=float(high[i]) if of.checked[i] else None,
            agreed=int(of.agreed[i]),
            reread=int(of.reread[i]),
            overlooked=int(of.overlooked[i]),
            in_view=int(of.in_view[i]),
        )
        for i in range(len(value))
    ]
