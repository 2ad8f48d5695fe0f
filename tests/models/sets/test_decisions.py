"""Each decision rule is best at its own objective, checked by enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from setwise.models.sets.candidates import CandidateSets
from setwise.models.sets.decisions import (
    ExpectedF1,
    LabelMajority,
    LabelThresholds,
    Posterior,
    SharedThreshold,
    make_rule,
    stored_rule,
)


def posterior_of(joint: np.ndarray) -> Posterior:
    """All 2^L sets of each document with their probabilities; shape (n, 2^L)."""
    n, n_sets = joint.shape
    n_labels = int(np.log2(n_sets))
    sets = (np.arange(n_sets)[:, None] >> np.arange(n_labels)) & 1
    sizes = sets.sum(axis=1)
    candidates = CandidateSets(
        np.arange(n + 1, dtype=np.int64) * n_sets,
        np.concatenate([[0], np.cumsum(np.tile(sizes, n))]).astype(np.int64),
        np.tile(np.nonzero(sets)[1], n).astype(np.int32),
        np.zeros(n * n_sets),
        np.ones(n * n_sets, dtype=np.uint8),
        n_labels,
    )
    return Posterior(joint @ sets, candidates, joint.ravel())


def marginals_only(P: np.ndarray) -> Posterior:
    n, n_labels = P.shape
    nothing = CandidateSets(
        np.zeros(n + 1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(0, np.int32),
        np.zeros(0),
        np.zeros(0, np.uint8),
        n_labels,
    )
    return Posterior(P, nothing, np.zeros(0))


def matrix(Y: np.ndarray) -> csr_array:
    return csr_array(Y.astype(np.uint8))


def f1(hits: float, predicted: float, positives: float) -> float:
    return 1.0 if predicted + positives == 0 else 2.0 * hits / (predicted + positives)


@pytest.mark.parametrize("seed", range(8))
def test_rules_of_the_joint_beat_every_other_prediction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_labels = 4
    joint = rng.dirichlet(np.full(2**n_labels, 0.3), size=12)
    sets = (np.arange(2**n_labels)[:, None] >> np.arange(n_labels)) & 1
    sizes = sets.sum(axis=1)
    both = sizes[:, None] + sizes
    instance_f1 = np.where(both == 0, 1.0, 2.0 * (sets @ sets.T) / np.maximum(both, 1))
    agreement = 1.0 - np.abs(sets[:, None, :] - sets[None, :, :]).mean(axis=2)
    utilities = {
        "f1": instance_f1,
        "hamming": agreement,
    }
    posterior = posterior_of(joint)
    for objective, utility in utilities.items():
        rule = make_rule(objective, allow_empty=True)  # type: ignore[arg-type]
        chosen = rule.decide(posterior).toarray() @ (1 << np.arange(n_labels))
        expected = joint @ utility.T
        mine = expected[np.arange(len(joint)), chosen]
        np.testing.assert_allclose(mine, expected.max(axis=1), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_tuned_shared_threshold_beats_every_threshold(data: st.DataObject) -> None:
    shape = (data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4)))
    size = shape[0] * shape[1]
    grid = st.sampled_from([0.0, 0.01, 0.2, 0.3, 0.5, 0.7, 1.0])
    P = np.array(data.draw(st.lists(grid, min_size=size, max_size=size))).reshape(shape)
    Y = np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)))
    Y = Y.reshape(shape)
    posterior = marginals_only(P)
    rule = SharedThreshold().fit(posterior, matrix(Y))
    chosen = rule.decide(posterior).toarray()
    mine = f1(float((chosen & Y).sum()), float(chosen.sum()), float(Y.sum()))
    if Y.sum() == 0:
        assert rule.threshold == 0.5
        return
    rivals = [t < P for t in [-1.0, *np.unique(P)]]
    # A marginal of exactly zero is never predicted, however the threshold is set.
    rivals = [r & (P >= 1e-3) for r in rivals]
    assert mine == pytest.approx(
        max(f1(float((r & (Y == 1)).sum()), float(r.sum()), float(Y.sum())) for r in rivals)
    )


@pytest.mark.parametrize("seed", range(10))
def test_population_optimum_of_micro_f1_is_the_threshold_of_half_of_it(seed: int) -> None:
    """With calibrated marginals no assignment whatever beats thresholding at F*/2."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=10) ** 2
    best = max(
        f1(float(p @ np.array(bits)), float(sum(bits)), float(p.sum()))
        for bits in product([0, 1], repeat=10)
    )
    mask = p > best / 2
    assert f1(float(p[mask].sum()), float(mask.sum()), float(p.sum())) == pytest.approx(best)
    # Tuned on outcomes that follow the marginals exactly, the rule finds the same set.
    copies = 5000
    counts = np.round(p * copies).astype(int)
    Y = (np.arange(copies)[:, None] < counts[None, :]).astype(int)
    P = np.tile(counts / copies, (copies, 1))
    rule = SharedThreshold().fit(marginals_only(P), matrix(Y))
    assert np.array_equal(counts / copies > rule.threshold, mask)


