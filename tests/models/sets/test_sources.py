"""Candidates from marginals: the empty set only where training has one."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from setwise.models.data.rows import SparseRows
from setwise.models.sets.evidence import DocumentEvidence
from setwise.models.sets.sources import MarginalCandidates

X = csr_array(np.eye(2, dtype=np.float32))


def evidence(P):
    return DocumentEvidence(SparseRows.of(X[:1]), np.zeros((1, 2)), np.array([P]))


@pytest.mark.parametrize(("rows", "allowed"), [([[1, 0], [0, 1]], False), ([[1, 0], [0, 0]], True)])
def test_empty_set_is_a_candidate_exactly_when_training_has_one(rows, allowed):
    source = MarginalCandidates(4).fit(X, csr_array(np.array(rows, dtype=np.uint8)))
    found = source.propose(evidence([0.1, 0.1]))
    assert (0 in found.sizes) is allowed
