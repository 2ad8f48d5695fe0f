"""Converts linear mixtures to arrays and back, checking every index."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.mixtures.experts.gating import Gate
from setwise.models.mixtures.mixture_scoring import SeparateExperts, SharedExperts
from setwise.models.storage.state import check_labels, checked_array

Arrays = dict[str, NDArray[Any]]


def pack_mixture(
    gate: Gate, experts: SharedExperts | SeparateExperts, support: sp.csr_array
) -> Arrays:
    """Return gate, experts and seen label sets as arrays."""
    arrays: Arrays = {
        "gate_intercept": gate.intercept,
        "expert_intercept": experts.intercept,
        "support_indptr": support.indptr.astype(np.int64),
        "support_labels": support.indices.astype(np.int32),
    }
    for name, matrix in (("gate", gate.coef), ("expert", experts.coef)):
        arrays[f"{name}_indptr"] = matrix.indptr.astype(np.int64)
        arrays[f"{name}_features"] = matrix.indices.astype(np.int32)
        arrays[f"{name}_values"] = matrix.data
    if isinstance(experts, SharedExperts):
        arrays["bias"] = experts.bias
    else:
        arrays["expert_component"] = experts.component
        arrays["expert_label"] = experts.label
        arrays["constants"] = experts.constants
    return arrays


def unpack_mixture(
    arrays: Mapping[str, NDArray[Any]], shape: tuple[int, int, int]
) -> tuple[Gate, SharedExperts | SeparateExperts, sp.csr_array]:
    """Rebuild gate, experts and label sets from `pack_mixture`.

    Parameters
    ----------
    arrays : mapping
    shape : tuple (n_components, n_labels, n_features)

    Raises
    ------
    ValueError
        If an array is missing, has a wrong type or shape, or points outside another.
    """
    n_components, n_labels, d = shape
    gate = Gate(
        _rows(arrays, "gate", n_components, d),
        checked_array(arrays, "gate_intercept", np.float64, (n_components,)),
    )
    intercept = checked_array(arrays, "expert_intercept", np.float64, (None,))
    coef = _rows(arrays, "expert", len(intercept), d)
    experts: SharedExperts | SeparateExperts
    if "bias" in arrays:
        bias = checked_array(arrays, "bias", np.float64, (n_components, n_labels))
        if len(intercept) != n_labels:
            raise ValueError(f"{len(intercept)} shared experts for {n_labels} labels")
        experts = SharedExperts(coef, intercept, bias)
    else:
        experts = SeparateExperts(
            coef,
            intercept,
            checked_array(arrays, "expert_component", np.int32, intercept.shape),
            checked_array(arrays, "expert_label", np.int32, intercept.shape),
            checked_array(arrays, "constants", np.float64, (n_components, n_labels)),
        )
        _check_places(experts)
    labels = checked_array(arrays, "support_labels", np.int32, (None,))
    indptr = checked_array(arrays, "support_indptr", np.int64, (None,))
    check_labels("support_labels", indptr, labels, n_labels)
    ones = np.ones(len(labels), dtype=np.uint8)
    return gate, experts, sp.csr_array((ones, labels, indptr), shape=(len(indptr) - 1, n_labels))


def _rows(
    arrays: Mapping[str, NDArray[Any]], name: str, n_rows: int, n_columns: int
) -> sp.csr_array:
    indptr = checked_array(arrays, f"{name}_indptr", np.int64, (n_rows + 1,))
    features = checked_array(arrays, f"{name}_features", np.int32, (None,))
    values = checked_array(arrays, f"{name}_values", np.float64, features.shape)
    check_labels(f"{name}_features", indptr, features, n_columns)
    return sp.csr_array((values, features, indptr), shape=(n_rows, n_columns))


def _check_places(experts: SeparateExperts) -> None:
    n_components, n_labels = experts.constants.shape
    component, label = experts.component.astype(np.int64), experts.label
    inside = (component >= 0) & (component < n_components) & (label >= 0) & (label < n_labels)
    if not inside.all():
        raise ValueError("experts of components or labels that do not exist")
    if (np.diff(component * n_labels + label) <= 0).any():
        raise ValueError("experts out of order")
