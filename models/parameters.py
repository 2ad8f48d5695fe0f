"""Ranges of numeric parameters, the same in every estimator."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_RANGES: dict[str, tuple[Callable[[NDArray[np.float64]], NDArray[np.bool_]], str]] = {
    "at least 1": (
        lambda x: x >= 1,
        (
            "n_components n_fits n_init max_iter patience n_landmarks min_df bigram_min_df "
            "n_neighbours max_documents n_candidates n_trees max_rows n_searched"
        ),
    ),
    "at least 2": (lambda x: x >= 2, "max_leaves n_folds"),
    "at least 0": (
        lambda x: x >= 0,
        "alpha gate_alpha cluster_alpha tol min_child_weight reg_lambda min_rows",
    ),
    "above 0": (
        lambda x: x > 0,
        (
            "learning_rate penalty_scale smoothing gamma penalty label_penalty document_width "
            "probability_width"
        ),
    ),
    "from 0 to 1": (lambda x: (x >= 0) & (x <= 1), "l1_ratio isotonic_share"),
    "at least 0 and below 1": (
        lambda x: (x >= 0) & (x < 1),
        "validation_fraction membership_floor rate_floor",
    ),
}
_RANGE_OF = {name: words for words, (_, names) in _RANGES.items() for name in names.split()}


def check_parameters(owner: object) -> None:
    """Refuse options, or parameters of an estimator, that are out of range.

    Texts and None, which some parameters may also be, are not looked at.

    Raises
    ------
    ValueError
        If a number is out of the range of its name, or not finite.

    Examples
    --------
    >>> from setwise.models.mixtures.boosted_mixture import BoostedBernoulliMixture
    >>> check_parameters(BoostedBernoulliMixture(learning_rate=0))
    Traceback (most recent call last):
    ...
    ValueError: learning_rate must be above 0; it is 0
    """
    for name, value in vars(owner).items():
        if name not in _RANGE_OF or value is None or isinstance(value, str):
            continue
        words, numbers = _RANGE_OF[name], np.asarray(value, dtype=np.float64)
        if not np.isfinite(numbers).all():
            words = "finite"
        elif _RANGES[words][0](numbers).all():
            continue
        raise ValueError(f"{name} must be {words}; it is {value}")
