"""The table of labels: counts, exact bounds, and how many more checks make a label known."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import multilabel_confusion_matrix

from setwise.models.evaluation.label_table import KNOWN_WITHIN, label_table
from setwise.models.evaluation.metrics import RunningMetrics
from setwise.models.guarantees.binomial import lower_bound, upper_bound

DRAW = np.random.default_rng(0)
TRUE = (DRAW.random((200, 4)) < [0.5, 0.2, 0.05, 0.0]).astype(int)
PREDICTED = np.where(DRAW.random(TRUE.shape) < 0.9, TRUE, 1 - TRUE)
NAMES = ("ash", "birch", "cedar", "dogwood")


def lists(matrix):
    return [[NAMES[column] for column in np.flatnonzero(row)] for row in matrix]


def test_errors_are_counted_as_in_confusion_matrices_in_every_form():
    table = label_table(TRUE, PREDICTED, label_names=NAMES)
    for row, ((_, extra), (missing, right)) in zip(
        table.rows, multilabel_confusion_matrix(TRUE, PREDICTED), strict=True
    ):
        assert (row.extra, row.missing, row.n_right) == (extra, missing, right)
        assert row.precision.value == right / (right + extra)
        low = lower_bound(right, right + extra, 0.05)
        high = upper_bound(right, right + missing, 0.05)
        assert (row.precision.low, row.recall.high) == pytest.approx((low, high))
    assert table.rows[3].recall.value is None
    assert label_table(lists(TRUE), lists(PREDICTED), label_names=NAMES) == table
    assert label_table(csr_array(TRUE), csr_array(PREDICTED), label_names=NAMES) == table
    marginals = DRAW.random(TRUE.shape)
    judged = RunningMetrics().add(TRUE, PREDICTED, np.ones(200), marginals=marginals)
    known = label_table(TRUE, PREDICTED, marginals, label_names=NAMES)
    for one, other in zip(judged.label_table(NAMES).rows, known.rows, strict=True):
        assert one.mean_probability == pytest.approx(other.mean_probability)


@pytest.mark.parametrize(("right", "predicted"), [(0, 0), (3, 4), (50, 50), (150, 300), (95, 100)])
def test_further_checks_are_the_fewest_that_bring_the_bounds_close(right, predicted):
    true = np.zeros((400, 1), dtype=int)
    answers = true.copy()
    true[:right], answers[:predicted] = 1, 1
    further = label_table(true, answers).rows[0].further_checks
    share = round(right / predicted, 2) if predicted else 0.5

    def apart(cases):
        return upper_bound(share * cases, cases, 0.05) - lower_bound(share * cases, cases, 0.05)

    assert apart(predicted + further) <= 2 * KNOWN_WITHIN
    if further:
        assert apart(predicted + further - 1) > 2 * KNOWN_WITHIN


def test_the_printed_table_begins_with_the_most_errors():
    table = label_table(TRUE, PREDICTED, label_names=NAMES)
    head, *lines = str(table).splitlines()
    assert head.split()[:3] == ["label", "has", "it"]
    errors = [row.missing + row.extra for row in table.worst_first()]
    assert errors == sorted(errors, reverse=True)
    assert [line.split()[0] for line in lines] == [row.label for row in table.worst_first()]
    many = label_table(np.eye(60, dtype=int), np.eye(60, dtype=int))
    assert str(many).endswith("and 20 labels with fewer errors")
    assert "<script>" not in label_table([["<script>"]], [[]])._repr_html_()


@pytest.mark.parametrize(
    ("true", "predicted", "more", "fault"),
    [
        ([["a"]], [[1]], {}, "must both be label lists"),
        ([["a"]], [["b"]], {"label_names": ["a"]}, "label_names lacks 'b'"),
        ([[1, 0]], [[1]], {}, "all must fit"),
        ([[1, 0]], [[1, 0]], {"label_names": ["a"]}, "all must fit"),
        ([[1, 0]], [[1, 0]], {"probabilities": [[0.5]]}, "probabilities have shape"),
        ([[1, 0]], [[1, 0]], {"level": 1.0}, "level is 1.0"),
    ],
)
def test_forms_that_do_not_fit_are_refused(true, predicted, more, fault):
    with pytest.raises(ValueError, match=fault):
        label_table(true, predicted, **more)


def test_names_that_look_alike_are_one_row():
    pd = pytest.importorskip("pandas")
    true, predicted = [["fièvre"], ["toux"]], [["fie\u0300vre"], ["toux "]]
    for table in (
        label_table(true, predicted),
        label_table(true, predicted, label_names=["fie\u0300vre ", "toux"]),
    ):
        assert [(row.label, row.n_right, row.extra) for row in table.rows] == [
            ("fièvre", 1, 0),
            ("toux", 1, 0),
        ]
    frame = pd.DataFrame([[1, 0], [0, 1]], columns=["fièvre", "toux"])
    other = frame[["toux", "fièvre"]].rename(columns={"fièvre": "fie\u0300vre"})
    assert [row.n_right for row in label_table(frame, other).rows] == [1, 1]
    with pytest.raises(ValueError, match="columns of y_pred must be those of y_true: it has no"):
        label_table(frame, other.rename(columns={"toux": "rash"}))
