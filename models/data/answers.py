"""What another model says of documents: label scores, label sets and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from setwise.models.data.answer_parsing import (
    MISSING,
    ParsedAnswer,
    metadata_numbers,
)
from setwise.models.data.document_error import UnknownNames
from setwise.models.guarantees.checked import rounded_confidences
from setwise.models.sets.candidates import RaggedSets, gather, join_indptr


@dataclass(frozen=True, eq=False)
class ModelAnswers:
    """What another model says of n documents.

    Equal sets are counted; the order of labels in a set, and of a document's sets, is not kept.

    Attributes
    ----------
    scores : csr_array of float64, shape (n, n_labels), or None
        Stored entries are probabilities in [0, 1], zeros among them. What is not stored counts as
        below the smallest stored value of its row.
    doc_indptr : int64 ndarray of shape (n + 1,)
        Document ``i`` owns the distinct sets ``doc_indptr[i]:doc_indptr[i + 1]``.
    sets : RaggedSets
        Ascending label columns of each distinct set.
    counts : float64 ndarray of shape (n_sets,)
        How many answers gave the set.
    set_scores : float64 ndarray of shape (n_sets,)
        The highest score given with the set, NaN without one.
    numbers : float64 ndarray of shape (n, len(number_names))
        Metadata of the documents, NaN where missing.
    n_labels : int
    number_names : tuple of str
    """

    scores: csr_array | None
    doc_indptr: NDArray[np.int64]
    sets: RaggedSets
    counts: NDArray[np.float64]
    set_scores: NDArray[np.float64]
    numbers: NDArray[np.float64]
    n_labels: int
    number_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.doc_indptr) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of documents and of labels."""
        return len(self), self.n_labels

    @property
    def n_answers(self) -> NDArray[np.float64]:
        """Number of label sets that came with each document, shape (n,)."""
        return _sums(self.counts, self.doc_indptr)

    def scored(self) -> NDArray[np.bool_]:
        """Return which documents have scores, shape (n,)."""
        if self.scores is None:
            return np.zeros(len(self), dtype=bool)
        return np.asarray(np.diff(self.scores.indptr) > 0)

    def statements(self) -> NDArray[np.int32]:
        """Return the number of scores and sets of each document, shape (n,)."""
        scored = 0 if self.scores is None else np.diff(self.scores.indptr)
        return (scored + self.n_answers).astype(np.int32)

    @classmethod
    def of(
        cls,
        label_names: Sequence[str],
        answers: Sequence[ParsedAnswer],
        *,
        numbers: Sequence[str] = (),
    ) -> Self:
        """Return parsed answers in columns.

        Parameters
        ----------
        label_names : sequence of str
            All labels of the model, in its order.
        answers : sequence of ParsedAnswer
            One a document, see `parse_answer`.
        numbers : sequence of str
            Keys of the metadata whose numbers are used.

        Raises
        ------
        UnknownNames
            If an answer names a label that the model lacks.
        DocumentError
            If the metadata have something else than a number.
        ValueError
            If a label or a number is named twice.
        """
        column = {name: place for place, name in enumerate(label_names)}
        if len(column) < len(label_names) or len(set(numbers)) < len(numbers):
            raise ValueError("a label or a number is named twice; name each once")
        score_bounds, doc_bounds, set_bounds = [0], [0], [0]
        columns: list[int] = []
        values: list[float] = []
        labels: list[int] = []
        counts: list[float] = []
        set_scores: list[float] = []
        for place, answer in enumerate(answers):
            unknown = [name for name in answer.scores if name not in column]
            if unknown:
                raise UnknownNames(place, "/scores", unknown, "label")
            scored = sorted((column[name], score) for name, score in answer.scores.items())
            columns += [label for label, _ in scored]
            values += [score for _, score in scored]
            score_bounds.append(len(columns))
            by_set: dict[tuple[int, ...], tuple[int, float]] = {}
            for number, (names, score) in enumerate(answer.sets):
                unknown = [name for name in names if name not in column]
                if unknown:
                    path = "/labels" if answer.bare else f"/candidates/{number}/labels"
                    raise UnknownNames(place, path, unknown, "label")
                key = tuple(sorted(column[name] for name in names))
                count, best = by_set.get(key, (0, MISSING))
                by_set[key] = count + 1, float(np.fmax(best, score))
            for key in sorted(by_set):
                labels += key
                set_bounds.append(len(labels))
                counts.append(by_set[key][0])
                set_scores.append(by_set[key][1])
            doc_bounds.append(len(counts))
        scores = None
        if any(answer.scores for answer in answers):
            scores = csr_array(
                (
                    np.array(values, dtype=np.float64),
                    np.array(columns, dtype=np.int32),
                    np.array(score_bounds, dtype=np.int32),
                ),
                shape=(len(answers), len(column)),
            )
        return cls(
            scores,
            np.array(doc_bounds, dtype=np.int64),
            RaggedSets(np.array(set_bounds, dtype=np.int64), np.array(labels, dtype=np.int32)),
            np.array(counts, dtype=np.float64),
            np.array(set_scores, dtype=np.float64),
            metadata_numbers(answers, numbers),
            len(column),
            tuple(numbers),
        )

    @classmethod
    def of_scores(cls, scores: ArrayLike | csr_array) -> Self:
        """Return answers of scores alone.

        Parameters
        ----------
        scores : array-like or sparse array of shape (n, n_labels)
            Probabilities in [0, 1]. Zeros of a sparse array are not given, zeros of a dense one
            are.

        Raises
        ------
        ValueError
            If a score is not in [0, 1].
        """
        if issparse(scores):
            rows = csr_array(scores).astype(np.float64)
            rows.sum_duplicates()
        else:
            dense = np.atleast_2d(np.asarray(scores, dtype=np.float64))
            n, n_labels = dense.shape
            columns = np.tile(np.arange(n_labels, dtype=np.int32), n)
            bounds = np.arange(n + 1, dtype=np.int32) * n_labels
            rows = csr_array((dense.ravel(), columns, bounds), shape=dense.shape)
        rows.data = rounded_confidences(rows.data)
        wrong = np.flatnonzero(~((rows.data >= 0.0) & (rows.data <= 1.0)))
        if len(wrong):
            row = int(np.searchsorted(rows.indptr, wrong[0], side="right")) - 1
            column = int(rows.indices[wrong[0]])
            raise ValueError(
                f"the score of document {row + 1} for label {column + 1} is "
                f"{rows.data[wrong[0]]}; give probabilities from 0 to 1"
            )
        return replace(cls.none(*rows.shape), scores=rows)

    @classmethod
    def none(cls, n: int, n_labels: int) -> Self:
        """Return n documents without any answer."""
        return cls(
            None,
            np.zeros(n + 1, dtype=np.int64),
            RaggedSets(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32)),
            np.zeros(0),
            np.zeros(0),
            np.zeros((n, 0)),
            n_labels,
        )

    def take(self, rows: ArrayLike) -> Self:
        """Return the given documents, in that order."""
        places = np.asarray(rows, dtype=np.int64)
        lengths = np.diff(self.doc_indptr)[places]
        bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        starts = np.repeat(self.doc_indptr[places] - bounds[:-1], lengths)
        entries = starts + np.arange(bounds[-1])
        return replace(
            self,
            scores=None if self.scores is None else self.scores[places],
            doc_indptr=bounds,
            sets=RaggedSets(*gather(self.sets, entries)),
            counts=self.counts[entries],
            set_scores=self.set_scores[entries],
            numbers=self.numbers[places],
        )

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> Self:
        """Return documents, as of a matrix with a row for each."""
        return self.take(np.arange(len(self))[rows])

    def in_columns_of(self, label_names: Sequence[str], columns: Sequence[str]) -> Self:
        """Return the same answers with other label columns.

        Parameters
        ----------
        label_names, columns : sequence of str
            The labels of the present and of the new columns.

        Raises
        ------
        UnknownNames
            If an answer names a label that is not wanted.
        """
        if tuple(label_names) == tuple(columns):
            return self
        position = {name: place for place, name in enumerate(columns)}
        column = np.array([position.get(name, -1) for name in label_names], dtype=np.int32)
        documents = np.repeat(np.arange(len(self)), np.diff(self.sets.indptr[self.doc_indptr]))
        _check_known(column, label_names, self.sets.labels, documents, "/candidates")
        scores = self.scores
        if scores is not None:
            of_scores = np.repeat(np.arange(len(self)), np.diff(scores.indptr))
            _check_known(column, label_names, scores.indices, of_scores, "/scores")
            scores = csr_array(
                (scores.data, column[scores.indices], scores.indptr),
                shape=(len(self), len(columns)),
            )
            scores.sort_indices()
        ones = np.ones(len(self.sets.labels), dtype=np.uint8)
        moved = csr_array(
            (ones, column[self.sets.labels], self.sets.indptr),
            shape=(len(self.counts), len(columns)),
        )
        moved.sort_indices()
        return replace(self, scores=scores, sets=RaggedSets.of(moved), n_labels=len(columns))


