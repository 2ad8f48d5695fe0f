r"""Computes one document's Bernoulli mixture for label-set searches.

The log-odds :math:`z_{kl}` of the labels inside the components have one of two forms: one
value each, or those of classifiers that components share plus a bias per component,
:math:`z_{kl} = s_{g(k)l} + b_{kl}`. In the second form odds multiply, so all
components need one exponential per classifier and label, not per component and label, and no array
of shape (n, K, L) is created.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from setwise.models.compilation import njit

# The logarithm of a product of factors 1 + e^-|z| is taken before it can overflow.
_LARGE_PRODUCT = 1e250

# The same for products of odds, each below e^61 while shared log-odds and biases are within 30:
# this many labels are multiplied between two checks of the products.
_LABELS_BETWEEN_LOOKS = 8
_LARGE_ODDS_PRODUCT = 1e80

# e^x = 2^m e^r with |r| <= ln(2) / 2: ln(2) in two parts, of which the first times m is exact.
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
_LARGEST_EXPONENT = 700.0  # e^-700 is negligible compared with 1 and not subnormal


class Biases(NamedTuple):
    """Biases of components, added to the log-odds of shared classifiers."""

    by_component: NDArray[np.float64]  # (n_components, n_labels)
    by_label: NDArray[np.float64]  # (n_labels, n_components) the same by label
    odds: NDArray[np.float64]  # (n_labels, n_components) exponentials of ``by_label``
    # (n_groups + 1,) group g holds the components ``first[g]`` to ``first[g + 1]``, which share
    # classifiers.
    first: NDArray[np.int64]

    @classmethod
    def of(cls, groups: list[NDArray[np.float64]]) -> Self:
        """Return the biases of groups, each (components, n_labels)."""
        joined = np.ascontiguousarray(np.concatenate(groups), dtype=np.float64)
        by_label = np.ascontiguousarray(joined.T)
        bounds = np.cumsum([0, *(len(group) for group in groups)]).astype(np.int64)
        return cls(joined, by_label, np.exp(by_label), bounds)


# Placeholder without shared classifiers: compiled code needs one type for both forms.
_NOTHING = np.zeros((0, 0))
_NO_BIASES = Biases(_NOTHING, _NOTHING, _NOTHING, np.zeros(1, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class SharedLogits:
    """Log-odds of the labels of documents, in parts."""

    # (n_documents, n_groups, n_labels) log-odds by the classifiers of each group of components, in
    # nats, within 30 of zero.
    shared: NDArray[np.float64]
    biases: Biases  # biases of the same groups, also within 30 of zero

    @property
    def shape(self) -> tuple[int, int, int]:
        """Documents, components and labels."""
        n_components, n_labels = self.biases.by_component.shape
        return self.shared.shape[0], n_components, n_labels


Logits = NDArray[np.float64] | SharedLogits


def dense(logits: Logits) -> NDArray[np.float64]:
    """Return log-odds of either form as (n_documents, n_components, n_labels)."""
    if not isinstance(logits, SharedLogits):
        return logits
    out = np.empty(logits.shape)
    for g, (start, end) in enumerate(pairwise(logits.biases.first)):
        biases = logits.biases.by_component[start:end]
        np.add(logits.shared[:, g, None], biases, out=out[:, start:end])
    return out


def in_parts(logits: Logits) -> tuple[NDArray[np.float64], Biases]:
    """Return log-odds of either form for compiled code."""
    if isinstance(logits, SharedLogits):
        return logits.shared, logits.biases
    return logits, _NO_BIASES


class Measured(NamedTuple):
    """One document's mixture.

    With shared classifiers ``z`` is scratch space that `fill_row` fills on demand.
    """

    log_none: NDArray[np.float64]  # (K,) log of weight times probability of the empty set
    log_mode: NDArray[np.float64]  # (K,) log of weight times probability of the mode
    largest: NDArray[np.float64]  # (K,) largest log-odds; where below zero the mode is empty
    z: NDArray[np.float64]  # (K, L) log-odds
    shared: NDArray[np.float64]  # (G, L) log-odds of shared classifiers; else the same as ``z``
    biases: Biases


@njit(cache=True, nogil=True)
def exp_of_minus_size(z: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Fill ``out`` with e^-|z|, to 3e-16 relative.

    Without branches or calls, so that the compiler can vectorise it. The power of two is built from
    its bits.
    """
    power_bits = np.empty(len(z), dtype=np.int64)
    for label in range(len(z)):
        x = -min(abs(z[label]), _LARGEST_EXPONENT)
        power = np.floor(x * _LOG2_E + 0.5)
        r = (x - power * _LN2_HIGH) - power * _LN2_LOW
        series = 1.0 / 479001600.0
        series = series * r + 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        series = series * r + 1.0
        out[label] = series * r + 1.0
        power_bits[label] = (np.int64(power) + 1023) << 52
    powers = power_bits.view(np.float64)
    for label in range(len(z)):
        out[label] *= powers[label]


