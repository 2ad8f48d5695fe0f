"""From feature rows to ranked sets with confidence in one compiled call.

It does what the parts of a `SetPredictor` do one after another, with their own compiled kernels.
Between those, Python objects would cost several times what a single document costs itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numba import njit, typeof
from numpy.typing import NDArray

from setwise.models.compiled_judge import Judge, judge_sets
from setwise.models.compiled_votes import (
    MARGIN_COLUMNS,
    VOTE_COLUMNS,
    VoteStage,
    add_voted,
    cast_votes,
    fill_voted_columns,
    refine_labels,
    unit_space,
)
from setwise.models.labels.binary_relevance import BinaryRelevance, Weights, score_rows
from setwise.models.labels.label_calibrator import LabelCalibrator, calibrate_rows
from setwise.models.labels.scaling import weight_rows
from setwise.models.sets.candidates import (
    SOURCE_MARGINALS,
    CandidateSets,
    RaggedSets,
    concatenate,
    gather,
)
from setwise.models.sets.counts import count_sets
from setwise.models.sets.evidence import CandidateSource
from setwise.models.sets.features import GROUPS, PriorFeatures, ScoreFeatures
from setwise.models.sets.reranker import SetReranker, rank_rows
from setwise.models.sets.search import independent_scores, search_rows, search_size
from setwise.models.sets.sources import MarginalCandidates, VotedCandidates
from setwise.models.voters.label_stack import LabelStack
from setwise.models.voters.vote_features import MarginFeatures
from setwise.models.voters.voters import SetVoters

# Votes are dense: with a few thousand sets and voters so many documents stay in a few megabytes.
_ROWS_AT_ONCE = 256
_PAPER_COLUMNS = 4


class _LabelStage(NamedTuple):
    """What turns feature rows into marginals."""

    scale: NDArray[np.float64]  # (d,)
    unit_rows: bool
    weights: Weights
    knot_indptr: NDArray[np.int64]
    knot_logits: NDArray[np.float64]
    knot_values: NDArray[np.float64]
    isotonic_share: float
    seen: NDArray[np.bool_]  # (d,)


class _SetStage(NamedTuple):
    """What proposes sets and tells how sure they are."""

    k: int
    n_flips: int
    allow_empty: bool
    known: RaggedSets
    counts: NDArray[np.float64]
    slots: NDArray[np.int64]
    total: float
    judge: Judge
    by_confidence: bool


class Passed(NamedTuple):
    """What one call returns for its documents."""

    candidates: CandidateSets
    confidence: NDArray[np.float64]
    marginals: NDArray[np.float64]
    known_features: NDArray[np.int32]


class _Raw(NamedTuple):
    """What the documents have come to."""

    finite: bool
    doc_indptr: NDArray[np.int64]
    sets: RaggedSets
    log_score: NDArray[np.float64]
    source: NDArray[np.uint8]
    confidence: NDArray[np.float64]
    marginals: NDArray[np.float64]
    known: NDArray[np.int32]


Rows = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]

# The fields of `_Raw`, those of the sets one by one. Named tuples take microseconds to return.
_Flat = tuple[
    bool,
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.float64],
    NDArray[np.uint8],
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int32],
]


class Parts(NamedTuple):
    """The fitted parts of a predictor that have a say in what it predicts."""

    base: BinaryRelevance
    label_calibrator: LabelCalibrator
    source: CandidateSource
    reranker: SetReranker
    seen: NDArray[np.bool_]  # (d,) whether a feature occurred in training
    voters: SetVoters | None
    stack: LabelStack | None


@dataclass(frozen=True, eq=False)
class CompiledPass:
    """The parts of a predictor as flat arrays; made by `of`."""

    _state: tuple[Any, ...]  # named tuples of arrays of any type
    _call: Callable[..., _Flat]
    _rows_at_once: int | None

    @classmethod
    def of(cls, parts: Parts) -> Self | None:
        """Compile a predictor's parts, or return None where one of them is of another kind.

        It takes candidates from the marginals and from voters, and the features and set
        calibrators of the presets.
        """
        set_stage = _flat_sets(parts)
        if set_stage is None:
            return None
        base, calibrator = parts.base, parts.label_calibrator
        label_stage = _LabelStage(
            base.weighting_.scale_,
            base.weighting_.unit_rows_,
            base.weights_,
            calibrator.knot_indptr_,
            calibrator.knot_logits_,
            calibrator.knot_values_,
            float(calibrator.isotonic_share),
            parts.seen,
        )
        if parts.voters is None:
            state = _own((label_stage, set_stage))
            return cls(state, _bind(_pass, state), None)
        source = cast("VotedCandidates", parts.source)
        vote_stage = VoteStage.of(parts.voters, parts.stack, source, base.weighting_)
        if vote_stage is None:
            return None
        state = _own((label_stage, vote_stage, set_stage))
        return cls(state, _bind(_voted_pass, state), _ROWS_AT_ONCE)

    def __call__(
        self,
        indptr: NDArray[np.int32],
        indices: NDArray[np.int32],
        values: NDArray[np.float32],
    ) -> Passed:
        """Rank label sets for sparse rows.

        Parameters
        ----------
        indptr, indices, values : ndarray
            Rows as in a csr_array, columns ascending in each, values finite.

        Raises
        ------
        ValueError
            If a value is too large beside those of training.
        """
        # The bound code takes the types for granted.
        rows = (
            np.ascontiguousarray(indptr, dtype=np.int32),
            np.ascontiguousarray(indices, dtype=np.int32),
            np.ascontiguousarray(values, dtype=np.float32),
        )
        n = len(indptr) - 1
        if self._rows_at_once is None or n <= self._rows_at_once:
            return self._passed(rows)
        parts = [
            self._passed(_slice(rows, start, min(start + self._rows_at_once, n)))
            for start in range(0, n, self._rows_at_once)
        ]
        return Passed(
            concatenate([part.candidates for part in parts]),
            np.concatenate([part.confidence for part in parts]),
            np.concatenate([part.marginals for part in parts]),
            np.concatenate([part.known_features for part in parts]),
        )

    def _passed(self, rows: Rows) -> Passed:
        finite, doc_indptr, set_indptr, labels, log_score, source, confidence, marginals, known = (
            self._call(rows, *self._state)
        )
        if not finite:
            raise ValueError("X holds a value too large beside those of training: rescale it")
        n_labels = marginals.shape[1]
        candidates = CandidateSets(doc_indptr, set_indptr, labels, log_score, source, n_labels)
        return Passed(candidates, confidence, marginals, known)


def _flat_sets(parts: Parts) -> _SetStage | None:
    """Flatten what proposes and judges sets; None where a part is of another kind."""
    wanted: list[type] = [ScoreFeatures, PriorFeatures]
    kind: type = MarginalCandidates
    if parts.voters is not None:
        wanted += [MarginFeatures, *(GROUPS[name] for name in parts.voters.names)]
        kind = VotedCandidates
    groups = parts.reranker.features.groups_
    # Subclasses may decide otherwise: only what is known exactly is replaced.
    if [type(group) for group in groups] != wanted or type(parts.source) is not kind:
        return None
    judge = Judge.of(parts.reranker.calibrator)
    if judge is None:
        return None
    source = cast("MarginalCandidates | VotedCandidates", parts.source)
    counts = cast("PriorFeatures", groups[1]).counts_
    n_labels = len(parts.base.intercept_)
    k, n_flips = search_size(n_labels, source.k, allow_empty=source.allow_empty_)
    return _SetStage(
        k,
        n_flips,
        source.allow_empty_,
        counts.sets,
        counts.counts,
        counts.slots,
        max(counts.total, 1.0),
        judge,
        parts.reranker.by_confidence,
    )


def _slice(rows: Rows, start: int, end: int) -> Rows:
    indptr, indices, values = rows
    span = slice(indptr[start], indptr[end])
    return indptr[start : end + 1] - indptr[start], indices[span], values[span]


def _own(part: Any) -> Any:  # noqa: ANN401  # arrays, numbers and named tuples of them
    """Return writable, contiguous arrays: others would be compiled for anew."""
    if isinstance(part, np.ndarray):
        return np.require(part, requirements=["C", "W"])
    if isinstance(part, tuple):
        fields = [_own(field) for field in part]
        return type(part)(*fields) if hasattr(part, "_fields") else tuple(fields)
    return part


_NO_ROWS: Rows = (np.zeros(1, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))


def _bind(kernel: Any, state: tuple[Any, ...]) -> Callable[..., _Flat]:  # noqa: ANN401  # numba has no types
    """Compile a function for the types of rows and state, and return it without type checks.

    Telling the types of sixty arrays apart takes as long as the prediction of one document.
    """
    types = tuple(typeof(part) for part in (_NO_ROWS, *state))  # type: ignore[no-untyped-call]  # numba has no types
    kernel.compile(types)
    return cast("Callable[..., _Flat]", kernel.get_overload(types))


@njit(cache=True, nogil=True)
def _marginals(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    weighted: NDArray[np.float32],
    finite: bool,
    stage: _LabelStage,
) -> NDArray[np.float64]:  # pragma: no cover - compiled
    logits = np.zeros((len(indptr) - 1, len(stage.weights.intercept)))
    if finite:
        score_rows(indptr, indices, weighted, stage.weights, logits)
    return calibrate_rows(
        logits,
        stage.knot_indptr,
        stage.knot_logits,
        stage.knot_values,
        stage.isotonic_share,
    )


@njit(cache=True, nogil=True)
def _known(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    values: NDArray[np.float32],
    seen: NDArray[np.bool_],
) -> NDArray[np.int32]:  # pragma: no cover - compiled
    """Count the features of each row that occurred in training."""
    known = np.zeros(len(indptr) - 1, dtype=np.int32)
    for i in range(len(known)):
        for j in range(indptr[i], indptr[i + 1]):
            known[i] += values[j] != 0.0 and seen[indices[j]]
    return known


@njit(cache=True, nogil=True)
def _fill_paper_columns(
    sets: RaggedSets, log_score: NDArray[np.float64], judging: _SetStage, dense: NDArray[np.float32]
) -> None:  # pragma: no cover - compiled
    """Fill the columns of `ScoreFeatures` and `PriorFeatures`, the first ones."""
    counts = count_sets(sets, judging.known, judging.counts, judging.slots)
    for s in range(len(log_score)):
        dense[s, 0] = np.exp(log_score[s])
        dense[s, 1] = log_score[s]
        dense[s, 2] = sets.indptr[s + 1] - sets.indptr[s]
        dense[s, 3] = np.log1p(10_000 * (counts[s] / judging.total))


@njit(cache=True, nogil=True)
def _ranked(raw: _Raw) -> _Raw:  # pragma: no cover - compiled
    """Put each document's surest set first."""
    order = rank_rows(raw.doc_indptr, raw.confidence, raw.log_score)
    set_indptr, labels = gather(raw.sets, order)
    return _Raw(
        raw.finite,
        raw.doc_indptr,
        RaggedSets(set_indptr, labels),
        raw.log_score[order],
        raw.source[order],
        raw.confidence[order],
        raw.marginals,
        raw.known,
    )


