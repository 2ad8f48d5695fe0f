"""Explains a mixture's label sets and components in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit

from setwise.models.mixtures.bernoulli_mixture import mixture_covariance
from setwise.models.mixtures.mixture_em import responsibilities

# A correlation below this explains nothing.
_LEAST_CORRELATION = 0.05

# Maximum number of supporting labels per label, and of components per set.
_MAX_SUPPORTERS = 3
_MAX_COMPONENTS = 4


@dataclass(frozen=True)
class Supporter:
    """A label of the set that makes another label more likely.

    Attributes
    ----------
    label : int
    marginal : float
        Marginal probability of this label.
    correlation : float
        Pearson correlation with the supported label given the document, positive.
    """

    label: int
    marginal: float
    correlation: float


@dataclass(frozen=True)
class LabelReason:
    """Why one label belongs to the set.

    Attributes
    ----------
    label : int
    marginal : float
        Marginal probability of the label.
    given_others : float
        Its probability given the other labels of the set and the absence of all others.
    supporters : tuple of Supporter
        Most correlated first.
    """

    label: int
    marginal: float
    given_others: float
    supporters: tuple[Supporter, ...]

    @property
    def added(self) -> bool:
        """Whether only the other labels make the label likely."""
        return self.marginal <= 0.5 < self.given_others

    def describe(self, label_names: Sequence[str]) -> str:
        """Return the reason as a sentence, with labels in backquotes."""
        name = f"`{label_names[self.label]}`"
        if not self.added:
            return f"{name} has probability {self.marginal:.2f} on its own"
        reasons = [f"`{label_names[s.label]}`" for s in self.supporters if s.marginal > 0.5]
        if not reasons:
            return f"{name} was added because the whole set is likelier with it"
        verb = "is" if len(reasons) == 1 else "are"
        listed = " and ".join([", ".join(reasons[:-1]), reasons[-1]] if reasons[1:] else reasons)
        return f"{name} was added because {listed} {verb} likely"


@dataclass(frozen=True)
class ComponentWeight:
    """A component's part in a set.

    Attributes
    ----------
    component : int
    weight : float
        Mixture weight given the document.
    responsibility : float
        Share of the set's probability that comes from the component.
    """

    component: int
    weight: float
    responsibility: float


@dataclass(frozen=True)
class SetExplanation:
    """Explanation of a document's label set.

    Attributes
    ----------
    labels : tuple of int
    probability : float
        Probability of the whole set.
    product : float
        Probability of the set under independent labels with the same marginals.
    reasons : tuple of LabelReason
        One per label of the set.
    components : tuple of ComponentWeight
        Those with the largest responsibility first.
    """

    labels: tuple[int, ...]
    probability: float
    product: float
    reasons: tuple[LabelReason, ...]
    components: tuple[ComponentWeight, ...]


@dataclass(frozen=True)
class ComponentSummary:
    """Typical labels and features of a component.

    Attributes
    ----------
    component : int
    share : float
        Share of the training documents that belong to it.
    labels : tuple of (label, rate)
        The labels that distinguish it from the others, with their rates inside it.
    features : tuple of (feature, coefficient)
        Features that favour it most, with the gate's coefficients; with a kernel, the deviations
        by which their means inside exceed those of all documents.
    """

    component: int
    share: float
    labels: tuple[tuple[int, float], ...]
    features: tuple[tuple[int, float], ...]


def explain_set(
    log_weights: NDArray[np.float64], logits: NDArray[np.float64], labels: Sequence[int]
) -> SetExplanation:
    """Explain a label set of one document's mixture.

    Parameters
    ----------
    log_weights : ndarray of shape (n_components,)
        Log-weights of the components, in nats.
    logits : ndarray of shape (n_components, n_labels)
        Log-odds of the labels inside the components.
    labels : sequence of int
        The set, in any order.

    Returns
    -------
    SetExplanation
    """
    chosen = np.unique(np.asarray(labels, dtype=np.int64))
    weights, means = np.exp(log_weights), expit(logits)
    marginals = weights @ means
    none = log_weights - np.logaddexp(0.0, logits).sum(axis=1)
    joint = none + logits[:, chosen].sum(axis=1)
    share, log_p = responsibilities(joint[None, :])
    correlation = label_correlation(weights, means)
    reasons = []
    for label in chosen:
        without = responsibilities((joint - logits[:, label])[None, :])[1][0]
        given_others = float(expit(log_p[0] - without))
        others = chosen[(chosen != label) & (correlation[label, chosen] > _LEAST_CORRELATION)]
        others = others[np.argsort(-correlation[label, others], kind="stable")][:_MAX_SUPPORTERS]
        supporters = tuple(
            Supporter(int(o), float(marginals[o]), float(correlation[label, o])) for o in others
        )
        reasons.append(LabelReason(int(label), float(marginals[label]), given_others, supporters))
    present = np.zeros(len(marginals), dtype=bool)
    present[chosen] = True
    top = np.argsort(-share[0], kind="stable")[:_MAX_COMPONENTS]
    return SetExplanation(
        tuple(int(label) for label in chosen),
        float(np.exp(log_p[0])),
        float(np.prod(np.where(present, marginals, 1.0 - marginals))),
        tuple(reasons),
        tuple(ComponentWeight(int(k), float(weights[k]), float(share[0, k])) for k in top),
    )


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
