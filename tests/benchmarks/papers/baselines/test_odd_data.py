"""Data of one set, of sets of one size, and of documents that are alike."""

from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks.papers.baselines.constrained_networks import PredictAndConstrain
from benchmarks.papers.baselines.method import as_sets
from benchmarks.papers.baselines.registry import PAPER_METHODS
from benchmarks.papers.baselines.smooth_link import SmoothLink
from tests.benchmarks.papers.baselines.test_running import QUICK

pytestmark = pytest.mark.verify

X = csr_array(np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32))
QUICKER = {name: dict.fromkeys(sizes, 5) for name, sizes in QUICK.items()}


@pytest.mark.parametrize("n_labels", [1, 2])
@pytest.mark.parametrize("name", PAPER_METHODS)
def test_one_set_in_training_is_the_set_of_every_document(name, n_labels):
    Y = as_sets(np.ones((20, n_labels)))
    model = partial(PAPER_METHODS[name].make, **QUICKER.get(name, {}))()
    predicted = model.fit(X, Y).predict(X)
    assert (predicted.sets.toarray() == 1).all()
    assert (predicted.scores > 0.5).all()


def test_sets_of_one_size_are_constrained_to_it():
    Y = as_sets(np.eye(4)[np.asarray(abs(X.toarray()).argmax(axis=1))])
    model = PredictAndConstrain(n_label_batches=5, n_batches=5)
    model.learn(X, Y)
    np.testing.assert_allclose(model.measure(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("embedded", [True, False])
def test_documents_that_are_alike_leave_the_others_told_apart(embedded):
    rng = np.random.default_rng(1)
    others = rng.normal(size=(300, 2))
    features = np.vstack([np.full((500, 2), 3.0), others[:150]]).astype(np.float32)
    model = SmoothLink(embedded=embedded, n_cosines=200)
    model.fit(csr_array(features), as_sets(features > 0))
    found = model.predict(csr_array(others[150:].astype(np.float32))).sets.toarray()
    assert (found == (others[150:] > 0)).mean() > 0.9