@njit(cache=True, nogil=True)
def _flat(raw: _Raw) -> _Flat:  # pragma: no cover - compiled
    return (
        raw.finite,
        raw.doc_indptr,
        raw.sets.indptr,
        raw.sets.labels,
        raw.log_score,
        raw.source,
        raw.confidence,
        raw.marginals,
        raw.known,
    )


@njit(cache=True, nogil=True)
def _pass(
    rows: Rows,
    stage: _LabelStage,
    judging: _SetStage,
) -> _Flat:  # pragma: no cover - compiled
    """Predict with candidates of the marginals and the features of the paper."""
    indptr, indices, values = rows
    n = len(indptr) - 1
    weighted = weight_rows(indptr, indices, values, stage.scale, stage.unit_rows)
    finite = bool(np.isfinite(weighted).all())
    marginals = _marginals(indptr, indices, weighted, finite, stage)
    set_indptr, labels, log_score, _ = search_rows(
        marginals, judging.k, judging.n_flips, judging.allow_empty
    )
    sets = RaggedSets(set_indptr, labels)
    dense = np.empty((len(log_score), _PAPER_COLUMNS), dtype=np.float32)
    _fill_paper_columns(sets, log_score, judging, dense)
    doc_indptr = np.arange(n + 1) * judging.k
    raw = _Raw(
        finite,
        doc_indptr,
        sets,
        log_score,
        np.full(len(log_score), SOURCE_MARGINALS, dtype=np.uint8),
        judge_sets(doc_indptr, sets, dense, judging.judge),
        marginals,
        _known(indptr, indices, values, stage.seen),
    )
    return _flat(_ranked(raw) if judging.by_confidence else raw)


