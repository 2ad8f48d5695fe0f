"""The tree of labels: what a label needs beside it, and wrong sets in the right branch."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from setwise.service.domain.labels import CatalogueLabel


class WrongSets(NamedTuple):
    """Wrong sets, and how near they are."""

    n: int
    right_branch: int | None
    """Those that have exactly the top branches of the right set; None if no label has a parent."""


def nearest_parents(labels: Collection[CatalogueLabel]) -> dict[str, str]:
    """Return the nearest label above each that can be given beside it.

    A heading that the active model lacks is never predicted, so no set needs it. Before there is a
    model, every label in use can be given.

    >>> labels = [CatalogueLabel("J"), CatalogueLabel("J18", parent="J", in_model=True)]
    >>> nearest_parents([*labels, CatalogueLabel("J18.9", parent="J18", in_model=True)])
    {'J18.9': 'J18'}
    """
    parents = {each.label: each.parent for each in labels if each.parent is not None}
    learnt = any(each.in_model for each in labels)
    given = {each.label for each in labels if each.offered and (each.in_model or not learnt)}
    nearest = {}
    for label in parents:
        _, *above = _upwards(label, parents)
        if parent := next((each for each in above if each in given), None):
            nearest[label] = parent
    return nearest


def wrong_sets(
    pairs: Iterable[tuple[Collection[str], Collection[str]]], parents: Mapping[str, str]
) -> WrongSets:
    """Return how many sets differ from the right one, and how many of those only below the top.

    ``pairs``: Each set, and the right one.

    >>> wrong_sets([(["J18.9"], ["J18.1"]), (["J18.9"], ["I10"])], {"J18.9": "J", "J18.1": "J"})
    WrongSets(n=2, right_branch=1)
    """
    wrong = [(own, right) for own, right in pairs if set(own) != set(right)]
    near = sum(_branches(own, parents) == _branches(right, parents) for own, right in wrong)
    return WrongSets(len(wrong), near if parents else None)


def _branches(labels: Iterable[str], parents: Mapping[str, str]) -> set[str]:
    """Return the top label of each branch that a set has labels of."""
    return {[*_upwards(label, parents)][-1] for label in labels}


def _upwards(label: str, parents: Mapping[str, str]) -> Iterator[str]:
    """Yield a label and those above it, the nearest first."""
    passed = set()
    at: str | None = label
    while at is not None and at not in passed:
        passed.add(at)
        yield at
        at = parents.get(at)
