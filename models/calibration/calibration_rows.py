"""Rows that a model was calibrated on, kept for recalibration."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.models.calibration.losses import checked_rates
from setwise.models.calibration.noisy_history import RowRates
from setwise.models.calibration.recalibration import AnnouncedSets, ReviewOutcomes
from setwise.models.calibration.sampling import effective_rows
from setwise.models.sets.candidates import CandidateSets, RaggedSets
from setwise.models.storage.fields import StoredArray, StoredSetting, stored_ragged
from setwise.models.storage.state import Lengths, StoredPart

MOST_ROWS = 20_000
"""Maximum number of rows kept: more would add little and enlarge the artifact."""

PRIOR_ROWS = 200.0
"""Number of reviews that all original rows are worth before the first review."""

_SHARES = ("confidence", "score", "runner_up", "rest")


def fading_weight(n_original: float, n_effective: float) -> float:
    r"""Return the weight of each original row relative to reviews.

    Together the original rows are worth

    .. math:: \min(n_0, \kappa) \cdot \frac{\kappa}{\kappa + n}

    reviews, with :math:`\kappa` = `PRIOR_ROWS`: at first the first factor, and half of it after
    :math:`\kappa` reviews. The first factor is the worth of a prior of :math:`\kappa` observations;
    the second reduces it as reviews arrive, because the original rows describe older data.

    Parameters
    ----------
    n_original : float
        Original rows, or how many true ones they are worth if noisy; more than 0.
    n_effective : float
        Number of clean, unweighted reviews, see `calibration.sampling.effective_rows`.

    Examples
    --------
    >>> fading_weight(100, 0.0), 400 * fading_weight(400, 200.0)
    (1.0, 100.0)
    """
    return min(1.0, PRIOR_ROWS / n_original) * PRIOR_ROWS / (PRIOR_ROWS + n_effective)


@dataclass(frozen=True, eq=False)
class CalibrationRows(StoredPart):
    """Announced sets of training documents, and whether they were right.

    Confidences are cross-fitted: neither calibrator nor base model had seen the document.
    """

    sets: AnnouncedSets
    right: NDArray[np.uint8]  # (n,) as labelled
    # (n,) noise rates of the labels; None where they are taken as true.
    alpha: NDArray[np.float64] | None = None
    beta: NDArray[np.float64] | None = None
    stored = (
        StoredSetting("n_labels", "sets.n_labels", int, low=1, length="labels"),
        StoredArray("right", "right", np.uint8, ("rows",), low=0, high=1),
        *(
            StoredArray(name, name, np.float64, ("rows",), low=0.0, high=1.0, optional=True)
            for name in ("alpha", "beta")
        ),
        *(
            StoredArray(name, f"sets.{name}", np.float64, ("rows",), low=0.0, high=1.0)
            for name in _SHARES
        ),
        *stored_ragged("set_indptr", "labels", "sets.sets", "labels", "rows"),
    )

    def __len__(self) -> int:
        return len(self.right)

    @property
    def rates(self) -> RowRates:
        """Noise rates of the labels."""
        none = np.zeros(len(self))
        return RowRates(
            none if self.alpha is None else self.alpha, none if self.beta is None else self.beta
        )

    @classmethod
    def of(
        cls,
        candidates: CandidateSets,
        confidence: ArrayLike,
        right: ArrayLike,
        *,
        rates: RowRates | None = None,
        random_state: int = 0,
    ) -> Self:
        """Return rows of cross-fitted candidates of at most `MOST_ROWS` documents.

        Parameters
        ----------
        candidates : CandidateSets
            The announced one first in each document.
        confidence, right : array-like of shape (n_sets,)
            Of each candidate.
        rates : RowRates, optional
            Noise of each document's labels.
        random_state : int, default 0
        """
        sets = AnnouncedSets.of(candidates, confidence)
        first = np.asarray(right, dtype=np.uint8)[candidates.doc_indptr[:-1]]
        if len(first) > MOST_ROWS:
            draw = np.random.default_rng(random_state)
            sample = np.sort(draw.choice(len(first), MOST_ROWS, replace=False))
            sets, first = sets.take(sample), first[sample]
            rates = None if rates is None else rates.take(sample)
        return cls(sets, first) if rates is None else cls(sets, first, *rates)

    def beside(self, n_effective: float) -> tuple[AnnouncedSets, ReviewOutcomes]:
        """Return the rows weighted by `fading_weight`, to fit together with reviews."""
        alpha, beta = self.rates
        # Noisy rows tell less, and weigh more until they tell as much as so many true ones.
        weight = np.full(len(self), fading_weight(effective_rows(alpha, beta), n_effective))
        return self.sets, ReviewOutcomes.of(self.right, weight=weight, alpha=alpha, beta=beta)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the rows."""
        sets = RaggedSets(fields["set_indptr"], fields["labels"])
        confidence, score, runner_up, rest = (fields[name] for name in _SHARES)
        announced = AnnouncedSets(confidence, score, runner_up, rest, sets, lengths["labels"])
        rows = cls(announced, fields["right"], fields["alpha"], fields["beta"])
        checked_rates(*rows.rates, len(rows))
        return rows
