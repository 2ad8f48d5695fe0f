"""From feature rows to ranked sets with confidence in one compiled call.

It does what the parts of a `SetPredictor` do one after another, with their own compiled kernels.
Between those, Python objects would cost several times what a single document costs itself.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from models.base.binary_relevance import BinaryRelevance, Weights, score_rows
from models.base.scaling import weight_rows
from models.confidence.calibrators import BoostedSets, TreeSets
from models.confidence.group_softmax import SoftmaxSets, share_certainty
from models.confidence.label_calibrator import LabelCalibrator, calibrate_rows
from models.confidence.leaf_masks import LeafMasks, sum_masked
from models.sets.candidates import SOURCE_MARGINALS, CandidateSets, RaggedSets, gather
from models.sets.counts import count_sets
from models.sets.evidence import CandidateSource
from models.sets.features import PriorFeatures, ScoreFeatures
from models.sets.reranker import SetReranker, rank_rows
from models.sets.search import search_rows, search_size
from models.sets.sources import MarginalCandidates

# How margins become confidences.
_CLIPPED, _LOGISTIC, _SOFTMAX = 0, 1, 2
_LINKS = {"squared": _CLIPPED, "logistic": _LOGISTIC, "softmax": _SOFTMAX}


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
    masks: LeafMasks
    base_margin: float
    link: int  # of `_LINKS`
    by_confidence: bool


class Passed(NamedTuple):
    """What one call returns for its documents."""

    candidates: CandidateSets
    confidence: NDArray[np.float64]
    marginals: NDArray[np.float64]
    known_features: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class CompiledPass:
    """The parts of a predictor as flat arrays; made by `of`."""

    _labels: _LabelStage
    _sets: _SetStage

    @classmethod
    def of(
        cls,
        base: BinaryRelevance,
        label_calibrator: LabelCalibrator,
        source: CandidateSource,
        reranker: SetReranker,
        seen: NDArray[np.bool_],
    ) -> Self | None:
        """Compile a predictor's parts, or return None where one of them is of another kind.

        It takes candidates from the marginals, the features of the paper, and boosted trees.
        """
        groups = reranker.features.groups_
        calibrator = reranker.calibrator
        # Subclasses may decide otherwise: only what is known exactly is replaced.
        if [type(group) for group in groups] != [ScoreFeatures, PriorFeatures]:
            return None
        if type(source) is not MarginalCandidates or type(calibrator) not in {
            BoostedSets,
            TreeSets,
            SoftmaxSets,
        }:
            return None
        prior = cast("PriorFeatures", groups[1])
        boosted = cast("BoostedSets", calibrator)
        trees = boosted.trees_
        if trees.masks is None:
            return None
        n_labels = len(base.intercept_)
        k, n_flips = search_size(n_labels, source.k, allow_empty=source.allow_empty_)
        return cls(
            _LabelStage(
                _own(base.weighting_.scale_),
                base.weighting_.unit_rows_,
                Weights(*(_own(array) for array in base.weights_)),
                _own(label_calibrator.knot_indptr_),
                _own(label_calibrator.knot_logits_),
                _own(label_calibrator.knot_values_),
                float(label_calibrator.isotonic_share),
                _own(seen),
            ),
            _SetStage(
                k,
                n_flips,
                source.allow_empty_,
                RaggedSets(*(_own(array) for array in prior.counts_.sets)),
                _own(prior.counts_.counts),
                prior.counts_.slots,
                max(prior.counts_.total, 1.0),
                trees.masks,
                float(trees.base_margin),
                _LINKS[boosted.objective],
                reranker.by_confidence,
            ),
        )

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
        finite, sets, log_score, confidence, marginals, known = _pass(
            indptr, indices, values, self._labels, self._sets
        )
        if not finite:
            raise ValueError("X holds a value too large beside those of training: rescale it")
        n = len(indptr) - 1
        k = self._sets.k
        candidates = CandidateSets(
            np.arange(0, n * k + 1, k, dtype=np.int64),
            sets.indptr,
            sets.labels,
            log_score,
            np.full(n * k, SOURCE_MARGINALS, dtype=np.uint8),
            marginals.shape[1],
        )
        return Passed(candidates, confidence, marginals, known)


def _own(array: NDArray[Any]) -> NDArray[Any]:  # any dtype
    """Return a writable array: read-only ones would be compiled for anew."""
    return array if array.flags.writeable else array.copy()


@njit(cache=True, nogil=True)
def _pass(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    values: NDArray[np.float32],
    stage: _LabelStage,
    judge: _SetStage,
) -> tuple[
    bool,
    RaggedSets,
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.float64],
    NDArray[np.int32],
]:  # pragma: no cover - compiled
    n = len(indptr) - 1
    n_labels = len(stage.weights.intercept)
    weighted = weight_rows(indptr, indices, values, stage.scale, stage.unit_rows)
    finite = bool(np.isfinite(weighted).all())
    logits = np.empty((n, n_labels))
    if finite:
        score_rows(indptr, indices, weighted, stage.weights, logits)
    else:
        logits[:] = 0.0
    marginals = calibrate_rows(
        logits,
        stage.knot_indptr,
        stage.knot_logits,
        stage.knot_values,
        stage.isotonic_share,
    )
    set_indptr, labels, log_score, _ = search_rows(
        marginals, judge.k, judge.n_flips, judge.allow_empty
    )
    sets = RaggedSets(set_indptr, labels)
    confidence = _confidence(sets, log_score, judge)
    if judge.by_confidence:
        doc_indptr = np.arange(n + 1) * judge.k
        order = rank_rows(doc_indptr, confidence, log_score)
        ranked_indptr, ranked_labels = gather(sets, order)
        sets = RaggedSets(ranked_indptr, ranked_labels)
        confidence = confidence[order]
        log_score = log_score[order]
    known = np.zeros(n, dtype=np.int32)
    for i in range(n):
        for j in range(indptr[i], indptr[i + 1]):
            known[i] += values[j] != 0.0 and stage.seen[indices[j]]
    return finite, sets, log_score, confidence, marginals, known


@njit(cache=True, nogil=True)
def _confidence(
    sets: RaggedSets, log_score: NDArray[np.float64], judge: _SetStage
) -> NDArray[np.float64]:  # pragma: no cover - compiled
    """Describe the sets as the feature groups do, and let the trees decide."""
    counts = count_sets(sets, judge.known, judge.counts, judge.slots)
    dense = np.empty((len(log_score), 4), dtype=np.float32)
    for s in range(len(log_score)):
        dense[s, 0] = np.exp(log_score[s])
        dense[s, 1] = log_score[s]
        dense[s, 2] = sets.indptr[s + 1] - sets.indptr[s]
        dense[s, 3] = np.log1p(10_000 * (counts[s] / judge.total))
    margin = sum_masked(judge.masks, judge.base_margin, dense, sets)
    if judge.link == _SOFTMAX:
        share_certainty(margin, np.arange(0, len(margin) + 1, judge.k))
        return margin
    for s in range(len(margin)):
        if judge.link == _LOGISTIC:
            margin[s] = 1.0 / (1.0 + np.exp(-min(max(margin[s], -30.0), 30.0)))
        else:
            margin[s] = min(max(margin[s], 0.0), 1.0)
    return margin
