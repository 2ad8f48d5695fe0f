r"""A conditional mixture over label scores instead of features.

Words carry more information about single labels than about which labels go together: a gate over
all words overfits before it finds the components. Two scores per label (`LabelScores`) are few
enough for both. The result is still
:math:`p(y \mid x) = \sum_k \pi_k(s(x)) \prod_l \mathrm{Ber}(y_l; \mu_{kl}(s(x)))`, with exact
modes, F1 rule, marginals, samples and covariances; cross-fitting keeps :math:`s(x)` unbiased on the
documents that the mixture is fitted to (stacking, [1]_).

.. [1] D. Wolpert, "Stacked generalization", Neural Networks 5, 1992.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from setwise.models.labels.scaling import FeatureWeighting, Matrix, checked_rows
from setwise.models.mixtures.averaged_mixture import AveragedMixture
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.label_scores import LabelScores
from setwise.models.mixtures.mixture_em import responsibilities
from setwise.models.mixtures.mixture_explanation import ComponentSummary, feature_contrast
from setwise.models.mixtures.mixture_inference import MixtureInference
from setwise.models.storage.fields import StoredArray, StoredPiece
from setwise.models.storage.state import Lengths, StoredPart

# Features kept to describe a component.
_MOST_TERMS = 50


def _mixture_of_scores(
    arrays: object,  # noqa: ARG001  # settings tell
    settings: Mapping[str, Any],
) -> type[ConditionalBernoulliMixture | AveragedMixture]:
    return AveragedMixture if "fits" in settings else ConditionalBernoulliMixture


class StackedMixture(StoredPart, MixtureInference):
    """Conditional Bernoulli mixture over cross-fitted label scores.

    Parameters
    ----------
    mixture : ConditionalBernoulliMixture or AveragedMixture, optional
        A clone is fitted to the scores; by default the default mixture, linear in the scores as
        they are (``features="linear", weighting="none"``).
    scores : LabelScores, optional
        A clone is fitted; by default with its defaults.

    Examples
    --------
    >>> X = np.repeat(np.eye(2), 40, axis=0)
    >>> Y = np.tile([[1, 1, 0], [0, 0, 1]], (20, 1)).repeat([1, 3] * 20, axis=0)
    >>> mixture = ConditionalBernoulliMixture(2, features="linear", alpha=1e-3)
    >>> StackedMixture(mixture, LabelScores(alpha=1e-3)).fit(X, Y).predict(np.eye(2))
    array([[0, 0, 1],
           [0, 0, 1]])
    """

    model_: ConditionalBernoulliMixture | AveragedMixture  # fitted to the scores
    scores_: LabelScores
    # (n_components, n_terms) terms_ and contrast_: the features that characterise each component,
    # and by how many deviations their mean exceeds that of all documents, largest first.
    terms_: NDArray[np.int32]
    contrast_: NDArray[np.float64]
    n_features_in_: int
    stored = (
        StoredPiece(
            "scores_",
            LabelScores,
            "scores_",
            "scores",
            {"features": "features", "labels": "labels"},
        ),
        StoredPiece(
            "model_",
            _mixture_of_scores,
            "mixture_",
            "stacked",
            {"components": "components", "labels": "labels", "features": "scores"},
        ),
        StoredArray("terms", "terms_", np.int32, ("components", "terms"), picks="features"),
        StoredArray("contrast", "contrast_", np.float64, ("components", "terms")),
    )

    def __init__(
        self,
        mixture: ConditionalBernoulliMixture | AveragedMixture | None = None,
        scores: LabelScores | None = None,
    ) -> None:
        self.mixture = mixture
        self.scores = scores

    def fit(self, X: Matrix, y: Matrix) -> Self:
        """Fit the scores, then the mixture to their cross-fitted values.

        Parameters, errors and warnings are those of `ConditionalBernoulliMixture.fit`; a single
        document is refused too.
        """
        given = checked_rows(self, X, reset=True)
        labels = self._adopt_targets(y, given)
        self.weighting_ = FeatureWeighting("none").fit(given)
        rows = self.weighting_.transform(given)
        mixture = self.mixture
        if mixture is None:
            mixture = ConditionalBernoulliMixture(features="linear", weighting="none")
        self.scores_ = clone(LabelScores() if self.scores is None else self.scores)
        described = self.scores_.fit_transform(rows, labels)
        self._adopt(clone(mixture).fit(described, labels))
        joint = self.mixture_.log_joint(self._seen(described), labels)
        weighted = FeatureWeighting().fit(rows).transform(rows)
        contrast = feature_contrast(weighted, responsibilities(joint)[0])
        top = np.argsort(-contrast, axis=1, kind="stable")[:, :_MOST_TERMS]
        self.terms_ = top.astype(np.int32)
        self.contrast_ = np.take_along_axis(contrast, top, axis=1)
        return self

    def _adopt(self, model: ConditionalBernoulliMixture | AveragedMixture) -> None:
        self.model_ = model
        self.mixture_ = model.mixture_
        self.support_ = model.support_
        self.allow_empty_ = model.allow_empty_
        self.n_components_ = model.n_components_

    def describe_rows(self, rows: sp.csr_array) -> sp.csr_array:
        """Return the label scores of rows, as inputs of gate and experts."""
        return self._seen(self.scores_.transform(rows))

    def _seen(self, described: sp.csr_array) -> sp.csr_array:
        return self.model_.describe_rows(self.model_.weighting_.transform(described))

    def describe_components(
        self, n_labels: int = 5, n_features: int = 10
    ) -> tuple[ComponentSummary, ...]:
        """Summarise the components, largest first, by the features of their documents.

        At most ``n_labels`` labels and ``n_features`` features are listed; fifty are stored.
        """
        check_is_fitted(self)
        summaries = []
        for summary in self.model_.describe_components(n_labels, 0):
            own = zip(
                self.terms_[summary.component, :n_features].tolist(),
                self.contrast_[summary.component, :n_features].tolist(),
                strict=True,
            )
            kept = tuple((j, weight) for j, weight in own if weight > 0.0)
            summaries.append(replace(summary, features=kept))
        return tuple(summaries)

    @classmethod
    def restored(cls, found: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted mixture."""
        stacked = cls()
        if lengths["scores"] != 2 * lengths["labels"]:
            raise ValueError("the mixture counts other scores than there are")
        stacked.scores_ = found["scores_"]
        stacked._adopt(found["model_"])
        stacked.n_features_in_ = lengths["features"]
        stacked.classes_ = stacked.model_.classes_
        stacked.terms_, stacked.contrast_ = found["terms"], found["contrast"]
        stacked.weighting_ = FeatureWeighting.from_state(
            np.ones(lengths["features"]), "none", "none"
        )
        return stacked
