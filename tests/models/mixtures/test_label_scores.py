"""Label scores as features: cross-fitted, standardised, stored and checked."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from setwise.models.data.rows import SparseRows
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.mixtures.label_scores import LabelScores


def documents(seed: int, n: int = 120) -> tuple[sp.csr_array, sp.csr_array]:
    """Words of two topics, the first with two labels, the other with one; some noise."""
    rng = np.random.default_rng(seed)
    topic = rng.random(n) < 0.5
    words = rng.random((n, 12)) < np.where(
        topic[:, None], [0.6] * 6 + [0.1] * 6, [0.1] * 6 + [0.6] * 6
    )
    sets = np.where(topic[:, None], [1, 1, 0], [0, 0, 1]) ^ (rng.random((n, 3)) < 0.05)
    return sp.csr_array(words.astype(np.float32)), sp.csr_array(sets.astype(np.uint8))


def test_training_documents_are_scored_without_themselves() -> None:
    """A document whose set is turned round does not hear of it in its own scores."""
    X, Y = documents(0)
    turned = Y.toarray()
    turned[7] = 1 - turned[7]
    usual = LabelScores(1e-2)
    other = LabelScores(1e-2)
    before = usual.fit_transform(X, Y).toarray() * usual.deviation_ + usual.centre_
    changed = other.fit_transform(X, sp.csr_array(turned)).toarray()
    after = changed * other.deviation_ + other.centre_
    np.testing.assert_allclose(before[7], after[7], atol=1e-5)
    assert np.abs(before - after).max() > 1e-3  # others did hear of it


def test_scores_are_log_odds_and_logarithms_of_votes_standardised() -> None:
    X, Y = documents(1)
    scores = LabelScores(1e-2)
    inside = scores.fit_transform(X, Y).toarray()
    np.testing.assert_allclose(inside.mean(axis=0), 0.0, atol=1e-5)
    kept = scores.deviation_ > 0.5
    assert kept.any()
    np.testing.assert_allclose(inside.std(axis=0)[kept], 1.0, atol=1e-4)
    new, _ = documents(2, 40)
    raw = scores.transform(new).toarray() * scores.deviation_ + scores.centre_
    logits = BinaryRelevance(alpha=1e-2).fit(X, Y).decision_function(new)
    np.testing.assert_allclose(raw[:, :3], np.clip(logits, -7.0, 7.0), atol=1e-4)
    votes = scores.neighbours_.vote(SparseRows.of(new)) @ scores.sets_.toarray()
    np.testing.assert_allclose(raw[:, 3:], np.log(votes + 0.02), atol=1e-4)


def test_an_empty_batch_has_no_scores() -> None:
    X, Y = documents(3)
    scores = LabelScores(n_jobs=1)
    scores.fit_transform(X, Y)
    assert scores.transform(X[:0]).shape == (0, 6)


def test_what_cannot_be_cross_fitted_is_refused() -> None:
    X, Y = documents(6)
    with pytest.raises(ValueError, match="n_samples=1"):
        LabelScores(1e-2).fit_transform(X[:1], Y[:1])
    with pytest.raises(NotFittedError, match="fitted before"):
        LabelScores().transform(X)
    with pytest.raises(NotFittedError, match="fitted before"):
        LabelScores().get_state()


def test_rare_labels_are_not_blown_up() -> None:
    """All their scores are alike, and classifiers of all documents a little apart from those."""
    X, Y = documents(7)
    rare = np.column_stack([Y.toarray(), np.zeros(120, dtype=np.uint8)])
    rare[3, 3] = 1
    scores = LabelScores(1e-2)
    scores.fit_transform(X, sp.csr_array(rare))
    assert scores.deviation_[3] == 0.5
    assert np.abs(scores.transform(X).toarray()[:, 3]).max() < 5.0
