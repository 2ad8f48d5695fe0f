"""scikit-learn's conventions without its import, which takes a second that predicting can spare."""

# ruff: noqa: PLC0415 - scikit-learn imports pandas and scipy.stats: only where it is needed

import warnings
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from sklearn.utils import Tags

RandomState = int | np.random.RandomState | None
"""What draws: a seed, a generator, or NumPy's own."""


class Estimator:
    """A part whose constructor stores its parameters; pipelines, searches and `clone` take it."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  # scikit-learn's signature
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in sorted(signature(type(self)).parameters)}

    def set_params(self, **parameters: Any) -> Self:  # noqa: ANN401  # of any type
        """Change parameters; raises `ValueError` at a name that is none."""
        for name, value in parameters.items():
            if name not in signature(type(self)).parameters:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
            setattr(self, name, value)
        return self

    def unfitted(self) -> Self:
        """Return another with the same parameters."""
        from sklearn.base import clone

        copy: Self = clone(self)
        return copy

    def __repr__(self) -> str:
        usual = signature(type(self)).parameters
        changed = (
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not usual[name].default
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> "Tags":
        from sklearn.base import BaseEstimator

        tags: Tags = BaseEstimator.__sklearn_tags__(self)
        tags.input_tags.sparse = True
        return tags


def check_fitted(part: object, attribute: str) -> None:
    """Raise scikit-learn's `NotFittedError` if a part lacks what ``fit`` sets."""
    if not hasattr(part, attribute):
        raise not_fitted(part)


def not_fitted(part: object) -> Exception:
    """Return scikit-learn's `NotFittedError`."""
    from sklearn.exceptions import NotFittedError

    error: Exception = NotFittedError(f"{type(part).__name__} must be fitted first")
    return error


def draws_of(random_state: RandomState) -> np.random.RandomState:
    """Return the generator that a parameter ``random_state`` stands for."""
    from sklearn.utils import check_random_state

    generator: np.random.RandomState = check_random_state(random_state)
    return generator


def warn_of_unfinished(message: str) -> None:
    """Give the caller of ``fit`` scikit-learn's `ConvergenceWarning`."""
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(message, ConvergenceWarning, stacklevel=3)
