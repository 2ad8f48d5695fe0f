"""Which documents are like those that a model learnt from.

A confidence speaks of documents like those that it was fitted to. One word may name a label as
surely as a page does, yet nothing in training says how often such a note is right; nor does
training say anything about a text of words that no training document holds.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.storage.fields import StoredSetting
from setwise.models.storage.state import StoredPart

LEAST_QUANTILE = 0.01
"""Share of the training documents that are below each bound, at most."""

FAR = 0.5
"""Share of the median training document that is above each bound, at least."""


@dataclass(frozen=True)
class Support(StoredPart):
    """Bounds of the documents that a model's confidences speak of.

    Examples
    --------
    >>> support = Support.of([3, 20, 25, 30], [1.0, 0.9, 0.8, 0.95])
    >>> support
    Support(least_known=3, least_share=0.4625)
    >>> support.covers([1, 40, 40], [1.0, 0.3, 0.5]).tolist()
    [False, False, True]
    """

    least_known: int  # known features of a document
    least_share: float  # share of a text's words that are known, in [0, 1]
    stored = (
        StoredSetting("least_known", "least_known", int, low=1),
        StoredSetting("least_share", "least_share", float, low=0.0, high=1.0),
    )

    @classmethod
    def of(cls, known: ArrayLike, share: ArrayLike | None = None) -> Self:
        """Return the bounds of training documents.

        Parameters
        ----------
        known : array-like of shape (n,)
            Number of each document's features.
        share : array-like of shape (n,), optional
            Share of each text's words that are known.
        """
        least_share = 0.0 if share is None else _least(share)
        return cls(max(int(_least(known)), 1), least_share)

    def covers(self, known: ArrayLike, share: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Tell for each document whether it is within the bounds; parameters as for `of`."""
        inside = np.asarray(known) >= self.least_known
        return inside if share is None else inside & (np.asarray(share) >= self.least_share)


def _least(values: ArrayLike) -> float:
    """Return a value that few documents are below, and that is far from the median."""
    numbers = np.asarray(values, dtype=np.float64)
    return float(min(np.quantile(numbers, LEAST_QUANTILE), FAR * np.median(numbers)))
