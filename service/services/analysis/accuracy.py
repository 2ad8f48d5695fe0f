"""The accuracy of label sets, corrected for the errors that auditors overlook.

A set counts as right or wrong if a person or a later outcome says so; `standing` weights these
checks. Where an auditor agrees, the set may be wrong nevertheless: how often, only those agreements
show that a lead reads again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from setwise.service.domain.reports import Known, Share, Standing, standing, verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Weighed = tuple[Known, float]
"""Predictions of one kind, and how many others each of them stands for."""


class Sums(NamedTuple):
    """Sums over checked sets: of one kind each, or of samples."""

    checked: "Floats"
    right: "Floats"
    agreed: "Floats"
    reread: "Floats"
    overlooked: "Floats"
    weight: "Floats"
    squares: "Floats"
    found: "Floats"
    found_squares: "Floats"
    agreed_weight: "Floats"
    over_rate: "Floats"
    missed: "Floats"
    missed_squares: "Floats"


class Largest(NamedTuple):
    """The largest weights."""

    known: "Floats"
    """Of sets whose truth is known."""
    over_rate: "Floats"
    """Of agreements that were read again, over the probability of that."""


def columns(checks: Sequence[Weighed]) -> tuple[Sums, Largest]:
    """Return what predictions of each kind add to the sums, and their weights."""
    import numpy as np  # noqa: PLC0415 -- loads slowly

    rows = [
        (check.documents, weight, verdict(check) is True, *_agreement(check))
        for check, weight in checks
    ]
    n, w, right, agreed, reread, rate = np.array(rows, dtype=np.float64).reshape(-1, 6).T
    n = n * (w > 0)
    known, again = 1.0 - agreed, agreed * reread
    wrong, missed = known * (1.0 - right), again * (1.0 - right)
    counts = (n, n * right, n * agreed, n * again, n * missed)
    weights = (n * w, n * w**2, n * w * wrong, n * w**2 * wrong, n * w * agreed)
    second = (n * w * again / rate, n * w * missed / rate, n * w**2 * missed / rate**2)
    return Sums(*counts, *weights, *second), Largest(w * known, w * again / rate)


def _agreement(check: Known) -> tuple[bool, bool, float]:
    """Return whether only an auditor's agreement counts, and its second reading."""
    # An outcome takes precedence over auditors, and is the truth.
    if check.agreement is None or check.outcome_agreed is not None:
        return False, False, 1.0
    return True, check.agreement.done, check.agreement.rate


def share(checks: Sequence[Known], risk: float, known: Standing | None = None) -> Share:
    """Return the share of ``found`` that is right, estimated from checked sets.

    ``known``: Weights of checked sets; by default, computed from ``found``.
    """
    known = known or standing(checks)
    return shares([[(check, known.of(check)) for check in checks]], risk)[0]


def shares(groups: Sequence[Sequence[Weighed]], risk: float) -> list[Share]:
    """Return the share of each group that is right, computed together."""
    import numpy as np  # noqa: PLC0415 -- loads slowly

    if not any(weight for group in groups for _, weight in group):
        return [Share(0, 0) for _ in groups]
    parts = [columns(group) for group in groups]
    sums = [np.sum(each, axis=1) for each, _ in parts]
    most = [np.max(each, axis=1, initial=0.0) for _, each in parts]
    return estimated(Sums(*np.transpose(sums)), Largest(*np.transpose(most)), risk)


def estimated(of: Sums, most: Largest, risk: float) -> list[Share]:
    """Return the accuracy of each sample; ``risk`` is that of each bound."""
    import numpy as np  # noqa: PLC0415 -- it and scipy load slowly

    from setwise.models.guarantees.corrected import ErrorSums, bound_accuracies  # noqa: PLC0415 -- as above

    some = of.over_rate > 0
    # Together the second readings stand for all agreements, and each, times this, for its share.
    scale = np.where(some, of.agreed_weight / np.where(some, of.over_rate, 1.0), 0.0)
    unseen = np.where(some, scale * most.over_rate, np.inf)
    bounded = bound_accuracies(
        ErrorSums(
            of.weight,
            of.squares,
            of.found + scale * of.missed,
            of.found_squares + scale**2 * of.missed_squares,
            np.where(of.agreed_weight > 0, np.maximum(most.known, unseen), most.known),
        ),
        risk,
    )
    return [
        Share(int(n), int(right), *(bounds if n else (None,) * 3), *map(int, agreements))
        for n, right, *agreements, bounds in zip(
            *(each.tolist() for each in of[:5]),
            zip(*(each.tolist() for each in bounded), strict=True),
            strict=True,
        )
    ]
