"""Compiled trees against XGBoost itself."""

import copy
import dataclasses
import json

import numpy as np
import pytest
import xgboost
from scipy.special import expit

from setwise.models.calibration.calibrators import BoostedSets
from setwise.models.calibration.trees import CompiledTrees
from setwise.models.sets.features import SetFeatureTable
from tests.models.calibration.tables import make_table


def xgboost_margin(model, table):
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(json.dumps(model), "utf-8"))
    return booster.predict(xgboost.DMatrix(table.to_csr(), nthread=1), output_margin=True)


@pytest.mark.parametrize("objective", ["squared", "logistic"])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_equal_xgboost_to_a_millionth(objective, monotone, seed):
    table, correct, _ = make_table(seed)
    calibrator = BoostedSets(objective, monotone=monotone, min_child_weight=1).fit(table, correct)
    assert any(feature >= 4 for feature in calibrator.trees_.nodes.feature), (
        "no split on a label: the test would prove nothing about implicit columns"
    )
    new = make_table(seed + 50)[0]
    theirs = xgboost_margin(calibrator.model_, new)
    ours = calibrator.trees_.margin(new)
    # XGBoost rounds its running sum to 24 bits at each of the hundred trees.
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    confidence = theirs if objective == "squared" else expit(theirs)
    confidence = np.clip(confidence, calibrator.least_, calibrator.most_)
    np.testing.assert_allclose(calibrator.predict(new), confidence, atol=1e-6)


def test_explicit_zeros_and_large_values_go_the_way_xgboost_sends_them():
    table, correct, _ = make_table(0)
    calibrator = BoostedSets(min_child_weight=1).fit(table, correct)
    for value in (0.0, -0.0, 1.0, -3.4e38, 3.4e38):
        edge = dataclasses.replace(table, dense=np.full_like(table.dense, value))
        np.testing.assert_allclose(
            calibrator.trees_.margin(edge), xgboost_margin(calibrator.model_, edge), atol=1e-6
        )


def test_values_exactly_on_a_split_go_above_it():
    table, correct, _ = make_table(0)
    calibrator = BoostedSets(min_child_weight=1).fit(table, correct)
    nodes = calibrator.trees_.nodes
    splits = nodes.split[nodes.feature == 0][: len(table)]
    assert len(splits) > 20
    dense = table.dense[: len(splits)].copy()
    dense[:, 0] = splits
    edge = dataclasses.replace(table.take(np.arange(len(splits))), dense=dense)
    np.testing.assert_allclose(
        calibrator.trees_.margin(edge), xgboost_margin(calibrator.model_, edge), atol=1e-6
    )


def test_one_row_equals_its_place_in_a_batch():
    table, correct, _ = make_table(0)
    trees = BoostedSets().fit(table, correct).trees_
    batch = trees.margin(table)
    for row in range(20):
        assert trees.margin(table.take(np.array([row])))[0] == batch[row]


def test_a_label_split_that_sends_both_ways_to_one_side_is_followed():
    tree = {
        "left_children": [1, -1, 3, -1, -1],
        "right_children": [2, -1, 4, -1, -1],
        "split_indices": [1, 0, 0, 0, 0],
        "split_conditions": [0.5, 9.0, 2.0, 10.0, 20.0],
        "default_left": [0, 0, 0, 0, 0],  # absent goes right, and so does 1
    }
    trees = CompiledTrees.from_xgboost(document([tree]), 1, 1)
    one_column = SetFeatureTable(
        ("a",),
        (0,),
        np.array([[1.0]], np.float32),
        np.array([0, 0]),
        np.empty(0, np.int32),
        np.array([0, 1]),
        1,
    )
    assert trees.margin(one_column).tolist() == [10.0]


def document(trees, objective="reg:squarederror", base="0E0"):
    return {
        "learner": {
            "objective": {"name": objective},
            "learner_model_param": {"base_score": base},
            "gradient_booster": {"model": {"trees": trees}},
        }
    }


def test_no_trees_give_the_base_score():
    table, _, _ = make_table(0, n=3)
    squared = CompiledTrees.from_xgboost(document([], base="[2.5E-1]"), 4, 12)
    assert squared.margin(table).tolist() == [0.25] * 3
    logistic = CompiledTrees.from_xgboost(document([], "binary:logistic", "2.5E-1"), 4, 12)
    np.testing.assert_allclose(logistic.margin(table), np.log(1 / 3))
    assert squared.n_trees == 0


def model():
    table, correct, _ = make_table(0, n=300)
    return BoostedSets(n_trees=2).fit(table, correct).model_


def broken(change):
    found = copy.deepcopy(model())
    change(found["learner"]["gradient_booster"]["model"]["trees"][0])
    return found


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ({}, "not an XGBoost tree model"),
        ({"learner": []}, "not an XGBoost tree model"),
        (document([], "rank:ndcg"), "rank:ndcg"),
        (broken(lambda tree: tree["split_indices"].__setitem__(0, 999)), "out of range"),
        (broken(lambda tree: tree["split_indices"].__setitem__(0, -1)), "out of range"),
        (broken(lambda tree: tree["left_children"].__setitem__(0, 999)), "not an XGBoost"),
        (broken(lambda tree: tree["left_children"].__setitem__(1, 0)), "out of range|loops"),
        (
            broken(lambda tree: tree["split_conditions"].__setitem__(0, float("nan"))),
            "is nan; it must",
        ),
        (broken(lambda tree: tree.update(categories=[1])), "categorical"),
    ],
)
def test_documents_that_compiled_code_could_trip_over_are_refused(found, fault):
    with pytest.raises(ValueError, match=fault):
        CompiledTrees.from_xgboost(found, 4, 12)
