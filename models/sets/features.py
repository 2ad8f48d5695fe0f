"""Features of (document, label set) pairs, for set calibrators."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from setwise.limits import LARGEST_SCORE
from setwise.models.compilation import njit
from setwise.models.estimator import Estimator, check_fitted
from setwise.models.sets.answer_features import AnswerFeatures
from setwise.models.sets.candidates import CandidateSets, RaggedSets, gather, join_indptr
from setwise.models.sets.counts import LabelSetCounts
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.search import independent_scores
from setwise.models.storage.fields import (
    StoredArray,
    StoredNames,
    StoredPieces,
    StoredSetting,
    stored_ragged,
)
from setwise.models.storage.state import Lengths, Storable, StoredPart
from setwise.models.voters.vote_features import (
    ForestFeatures,
    MarginFeatures,
    NearestFeatures,
    NeighbourFeatures,
    SmoothFeatures,
    Unfitted,
    VoteFeatures,
)

Arrays = dict[str, NDArray[Any]]  # any dtype

_NO_NUMBER = -10.0 * LARGEST_SCORE  # stands for a missing number, below all others


@dataclass(frozen=True, eq=False)
class SetFeatureTable:
    """Dense columns and implicit 0/1 label columns, one row per candidate set.

    Column ``len(names) + l`` is 1 if the set holds label ``l``. These indicators are never stored
    as columns, because there may be thousands of labels.
    """

    names: tuple[str, ...]  # names of the dense columns
    # 1 where confidence may not fall as the column rises, 0 where it is free.
    monotone: tuple[int, ...]
    dense: NDArray[np.float32]  # (n_sets, len(names)) finite
    # set_indptr and labels: the sets, as in `CandidateSets`.
    set_indptr: NDArray[np.int64]
    labels: NDArray[np.int32]
    doc_indptr: NDArray[np.int64]  # (n_documents + 1,) bounds of each document's rows
    n_labels: int

    def __len__(self) -> int:
        return len(self.dense)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Cardinality of each set, shape (n_sets,)."""
        return np.diff(self.set_indptr)

    @property
    def sets(self) -> RaggedSets:
        """The label sets."""
        return RaggedSets(self.set_indptr, self.labels)

    @property
    def document(self) -> NDArray[np.int64]:
        """Document of each row, shape (n_sets,)."""
        return np.repeat(np.arange(len(self.doc_indptr) - 1), np.diff(self.doc_indptr))

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one dense column.

        Raises
        ------
        ValueError
            If no column has this name.
        """
        if name not in self.names:
            raise ValueError(f"no set feature is named {name!r}; there are {', '.join(self.names)}")
        return self.dense[:, self.names.index(name)].astype(np.float64)

    def take(self, rows: NDArray[np.integer]) -> Self:
        """Return a table of these rows; a document's rows must be adjacent."""
        places = np.asarray(rows, dtype=np.int64)
        set_indptr, labels = gather(self.sets, places)
        first = np.flatnonzero(np.diff(self.document[places], prepend=-1))
        return type(self)(
            self.names,
            self.monotone,
            self.dense[places],
            set_indptr,
            labels,
            np.append(first, len(places)),
            self.n_labels,
        )

    def to_csr(self) -> csr_array:
        """Return every column explicitly, shape (n_sets, len(names) + n_labels), float32.

        Dense columns store their zeros; only absent labels are absent entries.
        """
        indptr, indices, values = _table_to_csr(self.dense, self.set_indptr, self.labels)
        shape = (len(self), self.dense.shape[1] + self.n_labels)
        return csr_array((values, indices, indptr), shape=shape)


def concatenate_tables(parts: Sequence[SetFeatureTable]) -> SetFeatureTable:
    """Stack tables with the same columns and different documents."""
    if len({(part.names, part.n_labels) for part in parts}) != 1:
        raise ValueError("feature tables concatenate only when their columns agree")
    return SetFeatureTable(
        parts[0].names,
        parts[0].monotone,
        np.concatenate([part.dense for part in parts]),
        join_indptr([part.set_indptr for part in parts]),
        np.concatenate([part.labels for part in parts]),
        join_indptr([part.doc_indptr for part in parts]),
        parts[0].n_labels,
    )


