import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler

from setwise.models.labels.scaling import FeatureWeighting, as_rows


def terms(seed: int, n: int = 40, d: int = 15) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.poisson(0.3, (n, d)).astype(np.float32))


def test_idf_is_scikit_learns() -> None:
    X = terms(0)
    expected = TfidfTransformer().fit(X[:30]).transform(X)
    weighting = FeatureWeighting("idf").fit(X[:30])
    np.testing.assert_allclose(
        weighting.transform(X).toarray(), expected.toarray(), rtol=1e-6, atol=1e-7
    )


def test_deviation_is_scikit_learns() -> None:
    X = np.random.default_rng(1).normal(3.0, 2.0, (50, 4)).astype(np.float32)
    expected = StandardScaler(with_mean=False).fit(X[:40]).transform(X)
    found = FeatureWeighting("deviation").fit(X[:40]).transform(X).toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("X", "scheme"),
    [
        (np.eye(6) + np.eye(6, k=1), "idf"),
        (np.eye(6), "none"),  # rows of unit length
        (-np.eye(6) - np.eye(6, k=1), "deviation"),
        (np.arange(12.0).reshape(4, 3), "deviation"),
    ],
)
def test_auto_reads_the_kind_of_features_off_the_rows(X: object, scheme: str) -> None:
    assert FeatureWeighting().fit(X).scheme_ == scheme


def test_a_constant_column_becomes_zero_and_stays_so() -> None:
    X = np.column_stack([np.full(5, 0.1), np.arange(5.0)])
    weighting = FeatureWeighting("deviation").fit(X)
    assert weighting.scale_[0] == 0.0
    assert weighting.transform([[1e30, 1.0]]).toarray()[0, 0] == 0.0


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([1e-20, 1.0, 1e30]))
def test_idf_rows_have_unit_length_or_are_empty(seed: int, scale: float) -> None:
    X = terms(seed) * np.float32(scale)
    lengths = np.linalg.norm(FeatureWeighting("idf").fit_transform(X).toarray(), axis=1)
    empty = np.diff(X.indptr) == 0
    np.testing.assert_allclose(lengths[~empty], 1.0, rtol=1e-5)
    assert (lengths[empty] == 0).all()


def test_the_units_of_a_dense_feature_do_not_matter() -> None:
    X = np.random.default_rng(2).normal(size=(30, 3))
    units = np.array([1e-6, 1.0, 1e20])
    plain = FeatureWeighting("deviation").fit_transform(X).toarray()
    np.testing.assert_allclose(
        FeatureWeighting("deviation").fit_transform(X * units).toarray(), plain, rtol=1e-4
    )


def test_a_value_far_beyond_training_is_refused() -> None:
    weighting = FeatureWeighting("deviation").fit(1e-30 * np.arange(12.0).reshape(4, 3))
    with pytest.raises(ValueError, match="too large beside those of training"):
        weighting.transform([[1e30, 0.0, 0.0]])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_values_float32_cannot_hold_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        FeatureWeighting().fit([[value, 1.0]])
    with pytest.raises(ValueError, match=r"beyond 3\.4e38"):
        as_rows([[value, 1.0]])


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(ValueError, match="scheme must be auto, idf, deviation or none"):
        FeatureWeighting("tfidf").fit(np.eye(2))


def test_rows_with_repeated_entries_are_summed_in_a_copy() -> None:
    X = sp.csr_array((np.ones(2, np.float32), np.array([1, 1]), np.array([0, 2])), shape=(1, 2))
    assert as_rows(X).toarray().tolist() == [[0.0, 2.0]]
    assert X.nnz == 2
