"""Rows that a model was calibrated on, kept for recalibration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.calibration.recalibration import AnnouncedSets, Answers
from setwise.models.sets.candidates import CandidateSets, RaggedSets
from setwise.models.storage.state import check_labels, checked_array

MOST_ROWS = 20_000
"""Maximum number of rows kept: more would add little and enlarge the artifact."""

PRIOR_ROWS = 200.0
"""Number of reviews that all original rows are worth before the first review."""

_PARTS = ("confidence", "score", "runner_up", "rest")


def fading_weight(n_original: int, n_effective: float) -> float:
    r"""Return the weight of each original row relative to reviews.

    Together the original rows are worth

    .. math:: \min(n_0, \kappa) \cdot \frac{\kappa}{\kappa + n}

    reviews, with :math:`\kappa` = `PRIOR_ROWS`: at first the first factor, and half of it after
    :math:`\kappa` reviews. The first factor is the worth of a prior of :math:`\kappa` observations;
    the second reduces it as reviews arrive, because the original rows describe older data.

    Parameters
    ----------
    n_original : int
        Original rows, at least 1.
    n_effective : float
        Number of clean, unweighted reviews, see `calibration.sampling.effective_rows`.

    Examples
    --------
    >>> fading_weight(100, 0.0), 400 * fading_weight(400, 200.0)
    (1.0, 100.0)
    """
    return min(1.0, PRIOR_ROWS / n_original) * PRIOR_ROWS / (PRIOR_ROWS + n_effective)


@dataclass(frozen=True, eq=False)
class CalibrationRows:
    """Announced sets of training documents, and whether they were right.

    Confidences are cross-fitted: neither calibrator nor base model had seen the document.

    Attributes
    ----------
    sets : AnnouncedSets
    right : uint8 ndarray of shape (n,)
    """

    sets: AnnouncedSets
    right: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.right)

    @classmethod
    def of(
        cls,
        candidates: CandidateSets,
        confidence: ArrayLike,
        right: ArrayLike,
        *,
        random_state: int = 0,
    ) -> Self:
        """Return rows of cross-fitted candidates of at most `MOST_ROWS` documents.

        Parameters
        ----------
        candidates : CandidateSets
            The announced one first in each document.
        confidence, right : array-like of shape (n_sets,)
            Of each candidate.
        random_state : int, default 0
        """
        sets = AnnouncedSets.of(candidates, confidence)
        first = np.asarray(right, dtype=np.uint8)[candidates.doc_indptr[:-1]]
        if len(first) > MOST_ROWS:
            draw = np.random.default_rng(random_state)
            kept = np.sort(draw.choice(len(first), MOST_ROWS, replace=False))
            sets, first = sets.take(kept), first[kept]
        return cls(sets, first)

    def beside(self, n_effective: float) -> tuple[AnnouncedSets, Answers]:
        """Return the rows weighted by `fading_weight`, to fit together with reviews."""
        weight = np.full(len(self), fading_weight(len(self), n_effective))
        return self.sets, Answers.of(self.right, weight=weight)

    def get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and settings."""
        arrays: dict[str, NDArray[Any]] = {name: getattr(self.sets, name) for name in _PARTS}
        arrays |= {
            "set_indptr": self.sets.sets.indptr,
            "labels": self.sets.sets.labels,
            "right": self.right,
        }
        return arrays, {"n_labels": self.sets.n_labels}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> Self:
        """Rebuild the rows.

        Raises
        ------
        ValueError
            If an array does not fit, or a value is not a probability.
        """
        n_labels = int(settings["n_labels"])
        right = checked_array(arrays, "right", np.uint8, (None,))
        parts = [checked_array(arrays, name, np.float64, right.shape) for name in _PARTS]
        if any(((part < 0) | (part > 1)).any() for part in parts) or (right > 1).any():
            raise ValueError("a confidence or an answer lies outside [0, 1]")
        indptr = checked_array(arrays, "set_indptr", np.int64, (len(right) + 1,))
        labels = checked_array(arrays, "labels", np.int32, (None,))
        check_labels("labels", indptr, labels, n_labels)
        confidence, score, runner_up, rest = parts
        return cls(
            AnnouncedSets(confidence, score, runner_up, rest, RaggedSets(indptr, labels), n_labels),
            right,
        )
