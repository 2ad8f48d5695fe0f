"""Where the errors are: in which labels, pairs of labels, sources and sizes of sets."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypeVar

from service.domain.verdicts import CheckedSet, Standing
from service.use_cases.forecast import Share, share

MOST_SHOWN = 10
"""Rows of a table of errors."""

MOST_VALUES = 12
"""Metadata with more distinct values than this is no source but a name or a number."""

LONGEST_VALUE = 60

Key = TypeVar("Key", str, tuple[str, str])


@dataclass(frozen=True)
class LabelErrors:
    """One label in the checked documents.

    Attributes
    ----------
    missed, added : int
        Documents where it was right and not predicted, and the other way round.
    present : int
        Documents where it was right or predicted.
    """

    label: str
    missed: int
    added: int
    present: int


@dataclass(frozen=True)
class PairErrors:
    """A label that was predicted where another one was right."""

    predicted: str
    right: str
    documents: int


@dataclass(frozen=True)
class GroupErrors:
    """Documents that have something in common.

    Attributes
    ----------
    field : str
        What they have in common: ``client``, a field of the metadata, or ``labels``.
    accuracy : Share
        Of their label sets.
    """

    field: str
    value: str
    accuracy: Share


@dataclass(frozen=True)
class Mistakes:
    """Where the errors are among the checked documents; most errors first."""

    checked: int
    wrong: int
    labels: tuple[LabelErrors, ...]
    pairs: tuple[PairErrors, ...]
    sources: tuple[GroupErrors, ...]
    sizes: tuple[GroupErrors, ...]


def mistakes(
    found: Sequence[CheckedSet], known: Standing, risk: float, clients: Mapping[str, str]
) -> Mistakes:
    """Return where checked documents were wrong.

    ``clients`` has names for ids.

    Labels and pairs are counted as they were seen. Accuracies of sources and sizes let each checked
    document stand for those that were as likely to be checked, with exact bounds.
    """
    return Mistakes(
        checked=len(found),
        wrong=sum(not one.right for one in found),
        labels=_labels(found),
        pairs=_pairs(found),
        sources=_sources(found, known, risk, clients),
        sizes=_groups("labels", lambda one: str(len(one.labels)), found, known, risk),
    )


def _labels(found: Iterable[CheckedSet]) -> tuple[LabelErrors, ...]:
    missed: Counter[str] = Counter()
    added: Counter[str] = Counter()
    present: Counter[str] = Counter()
    for one in found:
        predicted, right = set(one.labels), set(one.truth)
        missed.update(right - predicted)
        added.update(predicted - right)
        present.update(predicted | right)
    wrong = missed + added
    return tuple(
        LabelErrors(label, missed[label], added[label], present[label]) for label, _ in _most(wrong)
    )


def _pairs(found: Iterable[CheckedSet]) -> tuple[PairErrors, ...]:
    seen: Counter[tuple[str, str]] = Counter()
    for one in found:
        predicted, right = set(one.labels), set(one.truth)
        seen.update(product(predicted - right, right - predicted))
    return tuple(PairErrors(*pair, n) for pair, n in _most(seen))


def _most(counts: Counter[Key]) -> list[tuple[Key, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_SHOWN]


def _sources(
    found: Sequence[CheckedSet], known: Standing, risk: float, clients: Mapping[str, str]
) -> tuple[GroupErrors, ...]:
    fields = sorted({field for one in found for field in one.metadata})
    made = list(
        _groups("client", lambda one: clients.get(one.client_id, one.client_id), found, known, risk)
    )
    for field in fields:
        groups = _groups(field, partial(_value, field=field), found, known, risk)
        if 1 < len(groups) <= MOST_VALUES:
            made += groups
    return tuple(made)


def _value(one: CheckedSet, field: str) -> str | None:
    value = one.metadata.get(field)
    if isinstance(value, bool | int | str) and len(str(value)) <= LONGEST_VALUE:
        return str(value)
    return None


def _groups(
    field: str,
    value_of: Callable[[CheckedSet], str | None],
    found: Sequence[CheckedSet],
    known: Standing,
    risk: float,
) -> tuple[GroupErrors, ...]:
    inside: dict[str, list[CheckedSet]] = {}
    for one in found:
        value = value_of(one)
        if value is not None:
            inside.setdefault(value, []).append(one)
    return tuple(
        GroupErrors(field, value, share(inside[value], risk, known))
        for value in sorted(inside, key=lambda value: (len(value), value))
    )
