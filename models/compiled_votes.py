"""The stage of the compiled pass that asks voters: votes, refined labels, candidates, columns."""

from typing import NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from setwise.models.calibration.leaf_masks import LeafMasks, sum_masked
from setwise.models.labels.scaling import FeatureWeighting
from setwise.models.sets.candidates import SOURCE_VOTES, RaggedSets, gather, gather_both, merge_rows
from setwise.models.sets.sources import VotedCandidates
from setwise.models.voters.label_stack import LabelStack, describe_pairs, log_odds, sum_by_label
from setwise.models.voters.neighbours import NearestVotes, Neighbourhood, NeighbourVotes, vote_rows
from setwise.models.voters.regression_votes import (
    LinearVotes,
    SmoothVotes,
    belief_rows,
    blend,
    vote_linear,
)
from setwise.models.voters.rounded import RoundedMatrix, multiply
from setwise.models.voters.similarity import (
    Postings,
    SparseRows,
    UnitRows,
    centre_rows,
    fill_all_similarities,
    unit_values,
)
from setwise.models.voters.vote_features import fill_gaps, fill_margins
from setwise.models.voters.voters import SetVoters, Voter
from setwise.models.voters.votes import SeenSets, find_leaders, tally

_NEIGHBOURS, _NEAREST, _LINEAR, _SMOOTH = range(4)
_CODES = {
    NeighbourVotes: _NEIGHBOURS,
    NearestVotes: _NEAREST,
    LinearVotes: _LINEAR,
    SmoothVotes: _SMOOTH,
}

MARGIN_COLUMNS = 4
VOTE_COLUMNS = 5


class Smooth(NamedTuple):
    """A `SmoothVotes` as compiled code takes it."""

    documents: Postings
    probabilities: Postings
    document_width: np.float32
    probability_width: np.float32
    weights: RoundedMatrix  # (n_landmarks, n_sets)


class Stack(NamedTuple):
    """A `LabelStack` as compiled code takes it; ``n_likely`` is 0 where there is none."""

    n_likely: int
    n_voted: int
    masks: LeafMasks
    base_margin: float


class VoteStage(NamedTuple):
    """What voters need; the arrays of absent ones are empty."""

    centre: NDArray[np.float64]  # (n_features,), or (0,) where nothing is centred
    order: NDArray[np.int64]  # (n_voters,) codes
    neighbours: Neighbourhood
    nearest: Neighbourhood
    columns: NDArray[np.int32]
    weights: NDArray[np.float32]
    smooth: Smooth
    stack: Stack
    seen: SeenSets
    k_voted: int
    pool: int

    @classmethod
    def of(
        cls,
        voters: SetVoters,
        stack: LabelStack | None,
        source: VotedCandidates,
        weighting: FeatureWeighting,
    ) -> Self | None:
        """Flatten fitted voters, or return None where one of them is of another kind.

        All must weight features as binary relevance does: documents are weighted once.
        """
        fitted = voters.voters_
        kinds = [type(voter) for voter in fitted]
        if not fitted or len(set(kinds)) < len(kinds) or not set(kinds) <= _CODES.keys():
            return None
        spaces = [voter.space_ for voter in fitted]
        if not all(_same_space(space, spaces[0], weighting) for space in spaces):
            return None
        flat_stack = _flat_stack(stack)
        if flat_stack is None:
            return None
        by_kind = dict(zip(kinds, fitted, strict=True))
        linear, smooth = by_kind.get(LinearVotes), by_kind.get(SmoothVotes)
        centre = spaces[0].centre_
        return cls(
            np.ascontiguousarray(centre if centre.any() else centre[:0]),
            np.array([_CODES[kind] for kind in kinds], dtype=np.int64),
            _flat_neighbours(by_kind.get(NeighbourVotes)),
            _flat_neighbours(by_kind.get(NearestVotes)),
            linear.columns_ if isinstance(linear, LinearVotes) else np.empty(0, np.int32),
            linear.weights_ if isinstance(linear, LinearVotes) else np.empty((0, 0), np.float32),
            _flat_smooth(smooth if isinstance(smooth, SmoothVotes) else None),
            flat_stack,
            voters.sets_,
            source.k_voted,
            source.pool,
        )


def _same_space(space: UnitRows, first: UnitRows, weighting: FeatureWeighting) -> bool:
    return (
        space.weighting_.unit_rows_ == weighting.unit_rows_
        and np.array_equal(space.weighting_.scale_, weighting.scale_)
        and np.array_equal(space.centre_, first.centre_)
    )


def _no_postings() -> Postings:
    nothing = np.empty(0, np.int32)
    return Postings.of(np.zeros(1, np.int64), nothing, np.empty(0, np.float32), 0)


def _flat_neighbours(voter: Voter | None) -> Neighbourhood:
    if isinstance(voter, NeighbourVotes):
        return voter.neighbourhood_
    return Neighbourhood(_no_postings(), np.empty(0, np.int32), np.empty(0, np.int64), 0, 0)


def _flat_smooth(voter: SmoothVotes | None) -> Smooth:
    if voter is None:
        nothing = RoundedMatrix(np.empty((0, 0), np.int16), np.empty(0, np.float32))
        return Smooth(_no_postings(), _no_postings(), np.float32(0), np.float32(0), nothing)
    return Smooth(
        voter.documents_,
        voter.probabilities_,
        np.float32(voter.document_width),
        np.float32(voter.probability_width),
        voter.weights_,
    )


