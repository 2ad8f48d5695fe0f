"""The methods: how each scores labels, and what proposes its label sets and describes them.

One class a method, or two that differ in what `RERANKING_METHODS` says. What all have in common,
from the features to the calibrators, is in `setwise.models.training`. Another method needs a name
in `setwise.models.options` and a class here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from setwise.models.data.answers import ModelAnswers
from setwise.models.data.datasets import Dataset
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.clustered_relevance import ClusteredRelevance
from setwise.models.labels.given_scores import GivenScores
from setwise.models.mixtures.proposals import (
    Proposal,
    propose_given,
    propose_marginal,
    propose_mixture,
    propose_voted,
)
from setwise.models.options import Extras, MethodName, TrainingOptions


class LabelScores(NamedTuple):
    """What scores labels one by one."""

    base: BinaryRelevance | GivenScores
    """Fitted on all documents."""
    for_folds: BinaryRelevance | GivenScores
    """Unfitted; with the penalties of the other."""
    read: csr_array | ModelAnswers
    """What they score: the features of the documents, or answers."""

    @property
    def answers(self) -> ModelAnswers | None:
        """Answers of another model, if these are scored."""
        return self.read if isinstance(self.read, ModelAnswers) else None


@dataclass(frozen=True)
class Method(ABC):
    """A method for these data, with these options.

    Attributes
    ----------
    dataset : Dataset
    options : TrainingOptions
    """

    dataset: Dataset
    options: TrainingOptions

    scored: ClassVar[float] = 0.95
    """Share of the work that is done when labels are scored."""
    proposed: ClassVar[float] = 0.95
    """Share of the work that is done when candidates can be proposed."""
    stage: ClassVar[str] = "candidates and their features"
    """What comes between the two."""
    whole_words: ClassVar[bool] = False
    """Whether texts are read by whole words only."""

    @classmethod
    def of(cls, dataset: Dataset, options: TrainingOptions) -> "Method":
        """Return the method for these data; raise `ValueError` if it cannot read them."""
        return cls(dataset, options)

    def label_scores(
        self, X: csr_array, sample_weight: NDArray[np.float64] | None = None
    ) -> LabelScores:
        """Return label scores: by binary relevance, unless another model gives them.

        Parameters
        ----------
        X : csr_array of shape (n_documents, n_features)
        sample_weight : float64 ndarray of shape (n_documents,), optional
        """
        options = self.options
        kind = ClusteredRelevance if options.labels_by == "clusters" else BinaryRelevance
        base = kind(
            alpha=options.alpha,
            l1_ratio=options.l1_ratio,
            n_jobs=options.n_jobs,
            random_state=options.seed,
        ).fit(X, self.dataset.Y, sample_weight)
        return LabelScores(base, base.for_folds(), X)

    @abstractmethod
    def proposal(self, X: csr_array, extras: Extras) -> Proposal:
        """Return what proposes label sets and describes them.

        Parameters
        ----------
        X : csr_array of shape (n_documents, n_features)
        extras : Extras
            What the preset adds.
        """


class IndependentLabels(Method):
    """``"br"`` and ``"br-rerank"``: the most probable sets of independent labels, and of voters."""

    @classmethod
    def of(cls, dataset: Dataset, options: TrainingOptions) -> Method:
        """Return the method; of another model's answers, if the data have them."""
        if dataset.answers is None:
            return cls(dataset, options)
        return Answers.given(dataset.answers, dataset, options)

    def proposal(self, X: csr_array, extras: Extras) -> Proposal:
        """Return candidates of the labels, and of the voters if there are any."""
        k, Y = self.options.n_candidates, self.dataset.Y
        if not extras.voters:
            return propose_marginal(k, X, Y)
        return propose_voted(k, X, Y, extras.voters, margins=extras.margins)


@dataclass(frozen=True)
class Answers(Method):
    """The same, where another model's answers stand in the place of binary relevance."""

    answers: ModelAnswers

    @classmethod
    def given(cls, answers: ModelAnswers, dataset: Dataset, options: TrainingOptions) -> Self:
        """Return the method, with a column for each label, also those that no answer names."""
        if options.labels_by == "clusters":
            raise ValueError("another model's answers score the labels: leave out label clusters")
        answered = dataset.label_names[: answers.n_labels]
        return cls(dataset, options, answers.in_columns_of(answered, dataset.label_names))

    def label_scores(
        self,
        X: csr_array,  # noqa: ARG002 -- as of `Method`
        sample_weight: NDArray[np.float64] | None = None,
    ) -> LabelScores:
        """Return the scores that the answers have, or that their sets imply."""
        scores = GivenScores().fit(self.answers, self.dataset.Y, sample_weight)
        return LabelScores(scores, clone(scores), self.answers)

    def proposal(self, X: csr_array, extras: Extras) -> Proposal:
        """Return candidates of the answers, of labels and, if documents have content, of voters."""
        dataset = self.dataset
        without = dataset.texts is None and dataset.X is None
        return propose_given(
            self.options.n_candidates,
            self.answers,
            X,
            dataset.Y,
            () if without else extras.voters,
            margins=extras.margins,
        )


class Mixture(Method):
    """``"cbm"`` and ``"cbm-rerank"``: sets of a conditional Bernoulli mixture, and perhaps others.

    It reads whole words only: the cost of its steps grows with the number of features.
    """

    scored, proposed, stage, whole_words = 0.5, 0.6, "mixture on all documents", True

    @classmethod
    def of(cls, dataset: Dataset, options: TrainingOptions) -> Self:
        """Return the method."""
        if dataset.answers is not None:
            raise ValueError(
                f"the method {options.method!r} has its own label scores; with another model's "
                "answers use 'br-rerank' or 'br'"
            )
        return cls(dataset, options)

    def proposal(self, X: csr_array, extras: Extras) -> Proposal:
        """Return candidates of the mixture; when reranking, of labels and voters too."""
        options = self.options
        return propose_mixture(
            options.n_candidates,
            X,
            self.dataset.Y,
            n_components=options.n_components,
            union=options.reranks,
            n_jobs=options.n_jobs,
            seed=options.seed,
            n_fits=extras.n_fits,
            experts=extras.experts,
            voters=extras.voters,
            margins=extras.margins,
        )


METHODS: dict[MethodName, type[Method]] = {
    "br": IndependentLabels,
    "br-rerank": IndependentLabels,
    "cbm": Mixture,
    "cbm-rerank": Mixture,
}


def method_of(dataset: Dataset, options: TrainingOptions) -> Method:
    """Return the method that the options name, for these data.

    Raises
    ------
    ValueError
        If the method cannot learn from them.
    """
    return METHODS[options.method].of(dataset, options)
