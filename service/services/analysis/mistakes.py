"""Errors of checked documents by label, label pair, source and size."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from setwise.models.evaluation.confusions import ConfusedLabels, confused_labels
from setwise.models.evaluation.label_table import LabelRow, label_table
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.reports import Share, Standing
from setwise.service.services.analysis.accuracy import Weighed, shares

MOST_SHOWN = 10
"""Most rows in a table of errors."""

MOST_VALUES = 12
"""A metadata field with more distinct values is not a source but a name or a number."""

LONGEST_VALUE = 60


@dataclass(frozen=True)
class GroupErrors:
    """Accuracy of documents with a value in common."""

    field: str
    """``client``, a metadata field, or ``labels`` for the number of labels."""
    value: str
    accuracy: Share
    """Accuracy of their label sets."""


@dataclass(frozen=True)
class Mistakes:
    """Errors of checked documents, most frequent first."""

    checked: int
    wrong: int
    labels: tuple[LabelRow, ...]
    pairs: tuple[ConfusedLabels, ...]
    sources: tuple[GroupErrors, ...]
    sizes: tuple[GroupErrors, ...]


def mistakes(
    checks: Sequence[CheckedDocument], known: Standing, risk: float, clients: Mapping[str, str]
) -> Mistakes:
    """Return the errors of checked documents; ``clients`` maps ids to names.

    Labels and pairs are plain counts. Accuracies of sources and sizes weight each checked document
    by the inverse of its probability of being checked, with exact bounds.
    """
    weighed = [(check, known.of(check)) for check in checks]
    sizes = "labels", _groups(lambda check: str(len(check.labels)), weighed)
    groups = [*_sources(weighed, clients), sizes]
    # One call for all bounds, because each call has a fixed cost.
    bounded = iter(shares([inside for _, values in groups for inside in values.values()], risk))
    listed = [
        [GroupErrors(field, value, next(bounded)) for value in values] for field, values in groups
    ]
    return Mistakes(
        checked=len(checks),
        wrong=sum(check.right is not True for check in checks),
        labels=_labels(checks),
        pairs=confused_labels(
            ((frozenset(check.labels), frozenset(check.truth)) for check in checks), MOST_SHOWN
        ),
        sources=tuple(errors for group in listed[:-1] for errors in group),
        sizes=tuple(listed[-1]),
    )


def _labels(checks: Sequence[CheckedDocument]) -> tuple[LabelRow, ...]:
    if not checks:
        return ()
    table = label_table([check.truth for check in checks], [check.labels for check in checks])
    worst = table.worst_first()[:MOST_SHOWN]
    return tuple(row for row in worst if row.missing or row.extra)


def _sources(
    weighed: Sequence[tuple[CheckedDocument, float]], clients: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, list[Weighed]]]]:
    fields = sorted({field for check, _ in weighed for field in check.metadata or {}})
    yield "client", _groups(lambda check: clients.get(check.client_id, check.client_id), weighed)
    for field in fields:
        groups = _groups(partial(_value, field=field), weighed)
        if 1 < len(groups) <= MOST_VALUES:
            yield field, groups


def _value(check: CheckedDocument, field: str) -> str | None:
    value = (check.metadata or {}).get(field)
    if isinstance(value, (str, int)):
        shown = str(value)
        return shown if len(shown) <= LONGEST_VALUE else None
    return None


def _groups(
    value_of: Callable[[CheckedDocument], str | None],
    weighed: Sequence[tuple[CheckedDocument, float]],
) -> dict[str, list[Weighed]]:
    """Return checked documents by their value of a field."""
    inside: dict[str, list[Weighed]] = {}
    for pair in weighed:
        value = value_of(pair[0])
        if value is not None:
            inside.setdefault(value, []).append(pair)
    return {value: inside[value] for value in sorted(inside, key=lambda value: (len(value), value))}
