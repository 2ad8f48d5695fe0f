"""Wrong arguments of the public functions: each gets an answer that says what is wrong."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import setwise
from tests.models import corpora

X = np.random.default_rng(0).random((40, 3))
Y = (X[:, :2] < 0.5).astype(int)
TEXTS = ["fever and cough"] * 40
DATA = corpora.texts(12)


def certify(confidence, right=(1, 0), **more):
    return lambda: setwise.certify(confidence, right, **{"target": 0.9, **more})


def judge(confidence, right=(1, 0)):
    return lambda: setwise.judge_scores(confidence, right)


def table(y_true, y_pred, *more, **options):
    return lambda: setwise.label_table(y_true, y_pred, *more, **options)


def fit(X, y, estimator=None, **scores):
    return lambda: setwise.SetClassifier(estimator, preset="fast").fit(X, y, **scores)


def frame(**columns):
    return pd.DataFrame(columns)


MISUSES = {
    "words as confidences": (certify(["high", "low"]), "numbers; row 0 holds 'high'"),
    "a missing confidence": (certify([0.9, None]), "row 1 holds nan: leave the row out"),
    "percentages": (certify([95, 80]), "row 0 holds 95: divide percentages by 100"),
    "log-probabilities": (certify([0.9, -0.1]), "row 1 holds -0.1: take exp"),
    "a number for a list": (certify(0.9), "confidence must be a list of confidences"),
    "a frame for a list": (certify(frame(c=[0.9, 0.8])), r"not of shape \(2, 1\)"),
    "words as verdicts": (certify([0.9, 0.8], ["yes", "no"]), "0 and 1, or .*; row 0 holds 'yes'"),
    "a target in per cent": (certify([0.9, 0.8], target=95), r"target is 95; it must lie in \(0"),
    "predicted out of range": (certify([0.9, 0.8], predicted=[2.0]), "predicted must lie in"),
    "nothing to judge": (judge([], []), "there is no answer to judge"),
    "two columns to judge": (judge([[0.5, 0.4]]), r"confidence must be a list .* \(1, 2\)"),
    "a verdict of 2": (judge([0.5, 0.4], [1, 2]), "right must hold 0 and 1, .* row 1 holds 2"),
    "an unknown verdict": (judge([0.5, 0.4], [1, None]), "row 1 holds nan"),
    "too few verdicts": (judge([0.5, 0.4], [1]), "right has shape .*; 2 confidences need as many"),
    "a word to judge": (judge(pd.Series([0.5, "x"])), "confidence must hold numbers; row 1"),
    "rows of different lengths": (judge([[0.5], [0.4, 0.3]]), "confidence must hold numbers"),
    "a label for label lists": (table("flu", "flu"), r"y_true must have a list .*\[\['flu'\]"),
    "labels for label lists": (table([["flu"]], ["flu"]), r"y_pred must have a list|both be label"),
    "lists and a matrix": (table(Y, [["flu"]] * 40), "must both be label lists, or both"),
    "matrices of two shapes": (table(Y, Y[:5]), r"y_true has shape \(40, 2\), y_pred \(5, 2\)"),
    "a matrix of twos": (table(Y, Y * 2), "y_pred must hold 0 and 1 only; row"),
    "a level in per cent": (table(Y, Y, level=95), "level is 95"),
    "probabilities out of range": (table(Y, Y, Y * 7.0), "probabilities must lie in"),
    "one text": (fit("fever", [["a"]]), "X is one text; give a list of texts"),
    "no texts": (fit([], []), "0 documents are too few; give at least 10"),
    "three texts": (fit(TEXTS[:3], Y[:3]), "3 documents are too few"),
    "a missing text": (fit([*TEXTS[1:], np.nan], Y), "text 39 is of type float"),
    "texts beside numbers": (fit(frame(t=TEXTS, n=range(40)), Y), "column 't' of X holds texts"),
    "missing features": (fit(X * np.nan, Y), "Input X contains NaN"),
    "missing labels": (fit(X, None), "y is None"),
    "fewer labels than rows": (fit(X, Y[:5]), r"inconsistent numbers of samples: \[40, 5\]"),
    "no label at all": (fit(X, Y * 0), "no document carries a label"),
    "a name for a classifier": (
        fit(X, Y, "forest"),
        "estimator must be a classifier, not 'forest'",
    ),
    "scores of another shape": (fit(X, Y, scores=X), r"scores has shape \(40, 3\); expected"),
    "scores out of range": (fit(X, Y, scores=Y * 9.0), "give probabilities from 0 to 1"),
    "not fitted": (lambda: setwise.SetClassifier().predict(X), "not fitted yet"),
    "evaluated before it is fitted": (
        lambda: setwise.evaluate(setwise.SetClassifier(), DATA),
        "not fitted yet",
    ),
    "a path for a model": (
        lambda: setwise.report("model", DATA),
        "load returned.* not str",
    ),
    "lists for a data set": (lambda: setwise.train([["flu"]]), "setwise.read_dataset .* not list"),
    "no such file": (lambda: setwise.read_dataset("none.csv"), "none.csv: no such file"),
    "no such artifact": (lambda: setwise.load("none"), "none: is no folder"),
    "a folder to save": (lambda: setwise.save("model", Path("it")), "and then a folder, not str"),
    "a preset that is none": (
        lambda: setwise.TrainingOptions(preset="quick"),
        "preset must be one of paper, fast, best, not 'quick'",
    ),
}


@pytest.mark.parametrize(("call", "answer"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_refused_with_what_is_wrong(call, answer):
    with pytest.raises((ValueError, TypeError, setwise.ArtifactError), match=answer):
        call()


@pytest.mark.parametrize("nothing", [None, float("nan"), pd.NA])
def test_columns_of_frames_and_unknown_verdicts_are_read(nothing):
    audits = frame(confidence=[0.9] * 60, right=pd.Series([True] * 59 + [nothing], dtype=object))
    proof = setwise.certify(audits["confidence"][::-1], audits["right"][::-1], target=0.9)
    assert (proof.certified, proof.n_good) == (True, 59)
