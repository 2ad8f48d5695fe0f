"""The report's tables of labels."""

import base64
import csv
import io
from collections.abc import Iterable, Iterator

from markupsafe import Markup

from setwise.formulas import guard
from setwise.models.evaluation.label_table import LabelRow, LabelShare, LabelTable
from setwise.models.evaluation.report.elements import folded, table, tag
from setwise.models.figures.numerals import percent

_LABELS = 15
"""Labels that are shown at once."""


def label_tables(labels: LabelTable) -> Iterator[Markup]:
    """Yield the worst labels, the others behind a summary, and all of them as a file."""
    ranked = labels.worst_first()
    caption = (
        f"Bounds hold with {percent(labels.level, 0)}. Further checks: documents with the label "
        "predicted until its precision is known to within five points."
    )
    yield _label_rows(ranked[:_LABELS], caption)
    if len(ranked) > _LABELS:
        rest = _label_rows(ranked[_LABELS:], "The other labels.")
        yield folded(f"{len(ranked) - _LABELS:,} labels with fewer errors", [rest])
    content = base64.b64encode(_as_csv(ranked).encode()).decode()
    yield tag(
        "p",
        tag(
            "a", "All labels as CSV", href=f"data:text/csv;base64,{content}", download="labels.csv"
        ),
    )


_HEADS = (
    "label", "has it", "predicted", "missing", "extra", "precision", "recall", "mean probability",
    "further checks",
)  # fmt: skip


def _label_rows(rows: Iterable[LabelRow], caption: str) -> Markup:
    cells = [
        (
            row.label,
            *(f"{n:,}" for n in (row.n_true, row.n_predicted, row.missing, row.extra)),
            _bounded(row.precision),
            _bounded(row.recall),
            "unknown" if row.mean_probability is None else percent(row.mean_probability),
            f"{row.further_checks:,}",
        )
        for row in rows
    ]
    return table(_HEADS, cells, caption, class_="sortable")


def _bounded(share: LabelShare) -> str:
    if share.value is None:
        return "unknown"
    return f"{percent(share.value, 0)} ({percent(share.low, 0)} to {percent(share.high, 0)})"


def _as_csv(rows: Iterable[LabelRow]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(
        (*_HEADS[:5], "precision", "precision low", "precision high", "recall", "recall low",
         "recall high", *_HEADS[7:])
    )  # fmt: skip
    for row in rows:
        shares = [
            value
            for share in (row.precision, row.recall)
            for value in (share.value, share.low, share.high)
        ]
        counts = (row.n_true, row.n_predicted, row.missing, row.extra)
        writer.writerow(
            (guard(row.label), *counts, *shares, row.mean_probability, row.further_checks)
        )
    return out.getvalue()
