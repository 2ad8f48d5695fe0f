"""Corrections of a model's own confidences, learnt from what became of its predictions."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from setwise.models.calibration.losses import ForwardLoss, doubtful_target
from setwise.models.calibration.recalibration import (
    COLUMNS,
    LABEL_PENALTY,
    PENALTY,
    AnnouncedSets,
    ConfidenceCorrection,
    ReviewOutcomes,
    cross_fit,
)
from setwise.models.sets.candidates import CandidateSets

N_LABELS = 6


def candidates(n: int, k: int = 4, seed: int = 0) -> tuple[CandidateSets, np.ndarray]:
    """Return random candidates and confidences that sum to less than one in a document."""
    draw = np.random.default_rng(seed)
    confidence = -np.sort(-draw.dirichlet(np.full(k + 1, 0.6), n)[:, :k], axis=1).ravel()
    sizes = draw.integers(0, 4, n * k)
    labels = [np.sort(draw.choice(N_LABELS, size, replace=False)) for size in sizes]
    return (
        CandidateSets(
            np.arange(0, n * k + 1, k, dtype=np.int64),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate(labels).astype(np.int32),
            np.log(np.clip(confidence * draw.uniform(0.3, 1, n * k), 1e-9, 1.0)),
            np.ones(n * k, dtype=np.uint8),
            N_LABELS,
        ),
        confidence,
    )


def stream(
    n: int, seed: int = 0, *, shift: float = -0.5, slope: float = 0.6
) -> tuple[AnnouncedSets, np.ndarray, np.ndarray]:
    """Return sets of an overconfident model, their true confidences and whether they are right."""
    sets = AnnouncedSets.of(*candidates(n, seed=seed))
    true = expit(slope * logit(np.clip(sets.confidence, 1e-6, 1 - 1e-6)) + shift)
    return sets, true, np.random.default_rng(seed + 100).random(n) < true


def error(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.mean((found - true) ** 2))


def test_sets_are_read_from_candidates() -> None:
    candidates = CandidateSets(
        np.array([0, 2, 3]),
        np.array([0, 2, 3, 3]),
        np.array([0, 2, 1], dtype=np.int32),
        np.log([0.5, 0.25, 0.125]),
        np.ones(3, dtype=np.uint8),
        N_LABELS,
    )
    sets = AnnouncedSets.of(candidates, [0.6, 0.3, 0.9])
    assert sets.confidence.tolist() == [0.6, 0.9]
    assert sets.score == pytest.approx([0.5, 0.125])
    assert sets.runner_up.tolist() == [0.3, 0.0]
    assert sets.rest == pytest.approx([0.1, 0.1])
    assert sets.sets.indptr.tolist() == [0, 2, 2]
    assert sets.sets.labels.tolist() == [0, 2]
    assert sets.columns().shape == (2, len(COLUMNS))


def test_overconfidence_is_corrected() -> None:
    sets, _, right = stream(2_000)
    test, true, _ = stream(4_000, seed=7)
    correction = ConfidenceCorrection.fit(sets, ReviewOutcomes.of(right))
    assert error(correction.predict(test), true) < error(test.confidence, true) / 4


def test_a_label_that_began_to_fail_loses_confidence_and_others_do_not() -> None:
    sets, true, _ = stream(4_000, shift=0.0, slope=1.0)
    failing = sets.indicators()[:, [2]].toarray().ravel() == 1
    true = np.where(failing, true * 0.3, true)
    right = np.random.default_rng(1).random(len(sets)) < true
    correction = ConfidenceCorrection.fit(sets, ReviewOutcomes.of(right))
    assert correction.label_weights[2] < -0.8
    assert np.abs(np.delete(correction.label_weights, 2)).max() < 0.4
    confident = failing & (sets.confidence > 0.8)
    assert correction.predict(sets)[confident].mean() < 0.5


@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 0.0), (0.4, 0.1)])
def test_known_noise_is_seen_through(alpha: float, beta: float) -> None:
    sets, true, right = stream(6_000)
    draw = np.random.default_rng(3).random(len(sets))
    agreed = np.where(right, draw >= alpha, draw < beta)
    naive = ConfidenceCorrection.fit(sets, ReviewOutcomes.of(agreed)).predict(sets)
    aware = ConfidenceCorrection.fit(
        sets, ReviewOutcomes.of(agreed, alpha=alpha, beta=beta)
    ).predict(sets)
    assert error(aware, true) < error(naive, true) / 5


def test_few_answers_change_little() -> None:
    sets, _, right = stream(4, shift=0.0, slope=1.0)
    correction = ConfidenceCorrection.fit(sets, ReviewOutcomes.of(right))
    assert np.abs(correction.weights * sets.columns().std(axis=0)).max() < 0.5
    assert np.abs(correction.label_weights).max() < 0.1


def test_the_fit_minimises_what_it_says() -> None:
    sets, _, right = stream(300)
    weight = np.random.default_rng(5).uniform(1, 10, 300)
    answers = ReviewOutcomes.of(right, weight=weight, alpha=0.1, beta=0.05)
    correction = ConfidenceCorrection.fit(sets, answers)
    columns = sets.columns()
    worth = weight * weight.sum() / (weight @ weight)
    mean = np.average(columns, axis=0, weights=worth)
    spread = np.sqrt(np.average((columns - mean) ** 2, axis=0, weights=worth))

    def objective(one: ConfidenceCorrection) -> float:
        margin = columns[:, 0] + one.intercept + columns @ one.weights
        margin = margin + sets.indicators() @ one.label_weights
        target = doubtful_target(answers.agreed, worth * 0.85**2)
        loss = ForwardLoss(answers.alpha, answers.beta).value(margin, target)
        shrink = PENALTY * np.sum((one.weights * spread) ** 2)
        return float(worth @ loss + 0.5 * (shrink + LABEL_PENALTY * np.sum(one.label_weights**2)))

    best = objective(correction)
    draw = np.random.default_rng(9)
    for _ in range(30):
        other = ConfidenceCorrection(
            correction.intercept + draw.normal() * 1e-2,
            correction.weights + draw.normal(size=len(COLUMNS)) * 1e-2,
            correction.label_weights + draw.normal(size=N_LABELS) * 1e-2,
        )
        assert objective(other) > best


@pytest.mark.parametrize("n", [1, 20, 300])
def test_agreement_without_exception_is_no_certainty(n: int) -> None:
    sets, _, _ = stream(n)
    sure = dataclasses.replace(sets, confidence=np.ones(n))
    for agreed in (0.0, 1.0):
        correction = ConfidenceCorrection.fit(sure, ReviewOutcomes.of(np.full(n, agreed)))
        found = correction.predict(sure)
        assert (np.abs(found - agreed) >= 0.5 / (n + 1) - 1e-12).all()


def test_weights_scaled_alike_and_rows_in_another_order_change_nothing() -> None:
    sets, _, right = stream(400)
    one = ConfidenceCorrection.fit(sets, ReviewOutcomes.of(right))
    correction = ConfidenceCorrection.fit(sets, ReviewOutcomes.of(right, weight=np.full(400, 7.0)))
    assert correction.weights == pytest.approx(one.weights, abs=1e-6)
    order = np.random.default_rng(2).permutation(400)
    mixed_correction = ConfidenceCorrection.fit(
        sets.take(order), ReviewOutcomes.of(right).take(order)
    )
    assert mixed_correction.predict(sets) == pytest.approx(one.predict(sets), abs=1e-4)


def test_equal_rows_give_equal_fits() -> None:
    sets, _, right = stream(500)
    first, second = (ConfidenceCorrection.fit(sets, ReviewOutcomes.of(right)) for _ in range(2))
    assert first.intercept == second.intercept
    assert (first.weights == second.weights).all()
    assert (first.label_weights == second.label_weights).all()


@settings(max_examples=20)
@given(st.integers(0, 1_000))
def test_compiled_code_corrects_the_announced_sets_as_the_fit_does(seed: int) -> None:
    known, own = candidates(20, seed=seed)
    draw = np.random.default_rng(seed)
    one = ConfidenceCorrection(draw.normal(), draw.normal(size=5) * 0.3, draw.normal(size=N_LABELS))
    corrected = one.correct(known, own)
    first = known.doc_indptr[:-1]
    assert corrected[first] == pytest.approx(one.predict(AnnouncedSets.of(known, own)), abs=1e-9)
    assert ((corrected >= 0) & (corrected <= 1)).all()
    total = np.add.reduceat(corrected, first)
    assert (total <= 1 + 1e-9).all()


@settings(max_examples=20)
@given(st.integers(0, 1_000))
def test_the_identity_changes_no_confidence(seed: int) -> None:
    known, own = candidates(20, seed=seed)
    incoherent = np.minimum(own * 1.7, 1.0 - 1e-6)
    for confidence in (own, incoherent):
        same = ConfidenceCorrection.identity(N_LABELS).correct(known, confidence)
        assert same == pytest.approx(confidence, abs=1e-6)


def test_other_candidates_keep_their_proportions() -> None:
    known, own = candidates(30, seed=3)
    corrected = ConfidenceCorrection(-1.0, np.zeros(5), np.zeros(N_LABELS)).correct(known, own)
    for first, last in zip(known.doc_indptr[:-1], known.doc_indptr[1:], strict=True):
        before, after = own[first + 1 : last], corrected[first + 1 : last]
        assert after / after.sum() == pytest.approx(before / before.sum())
        assert after.sum() > before.sum()


def test_cross_fitting_asks_of_no_row_what_it_has_seen() -> None:
    sets, _, right = stream(200)
    folds = np.arange(200) % 4
    answers = ReviewOutcomes.of(right)
    told: list[tuple[int, int]] = []
    found = cross_fit(sets, answers, folds, progress=lambda *at: told.append(at))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    outside = np.flatnonzero(folds != 2)
    alone = ConfidenceCorrection.fit(sets.take(outside), answers.take(outside))
    inside = np.flatnonzero(folds == 2)
    assert (found[inside] == alone.predict(sets.take(inside))).all()


def test_rows_that_are_always_there_are_learnt_from_in_every_fold() -> None:
    sets, _, right = stream(100)
    known, true, _ = stream(3_000, seed=4)
    always = known, ReviewOutcomes.of(np.random.default_rng(0).random(3_000) < true)
    folds = np.arange(100) % 5
    with_them = cross_fit(sets, ReviewOutcomes.of(right), folds, always=always)
    without = cross_fit(sets, ReviewOutcomes.of(right), folds)
    own_true = expit(0.6 * logit(np.clip(sets.confidence, 1e-6, 1 - 1e-6)) - 0.5)
    assert error(with_them, own_true) < error(without, own_true)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"agreed": [0.5]}, "0 or 1"),
        ({"agreed": [1], "weight": [0.0]}, "positive, finite weight"),
        ({"agreed": [1], "weight": [1.0, 2.0]}, "one length"),
        ({"agreed": [1], "alpha": 0.6, "beta": 0.4}, "alpha \\+ beta reaches 1"),
    ],
)
def test_answers_that_cannot_be_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReviewOutcomes.of(**fields)


def test_misfits_are_refused() -> None:
    sets, _, right = stream(10)
    with pytest.raises(ValueError, match="give as many of both"):
        ConfidenceCorrection.fit(sets, ReviewOutcomes.of(right[:5]))
    with pytest.raises(ValueError, match="at least two folds"):
        cross_fit(sets, ReviewOutcomes.of(right), np.zeros(10, dtype=int))
    other = AnnouncedSets(
        sets.confidence, sets.score, sets.runner_up, sets.rest, sets.sets, N_LABELS + 1
    )
    with pytest.raises(ValueError, match="different labels"):
        sets.beside(other)
    arrays, settings = ConfidenceCorrection.identity(3).get_state()
    with pytest.raises(ValueError, match="'columns'"):
        ConfidenceCorrection.from_state(arrays, {**settings, "columns": ["age"]})
    with pytest.raises(ValueError, match="'intercept' is nan"):
        ConfidenceCorrection.from_state(arrays, {**settings, "intercept": float("nan")})
