"""The F-measure maximiser against enumeration of every prediction and every true set."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.models.sets.candidates import CandidateSets
from setwise.models.sets.f_measure import maximise_expected_f1, maximise_from_sized_marginals
from tests.models.enumeration import every_set


def f1_of_pairs(sets: np.ndarray) -> np.ndarray:
    """F1 of every set against every set; two empty sets agree perfectly."""
    shared = sets @ sets.T
    sizes = sets.sum(axis=1)
    both = sizes[:, None] + sizes[None, :]
    return np.where(both == 0, 1.0, 2.0 * shared / np.maximum(both, 1))


def as_candidates(groups: list[list[tuple[int, ...]]], n_labels: int) -> CandidateSets:
    flat = [s for group in groups for s in group]
    return CandidateSets(
        np.cumsum([0] + [len(group) for group in groups]).astype(np.int64),
        np.cumsum([0] + [len(s) for s in flat]).astype(np.int64),
        np.array([label for s in flat for label in sorted(s)], dtype=np.int32),
        np.zeros(len(flat)),
        np.ones(len(flat), dtype=np.uint8),
        n_labels,
    )


def joint_of(
    n_labels: int,
    explicit: list[tuple[tuple[int, ...], float]],
    weights: np.ndarray,
    marginals: np.ndarray,
) -> np.ndarray:
    sets = every_set(n_labels)
    p = np.zeros(len(sets))
    for labels, mass in explicit:
        p[sum(1 << label for label in labels)] += mass
    for w, mu in zip(weights, marginals, strict=True):
        p += w * np.prod(np.where(sets == 1, mu, 1.0 - mu), axis=1)
    return p


def assert_best(joint: np.ndarray, n_labels: int, chosen: np.ndarray, value: float) -> None:
    sets = every_set(n_labels)
    earned = f1_of_pairs(sets) @ (joint / joint.sum())
    assert value == pytest.approx(earned.max(), abs=1e-12)
    mine = earned[int(chosen @ (1 << np.arange(n_labels)))]
    assert mine == pytest.approx(earned.max(), abs=1e-12)


probability = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.0, 1.0))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_equals_enumeration_for_sets_products_and_both(data: st.DataObject) -> None:
    n_labels = data.draw(st.integers(1, 7))
    n_products = data.draw(st.integers(0, 3))
    explicit = data.draw(
        st.lists(
            st.tuples(
                st.sets(st.integers(0, n_labels - 1)).map(lambda s: tuple(sorted(s))),
                st.floats(0.01, 3.0),
            ),
            min_size=0 if n_products else 1,
            max_size=6,
        )
    )
    marginals = np.array(
        [[data.draw(probability) for _ in range(n_labels)] for _ in range(n_products)]
    ).reshape(n_products, n_labels)
    weights = np.array([data.draw(st.floats(0.05, 2.0)) for _ in range(n_products)])
    joint = joint_of(n_labels, explicit, weights, marginals)
    best = maximise_expected_f1(
        candidates=as_candidates([[labels for labels, _ in explicit]], n_labels),
        masses=[mass for _, mass in explicit],
        product_weights=weights[None, :],
        product_marginals=marginals[None, :, :],
    )
    assert_best(joint, n_labels, best.sets.toarray()[0], best.expected_f1[0])


@pytest.mark.parametrize("seed", range(40))
def test_without_the_empty_set_equals_enumeration_given_a_label(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(1, 9))
    marginals = rng.uniform(size=(3, n_labels)) ** 4
    weights = rng.uniform(size=3)
    joint = joint_of(n_labels, [], weights, marginals)
    joint[0] = 0.0
    best = maximise_expected_f1(
        product_weights=[weights], product_marginals=[marginals], allow_empty=False
    )
    assert_best(joint, n_labels, best.sets.toarray()[0], best.expected_f1[0])
    assert best.sets.nnz > 0


def test_a_common_factor_of_the_masses_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    groups = [[(), (0,), (0, 2), (1, 2, 3)], [(1,), (1, 3)]]
    masses = rng.uniform(size=6)
    sets = as_candidates(groups, 4)
    whole = maximise_expected_f1(candidates=sets, masses=masses)
    part = maximise_expected_f1(candidates=sets, masses=1e-9 * masses)
    assert np.array_equal(whole.sets.toarray(), part.sets.toarray())
    np.testing.assert_allclose(whole.expected_f1, part.expected_f1, rtol=1e-12)


def test_a_batch_equals_its_documents_one_by_one() -> None:
    rng = np.random.default_rng(5)
    weights = rng.dirichlet(np.ones(4), size=30)
    marginals = rng.uniform(size=(30, 4, 20)) ** 3
    batch = maximise_expected_f1(product_weights=weights, product_marginals=marginals)
    for i in range(30):
        alone = maximise_expected_f1(
            product_weights=weights[i : i + 1], product_marginals=marginals[i : i + 1]
        )
        assert np.array_equal(alone.sets.toarray()[0], batch.sets.toarray()[i])
        assert alone.expected_f1[0] == batch.expected_f1[i]


def test_many_labels_agree_with_a_large_sample() -> None:
    """200 labels cannot be enumerated; a sample of true sets must value the choice alike."""
    rng = np.random.default_rng(8)
    weights = rng.dirichlet(np.ones(3))
    marginals = rng.beta(0.05, 2.0, size=(3, 200))
    best = maximise_expected_f1(product_weights=[weights], product_marginals=[marginals])
    component = rng.choice(3, size=40_000, p=weights)
    truth = rng.uniform(size=(40_000, 200)) < marginals[component]
    chosen = best.sets.toarray()[0].astype(bool)
    both = truth.sum(axis=1) + chosen.sum()
    f1 = np.where(both == 0, 1.0, 2.0 * truth[:, chosen].sum(axis=1) / np.maximum(both, 1))
    standard_error = f1.std() / np.sqrt(len(f1))
    assert abs(f1.mean() - best.expected_f1[0]) < 5 * standard_error


@pytest.mark.parametrize("seed", range(10))
def test_a_table_of_sized_marginals_gives_the_same_answer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_labels = 6
    sets = every_set(n_labels)
    joint = rng.dirichlet(np.full(len(sets), 0.05))
    pairs = [(label, size) for label in range(n_labels) for size in range(1, n_labels + 1)]
    size_of = sets.sum(axis=1)
    P = [joint[(sets[:, label] == 1) & (size_of == size)].sum() for label, size in pairs]
    labels, sizes = zip(*pairs, strict=True)
    best = maximise_from_sized_marginals([P], [joint[0]], labels, sizes, n_labels)
    assert_best(joint, n_labels, best.sets.toarray()[0], best.expected_f1[0])


def test_equal_labels_are_taken_in_order() -> None:
    mass = [1.0] * 6
    groups = [list(combinations(range(4), 2))]
    best = maximise_expected_f1(candidates=as_candidates(groups, 4), masses=mass)
    size = best.sets.nnz
    assert best.sets.indices.tolist() == list(range(size))


def test_refuses_what_is_no_distribution() -> None:
    with pytest.raises(ValueError, match="no distribution"):
        maximise_expected_f1()
    with pytest.raises(ValueError, match="document 1 has no mass"):
        maximise_expected_f1(candidates=as_candidates([[(0,)], [(0,)]], 2), masses=[1.0, 0.0])
    with pytest.raises(ValueError, match="go together"):
        maximise_expected_f1(product_weights=[[1.0]])
    with pytest.raises(ValueError, match=r"lie in \[0, 1\]"):
        maximise_expected_f1(product_weights=[[1.0]], product_marginals=[[[1.5]]])
    with pytest.raises(ValueError, match="at least 0"):
        maximise_expected_f1(product_weights=[[-1.0]], product_marginals=[[[0.5]]])
    with pytest.raises(ValueError, match="do not go"):
        maximise_expected_f1(
            candidates=as_candidates([[(0,)]], 2),
            masses=[1.0],
            product_weights=[[1.0]],
            product_marginals=[[[0.5]]],
        )
    with pytest.raises(ValueError, match="as many masses"):
        maximise_expected_f1(candidates=as_candidates([[(0,)]], 2), masses=[1.0, 2.0])
    with pytest.raises(ValueError, match="size of at least 1"):
        maximise_from_sized_marginals([[0.5]], [0.5], [0], [0], 1)
