"""RAKEL: power sets of small random groups of labels."""

from math import comb
from typing import Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csr_array

from benchmarks.papers.baselines.learners import labelwise
from benchmarks.papers.baselines.method import Floats, Method, Predicted, as_sets, independent
from benchmarks.papers.baselines.support import Support


class LabelSubsets(Method):
    """Random k-label sets: a one-vs-rest power set for each group, which votes for labels.

    Parameters
    ----------
    k : int
        Labels of a group.
    groups_per_label : float
        Groups for each label, if there are so many different ones.

    References
    ----------
    .. [1] G. Tsoumakas, I. Katakis and I. Vlahavas, "Random k-Labelsets for Multilabel
       Classification", IEEE TKDE 23, 2011; row "RAKEL" of C. Li et al., ECML 2019, Table 4.
    """

    def __init__(self, k: int = 3, groups_per_label: float = 2.0, random_state: int = 0) -> None:
        self.k = k
        self.groups_per_label = groups_per_label
        self.random_state = random_state

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit all classes of all groups at once."""
        rng, n_labels = np.random.default_rng(self.random_state), Y.shape[1]
        k = min(self.k, n_labels)
        n_groups = min(max(1, round(self.groups_per_label * n_labels)), comb(n_labels, k))
        drawn: dict[tuple[int, ...], None] = {}
        while len(drawn) < n_groups:
            drawn[tuple(np.sort(rng.choice(n_labels, k, replace=False)).tolist())] = None
        self.groups_, targets = [], []
        for labels in map(list, drawn):
            classes = Support.of(Y[:, labels])
            self.groups_.append((labels, classes.sets))
            targets.append(as_sets(np.eye(classes.sets.shape[0])[classes.number]))
        self.n_labels_ = n_labels
        self.model_ = labelwise(self.random_state).fit(X, sp.hstack(targets, format="csc"))
        return self

    def predict(self, X: csr_array) -> Predicted:
        """Return each label's share of the votes of its groups; no label without a group."""
        score = self.model_.decision_function(X)
        votes: Floats = np.zeros((X.shape[0], self.n_labels_))
        n_voters, first = np.zeros(self.n_labels_), 0
        for labels, sets in self.groups_:
            winner = score[:, first : first + sets.shape[0]].argmax(axis=1)
            votes[:, labels] += sets[winner].toarray()
            n_voters[labels] += 1
            first += sets.shape[0]
        return independent(votes / np.maximum(n_voters, 1))