@njit(cache=True, nogil=True)
def _voted_pass(
    rows: Rows,
    stage: _LabelStage,
    voting: VoteStage,
    judging: _SetStage,
) -> _Flat:  # pragma: no cover - compiled
    """Predict with candidates of marginals and voters, and the features of both."""
    indptr, indices, values = rows
    n = len(indptr) - 1
    weighted = weight_rows(indptr, indices, values, stage.scale, stage.unit_rows)
    finite = bool(np.isfinite(weighted).all())
    if not finite:
        weighted[:] = 0.0
    marginals = _marginals(indptr, indices, weighted, finite, stage)
    documents = unit_space(indptr, indices, weighted, voting.centre)
    votes = cast_votes(documents, marginals, voting)
    if voting.stack.n_likely > 0:
        refine_labels(marginals, votes, voting)
    set_indptr, labels, _, _ = search_rows(
        marginals, judging.k, judging.n_flips, judging.allow_empty
    )
    doc_indptr, sets, source = add_voted(
        np.arange(n + 1) * judging.k,
        RaggedSets(set_indptr, labels),
        np.full(n * judging.k, SOURCE_MARGINALS, dtype=np.uint8),
        votes,
        voting,
    )
    log_score = independent_scores(marginals, doc_indptr, sets)
    width = _PAPER_COLUMNS + MARGIN_COLUMNS + VOTE_COLUMNS * len(votes)
    dense = np.empty((len(log_score), width), dtype=np.float32)
    _fill_paper_columns(sets, log_score, judging, dense)
    fill_voted_columns(doc_indptr, sets, log_score, marginals, votes, voting.seen, dense)
    raw = _Raw(
        finite,
        doc_indptr,
        sets,
        log_score,
        source,
        judge_sets(doc_indptr, sets, dense, judging.judge),
        marginals,
        _known(indptr, indices, values, stage.seen),
    )
    return _flat(_ranked(raw) if judging.by_confidence else raw)
