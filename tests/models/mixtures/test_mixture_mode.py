"""The exact mode of a mixture against enumeration, ties and limits included."""

import numpy as np
import pytest
from scipy.special import logsumexp

from setwise.models.mixtures.mixture_measure import (
    Biases,
    SharedLogits,
    dense,
    exp_of_minus_size,
)
from setwise.models.mixtures.mixture_mode import most_probable_sets, set_log_probabilities
from tests.models.enumeration import every_set


def log_joint(log_weights: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Log-probability of all 2^L sets of one mixture, by the definition."""
    sets = every_set(logits.shape[1])
    on, off = -np.logaddexp(0.0, -logits), -np.logaddexp(0.0, logits)
    inside = sets @ on.T + (1 - sets) @ off.T
    return logsumexp(inside + log_weights, axis=1)


def draw(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> tuple[np.ndarray, ...]:
    n_components = shape[0]
    weights = rng.dirichlet(np.full(n_components, rng.choice([0.1, 1.0, 10.0])))
    weights = np.maximum(weights, 1e-300)
    if kind == "even":
        logits = np.zeros(shape)
    elif kind == "ties":
        logits = rng.choice([-2.0, -1.0, 0.0, 1.0, 2.0], size=shape)
    elif kind == "certain":
        logits = rng.choice([-30.0, 30.0, 1.0], size=shape)
    elif kind == "flat":
        logits = rng.normal(scale=0.1, size=shape)
    else:
        logits = rng.normal(loc=-1.0, scale=2.0, size=shape)
    return np.log(weights), logits


def assert_best_of_enumeration(
    log_weights: np.ndarray, logits: np.ndarray | SharedLogits, k: int, allow_empty: bool
) -> None:
    """One document: the `k` most probable sets, in order, without duplicates, proven."""
    found_sets = most_probable_sets(log_weights, logits, k, allow_empty=allow_empty, limit=40_000)
    truth = log_joint(log_weights[0], dense(logits)[0])
    if not allow_empty:
        truth[0] = -np.inf
    expected = np.sort(truth[np.isfinite(truth)])[::-1][:k]
    assert found_sets.proven[0]
    assert found_sets.log_bound[0] <= found_sets.candidates.log_score[-1] + 1e-9
    np.testing.assert_allclose(found_sets.candidates.log_score, expected, atol=1e-9)
    sets = found_sets.candidates.to_matrix().toarray().astype(np.int64)
    assert len(np.unique(sets, axis=0)) == len(sets)
    np.testing.assert_allclose(truth[sets @ (1 << np.arange(sets.shape[1]))], expected, atol=1e-9)


@pytest.mark.parametrize("kind", ["usual", "even", "ties", "certain", "flat"])
@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize(
    ("k", "n_labels", "repeats"),
    [(1, 8, 100), (2, 6, 30), (5, 6, 30), (256, 8, 3)],
)
def test_best_sets_equal_enumeration(
    kind: str, allow_empty: bool, k: int, n_labels: int, repeats: int
) -> None:
    rng = np.random.default_rng(len(kind) + allow_empty + k)
    for _ in range(repeats):
        shape = (int(rng.integers(1, 6)), int(rng.integers(1, n_labels + 1)))
        log_weights, logits = draw(rng, kind, shape)
        assert_best_of_enumeration(log_weights[None], logits[None], k, allow_empty)


@pytest.mark.parametrize("repeats", [10, pytest.param(400, marks=pytest.mark.verify)])
@pytest.mark.parametrize("kind", ["usual", "even", "ties", "certain", "flat"])
def test_mode_equals_enumeration_for_twelve_labels(kind: str, repeats: int) -> None:
    rng = np.random.default_rng(len(kind))
    for _ in range(repeats):
        shape = (int(rng.integers(1, 9)), int(rng.integers(9, 13)))
        log_weights, logits = draw(rng, kind, shape)
        assert_best_of_enumeration(log_weights[None], logits[None], 1, True)


@pytest.mark.parametrize("kind", ["ties", "flat", "usual"])
def test_deep_searches_among_many_labels_equal_enumeration(kind: str) -> None:
    """Components order their cheapest flips first, all of them only when asked for more."""
    rng = np.random.default_rng(len(kind))
    for n_components in (1, 3):
        log_weights, logits = draw(rng, kind, (n_components, 14))
        assert_best_of_enumeration(log_weights[None], logits[None], 300, True)


def test_the_compiled_exponential_is_that_of_the_library() -> None:
    z = np.concatenate([np.linspace(-745.0, 745.0, 10_001), [0.0, -0.0, 1e-300, 36.7, 1e308]])
    found = np.empty_like(z)
    exp_of_minus_size(z, found)
    exact = np.exp(-np.abs(z))
    normal = exact > 1e-300
    np.testing.assert_allclose(found[normal], exact[normal], rtol=4e-16)
    assert (found[~normal] < 1e-300).all()
    assert (found >= 0.0).all()


def test_a_limit_is_admitted_and_its_bound_holds() -> None:
    rng = np.random.default_rng(1)
    struck = 0
    for _ in range(200):
        log_weights, logits = draw(rng, "flat", (5, 8))
        sets = most_probable_sets([log_weights], [logits], 3, allow_empty=True, limit=4)
        assert sets.depth[0] <= 4
        truth = np.sort(log_joint(log_weights, logits))[::-1]
        missed = truth[len(sets.candidates)] if len(sets.candidates) < 256 else -np.inf
        last = sets.candidates.log_score[-1]
        if sets.proven[0]:
            np.testing.assert_allclose(sets.candidates.log_score, truth[:3], atol=1e-9)
        else:
            struck += 1
            assert missed <= max(sets.log_bound[0], last) + 1e-9
    assert struck > 0


def test_absent_components_do_not_matter() -> None:
    rng = np.random.default_rng(6)
    log_weights, logits = draw(rng, "usual", (4, 6))
    absent = np.concatenate([log_weights, [-np.inf]])
    more = np.concatenate([logits, np.full((1, 6), 9.0)])
    alone = most_probable_sets([log_weights], [logits], 4, allow_empty=True)
    beside = most_probable_sets([absent], [more], 4, allow_empty=True)
    np.testing.assert_array_equal(alone.candidates.labels, beside.candidates.labels)
    np.testing.assert_allclose(alone.candidates.log_score, beside.candidates.log_score)


def test_a_batch_equals_its_documents_one_by_one() -> None:
    rng = np.random.default_rng(7)
    log_weights = np.log(rng.dirichlet(np.ones(4), size=20))
    logits = rng.normal(loc=-2.0, scale=2.0, size=(20, 4, 30))
    batch = most_probable_sets(log_weights, logits, 5, allow_empty=False)
    for i in range(20):
        alone = most_probable_sets(log_weights[[i]], logits[[i]], 5, allow_empty=False)
        sets = slice(5 * i, 5 * i + 5)
        np.testing.assert_array_equal(
            alone.candidates.to_matrix().toarray(), batch.candidates.to_matrix().toarray()[sets]
        )
        np.testing.assert_array_equal(alone.candidates.log_score, batch.candidates.log_score[sets])


def draw_shared(rng: np.random.Generator, n_labels: int) -> tuple[np.ndarray, SharedLogits]:
    """Draw a document's mixture whose components share the classifiers of one to three groups."""
    sizes = rng.integers(1, 4, size=int(rng.integers(1, 4)))
    scale, loc = rng.choice([0.1, 2.0, 8.0]), rng.choice([-3.0, 0.0])
    shared = np.clip(rng.normal(loc, scale, size=(1, len(sizes), n_labels)), -30.0, 30.0)
    groups = [rng.choice([0.3, 3.0, 15.0]) * rng.normal(size=(g, n_labels)) for g in sizes]
    log_weights = np.log(rng.dirichlet(np.ones(int(sizes.sum())))[None])
    return log_weights, SharedLogits(shared, Biases.of([np.clip(b, -30, 30) for b in groups]))


@pytest.mark.parametrize("allow_empty", [True, False])
def test_mode_of_shared_classifiers_equals_enumeration(allow_empty: bool) -> None:
    rng = np.random.default_rng(20 + allow_empty)
    for _ in range(150):
        n_labels = int(rng.integers(1, 9))
        log_weights, logits = draw_shared(rng, n_labels)
        k = int(rng.integers(1, 2**n_labels))
        assert_best_of_enumeration(log_weights, logits, k, allow_empty)


def test_shared_classifiers_give_what_their_log_odds_put_together_give() -> None:
    """With so many labels that products of odds must be taken to their logarithm on the way."""
    rng = np.random.default_rng(3)
    n, n_labels = 6, 300
    shared = np.clip(rng.normal(-2.0, 20.0, size=(n, 2, n_labels)), -30.0, 30.0)
    groups = [np.clip(rng.normal(0.0, 20.0, size=(size, n_labels)), -30.0, 30.0) for size in (3, 5)]
    logits = SharedLogits(shared, Biases.of(groups))
    assert logits.shape == (n, 8, n_labels)
    np.testing.assert_array_equal(dense(logits)[2, 4], shared[2, 1] + groups[1][1])
    log_weights = np.log(rng.dirichlet(np.ones(8), size=n))
    parts = most_probable_sets(log_weights, logits, 5, allow_empty=True)
    whole = most_probable_sets(log_weights, dense(logits), 5, allow_empty=True)
    np.testing.assert_allclose(parts.candidates.log_score, whole.candidates.log_score, atol=1e-9)
    np.testing.assert_array_equal(parts.candidates.labels, whole.candidates.labels)
    np.testing.assert_allclose(
        set_log_probabilities(log_weights, logits, whole.candidates),
        whole.candidates.log_score,
        atol=1e-9,
    )


def test_components_that_expect_nothing_begin_with_their_likeliest_label() -> None:
    """Where some label must be there, listing the empty set again and again would prove nothing."""
    log_weights = np.log(np.full((1, 20), 0.05))
    logits = np.full((1, 20, 5), -4.0)
    logits[:, :, 3] = -1.0
    sets = most_probable_sets(log_weights, logits, allow_empty=False)
    assert sets.candidates.labels.tolist() == [3]
    assert sets.proven[0]
    assert sets.depth[0] == 1


def test_bad_mixtures_are_refused() -> None:
    with pytest.raises(ValueError, match="need shapes"):
        most_probable_sets([[0.0]], [[[1.0]], [[1.0]]], allow_empty=True)
    with pytest.raises(ValueError, match="finite"):
        most_probable_sets([[0.0]], [[[np.inf]]], allow_empty=True)
    with pytest.raises(ValueError, match="positive weight"):
        most_probable_sets([[-np.inf]], [[[1.0]]], allow_empty=True)
    with pytest.raises(ValueError, match="at least 1"):
        most_probable_sets([[0.0]], [[[1.0]]], 0, allow_empty=True)
