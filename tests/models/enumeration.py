"""Every label set of a few labels, and what inference must give on all of them."""

import numpy as np
from scipy.special import logsumexp

from setwise.models.mixtures.mixture_inference import MixtureInference


def every_set(n_labels: int) -> np.ndarray:
    """All 2^L sets as rows of zeros and ones."""
    return (np.arange(2**n_labels)[:, None] >> np.arange(n_labels)) & 1


def all_joints(model: MixtureInference, X: np.ndarray, n_labels: int) -> np.ndarray:
    """Log-probability of every set by the model, (n, 2^L)."""
    columns = [model.log_probability(X, np.tile(s, (X.shape[0], 1))) for s in every_set(n_labels)]
    return np.stack(columns, axis=1)


def assert_inference_equals_enumeration(
    model: MixtureInference, X: np.ndarray, n_labels: int, atol: float = 1e-12
) -> None:
    """Probabilities sum to one; marginals, best sets and the support are those of the joint."""
    sets, joint = every_set(n_labels), all_joints(model, X, n_labels)
    np.testing.assert_allclose(logsumexp(joint, axis=1), 0.0, atol=atol)
    np.testing.assert_allclose(np.exp(joint) @ sets, model.predict_proba(X), atol=atol)
    codes = model.support_.toarray().astype(int) @ (1 << np.arange(n_labels))
    np.testing.assert_allclose(model.support_log_probability(X), joint[:, codes], atol=atol)
    if not model.allow_empty_:
        joint[:, 0] = -np.inf
    np.testing.assert_array_equal(model.predict(X), sets[joint.argmax(axis=1)])
    found = model.most_probable_sets(X, 4)
    assert found.proven.all()
    best = np.sort(joint, axis=1)[:, ::-1][:, :4]
    np.testing.assert_allclose(found.candidates.log_score.reshape(-1, 4), best, atol=1e-9)
