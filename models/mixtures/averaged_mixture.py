r"""The mean of several conditional mixtures, again a conditional mixture.

EM finds a different optimum from every start, and each fit sets aside different validation rows, so
fits agree on the signal and differ in their errors. Their mean

.. math:: p(y \mid x) = \frac{1}{M} \sum_m p_m(y \mid x)
          = \sum_m \sum_k \frac{\pi_{mk}(x)}{M} \prod_l \mathrm{Ber}(y_l; \mu_{mkl}(x))

has the components of all fits, with weights divided by the number of fits. So the exact mode, the
F1 rule, marginals, samples and explanations work as for other mixtures, and its log-likelihood is
never below the mean of the fits' log-likelihoods (Jensen).
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from setwise.models.estimator import check_fitted, draws_of
from setwise.models.labels.scaling import Matrix, checked_rows
from setwise.models.mixtures.bernoulli_mixture import ComponentWarning
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.mixture_explanation import ComponentSummary
from setwise.models.mixtures.mixture_inference import MixtureInference
from setwise.models.mixtures.mixture_measure import Biases, Logits, SharedLogits, dense
from setwise.models.mixtures.mixture_scoring import SharedExperts
from setwise.models.parameters import check_parameters
from setwise.models.storage.fields import StoredSeries
from setwise.models.storage.state import Lengths, StoredPart


class MeanMixture:
    """Scores documents under the components of all fits.

    Parameters
    ----------
    fits : sequence of ConditionalBernoulliMixture
        Fitted, with equal feature weighting, which the rows scored here have been given.
    """

    def __init__(self, fits: Sequence[ConditionalBernoulliMixture]) -> None:
        self._fits = tuple(fits)
        self._log_share = -np.log(len(self._fits))
        biases = [
            fit.experts_.layout.bias for fit in fits if isinstance(fit.experts_, SharedExperts)
        ]
        self._biases = Biases.of(biases) if len(biases) == len(fits) else None

    def log_joint(self, X: sp.csr_array, Y: sp.csr_array) -> NDArray[np.float64]:
        r"""Return :math:`\log \pi_k(x_n) p_k(y_n \mid x_n)`, shape (n, K), in nats."""
        parts = [fit.mixture_.log_joint(fit.describe_rows(X), Y) for fit in self._fits]
        joint: NDArray[np.float64] = np.concatenate(parts, axis=1) + self._log_share
        return joint

    def parameters(self, X: sp.csr_array) -> tuple[NDArray[np.float64], Logits]:
        r"""Return :math:`\log \pi_k(x_n)` (n, K) and the labels' log-odds (n, K, L)."""
        parts = [fit.mixture_.scores(fit.describe_rows(X)) for fit in self._fits]
        log_weights = np.concatenate([of_fit for of_fit, _ in parts], axis=1) + self._log_share
        scores = [of_fit for _, of_fit in parts]
        if self._biases is not None:
            return log_weights, SharedLogits(np.stack(scores, axis=1), self._biases)
        logits = [
            dense(fit.experts_.logits(of_fit))
            for fit, of_fit in zip(self._fits, scores, strict=True)
        ]
        return log_weights, np.concatenate(logits, axis=1)


