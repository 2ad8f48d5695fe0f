"""Which labels can be trusted: how often each is right, missing and extra, with bounds."""

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy  # loads its parts when they are first used; `stats` takes a second
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from setwise.models.guarantees.binomial import lower_bound, upper_bound
from setwise.models.labels.targets import (
    as_labels,
    column_names,
    in_columns,
    in_order_of,
    label_lists,
)
from setwise.spelling import spelled_labels

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

KNOWN_WITHIN = 0.05
"""A precision is known when its bounds are no further from each other than twice this."""

_SPARE = 2.0  # how many times as many cases are tried as the normal approximation asks for
_SHOWN = 40  # labels of a printed table


@dataclass(frozen=True)
class LabelShare:
    """A share with its exact bounds; ``value`` is None without a case."""

    value: float | None
    low: float
    high: float


@dataclass(frozen=True)
class LabelRow:
    """One label of a `LabelTable`.

    Attributes
    ----------
    label : str
    n_true, n_predicted, n_right : int
        Documents that have it, for which it was predicted, and both.
    precision, recall : LabelShare
        Of those for which it was predicted, and of those that have it, the share that is right.
    mean_probability : float or None
        Mean of its predicted probabilities, to compare with the share of documents that have it.
    further_checks : int
        Further documents with this label predicted until its precision is known to within five
        points, if it stays what it is.
    """

    label: str
    n_true: int
    n_predicted: int
    n_right: int
    precision: LabelShare
    recall: LabelShare
    mean_probability: float | None
    further_checks: int

    @property
    def missing(self) -> int:
        """Documents that have the label without a prediction of it."""
        return self.n_true - self.n_right

    @property
    def extra(self) -> int:
        """Documents for which it was predicted that do not have it."""
        return self.n_predicted - self.n_right

    @property
    def n_either(self) -> int:
        """Documents that have the label or for which it was predicted."""
        return self.n_true + self.extra