class FeatureGroup(Storable, Protocol):
    """Columns about candidate sets, fitted on rows other than those described."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def monotone(self) -> tuple[int, ...]:
        """1 for columns monotone in confidence, 0 for free ones."""

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Learn from documents (n, n_features) and their label sets (n, n_labels)."""

    def transform(
        self, evidence: DocumentEvidence, candidates: CandidateSets
    ) -> NDArray[np.float32]:
        """Return finite columns of shape (n_sets, len(names))."""


class ScoreFeatures(Unfitted):
    """The set's probability under independent labels, its logarithm, and its cardinality."""

    names = ("score", "log_score", "cardinality")
    monotone = (1, 1, 0)

    def transform(
        self,
        evidence: DocumentEvidence,  # noqa: ARG002  # the score travels with the candidate
        candidates: CandidateSets,
    ) -> NDArray[np.float32]:
        """Return probability, log-probability in nats, and number of labels of each set."""
        return _describe_scores(candidates.log_score, candidates.set_indptr)


class IndependentFeatures(Unfitted):
    """The set's log-probability under independent labels.

    For candidates whose score comes from a joint distribution.
    """

    names = ("log_independent",)
    monotone = (1,)

    def transform(
        self, evidence: DocumentEvidence, candidates: CandidateSets
    ) -> NDArray[np.float32]:
        """Return the summed log-probabilities of all labels' values, in nats."""
        log_score = independent_scores(evidence.marginals, candidates.doc_indptr, candidates.sets)
        return log_score.astype(np.float32)[:, None]


class PriorFeatures(StoredPart):
    """Frequency of the whole set among the documents of the fit.

    The column is ``log(1 + 10,000 c)`` for a set with the share ``c`` of these documents: 0 for a
    set never seen, and comparable between fits on different numbers of documents.
    """

    names = ("log_prior",)
    monotone = (1,)

    counts_: LabelSetCounts
    n_labels_: int
    stored = (
        StoredSetting("n_labels", "n_labels_", int, low=1, length="labels"),
        StoredArray("counts", "counts_.counts", np.float64, ("sets",), low=0.0),
        *stored_ragged("set_indptr", "labels", "counts_.sets", "labels", "sets"),
    )

    def fit(self, X: csr_array, Y: csr_array) -> Self:  # noqa: ARG002  # sets alone count
        """Count the label sets of Y (n_documents, n_labels)."""
        self.counts_ = LabelSetCounts.of(Y)
        self.n_labels_ = int(Y.shape[1])
        return self

    def transform(
        self,
        evidence: DocumentEvidence,  # noqa: ARG002  # sets alone count
        candidates: CandidateSets,
    ) -> NDArray[np.float32]:
        """Return the log prior of each set, at least 0."""
        return _describe_priors(self.counts_.lookup(candidates), max(self.counts_.total, 1.0))

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted group."""
        group = cls()
        group.counts_ = LabelSetCounts(fields["set_indptr"], fields["labels"], fields["counts"])
        group.n_labels_ = lengths["labels"]
        return group


GROUPS: dict[str, type[FeatureGroup]] = {
    "score": ScoreFeatures,
    "independent": IndependentFeatures,
    "prior": PriorFeatures,
    "margins": MarginFeatures,
    "answers": AnswerFeatures,
    "neighbours": NeighbourFeatures,
    "nearest": NearestFeatures,
    "smooth": SmoothFeatures,
    "forest": ForestFeatures,
}


class SetFeatures(StoredPart, Estimator):
    """The columns of several feature groups, side by side.

    Parameters
    ----------
    groups : tuple of str, default ("score", "prior")
        Keys of `GROUPS`, in the order of their columns; the default is the features of [1]_.
    numbers : tuple of str, default ()
        Names of numbers in the documents' metadata, which follow as columns.

    Attributes
    ----------
    groups_ : list of FeatureGroup
        Fitted groups.
    names : tuple of str
        Names of the dense columns.
    n_labels_ : int

    References
    ----------
    .. [1] C. Li, V. Pavlu, J. Aslam, B. Wang and K. Qin, "Learning to Calibrate and Rerank
       Multi-label Predictions", ECML-PKDD 2019, section 2.2.
    """

    stored = (
        StoredSetting("n_labels", "n_labels_", int, low=1, length="labels"),
        StoredNames("order", "groups", choices=GROUPS),
        StoredNames("numbers", "numbers", least=0),
        StoredPieces("groups_", GROUPS, "groups", "order", {"labels": "labels"}),
    )

    def __init__(
        self, groups: tuple[str, ...] = ("score", "prior"), numbers: tuple[str, ...] = ()
    ) -> None:
        self.groups = groups
        self.numbers = numbers

    def fit(self, X: csr_array, Y: csr_array) -> Self:
        """Fit all groups on documents (n, n_features) and sets (n, n_labels).

        Raises
        ------
        ValueError
            If a group is unknown.
        """
        unknown = [name for name in self.groups if name not in GROUPS]
        if unknown:
            raise ValueError(f"unknown feature group {unknown[0]!r}; there are {', '.join(GROUPS)}")
        self._keep([GROUPS[name]().fit(X, Y) for name in self.groups], int(Y.shape[1]))
        return self

    def _keep(self, groups: list[FeatureGroup], n_labels: int) -> None:
        self.groups_ = groups
        self.n_labels_ = n_labels
        names = [name for group in groups for name in group.names]
        self.names = (*names, *(f"metadata.{name}" for name in self.numbers))
        signs = [sign for group in groups for sign in group.monotone]
        self._monotone = (*signs, *(0 for _ in self.numbers))

    @property
    def voters(self) -> frozenset[str]:
        """Names of the voters whose votes the groups describe."""
        return frozenset(group.voter for group in self.groups_ if isinstance(group, VoteFeatures))

    def transform(self, evidence: DocumentEvidence, candidates: CandidateSets) -> SetFeatureTable:
        """Return the features of all candidates of the documents of ``evidence``."""
        check_fitted(self, "groups_")
        columns = [group.transform(evidence, candidates) for group in self.groups_]
        if self.numbers:
            columns.append(self._of_metadata(evidence, candidates))
        return SetFeatureTable(
            self.names,
            self._monotone,
            np.concatenate(columns, axis=1),
            candidates.set_indptr,
            candidates.labels,
            candidates.doc_indptr,
            self.n_labels_,
        )

    def _of_metadata(
        self, evidence: DocumentEvidence, candidates: CandidateSets
    ) -> NDArray[np.float32]:
        answers = evidence.answers
        if answers is None or answers.number_names != self.numbers:
            raise ValueError(f"the features need the numbers {', '.join(self.numbers)}")
        numbers = np.nan_to_num(answers.numbers, nan=_NO_NUMBER)
        return numbers[candidates.document].astype(np.float32)

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted features."""
        features = cls(tuple(fields["order"]), tuple(fields["numbers"]))
        features._keep(fields["groups_"], lengths["labels"])
        return features


