"""The curve from a calibrator's confidence to the confidence in an announced set."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from setwise.models.calibration.announced_curve import AnnouncedCurve, cross_corrected
from setwise.models.calibration.noisy_history import RowRates
from setwise.models.sets.candidates import CandidateSets


def sets_of(sizes: list[int]) -> CandidateSets:
    n = sum(sizes)
    return CandidateSets(
        doc_indptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        set_indptr=np.arange(n + 1),
        labels=np.zeros(n, dtype=np.int32),
        log_score=np.zeros(n),
        source=np.zeros(n, dtype=np.uint8),
        n_labels=1,
    )


def alone(curve: AnnouncedCurve, confidence: np.ndarray) -> np.ndarray:
    return curve.correct(sets_of([1] * len(confidence)), confidence)


def drawn(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return overconfident confidences, the true ones, and outcomes."""
    rng = np.random.default_rng(seed)
    true = rng.beta(4, 1, n)
    return expit(1.8 * logit(true) + 0.3), true, (rng.random(n) < true).astype(float)


def test_overconfidence_is_corrected_and_documents_keep_their_order() -> None:
    says, true, right = drawn(0, 4000)
    found = alone(AnnouncedCurve.fit(says, right), says)
    assert np.abs(found - true).mean() < 0.3 * np.abs(says - true).mean()
    assert (np.diff(found[np.argsort(says)]) >= 0).all()


def test_a_calibrator_that_stops_short_of_one_is_stretched() -> None:
    rng = np.random.default_rng(1)
    says = np.where(rng.random(5000) < 0.7, 0.97, 0.6) + rng.normal(0, 0.005, 5000)
    right = rng.random(5000) < np.where(says > 0.8, 0.995, 0.6)
    found = alone(AnnouncedCurve.fit(says, right), np.array([0.97, 0.6]))
    np.testing.assert_allclose(found, [0.995, 0.6], atol=0.04)


@pytest.mark.parametrize("n", [1, 10, 200])
@pytest.mark.parametrize("outcome", [0, 1])
def test_no_number_of_documents_proves_certainty(n: int, outcome: int) -> None:
    for says in (float(outcome), 0.5):
        curve = AnnouncedCurve.fit(np.full(n, says), np.full(n, outcome))
        found = alone(curve, np.array([0.0, says, 1.0]))
        assert (np.abs(found - outcome) >= 0.5 / (n + 1) - 1e-12).all()


def test_few_documents_change_little() -> None:
    says = np.array([0.3, 0.6, 0.9])
    for right in ([1, 1, 1], [0, 0, 0]):
        np.testing.assert_allclose(alone(AnnouncedCurve.fit(says, right), says), says, atol=0.25)


def test_noise_of_the_labels_is_seen_through() -> None:
    says, true, right = drawn(3, 6000)
    agreed = np.where(np.random.default_rng(4).random(6000) < 0.3, 0.0, right)
    rates = RowRates(np.full(6000, 0.3), np.zeros(6000))
    naive, aware = (
        alone(AnnouncedCurve.fit(says, agreed, rates=given), says) for given in (None, rates)
    )
    assert np.abs(aware - true).mean() < 0.03 < np.abs(naive - true).mean()


@settings(deadline=None)  # the first example compiles
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=5), min_size=1, max_size=6),
    st.floats(-8, 8),
    st.floats(0, 4),
    st.floats(0, 4),
)
def test_corrected_confidences_stay_one_distribution(documents, intercept, right, wrong) -> None:
    shares = [np.array(row) / max(sum(row), 1.0) for row in documents]
    sets = sets_of([len(row) for row in shares])
    before = np.concatenate(shares)
    after = AnnouncedCurve(intercept, right, wrong, 0.01).correct(sets, before)
    assert ((after >= 0) & (after <= 0.99 + 1e-9)).all()
    assert (np.add.reduceat(after, sets.doc_indptr[:-1]) <= 1 + 1e-9).all()
    for start, end in zip(sets.doc_indptr[:-1], sets.doc_indptr[1:], strict=True):
        below = before[start + 1 : end] <= before[start]
        assert (after[start + 1 : end][below] <= after[start]).all()


def test_a_fold_is_corrected_by_the_others() -> None:
    says, _, right = drawn(5, 300)
    folds = np.arange(300) % 3
    found = cross_corrected(sets_of([1] * 300), says, right.astype(np.uint8), folds)
    other = right.copy()
    other[folds == 1] = 1 - other[folds == 1]
    again = cross_corrected(sets_of([1] * 300), says, other.astype(np.uint8), folds)
    np.testing.assert_array_equal(found[folds == 1], again[folds == 1])
    assert (found[folds == 0] != again[folds == 0]).any()
