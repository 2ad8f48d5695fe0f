"""Set calibrators: one protocol, honest confidences, weights, monotonicity, state."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression
from sklearn.tree import DecisionTreeRegressor

from setwise.models.calibration.calibrators import (
    BoostedSets,
    CardinalityIsotonicSets,
    IsotonicSets,
    TreeSets,
    UncalibratedSets,
)
from setwise.models.calibration.conditional_logit import ConditionalLogitSets
from setwise.models.calibration.group_softmax import SoftmaxSets
from tests.models.calibration.tables import make_table

ALL = [
    UncalibratedSets(),
    IsotonicSets(),
    CardinalityIsotonicSets(),
    TreeSets(),
    BoostedSets("squared"),
    BoostedSets("logistic"),
    SoftmaxSets(),
    ConditionalLogitSets(),
]
LEARNING = ALL[1:]
every = pytest.mark.parametrize("calibrator", ALL, ids=str)
learning = pytest.mark.parametrize("calibrator", LEARNING, ids=str)


def fitted(calibrator, table, correct, **weights):
    return clone(calibrator).fit(table, correct, **weights)


@every
def test_confidences_are_finite_and_in_the_unit_interval(calibrator):
    table, correct, _ = make_table(0)
    confidence = fitted(calibrator, table, correct).predict(make_table(1)[0])
    assert np.isfinite(confidence).all()
    assert ((confidence >= 0) & (confidence <= 1)).all()


@learning
def test_a_constant_outcome_is_learnt_whatever_the_features(calibrator):
    table, _, _ = make_table(0, n=300)
    for outcome in (0, 1):
        confidence = fitted(calibrator, table, np.full(len(table), outcome)).predict(table)
        np.testing.assert_allclose(confidence, outcome, atol=0.5 / 21)
        assert ((confidence > 0) & (confidence < 1)).all(), "three hundred rows prove no certainty"


@learning
def test_a_single_row_is_enough_for_a_finite_confidence(calibrator):
    table, correct, _ = make_table(0, n=1)
    assert np.isfinite(fitted(calibrator, table, correct).predict(table)).all()


@pytest.mark.parametrize("seed", range(3))
def test_boosting_beats_curves_where_labels_exclude_each_other(seed):
    table, correct, _ = make_table(seed)
    new, outcome, _ = make_table(seed + 100)
    brier = {
        str(calibrator): np.mean((fitted(calibrator, table, correct).predict(new) - outcome) ** 2)
        for calibrator in ALL
    }
    boosted = [brier[str(calibrator)] for calibrator in ALL[-3:]]
    curves = [brier[str(calibrator)] for calibrator in ALL[:3]]
    assert max(boosted) < min(curves)


@pytest.mark.parametrize("objective", ["squared", "logistic"])
def test_boosted_confidence_is_near_the_true_chance(objective):
    table, correct, _ = make_table(0, n=6000)
    new, _, chance = make_table(1, n=3000)
    confidence = BoostedSets(objective).fit(table, correct).predict(new)
    assert np.sqrt(np.mean((confidence - chance) ** 2)) < 0.1


@pytest.mark.parametrize("objective", ["squared", "logistic"])
@pytest.mark.parametrize("columns", [(0, 1), (3,)], ids=["score", "prior"])
def test_monotone_columns_never_lower_the_confidence(objective, columns):
    table, _, _ = make_table(0, n=800)
    # Outcomes that fall with the column, so that only the constraint keeps the trees from falling.
    values = table.dense[:, columns[0]]
    correct = (values < np.median(values)).astype(float)

    def steps(monotone):
        model = BoostedSets(objective, monotone=monotone).fit(table, correct)
        raised = table.dense.copy()
        raised[:, columns] += 1.0
        return model.predict(with_dense(table, raised)) - model.predict(table)

    assert steps(monotone=True).min() >= -1e-6
    assert steps(monotone=False).min() < -0.1


def with_dense(table, dense):
    return dataclasses.replace(table, dense=dense)


def doubtful_levels(score, correct):
    """Return scikit-learn's curve with half a right and half a wrong row more in each block."""
    levels = IsotonicRegression().fit_transform(score, correct)
    block, rows = np.unique(levels.round(12), return_inverse=True, return_counts=True)[1:]
    doubtful = (rows * np.unique(levels.round(12)) + 0.5) / (rows + 1)
    return IsotonicRegression().fit_transform(score, doubtful[block])


def test_isotonic_sets_equal_scikit_learn_on_the_score():
    table, correct, _ = make_table(0)
    found = IsotonicSets().fit(table, correct).predict(table)
    expected = doubtful_levels(table.column("score"), correct)
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("n", [1, 7, 60])
def test_no_level_says_more_than_its_rows(n):
    table, _, _ = make_table(0, n=n)
    for calibrator in (IsotonicSets(), CardinalityIsotonicSets(), BoostedSets(), TreeSets()):
        for outcome in (0, 1):
            found = calibrator.fit(table, np.full(len(table), outcome)).predict(table)
            assert (np.abs(found - outcome) >= 0.5 / (len(table) + 1) - 1e-12).all(), calibrator