@njit(cache=True, nogil=True)
def log_sum(values: NDArray[np.float64], room: NDArray[np.float64]) -> float:
    """Return the log-sum-exp; ``room`` is scratch of the same length."""
    top = values.max()
    if top == -math.inf:
        return -math.inf
    for k in range(len(values)):
        room[k] = values[k] - top
    exp_of_minus_size(room, room)
    total = 0.0
    for term in room:
        total += term
    return float(top + math.log(total))


@njit(cache=True, nogil=True)
def measure(
    log_weights: NDArray[np.float64],
    shared: NDArray[np.float64],
    biases: Biases,
    z: NDArray[np.float64],
) -> Measured:
    """Measure one document's mixture.

    Parameters are log-weights (K,), the log-odds (K, L) or those of shared classifiers (G, L) with
    their biases, and scratch space (K, L) for log-odds.
    """
    if len(biases.by_label) == 0:
        return _measure_each(log_weights, shared, biases)
    return _measure_shared(log_weights, shared, biases, z)


@njit(cache=True, nogil=True)
def _measure_each(
    log_weights: NDArray[np.float64], z: NDArray[np.float64], biases: Biases
) -> Measured:
    n_components, n_labels = z.shape
    log_none = log_weights.copy()
    log_mode = log_weights.copy()
    largest = np.full(n_components, -math.inf)
    factor = np.empty(n_labels)
    for k in range(n_components):
        exp_of_minus_size(z[k], factor)
        product = 1.0
        for label in range(n_labels):
            product *= 1.0 + factor[label]
            if product > _LARGE_PRODUCT:
                log_mode[k] -= math.log(product)
                product = 1.0
        log_mode[k] -= math.log(product)
        present = 0.0
        for label in range(n_labels):
            present += max(z[k, label], 0.0)
            largest[k] = max(largest[k], z[k, label])
        log_none[k] = log_mode[k] - present
    return Measured(log_none, log_mode, largest, z, z, biases)


@njit(cache=True, nogil=True)
def _measure_shared(
    log_weights: NDArray[np.float64],
    shared: NDArray[np.float64],
    biases: Biases,
    z: NDArray[np.float64],
) -> Measured:
    n_components, n_labels = z.shape
    log_none = log_weights.copy()
    present = np.zeros(n_components)  # log-odds of the labels in each mode, together
    either = np.ones(n_components)  # product of 1 + odds
    likely = np.ones(n_components)  # product of the odds above one
    largest = np.full(n_components, -math.inf)
    for label in range(n_labels):
        for g in range(len(biases.first) - 1):
            logit = shared[g, label]
            odds = math.exp(logit)
            for k in range(biases.first[g], biases.first[g + 1]):
                biased_odds = odds * biases.odds[label, k]
                either[k] *= 1.0 + biased_odds
                likely[k] *= max(biased_odds, 1.0)
                largest[k] = max(largest[k], logit + biases.by_label[label, k])
        if label % _LABELS_BETWEEN_LOOKS == 0 and either.max() > _LARGE_ODDS_PRODUCT:
            for k in range(n_components):
                log_none[k] -= math.log(either[k])
                present[k] += math.log(likely[k])
            either[:] = 1.0
            likely[:] = 1.0
    for k in range(n_components):
        log_none[k] -= math.log(either[k])
        present[k] += math.log(likely[k])
    return Measured(log_none, log_none + present, largest, z, shared, biases)


@njit(cache=True, nogil=True)
def fill_row(mixture: Measured, k: int) -> None:
    """Fill a component's log-odds in ``z``, unless already present."""
    first = mixture.biases.first
    for g in range(len(first) - 1):
        if first[g] <= k < first[g + 1]:
            for label in range(mixture.z.shape[1]):
                logit = mixture.shared[g, label] + mixture.biases.by_component[k, label]
                mixture.z[k, label] = logit


@njit(cache=True, nogil=True)
def log_probability(
    mixture: Measured, labels: NDArray[np.int32], size: int, scores: NDArray[np.float64]
) -> float:
    """Return the log-probability of a set with ascending labels.

    A fixed order makes equal sets tie exactly. ``scores`` (2, K) is scratch space.
    """
    by_component = scores[0]
    by_component[:] = mixture.log_none
    first = mixture.biases.first
    for t in range(size):
        label = labels[t]
        if len(first) == 1:
            for k in range(len(by_component)):
                by_component[k] += mixture.z[k, label]
        for g in range(len(first) - 1):
            logit = mixture.shared[g, label]
            for k in range(first[g], first[g + 1]):
                by_component[k] += logit + mixture.biases.by_label[label, k]
    return log_sum(by_component, scores[1])