@dataclass(frozen=True)
class LabelTable:
    """All labels of some checked documents; print it for those with most errors.

    Attributes
    ----------
    n : int
        Documents.
    level : float
        Of the bounds.
    rows : tuple of LabelRow
        In the order of the labels.
    """

    n: int
    level: float
    rows: tuple[LabelRow, ...]

    @classmethod
    def of_counts(
        cls,
        labels: Sequence[str],
        counts: tuple[Counts, Counts, Counts],
        n: int,
        mean_probability: Floats | None = None,
        *,
        level: float = 0.9,
    ) -> "LabelTable":
        """Return the table of counted labels.

        Parameters
        ----------
        labels : sequence of str, length L
        counts : three int64 ndarrays of shape (L,)
            Documents that have the label, for which it was predicted, and both.
        n : int
            Documents.
        mean_probability : float64 ndarray of shape (L,), optional
            NaN where it is not known.
        level : float
            Of the bounds, in (0, 1).
        """
        true, predicted, right = counts
        further = _further_checks(predicted, right, level)
        means: list[float | None] = [None] * len(labels)
        if mean_probability is not None:
            means = [None if np.isnan(mean) else float(mean) for mean in mean_probability]
        return cls(
            n,
            level,
            tuple(
                LabelRow(str(label), *row)
                for label, *row in zip(
                    labels,
                    true.tolist(),
                    predicted.tolist(),
                    right.tolist(),
                    _shares(right, predicted, level),
                    _shares(right, true, level),
                    means,
                    further.tolist(),
                    strict=True,
                )
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, strings, lists and mappings for JSON."""
        rows = [{**asdict(row), "missing": row.missing, "extra": row.extra} for row in self.rows]
        return {"n": self.n, "level": self.level, "rows": rows}

    def worst_first(self) -> list[LabelRow]:
        """Return the labels with the most errors first."""
        return sorted(self.rows, key=lambda row: (-row.missing - row.extra, row.label))

    def __str__(self) -> str:
        """Return a text table of the labels with the most errors."""
        widths = [max(map(len, column)) for column in zip(*self._cells(), strict=True)]
        lines = (
            "  ".join(
                [cells[0].ljust(widths[0])]
                + [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
            )
            for cells in self._cells()
        )
        more = len(self.rows) - _SHOWN
        return "\n".join(
            [*lines, *([f"and {more:,} labels with fewer errors"] if more > 0 else [])]
        )

    def _repr_html_(self) -> str:
        head, *body = (
            "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) for cells in self._cells()
        )
        rows = "".join(f"<tr>{cells}</tr>" for cells in body)
        head = head.replace("td>", "th>")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def _cells(self) -> list[list[str]]:
        heads = ["label", "has it", "predicted", "missing", "extra", "precision", "recall"]
        return [
            [*heads, "further checks"],
            *(
                [
                    row.label,
                    *map(str, (row.n_true, row.n_predicted, row.missing, row.extra)),
                    _shown(row.precision),
                    _shown(row.recall),
                    str(row.further_checks),
                ]
                for row in self.worst_first()[:_SHOWN]
            ),
        ]


def label_table(
    y_true: Any,  # noqa: ANN401  # scikit-learn's array-likes
    y_pred: Any,  # noqa: ANN401  # as above
    probabilities: ArrayLike | None = None,
    *,
    label_names: Sequence[str] | None = None,
    level: float = 0.9,
) -> LabelTable:
    """Count for each label how often it was right, missing and extra.

    Parameters
    ----------
    y_true, y_pred : label lists, 0/1 matrices or data frames
        Of shape (n, L), or a list of labels for each of n documents; both in the same form.
    probabilities : array-like of shape (n, L), optional
        Predicted probabilities of the labels; with label lists, in the order of ``label_names``.
    label_names : sequence of str, optional
        By default the columns of a data frame, the sorted labels of the lists, or "0" to L - 1.
    level : float, default=0.9
        Of the bounds, in (0, 1); they are exact for a random sample of documents [1]_.

    Returns
    -------
    LabelTable
        Print it for the labels with most errors; ``to_dict`` has all of them.

    Raises
    ------
    ValueError
        If the forms or shapes differ, or a value is out of range.

    References
    ----------
    .. [1] C. Clopper and E. Pearson, "The use of confidence or fiducial limits illustrated in the
       case of the binomial", Biometrika 26, 1934.

    Examples
    --------
    >>> table = label_table([["flu"], ["flu", "cough"], []], [["flu"], ["flu"], ["cough"]])
    >>> [(row.label, row.n_right, row.missing, row.extra) for row in table.rows]
    [('cough', 0, 1, 1), ('flu', 2, 0, 0)]
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level is {level}; it must lie between 0 and 1")
    names, true, predicted = _matrices(y_true, y_pred, label_names)
    if true.shape != predicted.shape or len(names) != true.shape[1]:
        raise ValueError(
            f"y_true has shape {true.shape}, y_pred {predicted.shape}, and there are {len(names)} "
            "label names: all must fit"
        )
    means = None
    if probabilities is not None:
        values = np.asarray(probabilities, dtype=np.float64)
        if values.shape != true.shape:
            raise ValueError(f"probabilities have shape {values.shape}, not {true.shape}")
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError("probabilities must lie in [0, 1]")
        means = values.mean(axis=0) if len(values) else np.full(len(names), np.nan)
    counts = (_per_label(true), _per_label(predicted), _per_label(true.multiply(predicted)))
    return LabelTable.of_counts(names, counts, true.shape[0], means, level=level)


def _matrices(
    y_true: Any,  # noqa: ANN401  # as above
    y_pred: Any,  # noqa: ANN401  # as above
    label_names: Sequence[str] | None,
) -> tuple[Sequence[str], csr_array, csr_array]:
    if label_names is not None:
        label_names = spelled_labels(label_names)
    lists = label_lists(y_true), label_lists(y_pred)
    if lists[0] is not None and lists[1] is not None:
        used = {label for rows in lists if rows is not None for row in rows for label in row}
        classes = np.array(sorted(used) if label_names is None else [*label_names], dtype=object)
        lacking = sorted(used - set(classes.tolist()))
        if lacking:
            raise ValueError(f"label_names lacks {lacking[0]!r}")
        return classes.tolist(), in_columns(lists[0], classes), in_columns(lists[1], classes)
    if lists != (None, None):
        raise ValueError("y_true and y_pred must both be label lists, or both be matrices")
    columns = column_names(y_true)
    if columns is not None:
        y_pred = in_order_of(y_pred, columns, "y_pred", "those of y_true")
    true, predicted = _as_labels(y_true, "y_true"), _as_labels(y_pred, "y_pred")
    names = label_names if columns is None or label_names is not None else columns.tolist()
    return list(map(str, range(true.shape[1]) if names is None else names)), true, predicted


def _as_labels(y: Any, name: str) -> csr_array:  # noqa: ANN401  # as above
    rows = () if hasattr(y, "columns") else y  # a data frame yields the names of its columns
    words = [y] if isinstance(y, str) else [row for row in rows if isinstance(row, str)]
    if words:
        raise ValueError(f"{name} must have a list of labels for each row: [[{words[0]!r}], …]")
    return as_labels(y, name)


def _per_label(matrix: Any) -> Counts:  # noqa: ANN401  # of any sparse form
    matrix = csr_array(matrix)
    counts: Counts = np.bincount(matrix.indices[matrix.data > 0], minlength=matrix.shape[1])
    return counts


def _shares(hits: Counts, trials: Counts, level: float) -> list[LabelShare]:
    risk = (1.0 - level) / 2.0
    low, high = lower_bound(hits, trials, risk), upper_bound(hits, trials, risk)
    return [
        LabelShare(k / n if n else None, lowest, highest)
        for k, n, lowest, highest in zip(
            hits.tolist(), trials.tolist(), low.tolist(), high.tolist(), strict=True
        )
    ]


def _further_checks(predicted: Counts, right: Counts, level: float) -> Counts:
    """Return how many more cases bring the bounds close enough, at the present shares."""
    share = np.divide(right, predicted, out=np.full(len(right), 0.5), where=predicted > 0)
    percents, place = np.unique(np.rint(100 * share).astype(int), return_inverse=True)
    needed = np.array([_cases_needed(percent, level) for percent in percents.tolist()], dtype=int)
    return np.asarray(np.maximum(needed[place] - predicted, 0), dtype=np.int64)


@cache
def _cases_needed(percent: int, level: float) -> int:
    """Return how many cases it takes until the bounds of a share in per cent are close enough."""
    risk = (1.0 - level) / 2.0
    most = int(_SPARE * (scipy.stats.norm.isf(risk) / KNOWN_WITHIN) ** 2 / 4) + 100
    cases = np.arange(1, most)
    right = percent / 100 * cases
    apart = upper_bound(right, cases, risk) - lower_bound(right, cases, risk)
    return int((apart <= 2 * KNOWN_WITHIN).argmax()) + 1


def _shown(share: LabelShare) -> str:
    value = "-" if share.value is None else f"{share.value:.2f}"
    return f"{value} ({share.low:.2f} to {share.high:.2f})"
