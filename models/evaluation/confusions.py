"""Which labels are taken for which: a label too many and a label too few in one document."""

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class ConfusedLabels:
    """Documents where one label was predicted and another was right."""

    predicted: str
    right: str
    documents: int


def confused_labels(
    sets: Iterable[tuple[AbstractSet[str], AbstractSet[str]]], most: int
) -> tuple[ConfusedLabels, ...]:
    """Return the most frequent pairs of a wrong label and a missing one.

    Parameters
    ----------
    sets : iterable of (set of str, set of str)
        Predicted and right labels of each document.
    most : int
        Most pairs.

    Examples
    --------
    >>> confused_labels([({"flu"}, {"cold"}), ({"flu", "cough"}, {"cold", "cough"})], 10)
    (ConfusedLabels(predicted='flu', right='cold', documents=2),)
    """
    counts: Counter[tuple[str, str]] = Counter()
    for predicted, right in sets:
        counts.update(product(predicted - right, right - predicted))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ConfusedLabels(*pair, number) for pair, number in ranked[:most])
