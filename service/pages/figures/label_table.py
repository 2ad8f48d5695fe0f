"""The cockpit's table of labels: which of them can be trusted."""

from collections.abc import Callable, Sequence
from enum import StrEnum

from setwise.models.figures.numerals import percent, plural
from setwise.service.pages.figures.table import Figure, FigureColumn, Kind
from setwise.service.services.analysis.labels import (
    POINTS,
    BoundedShare,
    CheckedLabel,
    LabelBasis,
    LabelTrust,
)

_LEAST_CHECKS = 5
"""With fewer, the bounds of a share are so wide that they say nothing."""

_SHARES = ("precision", "precision_low", "precision_high", "recall", "recall_low", "recall_high")


class LabelOrder(StrEnum):
    """What a label table is sorted by."""

    ERRORS = "errors"
    LABEL = "label"
    CHECKED = "checked"
    PRECISION = "precision"
    RECALL = "recall"
    FURTHER = "further checks"


_ORDERS: dict[LabelOrder, Callable[[CheckedLabel], float]] = {
    LabelOrder.ERRORS: lambda label: -label.row.missing - label.row.extra,
    LabelOrder.LABEL: lambda _: 0,
    LabelOrder.CHECKED: lambda label: -label.row.n_either,
    LabelOrder.PRECISION: lambda label: _least(label.row.precision),
    LabelOrder.RECALL: lambda label: _least(label.row.recall),
    LabelOrder.FURTHER: lambda label: label.row.further_checks,
}


def _least(share: BoundedShare) -> float:
    """Return a share, above all others if it is not known."""
    return 2.0 if share.value is None else share.value


def chosen(trust: LabelTrust, find: str, order: LabelOrder) -> list[CheckedLabel]:
    """Return the labels that contain a text, sorted."""
    text, key = find.strip().casefold(), _ORDERS[order]
    matches = [label for label in trust.labels if text in label.row.label.casefold()]
    return sorted(matches, key=lambda label: (key(label), label.row.label))


def links(label: CheckedLabel, address: Callable[..., str]) -> tuple[str, str]:
    """Return the addresses of the documents where it was missing, and where it was extra."""
    name = label.row.label
    missing = address(final_label=name, without_label=name)
    return missing, address(label=name, without_final_label=name)


def share(part: BoundedShare, checks: int) -> str:
    """Return a share of some checks, with its bounds, as people read it."""
    if part.value is None:
        return "unknown"
    if checks < _LEAST_CHECKS:
        return "too few checks"
    return f"{percent(part.value)} ({percent(part.low)} to {percent(part.high)})"


def figure(trust: LabelTrust, labels: Sequence[CheckedLabel]) -> Figure:
    """Return labels with all numbers, for downloads too."""
    return Figure(
        "label-table",
        "Which labels can be trusted?",
        _says(trust),
        [
            FigureColumn("label", Kind.TEXT),
            FigureColumn("of_model", Kind.TEXT),
            *map(FigureColumn, ("has_it", "predicted", "missing", "extra")),
            *(FigureColumn(name, Kind.SHARE) for name in _SHARES),
            *(FigureColumn(name, Kind.SHARE) for name in ("mean_probability", "observed_share")),
            FigureColumn("further_checks"),
        ],
        [
            [
                label.row.label,
                "yes" if label.of_model else "no",
                label.row.n_true,
                label.row.n_predicted,
                label.row.missing,
                label.row.extra,
                *(label.row.precision.value, label.row.precision.low, label.row.precision.high),
                *(label.row.recall.value, label.row.recall.low, label.row.recall.high),
                label.row.mean_probability,
                label.row.n_true / trust.documents,
                label.row.further_checks,
            ]
            for label in labels
        ],
    )


def _says(trust: LabelTrust) -> str:
    """Say which documents the table is of, and how many sets are wrong only below the top."""
    n, near = trust.wrong
    if near is None or not n:
        return _of(trust)
    return f"{_of(trust)} Right branch, wrong label below it: {near:,} of {plural(n, 'wrong set')}."


def _of(trust: LabelTrust) -> str:
    n = plural(trust.documents, "checked document")
    if trust.basis is LabelBasis.CHECKED:
        return (
            f"From all {n} of this period. Most were read because the model was unsure, so that "
            "labels look worse than in what is sent. Bounds hold for such documents."
        )
    how = (
        "Audits drew them at random"
        if trust.drawn
        else "Other programs reported their truth, not at random"
    )
    return (
        f"From {n} that were confident enough to be sent. {how}. Each bound holds with 95 % "
        "confidence; errors that auditors overlook are not corrected for. A precision is known "
        f"once its bounds lie within {POINTS} points of it."
    )
