"""Describes a mixture's components and the labels that come together."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.mixtures.bernoulli_mixture import mixture_covariance


@dataclass(frozen=True)
class ComponentSummary:
    """Typical labels and features of a component."""

    component: int
    share: float  # of the training documents
    labels: tuple[tuple[int, float], ...]  # those that distinguish it, with their rates inside it
    # Features that favour it most, with the gate's coefficients; with a kernel or trees, the
    # deviations by which their means inside exceed those of all documents.
    features: tuple[tuple[int, float], ...]


def summarise_components(  # noqa: PLR0917  # what is known of each component, then how much to tell
    share: NDArray[np.float64],
    rates: NDArray[np.float64],
    weights: NDArray[np.float64],
    contrast: NDArray[np.float64],
    n_labels: int,
    n_features: int,
) -> tuple[ComponentSummary, ...]:
    """Summarise components, largest first.

    Parameters
    ----------
    share : ndarray of shape (n_components,)
    rates : ndarray of shape (n_components, n_labels)
    weights, contrast : ndarray of shape (n_components, n_features)
        What is told of each feature, and what features are ranked by.
    n_labels, n_features : int
        At most so many are listed.
    """
    # Labels that are frequent everywhere do not characterise a component, so labels are sorted
    # by their part in the divergence from the overall rates.
    overall = np.maximum(share @ rates, 1e-12)
    telling = rates * np.log(np.maximum(rates, 1e-12) / overall)
    summaries = []
    for k in np.argsort(-share, kind="stable"):
        labels = np.argsort(-telling[k], kind="stable")[:n_labels]
        features = np.argsort(-contrast[k], kind="stable")[:n_features]
        summaries.append(
            ComponentSummary(
                int(k),
                float(share[k]),
                tuple((int(j), float(rates[k, j])) for j in labels),
                tuple((int(j), float(weights[k, j])) for j in features if contrast[k, j] > 0.0),
            )
        )
    return tuple(summaries)


def label_correlation(
    weights: NDArray[np.float64], means: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the Pearson correlation of a Bernoulli mixture's labels.

    Parameters
    ----------
    weights : ndarray of shape (n_components,)
    means : ndarray of shape (n_components, n_labels)
    """
    covariance = mixture_covariance(weights, means)
    deviation = np.sqrt(np.diag(covariance))
    scale = np.maximum(np.outer(deviation, deviation), np.finfo(np.float64).tiny)
    correlation: NDArray[np.float64] = np.clip(covariance / scale, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    return correlation


def feature_contrast(X: sp.csr_array, owned: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the features' mean excess inside each component, in deviations.

    Parameters
    ----------
    X : csr_array of shape (n_samples, n_features)
        Weighted features.
    owned : float64 ndarray of shape (n_samples, n_components)
        Weight of each document in each component.

    Returns
    -------
    float64 ndarray of shape (n_components, n_features)
    """
    size = owned.sum(axis=0)
    inside = np.asarray(X.T @ owned, dtype=np.float64).T / np.maximum(size, 1e-12)[:, None]
    weight = owned.sum(axis=1) / owned.sum()
    mean = np.asarray(weight @ X, dtype=np.float64)
    variance = np.asarray(weight @ X.power(2), dtype=np.float64) - mean**2
    deviation = np.sqrt(np.maximum(variance, 0.0))
    contrast: NDArray[np.float64] = np.divide(
        inside - mean, deviation, out=np.zeros_like(inside), where=deviation > 0.0
    )
    return contrast