def _flat_stack(stack: LabelStack | None) -> Stack | None:
    """Flatten a stack; None where its trees have no masks or it is of another kind."""
    if stack is None:
        bounds, numbers = np.zeros(1, np.int64), np.empty(0, np.int32)
        values, masks = np.empty(0, np.float32), np.empty(0, np.uint64)
        nothing = LeafMasks(
            bounds, values, numbers, masks, bounds, numbers, masks, bounds[:0].copy(), values
        )
        return Stack(0, 0, nothing, 0.0)
    trees = stack.trees_.trees_
    if type(stack) is not LabelStack or trees.masks is None:
        return None
    if stack.trees_.objective != "logistic":
        return None
    return Stack(stack.n_likely, stack.n_voted, trees.masks, float(trees.base_margin))


@njit(cache=True, nogil=True)
def unit_space(
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    weighted: NDArray[np.float32],
    centre: NDArray[np.float64],
) -> SparseRows:  # pragma: no cover - compiled
    """Return weighted rows as `UnitRows` does."""
    rows = SparseRows(indptr.astype(np.int64), indices, weighted)
    if len(centre) > 0:
        rows = centre_rows(rows, centre)
    return SparseRows(rows.indptr, rows.features, unit_values(rows.indptr, rows.values))


@njit(cache=True, nogil=True)
def cast_votes(
    rows: SparseRows, marginals: NDArray[np.float64], stage: VoteStage
) -> NDArray[np.float32]:  # pragma: no cover - compiled
    """Return the weights of all sets, shape (n_voters, n_documents, n_sets)."""
    n = len(rows.indptr) - 1
    votes = np.empty((len(stage.order), n, len(stage.seen.indptr) - 1), dtype=np.float32)
    for v in range(len(stage.order)):
        if stage.order[v] == _NEIGHBOURS:
            votes[v] = vote_rows(rows, stage.neighbours, -1)
        elif stage.order[v] == _NEAREST:
            votes[v] = vote_rows(rows, stage.nearest, -1)
        elif stage.order[v] == _LINEAR:
            votes[v] = vote_linear(rows, stage.columns, stage.weights)
        else:
            smooth = stage.smooth
            kernel = np.empty((n, len(smooth.weights.values)), dtype=np.float32)
            beliefs = np.empty_like(kernel)
            fill_all_similarities(smooth.documents, rows, kernel)
            fill_all_similarities(smooth.probabilities, belief_rows(marginals), beliefs)
            blend(kernel, beliefs, smooth.document_width, smooth.probability_width)
            votes[v] = multiply(kernel, smooth.weights)
    return votes


@njit(cache=True, nogil=True)
def refine_labels(
    marginals: NDArray[np.float64], votes: NDArray[np.float32], stage: VoteStage
) -> None:  # pragma: no cover - compiled
    """Replace label probabilities (n, L) as `LabelStack` does."""
    n, n_labels = marginals.shape
    stack = stage.stack
    by_label = np.empty((len(votes), n, n_labels), dtype=np.float32)
    for v in range(len(votes)):
        by_label[v] = sum_by_label(stage.seen, votes[v])
    documents, labels, dense = describe_pairs(
        log_odds(marginals), by_label, min(stack.n_likely, n_labels), min(stack.n_voted, n_labels)
    )
    pairs = RaggedSets(np.arange(len(labels) + 1), labels)
    margin = sum_masked(stack.masks, stack.base_margin, dense, pairs)
    for pair in range(len(labels)):
        odds = min(max(margin[pair], -30.0), 30.0)
        marginals[documents[pair], labels[pair]] = 1.0 / (1.0 + np.exp(-odds))


@njit(cache=True, nogil=True)
def add_voted(
    doc_indptr: NDArray[np.int64],
    sets: RaggedSets,
    source: NDArray[np.uint8],
    votes: NDArray[np.float32],
    stage: VoteStage,
) -> tuple[NDArray[np.int64], RaggedSets, NDArray[np.uint8]]:  # pragma: no cover - compiled
    """Unite candidates with those that each voter favours, as `VotedCandidates` does."""
    known = RaggedSets(stage.seen.indptr, stage.seen.labels)
    for v in range(len(votes)):
        own_indptr, leaders = find_leaders(stage.seen, votes[v], stage.k_voted, stage.pool)
        set_indptr, labels = gather(known, leaders.astype(np.int64))
        own = RaggedSets(set_indptr, labels)
        flags = np.full(len(leaders), SOURCE_VOTES, dtype=np.uint8)
        keep, doc_indptr, source = merge_rows(
            (doc_indptr, own_indptr), (sets, own), (source, flags)
        )
        sets = gather_both(sets, own, keep)
    return doc_indptr, sets, source


@njit(cache=True, nogil=True)
def fill_voted_columns(  # noqa: PLR0917 - compiled code is called by position
    doc_indptr: NDArray[np.int64],
    sets: RaggedSets,
    log_score: NDArray[np.float64],
    marginals: NDArray[np.float64],
    votes: NDArray[np.float32],
    seen: SeenSets,
    dense: NDArray[np.float32],
) -> None:  # pragma: no cover - compiled
    """Fill the last columns: margins, then those of each voter."""
    first = dense.shape[1] - MARGIN_COLUMNS - VOTE_COLUMNS * len(votes)
    margins = np.empty((len(dense), MARGIN_COLUMNS), dtype=np.float32)
    fill_margins(marginals, doc_indptr, sets, log_score, margins)
    dense[:, first : first + MARGIN_COLUMNS] = margins
    first += MARGIN_COLUMNS
    columns = np.empty((len(dense), VOTE_COLUMNS), dtype=np.float32)
    for v in range(len(votes)):
        columns[:, :3] = tally(doc_indptr, sets, seen, votes[v])
        fill_gaps(doc_indptr, columns)
        dense[:, first : first + VOTE_COLUMNS] = columns
        first += VOTE_COLUMNS
