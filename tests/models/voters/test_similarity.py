"""Unit rows and inverted indices against dense arithmetic."""

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack, random_array
from sklearn.metrics.pairwise import cosine_similarity

from setwise.models.data.rows import SparseRows
from setwise.models.voters.similarity import UnitRows, index_rows, restored_postings, similarities


def documents(n=40, d=30, density=0.2, seed=0):
    rng = np.random.default_rng(seed)
    return csr_array(random_array((n, d), density=density, rng=rng, dtype=np.float32))


def test_dot_products_of_unit_rows_are_cosines_of_weighted_documents():
    X = documents()
    space = UnitRows().fit(X)
    rows = space.transform(X)
    wanted = cosine_similarity(space.weighting_.transform(X))
    found = similarities(index_rows(rows), rows.shape[0], SparseRows.of(rows))
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("n_features", [1, 2, 3, 4, 5, 9])
def test_frequent_features_in_whole_columns_count_like_rare_ones(n_features):
    frequent = documents(density=0.9, d=n_features)
    rare = documents(density=0.05, d=20, seed=1)
    rows = UnitRows().fit_transform(csr_array(hstack([frequent, rare], format="csr")))
    postings = index_rows(rows)
    assert len(postings.columns) >= n_features
    found = similarities(postings, rows.shape[0], SparseRows.of(rows))
    np.testing.assert_allclose(found, (rows @ rows.T).toarray(), rtol=1e-5, atol=1e-7)
    found = {f"p_{name}": array for name, array in postings._asdict().items()}
    restored = restored_postings(found, "p_", rows.shape[0])
    np.testing.assert_array_equal(restored.columns, postings.columns)


def test_a_document_without_a_feature_is_similar_to_none():
    X = documents()
    X.data[X.indptr[3] : X.indptr[4]] = 0.0
    rows = UnitRows().fit_transform(X)
    assert similarities(index_rows(rows), rows.shape[0], SparseRows.of(rows))[3].max() == 0.0


def test_dense_measurements_are_centred():
    rng = np.random.default_rng(0)
    X = csr_array((100.0 + rng.normal(size=(50, 4))).astype(np.float32))
    rows = UnitRows().fit_transform(X).toarray()
    assert np.abs(rows.mean(axis=0)).max() < 0.2
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-5)


def test_postings_of_documents_longer_than_one_are_refused():
    postings = index_rows(UnitRows().fit_transform(documents()))
    found = {f"p_{name}": array for name, array in postings._asdict().items()}
    found["p_values"] = 2 * found["p_values"]
    with pytest.raises(ValueError, match="longer than 1"):
        restored_postings(found, "p_", len(documents().indptr) - 1)
