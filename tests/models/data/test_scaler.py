"""Which columns of a matrix are measurements."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from setwise.models.data.scaler import FeatureScaler

N = 130


def quarter(n_columns):
    """Return measurements of which three quarters are zero."""
    values = np.random.default_rng(0).normal(size=(N, n_columns))
    return np.maximum(values - np.quantile(values, 0.75, axis=0), 0.0)


def one_hot(n_values):
    """Return one of several indicators for each row."""
    return np.eye(n_values)[np.random.default_rng(1).integers(0, n_values, N)]


def sizes(n_columns):
    """Return whole numbers from nothing to thousands."""
    return np.floor(np.exp(np.random.default_rng(2).normal(3.0, 3.0, (N, n_columns))))


def counts(n_words, mean):
    """Return how often words occur in documents."""
    return np.random.default_rng(3).poisson(mean, (N, n_words)).astype(float)


def weights(occurrences):
    """Return counts of words, each times the word's weight."""
    return occurrences * np.random.default_rng(4).uniform(1.0, 5.0, occurrences.shape[1])


def shares(occurrences):
    """Return weights of words for each hundred words of a document."""
    return 100.0 * weights(occurrences) / np.maximum(occurrences.sum(axis=1, keepdims=True), 1.0)


def unit_rows(values):
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.where(lengths > 0.0, lengths, 1.0)


def measured(values):
    return FeatureScaler().fit(csr_array(values)).measured_.astype(bool)


@pytest.mark.parametrize(
    "table",
    [
        quarter(33),
        -quarter(5),
        np.hstack([quarter(6), one_hot(7), one_hot(12)]),
        np.hstack([sizes(3), counts(3, 0.2), one_hot(5)]),
        unit_rows(np.random.default_rng(0).normal(size=(N, 20))),
    ],
    ids=["quarter", "negative", "beside one-hot", "whole numbers", "full rows of unit length"],
)
def test_every_column_of_a_table_is_measured(table):
    assert measured(table).all()


@pytest.mark.parametrize(
    "matrix",
    [
        one_hot(4),
        counts(60, 0.3),
        weights(counts(60, 0.3)),
        shares(counts(400, 0.05)),
        unit_rows(weights(counts(60, 0.3))),
    ],
    ids=["one-hot", "frequent words", "their weights", "shares of many words", "unit length"],
)
def test_no_indicator_and_no_word_is_measured(matrix):
    assert not measured(matrix).any()


def test_a_table_with_zeros_is_the_same_in_other_units():
    table = np.hstack([quarter(6), sizes(2), one_hot(6)])
    rng = np.random.default_rng(5)
    other = table * 10.0 ** rng.integers(-3, 4, table.shape[1]) + rng.integers(0, 2, table.shape[1])
    scaled = [
        FeatureScaler().fit(csr_array(each)).transform(csr_array(each)).toarray()
        for each in (table, other)
    ]
    assert scaled[0].tolist() == scaled[1].tolist()
