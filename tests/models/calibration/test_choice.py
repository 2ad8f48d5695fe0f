"""The calibrators that can be chosen, and what they are judged on."""

from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from setwise.models.calibration.choice import (
    MIN_DOCUMENTS_HALVES,
    cross_validate,
    robust_set_calibrators,
    set_calibrators,
)
from setwise.models.options import CALIBRATORS, ROBUST_CALIBRATORS
from setwise.models.sets.features import SetFeatureTable
from tests.models.calibration.tables import make_table


@pytest.mark.parametrize("uniform", [False, True])
def test_options_name_every_calibrator_in_order(uniform: bool) -> None:
    assert tuple(set_calibrators(0)) == CALIBRATORS
    assert tuple(robust_set_calibrators(0, uniform=uniform)) == ROBUST_CALIBRATORS


class _Recogniser(BaseEstimator):
    """Is sure of exactly the sets that it was fitted on."""

    fits: ClassVar[list[int]] = []

    def fit(self, table: SetFeatureTable, _: NDArray[np.uint8]) -> Self:
        self.seen_ = table.dense
        self.fits.append(len(table.dense))
        return self

    def predict(self, table: SetFeatureTable) -> NDArray[np.bool_]:
        return np.isin(table.dense[:, 1], self.seen_[:, 1])


@pytest.mark.parametrize(("n", "parts"), [(MIN_DOCUMENTS_HALVES - 1, 5), (MIN_DOCUMENTS_HALVES, 2)])
def test_no_calibrator_judges_what_it_was_fitted_on(n: int, parts: int) -> None:
    table, correct, _ = make_table(0, n)
    rows: Any = SimpleNamespace(
        candidates=SimpleNamespace(n_documents=n),
        set_folds=np.arange(n) % 5,
        set_rates=None,
        table=table,
        correct=correct,
    )
    _Recogniser.fits.clear()
    contenders: Any = {"": _Recogniser()}
    assert not cross_validate(contenders, rows, 1)[""].any()
    assert len(_Recogniser.fits) == parts
    assert sum(_Recogniser.fits) == (parts - 1) * n
