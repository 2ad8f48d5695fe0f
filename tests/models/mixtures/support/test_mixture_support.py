"""Support inference against the definition."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import logsumexp

from setwise.models.mixtures.support.mixture_support import distinct_sets, support_log_probabilities


def test_distinct_sets_are_listed_once_by_size_then_labels() -> None:
    Y = csr_array(np.array([[1, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 0, 0]], dtype=np.uint8))
    expected = [[0, 0, 0], [1, 0, 0], [0, 0, 1], [1, 1, 0]]
    assert distinct_sets(Y).toarray().tolist() == expected


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_scores_equal_the_definition(scale: float) -> None:
    rng = np.random.default_rng(0)
    log_weights = np.log(rng.dirichlet(np.ones(4), size=6))
    logits = np.clip(rng.normal(scale=scale, size=(6, 4, 7)), -30, 30)
    support = distinct_sets(csr_array((rng.uniform(size=(40, 7)) < 0.3).astype(np.uint8)))
    y = support.toarray().astype(float)
    inside = (logits[:, :, None, :] * y - np.logaddexp(0, logits)[:, :, None, :]).sum(axis=3)
    expected = logsumexp(inside + log_weights[:, :, None], axis=1)
    found = support_log_probabilities(log_weights, logits, support)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_shapes_that_disagree_are_refused() -> None:
    with pytest.raises(ValueError, match="disagree"):
        support_log_probabilities([[0.0]], [[[0.0, 0.0]]], csr_array((1, 3), dtype=np.uint8))
