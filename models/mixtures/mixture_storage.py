"""The stored form of a linear mixture: gate, experts and the label sets seen in training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.mixtures.experts.gating import Gate
from setwise.models.mixtures.mixture_scoring import SeparateExperts, SharedExperts
from setwise.models.storage.fields import StoredArray, stored_ragged
from setwise.models.storage.state import Lengths, StoredPart

_SUPPORT = stored_ragged(
    "support_indptr", "support_labels", "support", "indices", "sets", count="members"
)


def _stored_rows(name: str, rows: str) -> tuple[StoredArray, ...]:
    """Return the fields of sparse coefficients (rows, features) with intercepts."""
    entries, coef = f"{name}_entries", f"{name}.coef"
    return (
        StoredArray(f"{name}_intercept", f"{name}.intercept", np.float64, (rows,)),
        *stored_ragged(
            f"{name}_indptr", f"{name}_features", coef, "indices", rows, "features", entries
        ),
        StoredArray(f"{name}_values", f"{coef}.data", np.float64, (entries,)),
    )


@dataclass(frozen=True, eq=False)
class LinearMixture(StoredPart):
    """A gate with shared experts."""

    gate: Gate
    expert: SharedExperts | SeparateExperts
    support: sp.csr_array
    stored: ClassVar = (
        StoredArray("bias", "expert.bias", np.float64, ("components", "labels")),
        *_stored_rows("gate", "components"),
        *_stored_rows("expert", "labels"),
        *_SUPPORT,
    )

    @classmethod
    def restored(cls, found: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the mixture."""
        gate = Gate(_rows(found, "gate", lengths), found["gate_intercept"])
        indptr, labels = found["support_indptr"], found["support_labels"]
        ones = np.ones(len(labels), dtype=np.uint8)
        support = sp.csr_array((ones, labels, indptr), shape=(lengths["sets"], lengths["labels"]))
        return cls(gate, cls._experts(found, lengths), support)

    @classmethod
    def _experts(
        cls, found: Mapping[str, NDArray[Any]], lengths: Lengths
    ) -> SharedExperts | SeparateExperts:
        coef = _rows(found, "expert", lengths)
        return SharedExperts(coef, found["expert_intercept"], found["bias"])


class SeparateMixture(LinearMixture):
    """A gate with experts of each component."""

    stored: ClassVar = (
        StoredArray("constants", "expert.constants", np.float64, ("components", "labels")),
        *_stored_rows("gate", "components"),
        *_stored_rows("expert", "experts"),
        StoredArray(
            "expert_component", "expert.component", np.int32, ("experts",), picks="components"
        ),
        StoredArray("expert_label", "expert.label", np.int32, ("experts",), picks="labels"),
        *_SUPPORT,
    )

    @classmethod
    def _experts(cls, found: Mapping[str, NDArray[Any]], lengths: Lengths) -> SeparateExperts:
        component, label = found["expert_component"], found["expert_label"]
        if (np.diff(component.astype(np.int64) * lengths["labels"] + label) <= 0).any():
            raise ValueError("experts out of order")
        coef = _rows(found, "expert", lengths)
        return SeparateExperts(
            coef, found["expert_intercept"], component, label, found["constants"]
        )


def stored_mixture(arrays: Mapping[str, object], settings: object) -> type[LinearMixture]:  # noqa: ARG001  # arrays tell
    """Return the class of a stored mixture."""
    return LinearMixture if "bias" in arrays else SeparateMixture


def linear_mixture(
    gate: Gate, experts: SharedExperts | SeparateExperts, support: sp.csr_array
) -> LinearMixture:
    """Return the stored form of a mixture."""
    kind = LinearMixture if isinstance(experts, SharedExperts) else SeparateMixture
    return kind(gate, experts, support)


def _rows(found: Mapping[str, NDArray[Any]], name: str, lengths: Lengths) -> sp.csr_array:
    indptr = found[f"{name}_indptr"]
    return sp.csr_array(
        (found[f"{name}_values"], found[f"{name}_features"], indptr),
        shape=(len(indptr) - 1, lengths["features"]),
    )
