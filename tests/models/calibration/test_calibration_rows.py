"""The rows that a model was calibrated on travel with it, and fade beside reviews."""

import numpy as np
import pytest

from setwise.models.calibration import calibration_rows
from setwise.models.calibration.calibration_rows import PRIOR_ROWS, CalibrationRows, fading_weight
from setwise.models.calibration.noisy_history import RowRates
from setwise.models.calibration.recalibration import (
    AnnouncedSets,
    ConfidenceCorrection,
    ReviewOutcomes,
)
from tests.models.calibration.test_recalibration import N_LABELS, candidates


def rows(n: int = 60, rates: RowRates | None = None) -> CalibrationRows:
    known, own = candidates(n, seed=2)
    return CalibrationRows.of(known, own, np.arange(len(own)) % 3 == 0, rates=rates)


NOISY = RowRates(np.full(60, 0.5), np.full(60, 0.1))


def test_the_announced_set_of_each_document_is_kept() -> None:
    known, own = candidates(60, seed=2)
    kept_rows = rows()
    first = known.doc_indptr[:-1]
    assert len(kept_rows) == 60
    assert (kept_rows.sets.confidence == own[first]).all()
    assert (kept_rows.right == (first % 3 == 0)).all()


def test_of_many_documents_a_sample_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_rows, "MOST_ROWS", 25)
    kept_rows, again = rows(), rows()
    assert len(kept_rows) == len(kept_rows.sets) == 25
    assert (kept_rows.sets.confidence == again.sets.confidence).all()


def test_rows_come_back_from_their_state() -> None:
    kept_rows = rows()
    found_rows = CalibrationRows.from_state(*kept_rows.get_state())
    assert (found_rows.sets.columns() == kept_rows.sets.columns()).all()
    assert (found_rows.sets.indicators() != kept_rows.sets.indicators()).nnz == 0
    assert (found_rows.right == kept_rows.right).all()
    assert found_rows.sets.n_labels == N_LABELS


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("confidence", lambda a: a + 1.0, "has values from"),
        ("right", lambda a: a + 2, "has values from"),
        ("right", lambda a: a[:-1], "of shape"),
        ("labels", lambda a: a + np.int32(N_LABELS), "do not exist"),
        ("set_indptr", lambda a: a[::-1].copy(), "does not divide"),
        ("alpha", lambda a: a + 0.45, "say nothing"),
        ("beta", lambda a: a - 0.2, "has values from"),
        ("beta", lambda a: a[1:], "of shape"),
    ],
)
def test_rows_that_do_not_fit_are_refused(name: str, change, message: str) -> None:
    arrays, settings = rows(rates=NOISY).get_state()
    with pytest.raises(ValueError, match=message):
        CalibrationRows.from_state({**arrays, name: change(arrays[name])}, settings)


def test_noisy_rows_keep_their_rates_and_weigh_until_they_tell_as_much_as_true_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calibration_rows, "PRIOR_ROWS", 4.8)
    found_rows = CalibrationRows.from_state(*rows(rates=NOISY).get_state())
    answers = found_rows.beside(0.0)[1]
    assert (answers.alpha == 0.5).all()
    assert (answers.beta == 0.1).all()
    # 60 answers of separation .4 are worth 9.6 true ones; half of that is wanted.
    assert answers.weight == pytest.approx(np.full(60, 0.5))
    assert CalibrationRows.from_state(*rows().get_state()).alpha is None


def test_the_originals_are_worth_so_many_reviews_at_first_and_fade() -> None:
    for n in (50, 5_000):
        assert n * fading_weight(n, 0.0) == pytest.approx(min(n, PRIOR_ROWS))
    worth = [5_000 * fading_weight(5_000, reviews) for reviews in (0, 200, 2_000, 20_000)]
    assert worth == pytest.approx([200, 100, 200 / 11, 200 / 101])


def test_beside_few_reviews_they_hold_the_model_to_its_word() -> None:
    """Where a model is calibrated, few reviews mislead less beside the rows that say so."""
    misses = []
    for seed in range(6):
        known, own = candidates(1_000, seed=seed)
        draw = np.random.default_rng(seed)
        sets = AnnouncedSets.of(known, own)
        right = draw.random(1_000) < sets.confidence
        original = CalibrationRows(sets.take(np.arange(800)), right[:800].astype(np.uint8))
        few = np.arange(800, 1_000)
        answers = ReviewOutcomes.of(right[few])
        alone = ConfidenceCorrection.fit(sets.take(few), answers)
        beside = ConfidenceCorrection.fit(sets.take(few), answers, always=original.beside(200.0))
        misses.append(
            [np.mean((one.predict(sets) - sets.confidence) ** 2) for one in (alone, beside)]
        )
    apart, together = np.mean(misses, axis=0)
    assert together < 0.8 * apart
