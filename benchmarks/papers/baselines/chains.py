"""Classifier chains: greedy, with beam search, and ensembles that vote."""

from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import log_expit
from sklearn.multioutput import ClassifierChain

from benchmarks.papers.baselines.learners import Logistic
from benchmarks.papers.baselines.method import (
    Bits,
    Floats,
    Method,
    Predicted,
    as_sets,
    independent,
    joint,
    votes,
)


def fit_chain(X: csr_array, Y: csr_array, order: NDArray[np.int64], seed: int) -> ClassifierChain:
    """Return scikit-learn's chain with the labels in this order."""
    chain = ClassifierChain(Logistic(seed), order=order.tolist())
    return chain.fit(X, Y.toarray())


def frequent_first(Y: csr_array) -> NDArray[np.int64]:
    """Return the labels by falling frequency."""
    count = np.bincount(Y.indices, minlength=Y.shape[1])
    return np.argsort(-count, kind="stable")


class GreedyChain(Method):
    """Decides one label after the other, given those before.

    References
    ----------
    .. [1] J. Read, B. Pfahringer, G. Holmes and E. Frank, "Classifier Chains for Multi-label
       Classification", Machine Learning 85, 2011; row "CC" of C. Li et al., ICML 2016, Table 2.
    """

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit the chain, frequent labels first."""
        self.chain_ = fit_chain(X, Y, frequent_first(Y), self.random_state)
        return self

    def predict(self, X: csr_array) -> Predicted:
        """Return each label's probability given the decisions before it."""
        return independent(np.asarray(self.chain_.predict_proba(X)))


class BeamChain(GreedyChain):
    """Probabilistic chain: the likeliest sets of the whole chain, by beam search.

    Its links are logistic regressions, where C. Li et al., ECML 2019, boost trees.

    Parameters
    ----------
    width : int
        Partial sets kept of each document; 2**n_labels finds the true maximum.

    References
    ----------
    .. [1] A. Kumar, S. Vembu, A. K. Menon and C. Elkan, "Beam Search Algorithms for Multilabel
       Learning", Machine Learning 92, 2013; row "PCC" of C. Li et al., ICML 2016, Table 2.
    """

    def __init__(self, width: int = 15, random_state: int = 0) -> None:
        super().__init__(random_state)
        self.width = width

    def predict(self, X: csr_array) -> Predicted:
        """Return the sets in the last beam; label probabilities are those of these sets."""
        n, d = X.shape
        document, prefix, log_mass = np.arange(n), np.zeros((n, 0), dtype=np.uint8), np.zeros(n)
        for link in self.chain_.estimators_:
            of_features = X @ link.coef_[:d] + link.intercept_
            z = of_features[document] + prefix @ link.coef_[d:]
            document = np.tile(document, 2)
            prefix = np.vstack([_longer(prefix, 0), _longer(prefix, 1)])
            log_mass = np.tile(log_mass, 2) + np.concatenate([log_expit(-z), log_expit(z)])
            order = np.lexsort((-log_mass, document))
            document = document[order]
            first = np.searchsorted(document, np.arange(n))
            within = np.arange(len(order)) - first[document] < self.width
            document, prefix = document[within], prefix[order[within]]
            log_mass = log_mass[order[within]]
        sets = np.empty_like(prefix)
        sets[:, self.chain_.order_] = prefix
        return joint(document, as_sets(sets), log_mass, n)


def _longer(prefix: Bits, value: int) -> Bits:
    return np.hstack([prefix, np.full((len(prefix), 1), value, dtype=np.uint8)])


class ChainEnsemble(Method):
    """Greedy chains in random orders, which vote for labels.

    References
    ----------
    .. [1] J. Read, B. Pfahringer, G. Holmes and E. Frank, "Classifier Chains for Multi-label
       Classification", Machine Learning 85, 2011; rows "ECC" of C. Li et al., ICML 2016, Table 2.
    """

    def __init__(self, n_chains: int = 10, random_state: int = 0) -> None:
        self.n_chains = n_chains
        self.random_state = random_state

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit the chains."""
        rng = np.random.default_rng(self.random_state)
        self.chains_ = [
            fit_chain(X, Y, rng.permutation(Y.shape[1]), self.random_state)
            for _ in range(self.n_chains)
        ]
        return self

    def votes(self, X: csr_array) -> Bits:
        """Return each chain's label sets (n_chains, n, L)."""
        return np.stack([chain.predict(X).astype(np.uint8) for chain in self.chains_])

    def predict(self, X: csr_array) -> Predicted:
        """Return each label's share of the votes."""
        shares: Floats = self.votes(X).mean(axis=0)
        return independent(shares)


class SetVotingChains(ChainEnsemble):
    """The same chains, which vote for whole sets."""

    def predict(self, X: csr_array) -> Predicted:
        """Return each set's share of the votes."""
        return votes(self.votes(X))