def test_label_thresholds_differ_where_labels_do_and_beat_a_shared_one() -> None:
    rng = np.random.default_rng(2)
    P = np.column_stack([rng.beta(0.3, 6.0, 4000), rng.beta(4.0, 1.0, 4000)])
    Y = (rng.uniform(size=P.shape) < P).astype(int)
    posterior = marginals_only(P)
    own = LabelThresholds().fit(posterior, matrix(Y))
    threshold = SharedThreshold().fit(posterior, matrix(Y))
    assert own.thresholds is not None
    assert own.thresholds[0] < 0.3 < own.thresholds[1]

    def macro(chosen: np.ndarray) -> float:
        return float(
            np.mean(
                [
                    f1(float((chosen[:, j] & Y[:, j]).sum()), chosen[:, j].sum(), Y[:, j].sum())
                    for j in range(2)
                ]
            )
        )

    assert macro(own.decide(posterior).toarray()) > macro(threshold.decide(posterior).toarray())


def test_a_label_without_positives_gets_the_threshold_its_marginals_call_for() -> None:
    p = np.linspace(0.0, 0.4, 401)
    posterior = marginals_only(p[:, None])
    rule = LabelThresholds().fit(posterior, matrix(np.zeros((401, 1))))
    assert rule.thresholds is not None
    best = max(f1(p[p > t].sum(), (p > t).sum(), p.sum()) for t in p)
    assert rule.thresholds[0] == pytest.approx(best / 2, abs=2e-3)


def test_label_majority_leaves_an_even_chance_out() -> None:
    chosen = LabelMajority().decide(marginals_only(np.array([[0.5, 0.5000001, 0.0]])))
    assert chosen.toarray().tolist() == [[0, 1, 0]]


def test_f1_rule_learns_whether_unlisted_sets_matter() -> None:
    """Candidates that hold a tenth of the mass mislead; the marginals tell the truth."""
    rng = np.random.default_rng(0)
    n = 300
    P = np.tile([0.6, 0.55, 0.5, 0.0], (n, 1))
    Y = (rng.uniform(size=P.shape) < P).astype(int)
    candidates = CandidateSets(
        np.arange(n + 1, dtype=np.int64),
        np.arange(n + 1, dtype=np.int64),
        np.full(n, 3, dtype=np.int32),
        np.zeros(n),
        np.ones(n, dtype=np.uint8),
        4,
    )
    posterior = Posterior(P, candidates, np.full(n, 0.1))
    rule = ExpectedF1(allow_empty=True).fit(posterior, matrix(Y))
    assert rule.remainder > 0.0
    assert rule.decide(posterior).toarray()[0].tolist() == [1, 1, 1, 0]
    without = ExpectedF1(allow_empty=True).decide(posterior).toarray()[0]
    assert without.tolist() == [0, 0, 0, 1]


def test_unknown_objectives_and_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="f1, hamming"):
        make_rule("accuracy", allow_empty=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown objective"):
        stored_rule({}, {})
    with pytest.raises(ValueError, match="the posterior needs"):
        SharedThreshold().fit(marginals_only(np.ones((2, 3))), matrix(np.ones((2, 2))))
    with pytest.raises(ValueError, match="marginals of shape"):
        Posterior(np.ones((2, 3)), marginals_only(np.ones((2, 2))).candidates, np.zeros(0))


@pytest.mark.parametrize("seed", range(6))
def test_what_candidates_leave_of_the_marginals_completes_them(seed: int) -> None:
    """The completed distribution has the posterior's marginals, and F1 is maximised under it."""
    rng = np.random.default_rng(seed)
    sets = (np.arange(8)[:, None] >> np.arange(3)) & 1
    joint = rng.dirichlet(np.full(8, 0.5), size=6)
    listed = np.argsort(-joint, axis=1)[:, :2]
    mass = np.take_along_axis(joint, listed, axis=1)
    chosen = sets[listed.ravel()]
    candidates = CandidateSets(
        np.arange(7, dtype=np.int64) * 2,
        np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]).astype(np.int64),
        np.nonzero(chosen)[1].astype(np.int32),
        np.zeros(12),
        np.ones(12, dtype=np.uint8),
        3,
    )
    posterior = Posterior(joint @ sets, candidates, mass.ravel())
    decided = ExpectedF1(allow_empty=True, remainder=1.0, residual=True).decide(posterior)
    both = sets.sum(axis=1)[:, None] + sets.sum(axis=1)
    earned = np.where(both == 0, 1.0, 2.0 * (sets @ sets.T) / np.maximum(both, 1))
    for row in range(6):
        completed = np.zeros(8)
        completed[listed[row]] = mass[row]
        missing = 1.0 - mass[row].sum()
        left = (joint[row] @ sets - completed @ sets) / missing
        completed += missing * np.where(sets, left, 1.0 - left).prod(axis=1)
        np.testing.assert_allclose(completed @ sets, joint[row] @ sets)
        expected = completed @ earned
        own = decided.toarray()[row] @ [1, 2, 4]
        assert expected[own] == pytest.approx(expected.max())
