"""Label calibration keeps order, never reaches 0 or 1, and improves the likelihood."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix
from scipy.special import expit, logit
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression

from setwise.models.labels.isotonic import IsotonicCurve
from setwise.models.labels.label_calibrator import LabelCalibrator


def scores(seed, n=400, n_labels=5, slope=2.0):
    """Return over-confident logits and labels drawn from the honest ones."""
    rng = np.random.default_rng(seed)
    honest = rng.normal(-1, 1.5, (n, n_labels))
    return slope * honest, (rng.random((n, n_labels)) < expit(honest)).astype(np.uint8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_learning_from_some_rows_is_learning_from_them_alone(dtype):
    logits, Y = scores(4)
    logits = logits.astype(dtype)
    rows = np.flatnonzero(np.arange(len(logits)) % 3)
    some = LabelCalibrator().fit(logits, Y, rows=rows)
    alone = LabelCalibrator().fit(logits[rows], Y[rows])
    np.testing.assert_array_equal(some.transform(logits), alone.transform(logits))


@pytest.mark.parametrize("seed", range(3))
def test_equals_the_mean_of_raw_and_isotonic_logits_at_the_knots(seed):
    logits, Y = scores(seed)
    calibrated = LabelCalibrator().fit(logits, Y).transform(logits)
    for label in range(Y.shape[1]):
        share = IsotonicCurve.fit(logits[:, label], Y[:, label], doubt=1.0)(logits[:, label])
        mean = 0.5 * logits[:, label] + 0.5 * logit(share)
        np.testing.assert_allclose(calibrated[:, label], expit(mean), rtol=1e-9)


@settings(deadline=None)  # the first example compiles
@given(
    st.lists(st.tuples(st.floats(-1e300, 1e300), st.booleans()), min_size=1, max_size=30),
    st.floats(0, 0.99),
)
def test_keeps_order_and_stays_strictly_inside_zero_and_one(rows, share):
    logits = np.array([[row[0]] for row in rows])
    Y = np.array([[int(row[1])] for row in rows])
    calibrated = LabelCalibrator(share).fit(logits, Y).transform(logits)
    order = np.argsort(logits[:, 0], kind="stable")
    assert (np.diff(calibrated[order, 0]) >= 0).all()
    assert ((calibrated > 0) & (calibrated < 1)).all()


def test_different_ordinary_logits_stay_different():
    logits, Y = scores(0)
    calibrated = LabelCalibrator().fit(logits, Y).transform(logits)
    for label in range(Y.shape[1]):
        order = np.argsort(logits[:, label])
        assert (np.diff(calibrated[order, label]) > 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_improves_the_likelihood_of_overconfident_scores_on_new_rows(seed):
    logits, Y = scores(seed, n=4000)
    calibrated = LabelCalibrator().fit(logits[:2000], Y[:2000]).transform(logits[2000:])
    truth = Y[2000:]

    def log_loss(p):
        return -np.mean(np.where(truth, np.log(p), np.log1p(-p)))

    assert log_loss(calibrated) < log_loss(expit(logits[2000:]))


@pytest.mark.parametrize("always", [0, 1])
def test_a_label_that_never_or_always_occurs_has_a_finite_curve(always):
    logits = np.linspace(-3, 3, 20)[:, None]
    calibrated = LabelCalibrator().fit(logits, np.full((20, 1), always)).transform(logits)
    assert ((calibrated > 0) & (calibrated < 1)).all()
    assert (np.sign(calibrated - 1 / (1 + np.exp(-logits))) == (1 if always else -1)).all()


def test_sparse_and_dense_labels_give_the_same():
    logits, Y = scores(1)
    expected = LabelCalibrator().fit(logits, Y).transform(logits)
    for sparse in (csr_array(Y), csr_matrix(Y)):
        assert (LabelCalibrator().fit(logits, sparse).transform(logits) == expected).all()


@pytest.mark.parametrize(
    ("logits", "Y", "fault"),
    [
        ([[0.0]], [[1, 0]], "one shape"),
        ([0.0], [1], "one shape"),
        ([[np.nan]], [[1]], "finite"),
    ],
)
def test_rows_that_do_not_fit_are_refused(logits, Y, fault):
    with pytest.raises(ValueError, match=fault):
        LabelCalibrator().fit(logits, np.atleast_2d(Y))


def test_a_share_of_one_is_isotonic_regression_kept_off_0_and_1() -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(200, 1))
    Y = (rng.random((200, 1)) < 1 / (1 + np.exp(-3 * logits))).astype(np.uint8)
    found = LabelCalibrator(1.0).fit(logits, Y).transform(logits)
    expected = IsotonicRegression().fit(logits[:, 0], Y[:, 0]).predict(logits[:, 0])
    np.testing.assert_allclose(found[:, 0], expected, atol=0.25)
    assert ((found > 0) & (found < 1)).all()


def test_a_rare_label_is_not_certain_where_two_documents_have_it() -> None:
    logits = np.concatenate([np.full((998, 1), -4.0), np.full((2, 1), 4.0)])
    found = LabelCalibrator(1.0).fit(logits, (logits > 0).astype(np.uint8)).transform(logits)
    np.testing.assert_allclose(found[-1], 2.5 / 3)
    np.testing.assert_allclose(found[0], 0.5 / 999)


def test_other_numbers_of_labels_and_unfitted_use_are_refused():
    with pytest.raises(NotFittedError):
        LabelCalibrator().transform([[0.0]])
    with pytest.raises(ValueError, match="knows 1 labels"):
        LabelCalibrator().fit([[0.0]], [[1]]).transform([[0.0, 1.0]])