class AveragedMixture(StoredPart, MixtureInference):
    """Mean of conditional Bernoulli mixtures fitted from different starts.

    Parameters
    ----------
    mixture : ConditionalBernoulliMixture, optional
        Template of the fits, with default parameters by default. Its ``random_state`` and
        ``penalty_scale`` are ignored.
    n_fits : int, default 2
        Fits to average.
    penalty_scale : float, default 0.5
        Penalties of each fit as a multiple of those of a single fit. The mean reduces overfitting,
        so each fit can be less regularised.
    random_state : int, RandomState or None
        Random state of the fits' starts and of the rows that each sets aside.

    Examples
    --------
    >>> X = np.repeat(np.eye(2), 40, axis=0)
    >>> Y = np.tile([[1, 1, 0], [0, 0, 1]], (20, 1)).repeat([1, 3] * 20, axis=0)
    >>> mixture = ConditionalBernoulliMixture(2, alpha=1e-3)
    >>> model = AveragedMixture(mixture, n_fits=3).fit(X, Y)
    >>> model.predict(np.eye(2))
    array([[0, 0, 1],
           [0, 0, 1]])
    >>> model.n_components_
    6
    """

    # The first chooses the penalties; the others reuse them.
    fits_: tuple[ConditionalBernoulliMixture, ...]
    n_features_in_: int
    stored = (
        StoredSeries(
            "fits_",
            ConditionalBernoulliMixture,
            "fit",
            "fits",
            # Fits to the same rows have the same feature weights and label sets.
            alike=("scale", "support_indptr", "support_labels"),
            shares={"features": "features", "labels": "labels"},
        ),
    )

    def __init__(
        self,
        mixture: ConditionalBernoulliMixture | None = None,
        n_fits: int = 2,
        *,
        penalty_scale: float = 0.5,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.mixture = mixture
        self.n_fits = n_fits
        self.penalty_scale = penalty_scale
        self.random_state = random_state

    def fit(
        self,
        X: Matrix,
        y: Matrix,
        sample_weight: ArrayLike | None = None,
        validation: tuple[Matrix, Matrix] | None = None,
    ) -> Self:
        """Fit the mixtures one after another, each on all threads.

        Parameters, errors and warnings are those of `ConditionalBernoulliMixture.fit`.

        Raises
        ------
        ValueError
            If ``n_fits`` is below 1.
        """
        check_parameters(self)
        rows = checked_rows(self, X, reset=True)
        labels = self._adopt_targets(y, rows)
        rng = draws_of(self.random_state)
        seeds = [int(rng.randint(np.iinfo(np.int32).max)) for _ in range(self.n_fits)]
        template = ConditionalBernoulliMixture() if self.mixture is None else self.mixture
        first = template.unfitted().set_params(
            random_state=seeds[0], penalty_scale=self.penalty_scale
        )
        fits = [first.fit(rows, labels, sample_weight, validation)]
        penalties = {"alpha": first.alpha_, "gate_alpha": first.gate_alpha_}
        for seed in seeds[1:]:
            other = template.unfitted().set_params(random_state=seed, **penalties)
            with warnings.catch_warnings():
                # The first fit has already warned about the number of components.
                warnings.simplefilter("ignore", ComponentWarning)
                fits.append(other.fit(rows, labels, sample_weight, validation))
        self._join(fits)
        return self

    @classmethod
    def of(cls, fits: Sequence[ConditionalBernoulliMixture]) -> Self:
        """Return the mean of mixtures already fitted to the same documents.

        Raises
        ------
        ValueError
            If there is none, or their feature weights or label sets differ.
        """
        if not fits:
            raise ValueError("there is no mixture to average")
        model = cls(fits[0], len(fits))
        model._join(fits)
        model.n_features_in_ = fits[0].n_features_in_
        model.classes_ = fits[0].classes_
        return model

    def _join(self, fits: Sequence[ConditionalBernoulliMixture]) -> None:
        first = fits[0]
        for fit in fits[1:]:
            same = np.array_equal(fit.weighting_.scale_, first.weighting_.scale_)
            if not same or not _equal_sets(fit.support_, first.support_):
                raise ValueError("mixtures of other documents have no mean: fit them to the same")
        self.fits_ = tuple(fits)
        self.weighting_ = first.weighting_
        self.support_ = first.support_
        self.allow_empty_ = first.allow_empty_
        self.n_components_ = sum(fit.n_components_ for fit in fits)
        self.mixture_ = MeanMixture(fits)

    def describe_components(
        self, n_labels: int = 5, n_features: int = 10
    ) -> tuple[ComponentSummary, ...]:
        """Summarise the components of all fits, largest first.

        The shares of one fit sum to one divided by the number of fits.
        """
        check_fitted(self, "mixture_")
        summaries = []
        before = 0
        for fit in self.fits_:
            summaries += [
                replace(
                    summary,
                    component=before + summary.component,
                    share=summary.share / len(self.fits_),
                )
                for summary in fit.describe_components(n_labels, n_features)
            ]
            before += fit.n_components_
        return tuple(sorted(summaries, key=lambda summary: -summary.share))

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the mixture from its fits."""
        model = cls.of(fields["fits_"])
        if lengths.setdefault("components", model.n_components_) != model.n_components_:
            raise ValueError(f"it counts {model.n_components_} components")
        return model


def _equal_sets(sets: sp.csr_array, other: sp.csr_array) -> bool:
    return (
        sets.shape == other.shape
        and np.array_equal(sets.indptr, other.indptr)
        and np.array_equal(sets.indices, other.indices)
    )
