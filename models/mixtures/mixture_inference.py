r"""Inference with fitted conditional mixtures.

For one document the mixture is a Bernoulli mixture with weights :math:`\pi_k(x)` and label
probabilities :math:`\mu_{kl}(x)`, from which everything here follows exactly.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.compilation import njit
from setwise.models.data.rows import SparseRows
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.labels.scaling import FeatureWeighting, Matrix, checked_rows
from setwise.models.labels.targets import SetClassifierMixin, as_labels
from setwise.models.mixtures.experts.separate_experts import component_rates
from setwise.models.mixtures.kernel_map import KernelMap
from setwise.models.mixtures.mixture_em import (
    EMRun,
    StepReport,
    WeightedDocuments,
    responsibilities,
)
from setwise.models.mixtures.mixture_measure import Logits, dense
from setwise.models.mixtures.mixture_mode import DEFAULT_LIMIT, MixtureSets, most_probable_sets
from setwise.models.mixtures.mixture_scoring import ScoredMixture
from setwise.models.mixtures.mixture_storage import restored_sets
from setwise.models.mixtures.support.mixture_support import (
    distinct_sets,
    support_log_probabilities,
)
from setwise.models.sets.candidates import concatenate
from setwise.models.storage.state import Lengths, StoredPart

# Documents are taken in batches whose parameters (n, K, L) fill about this much memory.
_BATCH_BYTES = 64_000_000


class MixtureInference(SetClassifierMixin, Estimator):
    """Inference for estimators with a fitted mixture."""

    mixture_: ScoredMixture
    weighting_: FeatureWeighting  # applied to features before the mixture
    # Applied to weighted features if gate and experts use kernel features.
    kernel_: KernelMap | None = None
    support_: sp.csr_array  # (n_sets, n_labels) label sets seen in training
    # Whether the empty set can be predicted: if some training document has no label.
    allow_empty_: bool
    n_components_: int

    def parameters(self, X: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return each document's Bernoulli mixture.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)

        Returns
        -------
        log_weights : ndarray of shape (n_samples, n_components)
            :math:`\log \pi_k(x)` in nats.
        logits : ndarray of shape (n_samples, n_components, n_labels)
            Log-odds of the labels inside the components, finite.
        """
        check_fitted(self, "mixture_")
        log_weights, logits = self.mixture_.parameters(self.describe_rows(self._weighted(X)))
        return log_weights, dense(logits)

    def predict(self, X: Matrix) -> NDArray[Any]:
        """Return each document's most probable set, 0/1 of shape (n_samples, n_labels).

        If ``y`` had one class per row, the most probable class of each row instead.
        """
        if self.exclusive_:
            return self._likeliest(self.predict_proba(X))
        sets = self.most_probable_sets(X).candidates.first()
        return np.asarray(sets.toarray(), dtype=np.int64)

    def most_probable_sets(
        self, X: Matrix, k: int = 1, *, limit: int = DEFAULT_LIMIT
    ) -> MixtureSets:
        """Return each document's ``k`` most probable sets, with proof."""
        parts = [
            most_probable_sets(*mixture, k, allow_empty=self.allow_empty_, limit=limit)
            for mixture in self.batches(X)
        ]
        return MixtureSets(
            concatenate([part.candidates for part in parts]),
            np.concatenate([part.log_bound for part in parts]),
            np.concatenate([part.depth for part in parts]),
            np.concatenate([part.proven for part in parts]),
        )

    def predict_proba(self, X: Matrix) -> NDArray[np.float64]:
        r"""Return the marginals :math:`\sum_k \pi_k \mu_{kl}`, shape (n_samples, n_labels)."""
        marginals = np.concatenate(
            [_marginals(weights, dense(logits)) for weights, logits in self.batches(X)]
        )
        return self._shown_probability(marginals)

    def log_probability(self, X: Matrix, y: Matrix) -> NDArray[np.float64]:
        r"""Return :math:`\log p(y_n \mid x_n)` in nats, shape (n_samples,)."""
        check_fitted(self, "mixture_")
        rows = self.describe_rows(self._weighted(X))
        return responsibilities(self.mixture_.log_joint(rows, as_labels(y)))[1]

    def support_log_probability(self, X: Matrix) -> NDArray[np.float64]:
        """Return log-probabilities (n_samples, n_sets) of ``support_``, in nats."""
        return np.concatenate(
            [
                support_log_probabilities(weights, dense(logits), self.support_)
                for weights, logits in self.batches(X)
            ]
        )

    def batches(self, X: Matrix) -> Iterator[tuple[NDArray[np.float64], Logits]]:
        """Yield log-weights and log-odds of consecutive batches of documents."""
        check_fitted(self, "mixture_")
        rows = self._weighted(X)
        size = max(1, _BATCH_BYTES // (8 * self.n_components_ * self.support_.shape[1]))
        for first in range(0, max(rows.shape[0], 1), size):
            yield self.mixture_.parameters(self.describe_rows(rows[first : first + size]))

    def describe_rows(self, rows: sp.csr_array) -> sp.csr_array:
        """Return weighted rows as inputs of gate and experts."""
        return rows if self.kernel_ is None else self.kernel_.transform(rows)

    def _weighted(self, X: Matrix) -> sp.csr_array:
        rows = X if isinstance(X, SparseRows) else SparseRows.of(checked_rows(self, X, reset=False))
        return self.weighting_.weigh(rows).to_matrix()


class MixtureByEM(StoredPart, MixtureInference):
    """Base of mixtures that one run of EM fits."""

    # (n_components,) share of the training documents' weight that belongs to each component.
    share_: NDArray[np.float64]
    # (n_components, n_labels) label rates of the training documents inside each component.
    rates_: NDArray[np.float64]
    n_iter_: int  # EM steps to the parameters
    reports_: tuple[StepReport, ...]  # report of each step of the last run
    n_features_in_: int

    def _keep_run(self, run: EMRun[Any], documents: WeightedDocuments) -> NDArray[np.float64]:
        """Store a run; return each document's weight in each component."""
        self.mixture_ = run.state.mixture
        memberships, _ = responsibilities(self.mixture_.log_joint(documents.X, documents.Y))
        owned = memberships * documents.weight[:, None]
        self.share_ = owned.sum(axis=0) / owned.sum()
        self.rates_ = component_rates(documents.Y, owned, 0.0)[0]
        self.n_components_ = len(self.share_)
        self.n_iter_, self.reports_ = run.n_iter, run.reports
        self.support_ = distinct_sets(documents.Y)
        self.allow_empty_ = bool((np.diff(documents.Y.indptr) == 0).any())
        return owned

    def _restore(self, fields: dict[str, Any], lengths: Lengths) -> None:
        """Set what every run has, from its stored state."""
        for name in ("share", "rates", "n_iter", "allow_empty"):
            setattr(self, f"{name}_", fields[name])
        self.support_ = restored_sets(
            fields["support_indptr"], fields["support_labels"], lengths["labels"]
        )
        self.n_components_ = lengths["components"]
        self.n_features_in_ = lengths["features"]
        self.classes_ = np.arange(lengths["labels"])


@njit(cache=True, nogil=True)
def _marginals(
    log_weights: NDArray[np.float64], logits: NDArray[np.float64]
) -> NDArray[np.float64]:
    n, n_components, n_labels = logits.shape
    out = np.zeros((n, n_labels))
    for i in range(n):
        for k in range(n_components):
            weight = np.exp(log_weights[i, k])
            if weight > 0.0:
                for label in range(n_labels):
                    out[i, label] += weight / (1.0 + np.exp(-logits[i, k, label]))
    return out
