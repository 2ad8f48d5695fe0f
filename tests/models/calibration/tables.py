"""Feature tables with known chances of being right."""

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from setwise.models.sets.features import SetFeatureTable


def make_table(seed, n=2000, n_labels=12):
    """Return a table and outcomes that depend on score, cardinality and a pair of labels."""
    rng = np.random.default_rng(seed)
    members = rng.random((n, n_labels)) < 0.25
    sets = csr_array(members.astype(np.uint8))
    log_score = -rng.exponential(2.0, n)
    prior = np.log1p(rng.poisson(3.0, n))
    size = members.sum(axis=1)
    table = SetFeatureTable(
        ("score", "log_score", "cardinality", "log_prior"),
        (1, 1, 0, 1),
        np.column_stack([np.exp(log_score), log_score, size, prior]).astype(np.float32),
        sets.indptr.astype(np.int64),
        sets.indices.astype(np.int32),
        np.arange(n + 1, dtype=np.int64),
        n_labels,
    )
    exclusive = members[:, : n_labels // 4].sum(axis=1) > 1  # labels that never go together
    chance = expit(2.0 + log_score + 0.8 * prior - 0.5 * size - 6.0 * exclusive)
    return table, (rng.random(n) < chance).astype(np.uint8), chance
