"""The choice between robust calibrators."""

import numpy as np
import pytest

from benchmarks.papers.robust_choice import FEW_ROWS, choose_robust
from tests.models.calibration.test_robust_calibrators import noisy

pytestmark = pytest.mark.verify


@pytest.mark.parametrize(("n", "alpha", "tried"), [(900, 0.2, 1), (2700, 0.2, 2)])
def test_few_effective_rows_are_left_to_the_linear_margin(n, alpha, tried):
    table, agreed, alphas, betas, _ = noisy(5, n, alpha)
    found = choose_robust(table, agreed, alpha=alphas, beta=betas)
    assert found.effective_rows == pytest.approx(n * (1 - alpha - 0.02) ** 2)
    assert len(found.losses) == tried
    assert found.losses[found.name] == min(found.losses.values())
    assert found.name == "robust-logistic" or found.effective_rows > FEW_ROWS / 2
    own = found.calibrator.predict(table)
    assert np.corrcoef(own, found.confidence)[0, 1] > 0.9
    assert not np.array_equal(own, found.confidence)


def test_fewer_documents_than_folds_are_refused():
    table, agreed, *_ = noisy(5, 4, 0.1)
    with pytest.raises(ValueError, match="folds"):
        choose_robust(table, agreed, alpha=0.1, beta=0.0)
