"""Convert a model's arrays to scored sets of the service."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from setwise.models.predictor import SetPredictions, likely_columns
from setwise.service.domain.predictions import Candidate, Marginal, ScoredSet

MOST_MARGINALS = 50
NEGLIGIBLE = 0.005
"""Marginals below this are not stored, because a large vocabulary has very many of them."""

_DIGITS = 6
"""Significant digits of scores and marginals, which no decision uses."""


def scored_sets(
    predictions: SetPredictions,
    own_confidences: NDArray[np.float64] | None = None,
    *,
    model_version: str,
    calibrator_version: str,
    uncalibrated: bool = False,
) -> list[ScoredSet]:
    """Return a scored set for each document.

    Raises `ValueError` if a number is not finite, which JSON cannot represent.

    ``predictions``: Predictions of the documents, with the confidences to show.
    ``own_confidences``: The model's own confidences, if a calibrator learnt from reviews replaced
    them.
    ``uncalibrated``: Nothing has taught the model how sure to be.
    """
    sets = predictions.candidates
    scores = np.minimum(np.exp(sets.log_score), 1.0)
    if not (np.isfinite(scores).all() and np.isfinite(predictions.confidence).all()):
        raise ValueError("the model gave a number that is not finite")
    names = predictions.label_names
    labels = [names[label] for label in sets.labels.tolist()]
    candidates = [
        Candidate(tuple(labels[first:last]), confidence, score)
        for (first, last), confidence, score in zip(
            pairwise(sets.set_indptr.tolist()),
            predictions.confidence.tolist(),
            _rounded(scores),
            strict=True,
        )
    ]
    share_ends, columns, probabilities = likely_columns(
        predictions.marginals, MOST_MARGINALS, NEGLIGIBLE
    )
    marginals = [
        Marginal(names[column], probability)
        for column, probability in zip(columns.tolist(), _rounded(probabilities), strict=True)
    ]
    own = None if own_confidences is None else own_confidences.tolist()
    return [
        ScoredSet(
            candidates=tuple(candidates[first:last]),
            marginals=tuple(marginals[first_share:last_share]),
            out_of_domain=not supported,
            model_version=model_version,
            calibrator_version=calibrator_version,
            uncalibrated=uncalibrated,
            replaced=None if own is None else tuple(own[first:last]),
        )
        for (first, last), (first_share, last_share), supported in zip(
            pairwise(sets.doc_indptr.tolist()),
            pairwise(share_ends.tolist()),
            predictions.supported.tolist(),
            strict=True,
        )
    ]


def _rounded(probabilities: NDArray[np.float64]) -> list[float]:
    """Return probabilities with six significant digits.

    >>> _rounded(np.array([2 / 3, 1.23456789e-30]))
    [0.666667, 1.23457e-30]
    """
    return [float(f"{probability:.{_DIGITS}g}") for probability in probabilities.tolist()]
