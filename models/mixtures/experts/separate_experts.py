r"""Label classifiers of each component of a mixture: elastic-net logistic regressions.

Given memberships :math:`\gamma` the expert of label :math:`l` in component :math:`k` minimises

.. math:: \frac{1}{\sum_n w_n} \sum_n w_n \gamma_{nk}
          \big[\log(1 + e^{z_n}) - y_{nl} z_n\big] + \alpha \Big(\rho |\beta|_1
          + \tfrac{1 - \rho}{2} |\beta|_2^2\Big), \quad z_n = b + \beta \cdot x_n,

so that all experts and the gate minimise one objective with one fixed penalty. Two shortcuts follow
the thesis (section 3.5): documents with a small membership are left out, and a label whose rate in
the component is near 0 or 1 gets a constant. The rate is the weighted share
:math:`\sum_n w_n \gamma_{nk} y_{nl} / \sum_n w_n \gamma_{nk}`, although the thesis prints the
numerator alone, which would freeze almost every label.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.labels.linear import LinearFit, fit_elastic_net
from setwise.models.mixtures.mixture_scoring import SeparateExperts


@dataclass(frozen=True)
class SeparateSettings:
    """Settings of separate experts."""

    l1_ratio: float  # share of the L1 norm in the penalty
    membership_floor: float = 1e-3  # documents with a smaller membership are left out
    # A label whose rate in the component is within this of 0 or 1 gets a constant.
    rate_floor: float = 2e-3
    # Weight, in documents, of the overall label rates in each constant, to avoid 0 and 1.
    smoothing: float = 1.0
    # newton_steps and max_sweeps: steps and sweeps per expert and EM step.
    newton_steps: int = 2
    max_sweeps: int = 3


@dataclass(frozen=True, eq=False)
class ComponentExperts:
    """The experts of one component."""

    labels: NDArray[np.int32]  # (n_here,) labels with an expert, ascending
    fit: LinearFit | None  # their solutions; None where no label needs an expert


def component_rates(
    Y: sp.csr_array, owned: NDArray[np.float64], smoothing: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return raw and smoothed label rates, each (n_components, n_labels).

    Parameters
    ----------
    Y : csr_array of shape (n, n_labels)
    owned : ndarray of shape (n, n_components)
        Weighted memberships.
    smoothing : float
        Weight, in documents, of the overall rates in the smoothed rates, which then lie strictly
        between 0 and 1.
    """
    size = owned.sum(axis=0)
    positives = np.asarray(Y.T @ owned).T
    overall = (positives.sum(axis=0) + 0.5) / (size.sum() + 1.0)
    rates = positives / np.maximum(size, np.finfo(np.float64).tiny)[:, None]
    smoothed = (positives + smoothing * overall) / (size + smoothing)[:, None]
    return rates, smoothed


def fit_component(
    X: sp.csr_array,
    Y: sp.csr_array,
    weight: NDArray[np.float64],
    labels: NDArray[np.int64],
    alpha: NDArray[np.float64],
    *,
    settings: SeparateSettings,
    start: ComponentExperts | None,
) -> ComponentExperts:
    """Improve the experts of one component by a few Newton steps.

    Parameters
    ----------
    X : csr_array of shape (n_here, n_features), float32
        The documents with a sufficient membership.
    Y : csr_array of shape (n_here, n_labels)
    weight : ndarray of shape (n_here,)
        Their memberships in this component as shares of all documents' weight.
    labels : int array
        Labels that need an expert, ascending.
    alpha : ndarray of shape (n_labels,)
        Penalty strengths.
    settings : SeparateSettings
    start : ComponentExperts or None
        Where to start.
    """
    if len(labels) == 0 or len(weight) == 0:
        return ComponentExperts(np.zeros(0, dtype=np.int32), None)
    # The solver's loss is a mean over this component, the objective's one over all documents.
    scale = 1.0 / weight.sum()
    fit = fit_elastic_net(
        sp.csc_array(X),
        sp.csc_array(Y[:, labels]),
        alpha=alpha[labels] * scale,
        l1_ratio=settings.l1_ratio,
        sample_weight=weight,
        warm_start=None if start is None else _carry_over(start, labels),
        max_iter=settings.newton_steps,
        max_sweeps=settings.max_sweeps,
        n_jobs=1,
    )
    return ComponentExperts(labels.astype(np.int32), fit)


def join_components(
    components: tuple[ComponentExperts, ...], constants: NDArray[np.float64], n_features: int
) -> SeparateExperts:
    """Join the components' experts.

    Parameters
    ----------
    components : tuple of ComponentExperts
    constants : ndarray of shape (n_components, n_labels)
        Logits of the labels without an expert.
    n_features : int
    """
    fits = [c.fit for c in components if c.fit is not None]
    coef = sp.csr_array(sp.vstack([f.coef for f in fits] or [sp.csr_array((0, n_features))]))
    counts = [len(c.labels) for c in components]
    return SeparateExperts(
        coef,
        np.concatenate([f.intercept for f in fits] or [np.zeros(0)]),
        np.repeat(np.arange(len(components)), counts).astype(np.int32),
        np.concatenate([c.labels for c in components]).astype(np.int32),
        constants,
    )


def _carry_over(before: ComponentExperts, labels: NDArray[np.int64]) -> LinearFit | None:
    """Return previous solutions for ``labels``; new ones start at their rate."""
    if before.fit is None:
        return None
    position = np.minimum(np.searchsorted(before.labels, labels), len(before.labels) - 1)
    had_expert = before.labels[position] == labels
    coef = before.fit.coef[position]
    coef.data *= np.repeat(had_expert, np.diff(coef.indptr))
    coef.eliminate_zeros()
    return replace(
        before.fit,
        coef=coef,
        intercept=np.where(had_expert, before.fit.intercept[position], np.nan),
    )
