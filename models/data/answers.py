"""What another model says of documents: label scores, label sets and numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from setwise.models.sets.candidates import RaggedSets, gather, join_indptr

MOST_SETS = 64
"""Maximum number of label sets that come with a document."""

MISSING = float("nan")
"""A number or a score that is not given."""

LARGEST = 1e15
"""Largest size of a number or a score of a set."""

_SHOWN = 60  # characters of a name that a message repeats


class AnswerError(ValueError):
    """Another model's answer cannot be read.

    Parameters
    ----------
    document : int
        Number of the document, from 0.
    path : str
        JSON pointer into the document, such as ``/scores/grain``; empty for all of it.
    fault, cure : str
        What is wrong, and what would be right.

    Examples
    --------
    >>> print(AnswerError(2, "/scores/a", "1.5 is no probability", "give one from 0 to 1"))
    document 3, /scores/a: 1.5 is no probability; give one from 0 to 1
    """

    def __init__(self, document: int, path: str, fault: str, cure: str) -> None:
        self.document = document
        self.path = path
        self.fault = fault
        self.cure = cure
        place = f"document {document + 1}" + (f", {path}" if path else "")
        super().__init__(f"{place}: {fault}; {cure}")


class UnknownLabels(AnswerError):
    """An answer names labels that the model does not know.

    Attributes
    ----------
    names : tuple of str
        The unknown names of the document, each once, in order of appearance.
    """

    def __init__(self, document: int, path: str, names: Sequence[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        listed = ", ".join(map(_shown, self.names[:5]))
        more = f" and {len(self.names) - 5} more" if len(self.names) > 5 else ""
        kind = "unknown label" if len(self.names) == 1 else "unknown labels"
        super().__init__(document, path, f"{kind} {listed}{more}", "give labels of the model")


class Answer(NamedTuple):
    """What another model says of one document, by name."""

    scores: Mapping[str, float]
    sets: tuple[tuple[tuple[str, ...], float], ...]  # with their scores, `MISSING` without one
    metadata: Mapping[str, object]
    bare: bool = False  # whether it is one set as ``labels``, not a list of candidates

    def labels(self) -> set[str]:
        """Return every label that the answer names."""
        return set(self.scores).union(*(labels for labels, _ in self.sets))


@dataclass(frozen=True, eq=False)
class Answers:
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
        documents: Sequence[Mapping[str, Any]],
        *,
        numbers: Sequence[str] = (),
    ) -> Self:
        """Return the answers in documents as clients send them.

        Parameters
        ----------
        label_names : sequence of str
            All labels of the model, in its order.
        documents : sequence of mapping
            Each with ``"scores"`` (``{label: probability}``), ``"candidates"``
            (``[{"labels": [...], "score": number?}]``) or ``"labels"``, a single set. Scores may
            come with either of the others. Other keys are ignored, except ``"metadata"``.
        numbers : sequence of str
            Keys of the metadata whose numbers are used.

        Raises
        ------
        UnknownLabels
            If an answer names a label that the model lacks.
        AnswerError
            If a document has no answer, or one that is not in this form.
        ValueError
            If a label or a number is named twice.
        """
        parsed = [parse_answer(document, place) for place, document in enumerate(documents)]
        return cls.of_parsed(label_names, parsed, numbers=numbers)

    @classmethod
    def of_parsed(
        cls, label_names: Sequence[str], answers: Sequence[Answer], *, numbers: Sequence[str] = ()
    ) -> Self:
        """Return parsed answers in columns; see `of`."""
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
                raise UnknownLabels(place, "/scores", unknown)
            own = sorted((column[name], score) for name, score in answer.scores.items())
            columns += [label for label, _ in own]
            values += [score for _, score in own]
            score_bounds.append(len(columns))
            found: dict[tuple[int, ...], tuple[int, float]] = {}
            for number, (names, score) in enumerate(answer.sets):
                unknown = [name for name in names if name not in column]
                if unknown:
                    path = "/labels" if answer.bare else f"/candidates/{number}/labels"
                    raise UnknownLabels(place, path, unknown)
                key = tuple(sorted(column[name] for name in names))
                count, best = found.get(key, (0, MISSING))
                found[key] = count + 1, float(np.fmax(best, score))
            for key in sorted(found):
                labels += key
                set_bounds.append(len(labels))
                counts.append(found[key][0])
                set_scores.append(found[key][1])
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
            _numbers(answers, numbers),
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
            given = csr_array(scores).astype(np.float64)
            given.sum_duplicates()
        else:
            dense = np.atleast_2d(np.asarray(scores, dtype=np.float64))
            n, n_labels = dense.shape
            columns = np.tile(np.arange(n_labels, dtype=np.int32), n)
            bounds = np.arange(n + 1, dtype=np.int32) * n_labels
            given = csr_array((dense.ravel(), columns, bounds), shape=dense.shape)
        wrong = np.flatnonzero(~((given.data >= 0.0) & (given.data <= 1.0)))
        if len(wrong):
            row = int(np.searchsorted(given.indptr, wrong[0], side="right")) - 1
            column = int(given.indices[wrong[0]])
            raise ValueError(
                f"the score of document {row + 1} for label {column + 1} is "
                f"{given.data[wrong[0]]:g}; give probabilities from 0 to 1"
            )
        return replace(cls.none(*given.shape), scores=given)

    @classmethod
    def of_sets(cls, Y: ArrayLike | csr_array) -> Self:
        """Return answers of one bare label set each, rows of a 0/1 matrix (n, n_labels)."""
        given = csr_array(Y if issparse(Y) else np.atleast_2d(np.asarray(Y)))
        given.eliminate_zeros()
        given.sort_indices()
        n, n_labels = given.shape
        return replace(
            cls.none(n, n_labels),
            doc_indptr=np.arange(n + 1, dtype=np.int64),
            sets=RaggedSets.of(given),
            counts=np.ones(n),
            set_scores=np.full(n, MISSING),
        )

    @classmethod
    def none(cls, n: int, n_labels: int) -> Self:
        """Return n documents of which nothing is said."""
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
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = np.diff(self.doc_indptr)[chosen]
        bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        starts = np.repeat(self.doc_indptr[chosen] - bounds[:-1], lengths)
        own = starts + np.arange(bounds[-1])
        return replace(
            self,
            scores=None if self.scores is None else self.scores[chosen],
            doc_indptr=bounds,
            sets=RaggedSets(*gather(self.sets, own)),
            counts=self.counts[own],
            set_scores=self.set_scores[own],
            numbers=self.numbers[chosen],
        )

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> Self:
        """Return documents, as of a matrix with a row for each."""
        return self.take(np.arange(len(self))[rows])

    def in_columns_of(self, own: Sequence[str], wanted: Sequence[str]) -> Self:
        """Return the same answers with other label columns.

        Parameters
        ----------
        own, wanted : sequence of str
            The labels of the present and of the new columns.

        Raises
        ------
        UnknownLabels
            If an answer names a label that is not wanted.
        """
        if tuple(own) == tuple(wanted):
            return self
        position = {name: place for place, name in enumerate(wanted)}
        column = np.array([position.get(name, -1) for name in own], dtype=np.int32)
        documents = np.repeat(np.arange(len(self)), np.diff(self.sets.indptr[self.doc_indptr]))
        _check_known(column, own, self.sets.labels, documents, "/candidates")
        scores = self.scores
        if scores is not None:
            of_scores = np.repeat(np.arange(len(self)), np.diff(scores.indptr))
            _check_known(column, own, scores.indices, of_scores, "/scores")
            scores = csr_array(
                (scores.data, column[scores.indices], scores.indptr),
                shape=(len(self), len(wanted)),
            )
            scores.sort_indices()
        ones = np.ones(len(self.sets.labels), dtype=np.uint8)
        moved = csr_array(
            (ones, column[self.sets.labels], self.sets.indptr),
            shape=(len(self.counts), len(wanted)),
        )
        moved.sort_indices()
        return replace(self, scores=scores, sets=RaggedSets.of(moved), n_labels=len(wanted))


def concatenate_answers(parts: Sequence[Answers]) -> Answers:
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
        given = [csr_array(part.shape) if part.scores is None else part.scores for part in parts]
        scores = csr_array(
            (
                np.concatenate([part.data for part in given]),
                np.concatenate([part.indices for part in given]).astype(np.int32),
                join_indptr([part.indptr.astype(np.int64) for part in given]).astype(np.int32),
            ),
            shape=(sum(map(len, parts)), parts[0].n_labels),
        )
    return Answers(
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


def parse_answer(document: Mapping[str, Any], place: int = 0) -> Answer:
    """Return another model's answer from a JSON object; see `Answers.of`.

    Parameters
    ----------
    document : mapping
    place : int
        Number of the document from 0, for messages.

    Raises
    ------
    AnswerError
        If there is no answer, or one of another form.
    """
    if not any(key in document for key in ("scores", "candidates", "labels")):
        raise AnswerError(place, "", "it has no answer", _WANTED)
    if "candidates" in document and "labels" in document:
        raise AnswerError(
            place, "/labels", "there are candidates too", "give the set as one of the candidates"
        )
    scores: dict[str, float] = {}
    if "scores" in document:
        scores = _parsed_scores(document["scores"], place)
    sets: list[tuple[tuple[str, ...], float]] = []
    if "labels" in document:
        sets = [(_parsed_labels(document["labels"], place, "/labels"), MISSING)]
    elif "candidates" in document:
        sets = _parsed_candidates(document["candidates"], place)
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise AnswerError(place, "/metadata", "it is no object", "give an object")
    return Answer(scores, tuple(sets), metadata, bare="labels" in document)


_WANTED = 'give "scores", "candidates" or "labels"'


def _parsed_scores(given: object, place: int) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise AnswerError(place, "/scores", "they are no object", "give a probability by label")
    if not given:
        raise AnswerError(place, "/scores", "there are none", "give at least the likeliest")
    scores: dict[str, float] = {}
    for name, score in given.items():
        # Negated so that NaN fails too.
        if not _is_number(score) or not 0.0 <= score <= 1.0:
            path = f"/scores/{escaped(str(name))}"
            fault = f"{_shown(score)} is no probability"
            raise AnswerError(place, path, fault, "give a number from 0 to 1")
        scores[str(name)] = float(score)
    return scores


def _parsed_candidates(given: object, place: int) -> list[tuple[tuple[str, ...], float]]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise AnswerError(place, "/candidates", "they are no list", "list objects with labels")
    if not 0 < len(given) <= MOST_SETS:
        fault = f"there are {len(given)}" if given else "the list is empty"
        raise AnswerError(place, "/candidates", fault, f"give 1 to {MOST_SETS} of them")
    sets = []
    for number, one in enumerate(given):
        path = f"/candidates/{number}"
        if not isinstance(one, Mapping) or "labels" not in one:
            raise AnswerError(place, path, "it has no labels", 'give an object with "labels"')
        unknown = [key for key in one if key not in {"labels", "score"}]
        if unknown:
            fault = f"unknown key {_shown(unknown[0])}"
            raise AnswerError(place, path, fault, "the keys are labels and score")
        score = one.get("score")
        if score is not None and not (_is_number(score) and abs(score) <= LARGEST):
            fault = f"{_shown(score)} is no number within ±{LARGEST:g}"
            raise AnswerError(place, f"{path}/score", fault, "give a number, or none")
        labels = _parsed_labels(one["labels"], place, f"{path}/labels")
        sets.append((labels, MISSING if score is None else float(score)))
    return sets


def _parsed_labels(given: object, place: int, path: str) -> tuple[str, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise AnswerError(place, path, "they are no list", "give a list of labels, [] for none")
    for number, name in enumerate(given):
        if not isinstance(name, str):
            fault = f"{_shown(name)} is no label"
            raise AnswerError(place, f"{path}/{number}", fault, "give labels as strings")
        if name in given[:number]:
            fault = f"the label {_shown(name)} is given twice"
            raise AnswerError(place, f"{path}/{number}", fault, "give each label once")
    return tuple(given)


def _numbers(answers: Sequence[Answer], names: Sequence[str]) -> NDArray[np.float64]:
    numbers = np.full((len(answers), len(names)), MISSING)
    for place, answer in enumerate(answers):
        for column, name in enumerate(names):
            value = answer.metadata.get(name)
            if value is None:
                continue
            # Negated so that NaN fails too.
            if not (_is_number(value) and abs(value) <= LARGEST):
                fault = f"{_shown(value)} is no number within ±{LARGEST:g}"
                cure = "give a number, or leave it out"
                raise AnswerError(place, f"/metadata/{escaped(name)}", fault, cure)
            numbers[place, column] = value
    return numbers


def _check_known(
    column: NDArray[np.int32],
    own: Sequence[str],
    labels: NDArray[np.int32],
    documents: NDArray[np.int64],
    path: str,
) -> None:
    wrong = np.flatnonzero(column[labels] < 0)
    if len(wrong):
        document = documents[wrong[0]]
        names = [own[labels[entry]] for entry in wrong if documents[entry] == document]
        raise UnknownLabels(int(document), path, names)


def _sums(values: NDArray[np.float64], bounds: NDArray[np.int64]) -> NDArray[np.float64]:
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(total[bounds[1:]] - total[bounds[:-1]])


def escaped(name: str) -> str:
    """Return a name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
