"""Ways of proposing more candidates, against lists of all sets."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks.bench_large_sets import LEAST, WAYS, Known, PairWeights, exchanges
from setwise.models.data.rows import SparseRows
from setwise.models.mixtures.conditional_bernoulli_mixture import ConditionalBernoulliMixture
from setwise.models.mixtures.mixture_candidates import MixtureCandidates
from setwise.models.sets.candidates import SOURCE_MARGINALS, CandidateSets
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.search import MAX_CANDIDATES
from setwise.models.sets.sources import VotedCandidates
from setwise.models.voters.votes import SetVotes, find_seen_sets

pytestmark = pytest.mark.verify

N_LABELS = 6


def energy(held: np.ndarray, field: np.ndarray, pairs: np.ndarray) -> float:
    """Return the energy of a set by its definition."""
    return float(field[held].sum() + np.triu(pairs, 1)[np.ix_(held, held)].sum())


@pytest.mark.parametrize("seed", range(5))
def test_exchanges_are_the_best_two_flips_of_all(seed: int) -> None:
    draw = np.random.default_rng(seed)
    pairs = np.triu(draw.normal(size=(N_LABELS, N_LABELS)), 1)
    field, mode = draw.normal(size=N_LABELS), draw.random(N_LABELS) < 0.5
    every = []
    for a in range(N_LABELS):
        for b in range(a + 1, N_LABELS):
            mask = mode.copy()
            mask[[a, b]] ^= True
            every.append((energy(mask, field, pairs), (a, b)))
    best = [flips for _, flips in sorted(every, reverse=True)]
    found = exchanges.py_func(mode, field, pairs + pairs.T, 4)
    assert list(map(tuple, found.tolist())) == best[:4]
    most = exchanges.py_func(mode, field, pairs + pairs.T, len(best) + 1)
    assert sorted(map(tuple, most.tolist())) == [(-1, -1), *sorted(best)]


def test_pair_weights_tell_labels_that_go_together_from_labels_that_exclude_each_other() -> None:
    draw = np.random.default_rng(0)
    first, other = draw.random((2, 4000)) < 0.5
    rarely = draw.random(4000) < 0.1
    Y = np.column_stack([first, first ^ rarely, ~first ^ rarely, other]).astype(np.float64)
    weights = PairWeights.fit(np.zeros(Y.shape), Y)
    assert weights.pairs[0, 1] > 1.0
    assert weights.pairs[0, 2] < -1.0
    assert abs(weights.pairs[0, 3]) < 0.5
    np.testing.assert_array_equal(weights.pairs, weights.pairs.T)


@pytest.fixture(scope="module")
def documents() -> tuple[DocumentEvidence, VotedCandidates, Known]:
    """Return a sure document, a doubtful one, and what others teach."""
    draw = np.random.default_rng(0)
    Y = csr_array((draw.random((60, N_LABELS)) < 0.4).astype(np.uint8))
    Y = Y[np.flatnonzero(np.diff(Y.indptr))]
    sets, _ = find_seen_sets(Y, 100)
    P = np.array([[0.99, 0.01, 0.98, 0.01, 0.02, 0.01], [0.6, 0.5, 0.4, 0.55, 0.45, 0.3]])
    votes = draw.random((1, 2, sets.n_sets)).astype(np.float32)
    rows = SparseRows.of(csr_array(np.ones((2, 1), dtype=np.float32)))
    evidence = DocumentEvidence(rows, np.log(P / (1 - P)), P, SetVotes(sets, ("any",), votes))
    weights = PairWeights.fit(np.zeros(Y.shape), Y.toarray().astype(np.float64))
    template = ConditionalBernoulliMixture(3, features="linear", n_jobs=1)
    mixture = MixtureCandidates(template).fit(np.ones((Y.shape[0], 1)), Y)
    return evidence, VotedCandidates().fit(rows.to_matrix(), Y), Known(Y, weights, mixture)


def listed(candidates: CandidateSets, document: int) -> list[tuple[int, ...]]:
    """Return the sets of a document."""
    first, last = candidates.doc_indptr[document : document + 2]
    return [tuple(candidates.labels_of(place).tolist()) for place in range(first, last)]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_adds_to_the_present_candidates_without_repetition(
    way: str, documents: tuple[DocumentEvidence, VotedCandidates, Known]
) -> None:
    now, more = WAYS["as now"](*documents), WAYS[way](*documents)
    again = WAYS[way](*documents)
    for document in range(2):
        sets = listed(more, document)
        assert len(set(sets)) == len(sets)
        assert set(sets) >= set(listed(now, document))
        assert () not in sets
        assert sets == listed(again, document)


def test_entropy_adds_sets_to_doubtful_documents_alone(
    documents: tuple[DocumentEvidence, VotedCandidates, Known],
) -> None:
    now, more = WAYS["as now"](*documents), WAYS["entropy"](*documents)
    assert listed(more, 0) == listed(now, 0)
    of_labels = (more.source & SOURCE_MARGINALS > 0) & (more.document == 1)
    assert LEAST < of_labels.sum() <= MAX_CANDIDATES