def test_a_target_of_noisy_labels_beyond_one_gives_no_certainty():
    table, correct, _ = make_table(0)
    for calibrator in (IsotonicSets(), BoostedSets()):
        found = calibrator.fit(table, 1.4 * correct - 0.1).predict(table)
        assert ((found > 0) & (found < 1)).all(), calibrator


def test_each_frequent_cardinality_has_scikit_learns_curve_of_its_own_rows():
    table, correct, _ = make_table(0)
    found = CardinalityIsotonicSets(min_rows=50).fit(table, correct).predict(table)
    score, sizes = table.column("score"), table.sizes
    for size in np.unique(sizes):
        rows = sizes == size
        if rows.sum() >= 50:
            expected = doubtful_levels(score[rows], correct[rows])
            np.testing.assert_allclose(found[rows], expected, atol=1e-10)


def test_a_cardinality_never_seen_gets_the_curve_of_the_rare_ones():
    table, correct, _ = make_table(0)
    small = np.flatnonzero(table.sizes <= 2)
    calibrator = CardinalityIsotonicSets().fit(table.take(small), correct[small])
    large = table.take(np.flatnonzero(table.sizes > 2))
    overall = IsotonicSets().fit(table.take(small), correct[small])
    assert (calibrator.predict(large) == overall.predict(large)).all()


def test_a_tree_is_as_good_as_scikit_learns():
    table, correct, _ = make_table(0)
    new, outcome, _ = make_table(1)
    reference = DecisionTreeRegressor(max_leaf_nodes=50, min_samples_leaf=20, random_state=0)
    reference.fit(table.to_csr().toarray(), correct)
    theirs = np.mean((reference.predict(new.to_csr().toarray()) - outcome) ** 2)
    ours = np.mean((TreeSets().fit(table, correct).predict(new) - outcome) ** 2)
    assert ours == pytest.approx(theirs, rel=0.05)


def test_stages_end_in_the_full_prediction_and_begin_at_the_mean():
    table, correct, _ = make_table(0)
    calibrator = BoostedSets("squared").fit(table, correct)
    none, some, every_tree = (calibrator._confidence(table, n) for n in (0, 10, 100))
    np.testing.assert_allclose(none, correct.mean(), rtol=1e-6)
    assert (every_tree == calibrator.predict(table)).all()
    assert not (some == every_tree).all()


@every
@pytest.mark.parametrize(
    ("outcomes", "weights", "fault"),
    [
        ([0, 1], None, "as many outcomes"),
        ([0, np.nan, 1], None, "finite"),
        ([0, 1, 1], [1, -1, 1], "negative"),
        ([0, 1, 1], [0, 0, 0], "positive"),
        ([0, 1, 1], [1, 1], "as many outcomes"),
    ],
)
def test_rows_that_do_not_fit_are_refused(calibrator, outcomes, weights, fault):
    table, _, _ = make_table(0, n=3)
    with pytest.raises(ValueError, match=fault):
        clone(calibrator).fit(table, outcomes, sample_weight=weights)


def test_an_unknown_objective_is_refused():
    table, correct, _ = make_table(0, n=30)
    with pytest.raises(ValueError, match="'squared' or 'logistic', not 'hinge'"):
        BoostedSets("hinge").fit(table, correct)


def test_a_table_with_other_labels_is_refused():
    table, correct, _ = make_table(0, n=100)
    with pytest.raises(ValueError, match="does not suit"):
        BoostedSets().fit(table, correct).predict(make_table(0, n=5, n_labels=9)[0])


def test_many_rows_are_drawn_from_by_seed_and_few_are_all_used():
    table, correct, _ = make_table(0)
    n = len(table)
    whole = BoostedSets(n_trees=5).fit(table, correct)
    assert BoostedSets(n_trees=5, max_rows=n).fit(table, correct).model_ == whole.model_
    drawn = BoostedSets(n_trees=5, max_rows=n // 2).fit(table, correct)
    again = BoostedSets(n_trees=5, max_rows=n // 2).fit(table, correct)
    assert drawn.model_ == again.model_ != whole.model_
    rows = np.arange(0, n, 4)
    weight = np.zeros(n)
    weight[rows] = 1.0  # rows without weight are not drawn
    weighted = BoostedSets(n_trees=5, max_rows=n // 2).fit(table, correct, sample_weight=weight)
    alone = BoostedSets(n_trees=5).fit(table.take(rows), correct[rows])
    np.testing.assert_allclose(weighted.predict(table), alone.predict(table), atol=1e-6)