def concatenate_answers(parts: Sequence[ModelAnswers]) -> ModelAnswers:
    """Concatenate the answers of different documents.

    Raises
    ------
    ValueError
        If there is no part, or their labels or numbers differ.
    """
    if len({(part.n_labels, part.number_names) for part in parts}) != 1:
        raise ValueError("answers concatenate only if they have the same labels and numbers")
    scores = None
    if any(part.scores is not None for part in parts):
        matrices = [csr_array(part.shape) if part.scores is None else part.scores for part in parts]
        scores = csr_array(
            (
                np.concatenate([part.data for part in matrices]),
                np.concatenate([part.indices for part in matrices]).astype(np.int32),
                join_indptr([part.indptr.astype(np.int64) for part in matrices]).astype(np.int32),
            ),
            shape=(sum(map(len, parts)), parts[0].n_labels),
        )
    return ModelAnswers(
        scores,
        join_indptr([part.doc_indptr for part in parts]),
        RaggedSets(
            join_indptr([part.sets.indptr for part in parts]),
            np.concatenate([part.sets.labels for part in parts]),
        ),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.set_scores for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        parts[0].n_labels,
        parts[0].number_names,
    )


def _check_known(
    column: NDArray[np.int32],
    label_names: Sequence[str],
    labels: NDArray[np.int32],
    documents: NDArray[np.int64],
    path: str,
) -> None:
    wrong = np.flatnonzero(column[labels] < 0)
    if len(wrong):
        document = documents[wrong[0]]
        names = [label_names[labels[entry]] for entry in wrong if documents[entry] == document]
        raise UnknownNames(int(document), path, names, "label")


def _sums(values: NDArray[np.float64], bounds: NDArray[np.int64]) -> NDArray[np.float64]:
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(total[bounds[1:]] - total[bounds[:-1]])
