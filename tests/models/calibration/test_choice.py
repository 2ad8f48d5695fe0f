"""The calibrators that options name are those that can be chosen."""

import pytest

from setwise.models.calibration.choice import robust_set_calibrators, set_calibrators
from setwise.models.options import CALIBRATORS, ROBUST_CALIBRATORS


@pytest.mark.parametrize("uniform", [False, True])
def test_options_name_every_calibrator_in_order(uniform: bool) -> None:
    assert tuple(set_calibrators(0)) == CALIBRATORS
    assert tuple(robust_set_calibrators(0, uniform=uniform)) == ROBUST_CALIBRATORS