@njit(cache=True, nogil=True)
def _describe_scores(
    log_score: NDArray[np.float64], set_indptr: NDArray[np.int64]
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return the columns of `ScoreFeatures`."""
    out = np.empty((len(log_score), 3), dtype=np.float32)
    for s in range(len(log_score)):
        out[s, 0] = np.exp(log_score[s])
        out[s, 1] = log_score[s]
        out[s, 2] = set_indptr[s + 1] - set_indptr[s]
    return out


@njit(cache=True, nogil=True)
def _describe_priors(
    counts: NDArray[np.float64], total: float
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return the column of `PriorFeatures`."""
    out = np.empty((len(counts), 1), dtype=np.float32)
    for s in range(len(counts)):
        out[s, 0] = np.log1p(10_000 * (counts[s] / total))
    return out


@njit(cache=True, nogil=True)
def _table_to_csr(
    dense: NDArray[np.float32], set_indptr: NDArray[np.int64], labels: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    n, d = dense.shape
    indptr = np.empty(n + 1, dtype=np.int64)
    indices = np.empty(n * d + len(labels), dtype=np.int32)
    values = np.ones(n * d + len(labels), dtype=np.float32)
    end = 0
    for i in range(n):
        indptr[i] = end
        for j in range(d):
            indices[end] = j
            values[end] = dense[i, j]
            end += 1
        for j in range(set_indptr[i], set_indptr[i + 1]):
            indices[end] = d + labels[j]
            end += 1
    indptr[n] = end
    return indptr, indices, values
